"""`lego_mlir.matmul` of arrays with leading dimensions: NumPy's rules, by one kernel for all numbers and sizes.

    (B, M, K) @ (K, N)           one product of B M rows, where these are contiguous
    (B, M, K) @ (B, K, N)        one launch of `kernels.batched_products`; strides are arguments
    (B, H, M, K) @ (B, 1, K, N)  the same: H neighbours share a matrix, which is not copied

An array is copied where its matrices are in neither rows nor columns, where rows or matrices are not at multiples of 16
bytes, or where its leading dimensions have no single stride.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.runtime import products
from lego_mlir.runtime.arrays import ArrayFacts, key_of, library_of
from lego_mlir.runtime.grouped_calls import dense, padding, pointer_of
from lego_mlir.runtime.products import ALIGNMENT
from lego_mlir.runtime.role_kernels import ALIGNED, BATCHED, RoleKernel, Size, kernel_for, multiple_of

if TYPE_CHECKING:
    from lego_mlir.aliases import AnyArray, Tensor

_KEPT: Final = 1024
"""Arrays that are kept."""
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """Which matrix of an operand a product takes: `count` of them, each for `by` neighbours, over and over."""

    count: int
    by: int


def shared(lead: Sequence[int], out: Sequence[int]) -> Shared | None:
    """How leading dimensions are broadcast to those of the result; None where not by one `count` and `by`.

    >>> shared((4, 3), (4, 3)), shared((1, 3), (4, 3)), shared((4, 1), (4, 3)), shared((), (4, 3))
    (Shared(count=12, by=1), Shared(count=3, by=1), Shared(count=4, by=3), Shared(count=1, by=12))
    >>> shared((4, 1, 2), (4, 3, 2))
    """
    padded = (*[1] * (len(out) - len(lead)), *lead)
    own = [axis for axis, n in enumerate(padded) if n > 1]
    if not own:
        return Shared(1, prod(out))
    first, last = own[0], own[-1] + 1
    if padded[first:last] != tuple(out[first:last]):
        return None
    return Shared(prod(out[first:last]), prod(out[last:]))


def batched_matmul(a: Tensor, b: Tensor, result: str | None = None, *, check: bool = False) -> Tensor:
    """a @ b for arrays of [.., M, K] and [.., K, N]; with `check` in the interpreter, on arrays of the host.

    Raises UsageError for shapes that NumPy does not broadcast, and for other types.
    """
    key = (key_of((a, b)), result, check)
    known = _known.get(key)
    if known is not None and not (known.of_a.pointer(a) | known.of_b.pointer(b)) % ALIGNMENT:
        return known(a, b)
    first, second = (_facts(name, x) for name, x in (("a", a), ("b", b)))
    (*of_a, m, k), (*of_b, depth, n) = first.shape, second.shape
    out = _broadcast(first, second)
    name = first.dtype if result is None else result
    if k != depth or first.dtype != second.dtype or first.device != second.device:
        raise UsageError(
            f"matmul of {list(first.shape)} {first.dtype} and {list(second.shape)} {second.dtype}: the inner sizes, "
            "the types and the devices must agree"
        )
    if first.device[0] != "cuda" and not check:
        raise UsageError("matmul: a and b are in the host's memory; move them to the GPU")
    if name not in products.RESULTS:
        raise UsageError(f"matmul: the result is one of {', '.join(products.RESULTS)}, got {name!r}")
    if prod(of_b) == 1 and _is_dense(first, len(of_a) + 1) and not check:
        rows = a.reshape(-1, k)
        return products.matmul(rows, b.reshape(k, n), result=name).reshape(*out, m, n)
    left, shared_a, slices_a = _operand(a, of_a, out, "a")
    right, shared_b, slices_b = _operand(b, of_b, out, "b")
    (x, order_a), (y, order_b) = _usable(left, 0), _usable(right, 1)
    if k % ALIGNED and order_a + order_b != "TN":  # one copy has zeros after K, and the other must have as many rows
        x, y = _as_deep(x, order_a == "N"), _as_deep(y, order_b == "T")
    size = (prod(out) * m, prod(out), n, k)
    kernel = _kernel(first, name, order_a + order_b, size, (_pitch(x), _pitch(y)), check)
    views = [
        MatrixView(pointer_of(given), slices, flat.shape, order == "T")
        for given, slices, flat, order in ((a, slices_a, left, order_a), (b, slices_b, right, order_b))
    ]
    named = {"Z": prod(out), "DA": shared_a.by, "DB": shared_b.by}
    made = KnownBatch(kernel, views[0], views[1], named, (*out, m, n))
    pairs = zip(views, (a, b), (x, y), strict=True)
    in_place = all(view.pointer(given) == view.pointer(used) for view, given, used in pairs)
    if in_place and not (first.needs_gradient or second.needs_gradient):
        if len(_known) >= _KEPT:
            _known.clear()
        _known[key] = made
    return made.launch(x, y)


@dataclass(frozen=True, slots=True)
class MatrixView:
    """An operand as [matrices, rows in memory, their length], in place."""

    pointer: Callable[[AnyArray], int]
    slices: tuple[slice, ...]
    shape: Shape
    turned: bool

    def of(self, x: Tensor) -> Tensor:
        """The view of an array like the one that this was made for."""
        found = (x[self.slices] if self.slices else x).reshape(self.shape)
        return found.swapaxes(1, 2) if self.turned else found


@dataclass(frozen=True, slots=True)
class KnownBatch:
    """What a call found out about arrays that are used in place, for the next ones of their types and strides."""

    kernel: Callable[..., Tensor]
    of_a: MatrixView
    of_b: MatrixView
    named: dict[str, int]
    shape: Shape

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """The product of arrays in place."""
        return self.launch(self.of_a.of(a), self.of_b.of(b))

    def launch(self, matrices: Tensor, others: Tensor) -> Tensor:
        """The product of matrices as the kernel reads them."""
        return self.kernel(matrices, others, **self.named).reshape(self.shape)


_known: Final[dict[Hashable, KnownBatch]] = {}


def _facts(name: str, x: Tensor) -> ArrayFacts:
    """How an operand is read. Raises UsageError for one that cannot be multiplied."""
    library = library_of(x)
    facts = None if library is None else library.facts(x)
    if facts is None or facts.dtype not in products.INPUTS or len(facts.shape) < 2 or 0 in facts.shape:
        raise UsageError(
            f"matmul takes arrays of [.., rows, columns], {' or '.join(products.INPUTS)}, got {name} of "
            f"{getattr(x, 'dtype', type(x).__name__)} and shape {list(getattr(x, 'shape', ()))}"
        )
    if facts.needs_gradient:
        products.require_no_gradient((name,))
    return facts


def _broadcast(first: ArrayFacts, second: ArrayFacts) -> Shape:
    """The leading dimensions of the result."""
    import numpy

    try:
        return numpy.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    except ValueError:
        raise UsageError(
            f"matmul of {list(first.shape)} and {list(second.shape)}: leading dimensions must be equal or 1, counted "
            "from the last"
        ) from None


def _is_dense(facts: ArrayFacts, axes: int) -> bool:
    """Whether the first axes have one stride."""
    pairs = zip(range(axes - 1), range(1, axes), strict=True)
    return all(facts.strides[i] == facts.strides[j] * facts.shape[j] for i, j in pairs)


def _operand(x: Tensor, lead: Sequence[int], out: Shape, name: str) -> tuple[Tensor, Shared, tuple[slice, ...]]:
    """An operand as [matrices, rows, columns], and its slices: what has a stride of 0 counts once."""
    library = library_of(x)
    assert library is not None  # its facts have been read
    once = [n > 1 and stride == 0 for n, stride in zip(lead, library.facts(x).strides[: len(lead)], strict=True)]
    slices = tuple(slice(0, 1) if one else slice(None) for one in once) if any(once) else ()
    if slices:
        x = x[slices]
        lead = tuple(x.shape[: len(lead)])
    found = shared(lead, out)
    if found is None:
        matrix = x.shape[len(lead) :]
        if library.name == "torch":
            x = x.expand(*out, *matrix)
        elif library.name in ("numpy", "cupy"):
            x = __import__(library.name).broadcast_to(x, (*out, *matrix))
        else:
            raise UsageError(f"matmul: {name} of {list(x.shape)} is broadcast along separate axes; broadcast it first")
        found = Shared(prod(out), 1)
    return x.reshape(-1, *x.shape[-2:]), found, slices


def _usable(x: Tensor, side: int) -> tuple[Tensor, str]:
    """Matrices that the kernel reads, [count, rows in memory, their length], and their order, N or T."""
    library = library_of(x)
    assert library is not None  # its facts have been read
    facts = library.facts(x)
    for order, turned in (("N", False), ("T", True)):
        (count, pitch, step), length = facts.strides, facts.shape[-1]
        if turned:
            pitch, step, length = step, pitch, facts.shape[-2]
        rows = facts.size // (facts.shape[0] * length)
        apart = count >= (rows - 1) * pitch + length or pitch >= (facts.shape[0] - 1) * count + length
        whole = facts.pointer % ALIGNMENT == 0 and not any(n % ALIGNED for n in (length, pitch, count))
        if step == 1 and pitch >= length and count > 0 and apart and whole:
            return (x.swapaxes(1, 2) if turned else x), order
    x = x if side == 0 else x.swapaxes(1, 2)
    return dense(x, padding(x, (2,)), copied=True), "N" if side == 0 else "T"


def _pitch(x: Tensor) -> int:
    """Elements from one row in memory to the next."""
    library = library_of(x)
    assert library is not None  # its facts have been read
    return library.facts(x).strides[1]


def _as_deep(x: Tensor, along_k: bool) -> Tensor:
    """Matrices with zeros after K, where they have none yet."""
    return x if along_k else dense(x, padding(x, (1,)))


def _kernel(
    facts: ArrayFacts, result: str, layouts: str, size: Size, pitches: tuple[int, int], check: bool
) -> Callable[..., Tensor]:
    """The kernel for arrays on a device, or on the host for the interpreter."""
    types = products.INPUTS[facts.dtype], products.RESULTS[result]
    return kernel_for(RoleKernel(BATCHED, *types, layouts, multiple_of(size[2])), facts.device, size, pitches, check)
