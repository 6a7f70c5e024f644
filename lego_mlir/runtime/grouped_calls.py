"""`lego_mlir.grouped_matmul(a, b, offsets)`: each group of rows of a times a matrix of its own, on a GPU.

    c = lego_mlir.grouped_matmul(tokens, experts, ends)      # [T, K], [G, K, N], [G] of int32 -> [T, N]

The host does not read the offsets: one launch of persistent blocks finds its tiles on the device
(`kernels.grouped_products`). A kernel takes all T, G, K and N of its tile, types and orders. With `check=True` the
interpreter runs it, on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.runtime.arrays import ArrayFacts, key_of, library_of
from lego_mlir.runtime.products import ALIGNMENT, INPUTS, RESULTS, require_no_gradient

if TYPE_CHECKING:
    from lego_mlir.aliases import AnyArray, Foreign, Tensor
    from lego_mlir.kernels.grouped_products import GroupedForm
    from lego_mlir.kernels.role_products import RoleTile
    from lego_mlir.tracing.definition import Kernel

ALIGNED: Final = 8
"""Elements of 16 bytes, of which K and the rows of b are multiples."""
CHECKED_BLOCKS: Final = 4
"""Blocks in the interpreter."""
_KEPT: Final = 1024
"""Forms, tiles and arrays that are kept."""


def grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, *, result: str | None = None, check: bool = False) -> Tensor:
    """c[begin:end] = a[begin:end] @ b[g] for each group g of rows, which ends at row offsets[g], where the next begins.

    `a` is [T, K] and `b` is [G, K, N], f16 or bf16; `offsets` are [G] of int32, on the same device, not decreasing and
    at most T. The result is [T, N] of the type of a, or of `result`: "float16", "bfloat16" or "float32"; rows after the
    last group are undefined. b may be the transpose of [G, N, K]; what is in other orders, and a K or rows of b that
    are not multiples of 8, are copied. Raises UsageError for other shapes, types and devices.
    """
    key = (key_of((a, b, offsets)), result, check)
    known = _known.get(key)
    if known is not None and not (known.of_a(a) | known.of_b(b)) % ALIGNMENT:
        return known.kernel(a, b.swapaxes(1, 2) if known.turned else b, offsets, check=check)
    first, second = _facts(a, b, offsets)
    (rows, depth), (groups, _, columns) = first.shape, second.shape
    name = first.dtype if result is None else result
    if name not in RESULTS:
        raise UsageError(f"grouped_matmul: the result is one of {', '.join(RESULTS)}, got {name!r}")
    wanted = {n for n, facts in (("a", first), ("b", second)) if facts.needs_gradient}
    if wanted:
        require_no_gradient(tuple(sorted(wanted)))
    turned = second.strides[1] == 1 and second.strides[2] != 1
    weights = b.swapaxes(1, 2) if turned else b
    left, right = (dense(x, padding(x, k)) for x, k in ((a, (1,)), (weights, (2,) if turned else (1, 2))))
    kernel = _kernel(first, name, "T" if turned else "N", (rows, groups, columns, depth), columns)
    if not turned and columns % ALIGNED:
        return kernel(left, right, offsets, N=columns, check=check)
    if left is a and right is weights and not wanted:
        if len(_known) >= _KEPT:
            _known.clear()
        _known[key] = KnownProduct(kernel, turned, pointer_of(a), pointer_of(b))
    return kernel(left, right, offsets, check=check)


@dataclass(frozen=True, slots=True)
class KnownProduct:
    """What a call found out about arrays that are used in place, for the next ones of their types and strides."""

    kernel: Kernel
    turned: bool
    of_a: Callable[[AnyArray], int]
    of_b: Callable[[AnyArray], int]


_known: Final[dict[Hashable, KnownProduct]] = {}


def pointer_of(x: Tensor) -> Callable[[AnyArray], int]:
    """How the addresses of arrays such as this one are read."""
    library = library_of(x)
    assert library is not None  # its facts have been read
    return library.pointer


def _facts(a: Tensor, b: Tensor, offsets: Tensor) -> tuple[ArrayFacts, ArrayFacts]:
    """The facts of a and b. Raises UsageError for arrays that do not fit each other."""
    found = []
    for name, given in (("a", a), ("b", b), ("offsets", offsets)):
        library = library_of(given)
        if library is None:
            raise UsageError(f"grouped_matmul: {name} is a {type(given).__name__}; pass an array of a, b or offsets")
        found.append(library.facts(given))
    first, second, ends = found
    fits = len(first.shape) == 2 and len(second.shape) == 3 and first.shape[1] == second.shape[1]
    fits = fits and ends.shape == second.shape[:1] and 0 not in (*first.shape, *second.shape)
    types = first.dtype in INPUTS and first.dtype == second.dtype and ends.dtype == "int32"
    if not fits or not types:
        shown = ", ".join(f"{n} {list(f.shape)} {f.dtype}" for n, f in zip(("a", "b", "offsets"), found, strict=True))
        raise UsageError(
            f"grouped_matmul of {shown}: a is [T, K] and b is [G, K, N], both float16 or both bfloat16, and offsets "
            "are [G] of int32"
        )
    if len({facts.device for facts in found}) > 1:
        raise UsageError("grouped_matmul: a, b and offsets must be on one device; move them to that of a")
    return first, second


def padding(x: Tensor, axes: tuple[int, ...]) -> list[int]:
    """How many elements each axis lacks to a multiple of 16 bytes, 0 for axes that need not be one."""
    return [-n % ALIGNED if axis in axes else 0 for axis, n in enumerate(x.shape)]


def dense(x: Tensor, more: list[int], *, copied: bool = False) -> Tensor:
    """An array in rows, with so many zeros after the ends of its axes; a copy anyway where it must be `copied`."""
    library = library_of(x)
    assert library is not None  # its facts have been read
    if any(more):
        if library.name == "torch":
            import torch

            return torch.nn.functional.pad(x, [n for count in reversed(more) for n in (0, count)])
        module: Foreign = __import__("numpy" if library.name == "numpy" else "cupy")
        return module.pad(x, [(0, count) for count in more])
    if copied:
        return x.clone(memory_format=_rows_of_torch()) if library.name == "torch" else x.copy(order="C")
    facts = library.facts(x)
    if facts.pointer % ALIGNMENT:
        return dense(x, more, copied=True)
    step = 1
    for n, stride in zip(reversed(facts.shape), reversed(facts.strides), strict=True):
        if n > 1 and stride != step:
            return x.contiguous() if library.name == "torch" else x.copy()
        step *= n
    return x


def _rows_of_torch() -> Foreign:
    import torch

    return torch.contiguous_format


def _kernel(facts: ArrayFacts, result: str, order: str, size: tuple[int, int, int, int], columns: int) -> Kernel:
    """The kernel for arrays on a device, or on the host for the interpreter."""
    from lego_mlir.kernels import role_choices
    from lego_mlir.kernels.grouped_products import GroupedForm
    from lego_mlir.kernels.role_products import RoleTile
    from lego_mlir.tracing.dtypes import dtype_named

    multiple = next(n for n in (8, 4, 2, 1) if columns % n == 0)
    form = GroupedForm(dtype_named(INPUTS[facts.dtype]), dtype_named(RESULTS[result]), order, multiple)
    if facts.device[0] != "cuda":
        return _built(form, RoleTile(64, 128, 2), CHECKED_BLOCKS)
    blocks, room = device_room(facts.device[1])
    return _built(form, role_choices.choose(size, blocks, room), blocks)


def device_room(device: int) -> tuple[int, int]:
    """The multiprocessors of a device, and the bytes of shared memory that a block may have there."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.runtime.driver import MULTIPROCESSORS, driver
    from lego_mlir.runtime.products import target_of

    target = target_named(target_of(driver().capability(device)))
    return driver().attribute(device, MULTIPROCESSORS), target.shared_per_block


@lru_cache(_KEPT)
def _built(form: GroupedForm, tile: RoleTile, blocks: int) -> Kernel:
    from lego_mlir.kernels import grouped_products

    return grouped_products.build(form, tile, blocks)
