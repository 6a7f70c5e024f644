"""`lego_mlir.matmul` of arrays with leading dimensions: NumPy's rules, by one kernel for all numbers and sizes.

    (B, M, K) @ (K, N)           one product of B M rows, where these are contiguous
    (B, M, K) @ (B, K, N)        one launch of `kernels.batched_products`; strides are arguments
    (B, H, M, K) @ (B, 1, K, N)  the same: H neighbours share a matrix, which is not copied

An array is copied where its matrices are in neither rows nor columns, where rows or matrices are not at multiples of 16
bytes, or where its leading dimensions have no single stride.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from lego_mlir.errors import UsageError
from lego_mlir.runtime import products
from lego_mlir.runtime.arrays import ArrayFacts, library_of
from lego_mlir.runtime.grouped_calls import dense, padding, pointer_of
from lego_mlir.runtime.products import ALIGNMENT, Multiplication
from lego_mlir.runtime.role_kernels import ALIGNED, BATCHED, RoleKernel, Size, kernel_for, multiple_of

if TYPE_CHECKING:
    from lego_mlir.aliases import Tensor
    from lego_mlir.runtime.calls import Calls

Shape = tuple[int, ...]
Keep = Callable[[Multiplication], None]


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


def _forget(known: Multiplication) -> None:
    """Keep nothing."""


def batched_matmul(
    a: Tensor, b: Tensor, result: str | None = None, *, check: bool = False, keep: Keep = _forget
) -> Tensor:
    """a @ b for arrays of [.., M, K] and [.., K, N]; with `check` in the interpreter, on arrays of the host.

    What was bound goes to `keep` where both operands are used in place, for the next arrays of their types and strides.
    Raises UsageError for shapes that NumPy does not broadcast, and for other types.
    """
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
    shape = (*out, m, n)
    if prod(of_b) == 1 and _is_dense(first, len(of_a) + 1) and not check:
        return _by_rows(a, b, name, shape, keep)
    left, shared_a = _operand(a, of_a, out, "a")
    right, shared_b = _operand(b, of_b, out, "b")
    (x, order_a), (y, order_b) = _usable(left, 0), _usable(right, 1)
    if k % ALIGNED and order_a + order_b != "TN":  # one copy has zeros after K, and the other must have as many rows
        x, y = _as_deep(x, order_a == "N"), _as_deep(y, order_b == "T")
    size = (prod(out) * m, prod(out), n, k)
    calls = _calls(first, name, order_a + order_b, size, (_pitch(x), _pitch(y)), check)
    named = {"Z": prod(out), "DA": shared_a.by, "DB": shared_b.by}
    if check or not _in_place((a, b), (x, y)):
        found: Tensor = calls.call((x, y), named, None, check).reshape(shape)
        return found
    plan = calls.plan_of_views((x, y), (a, b), named, shape)
    gradients = tuple(name for name, facts in (("a", first), ("b", second)) if facts.needs_gradient)
    keep(Multiplication(plan, (pointer_of(a), pointer_of(b)), gradients))
    return plan((a, b), None)


def _by_rows(a: Tensor, b: Tensor, result: str, shape: Shape, keep: Keep) -> Tensor:
    """The product of all rows of a and one matrix."""
    k, n = b.shape[-2:]
    rows, matrix = a.reshape(-1, k), b.reshape(k, n)
    known = products.bound(rows, matrix, result, None, fixed=False, shape=shape)
    if known.plan is None or products.is_misaligned(known, a, b) or not _in_place((a, b), (rows, matrix)):
        return products.matmul(rows, matrix, result=result).reshape(shape)
    keep(known)
    return known.plan((a, b), None)


def _in_place(arrays: Sequence[Tensor], views: Sequence[Tensor]) -> bool:
    """Whether views begin at the addresses of their arrays: a copy does not."""
    return all(pointer_of(x)(x) == pointer_of(view)(view) for x, view in zip(arrays, views, strict=True))


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


def _operand(x: Tensor, lead: Sequence[int], out: Shape, name: str) -> tuple[Tensor, Shared]:
    """An operand as [matrices, rows, columns]: what has a stride of 0 counts once."""
    library = library_of(x)
    assert library is not None  # its facts have been read
    once = [n > 1 and stride == 0 for n, stride in zip(lead, library.facts(x).strides[: len(lead)], strict=True)]
    if any(once):
        x = x[tuple(slice(0, 1) if one else slice(None) for one in once)]
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
    return x.reshape(-1, *x.shape[-2:]), found


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


def _calls(facts: ArrayFacts, result: str, layouts: str, size: Size, pitches: tuple[int, int], check: bool) -> Calls:
    """The kernel for arrays on a device, or on the host for the interpreter."""
    types = products.INPUTS[facts.dtype], products.RESULTS[result]
    return kernel_for(RoleKernel(BATCHED, *types, layouts, multiple_of(size[2])), facts.device, size, pitches, check)
