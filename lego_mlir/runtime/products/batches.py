"""`lego_mlir.matmul` of arrays with leading dimensions: NumPy's rules, by one kernel for all numbers and sizes.

    (B, M, K) @ (B, K, N)           one launch of `kernels.batched_products`; strides are arguments
    (B, H, M, K) @ (B, 1, K, N)     the same: H neighbours share a matrix, which is not copied

An array is copied where its matrices are in neither rows nor columns, where rows or matrices are not at multiples of 16
bytes, or where its leading dimensions have no single stride. A product of all rows of a and one matrix is no batch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod

from lego_mlir.aliases import Tensor
from lego_mlir.errors import UsageError
from lego_mlir.runtime.products import known
from lego_mlir.runtime.products.operands import ALIGNED, ALIGNMENT, ArrayOperand, read, require_alike
from lego_mlir.runtime.products.problem import INPUTS, RESULTS, Problem, has_whole_lines, numbers_of, place_of
from lego_mlir.runtime.products.role_kernels import kernel_for

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


def batched_product(
    first: ArrayOperand, second: ArrayOperand, result: str | None = None, *, check: bool = False, key: Hashable = None
) -> Tensor:
    """a @ b for arrays of [.., M, K] and [.., K, N]; with `check` in the interpreter, on arrays of the host.

    What was bound is kept by the `key`, if there is one, where both operands are used in place. Raises UsageError for
    shapes that NumPy does not broadcast, and for other types.
    """
    for operand in (first, second):
        if operand.facts.dtype not in INPUTS or len(operand.facts.shape) < 2:
            raise UsageError(
                f"matmul of several matrices takes arrays of [.., rows, columns], {' or '.join(INPUTS)}, got "
                f"{operand.name} of {operand.facts.dtype} and shape {list(operand.facts.shape)}"
            )
    out = broadcast(first, second)
    require_alike(first, second)
    name = first.facts.dtype if result is None else result
    if name not in RESULTS:
        raise UsageError(f"matmul: the result is one of {', '.join(RESULTS)}, got {name!r}")
    gradients = known.gradients_of((first, second))
    (*_, m, k), n = first.facts.shape, second.facts.shape[-1]
    (left, shared_a), (right, shared_b) = (_matrices(operand, out) for operand in (first, second))
    (x, order_a), (y, order_b) = _usable(left, "N"), _usable(right, "T")
    if k % ALIGNED and order_a + order_b != "TN":  # one copy has zeros after K, and the other must have as many rows
        x = x if order_a == "N" else x.in_rows((1,))
        y = y if order_b == "T" else y.in_rows((1,))
    target, multiprocessors = place_of(first.facts.device)
    problem = Problem(
        prod(out) * m, n, k, INPUTS[first.facts.dtype], RESULTS[name], order_a + order_b, target, multiprocessors,
        batch=prod(out), whole_lines=has_whole_lines(x.facts.strides[1], y.facts.strides[1]),
        numbers=numbers_of(first.facts.device),
    )  # fmt: skip
    calls = kernel_for(problem, first.facts.device, check)
    named, shape = {"Z": prod(out), "DA": shared_a.by, "DB": shared_b.by}, (*out, m, n)

    def otherwise(arrays: Sequence[Tensor]) -> Tensor:
        return batched_product(read("a", arrays[0]), read("b", arrays[1]), result)

    key = None if check else key
    found = known.called(calls, (first, second), (x, y), named, shape, otherwise, key, check=check, gradients=gradients)
    return found.reshape(shape)


def broadcast(first: ArrayOperand, second: ArrayOperand) -> Shape:
    """The leading dimensions of the result."""
    import numpy

    try:
        return numpy.broadcast_shapes(first.facts.shape[:-2], second.facts.shape[:-2])
    except ValueError:
        raise UsageError(
            f"matmul of {list(first.facts.shape)} and {list(second.facts.shape)}: leading dimensions must be equal or "
            "1, counted from the last"
        ) from None


def _matrices(operand: ArrayOperand, out: Shape) -> tuple[ArrayOperand, Shared]:
    """An operand as [matrices, rows, columns]: what has a stride of 0 counts once."""
    x, lead = operand.array, operand.facts.shape[:-2]
    once = [n > 1 and stride == 0 for n, stride in zip(lead, operand.facts.strides[: len(lead)], strict=True)]
    if any(once):
        x = x[tuple(slice(0, 1) if one else slice(None) for one in once)]
        lead = tuple(x.shape[: len(lead)])
    found, matrix = shared(lead, out), operand.facts.shape[-2:]
    if found is None:
        if operand.library.name == "torch":
            x = x.expand(*out, *matrix)
        elif operand.library.name in ("numpy", "cupy"):
            x = __import__(operand.library.name).broadcast_to(x, (*out, *matrix))
        else:
            raise UsageError(
                f"matmul: {operand.name} of {list(x.shape)} is broadcast along separate axes; broadcast it first"
            )
        found = Shared(prod(out), 1)
    return operand.of(x.reshape(-1, *matrix)), found


def _usable(operand: ArrayOperand, otherwise: str) -> tuple[ArrayOperand, str]:
    """Matrices that the kernel reads, [count, rows in memory, their length], and their order, N or T.

    They are copied, into the order `otherwise`, where they are in neither.
    """
    for order, view in (("N", operand), ("T", operand.turned())):
        (count, pitch, step), (matrices, rows, length) = view.facts.strides, view.facts.shape
        apart = count >= (rows - 1) * pitch + length or pitch >= (matrices - 1) * count + length
        whole = view.facts.pointer % ALIGNMENT == 0 and not any(n % ALIGNED for n in (length, pitch, count))
        if step == 1 and pitch >= length and count > 0 and apart and whole:
            return view, order
    view = operand if otherwise == "N" else operand.turned()
    return view.in_rows((2,), copied=True), otherwise
