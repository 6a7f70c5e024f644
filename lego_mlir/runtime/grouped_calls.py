"""`lego_mlir.grouped_matmul(a, b, offsets)`: each group of rows of a times a matrix of its own, on a GPU.

    c = lego_mlir.grouped_matmul(tokens, experts, ends)      # [T, K], [G, K, N], [G] of int32 -> [T, N]
    d = lego_mlir.grouped_matmul(tokens.mT, gradients, ends)  # [K, T], [T, N] -> [G, K, N]

The host does not read the offsets: one launch of persistent blocks finds its tiles on the device (`grouped_products`,
`grouped_depths`). A kernel takes all T, G, K and N of its tile, types and orders. With `check=True` the interpreter
runs it, on the host. Each form is the gradient of another, so PyTorch's tensors have gradients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError, brief
from lego_mlir.runtime.arrays import ArrayFacts, key_of, library_of
from lego_mlir.runtime.products import ALIGNMENT, INPUTS, RESULTS
from lego_mlir.runtime.role_kernels import ALIGNED, GROUPED, RoleKernel, Size, kernel_for, multiple_of

if TYPE_CHECKING:
    from lego_mlir.aliases import AnyArray, Foreign, Tensor
    from lego_mlir.runtime.calls import Calls
    from lego_mlir.runtime.plans import Plan

_KEPT: Final = 1024
"""Arrays that are kept."""


def grouped_matmul(a: Tensor, b: Tensor, offsets: Tensor, *, result: str | None = None, check: bool = False) -> Tensor:
    """The products of groups, each of which ends at one of `offsets`, [G] of int32, where the next begins.

    | a | b | result | |
    |---|---|---|---|
    | [T, K] | [G, K, N] | [T, N] | c[begin:end] = a[begin:end] @ b[g]; rows after the last group are undefined |
    | [G, M, K] | [K, T] | [M, T] | c[:, begin:end] = a[g] @ b[:, begin:end], the transpose of the first form |
    | [M, T] | [T, N] | [G, M, N] | c[g] = a[:, begin:end] @ b[begin:end], zeros for an empty group |

    The offsets do not decrease, and are on the device of a and b. These are f16 or bf16; the result has the type of a,
    or of `result`: "float16", "bfloat16" or "float32". In place are, in this order of forms, a in rows and b in rows or
    the transpose of [G, N, K], and a the transpose of [T, M] with b in rows; other orders are copied, and so are rows
    that are not multiples of 8. PyTorch's tensors have gradients. Raises UsageError for other arrays.
    """
    key = (key_of((a, b, offsets)), result, check)
    known = _known.get(key)
    if known is not None and not (known.of_a(a) | known.of_b(b)) % ALIGNMENT:
        if check:
            _require_offsets(a, b, offsets)
        return known.plan((a, b, offsets), None)
    first, second = _facts(a, b, offsets)
    if check:
        _require_offsets(a, b, offsets)
    name = first.dtype if result is None else result
    if name not in RESULTS:
        raise UsageError(f"grouped_matmul: the result is one of {', '.join(RESULTS)}, got {name!r}")
    if (first.needs_gradient or second.needs_gradient) and gradients_enabled():
        from lego_mlir.runtime.grouped_gradients import differentiable

        return differentiable(grouped_matmul, a, b, offsets, name, check)
    match (len(first.shape), len(second.shape)):
        case 2, 2:
            return _of_depths(a, b, offsets, name, key, check)
        case 3, 2:
            found = grouped_matmul(b.swapaxes(0, 1), a.swapaxes(1, 2), offsets, result=name, check=check)
            return found.swapaxes(0, 1)
    (rows, depth), (groups, _, columns) = first.shape, second.shape
    turned = second.strides[1] == 1 and second.strides[2] != 1
    weights = b.swapaxes(1, 2) if turned else b
    left, right = (dense(x, padding(x, k)) for x, k in ((a, (1,)), (weights, (2,) if turned else (1, 2))))
    calls = _calls(first, name, "NT" if turned else "NN", (rows, groups, columns, depth),
                   (left.shape[1], right.shape[2]), check)  # fmt: skip
    views, named = (left, right, offsets), {} if turned or columns % ALIGNED == 0 else {"N": columns}
    if left is not a or right is not weights or first.needs_gradient or second.needs_gradient:
        product: Tensor = calls.call(views, named, None, check)
        return product
    return _kept(key, calls, views, (a, b, offsets), named, (rows, columns), check)


def _kept(
    key: Hashable, calls: Calls, views: Sequence[Tensor], given: Sequence[Tensor], named: dict[str, int],
    shape: Sequence[int], check: bool,
) -> Tensor:  # fmt: skip
    """The product of arrays that are used in place, kept as a plan for the next ones of their types and strides."""
    plan = calls.plan_of_views(views, given, named, shape, check)
    if len(_known) >= _KEPT:
        _known.clear()
    _known[key] = KnownProduct(plan, pointer_of(given[0]), pointer_of(given[1]))
    return plan(given, None)


def _of_depths(a: Tensor, b: Tensor, offsets: Tensor, result: str, key: Hashable, check: bool) -> Tensor:
    """c[g] = a[:, begin:end] @ b[begin:end], by a kernel that reads the transpose of a."""
    rows, columns, over = a.shape[0], b.shape[1], a.swapaxes(0, 1)
    left, right = (dense(x, padding(x, (1,))) for x in (over, b))
    library = library_of(a)
    assert library is not None  # its facts have been read
    groups = offsets.shape[0]
    size = (rows * groups, groups, columns, max(1, b.shape[0] // groups))
    first, second = library.facts(a), library.facts(b)
    calls = _calls(first, result, "TN", size, (left.shape[1], right.shape[1]), check)
    views, named = (left, right, offsets), {"M": rows, "N": columns}
    if left is not over or right is not b or first.needs_gradient or second.needs_gradient:
        found: Tensor = calls.call(views, named, None, check)
        return found
    return _kept(key, calls, views, (a, b, offsets), named, (groups, rows, columns), check)


def _require_offsets(a: Tensor, b: Tensor, offsets: Tensor) -> None:
    """Raise UsageError for offsets that decrease or exceed the rows, or columns, that they divide."""
    size = b.shape[1] if len(a.shape) == 3 else a.shape[1] if len(b.shape) == 2 else a.shape[0]
    require_rising("grouped_matmul: offsets", offsets, size, "sort the rows by group, and add up their numbers")


def require_rising(name: str, given: Tensor, rows: int, remedy: str) -> None:
    """Raise UsageError for ends of groups that decrease or exceed the rows. It reads arrays of the host only."""
    library = library_of(given)
    if library is None or library.facts(given).device[0] == "cuda":
        return
    ends = [int(n) for n in given]
    if ends != sorted(ends) or ends[0] < 0 or ends[-1] > rows:
        raise UsageError(
            f"{name} = {brief(str(ends))}: the numbers do not decrease, from 0 on to at most the {rows} rows; {remedy}"
        )


@dataclass(frozen=True, slots=True)
class KnownProduct:
    """A launch on arrays that are used in place, for the next ones of their types and strides."""

    plan: Plan
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
    ranks, groups = (len(first.shape), len(second.shape)), [f.shape[0] for f in (first, second) if len(f.shape) == 3]
    fits = ranks in ((2, 3), (3, 2), (2, 2)) and first.shape[-1] == second.shape[-2]
    fits = fits and len(ends.shape) == 1 and (ends.shape[0] in groups or ranks == (2, 2))
    fits = fits and 0 not in (*first.shape, *second.shape, *ends.shape)
    types = first.dtype in INPUTS and first.dtype == second.dtype and ends.dtype == "int32"
    if not fits or not types:
        shown = ", ".join(f"{n} {list(f.shape)} {f.dtype}" for n, f in zip(("a", "b", "offsets"), found, strict=True))
        raise UsageError(
            f"grouped_matmul of {shown}: a is [T, K] and b is [G, K, N], or [G, M, K] and [K, T], or [M, T] and "
            "[T, N], both float16 or both bfloat16, and offsets are [G] of int32"
        )
    if len({facts.device for facts in found}) > 1:
        raise UsageError("grouped_matmul: a, b and offsets must be on one device; move them to that of a")
    return first, second


def gradients_enabled() -> bool:
    """Whether PyTorch records what is computed."""
    return bool(sys.modules["torch"].is_grad_enabled())


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
        return module.ascontiguousarray(module.pad(x, [(0, count) for count in more]))
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


def _calls(facts: ArrayFacts, result: str, layouts: str, size: Size, pitches: tuple[int, int], check: bool) -> Calls:
    """The kernel for arrays on a device, or on the host for the interpreter."""
    wanted = RoleKernel(GROUPED, INPUTS[facts.dtype], RESULTS[result], layouts, multiple_of(size[2]))
    return kernel_for(wanted, facts.device, size, pitches, check)
