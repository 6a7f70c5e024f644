"""The extents of a piece, and division by them: a constant, a run-time size, or one of two depending on the piece.

Cut an axis of 37 tasks into pieces of 8: four have 8 tasks, the last has 5. The extent of piece c is then
`Either(c < 4, 8, 5)`, and a division by it is two divisions by constants and a select, without a division instruction.
With n known only at run time the extent is `minimum(n - 8*c, 8)`, and the division an actual one.

>>> from lego_mlir.expr.index import symbols
>>> from lego_mlir.expr.sizes import size
>>> c, r = symbols("c r")
>>> quotient(r, piece(37, 8, c)), quotient(r, piece(40, 8, c))
(where(c < 4, r // 8, r // 5), r // 8)
>>> quotient(r, piece(size("n"), 8, c))
r // maximum(minimum(n - 8*c, 8), 1)
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir.aliases import Cond, IndexLike
from lego_mlir.expr.index import Index, as_expr, is_symbolic, maximum, minimum, where
from lego_mlir.layout.canonical import Size


@dataclass(frozen=True, slots=True)
class Either:
    """`then` for the pieces where the condition holds, otherwise `other`."""

    condition: Cond
    then: Extent
    other: Extent


Extent = IndexLike | Either


def value(extent: Extent) -> IndexLike:
    """The extent as an index."""
    if isinstance(extent, Either):
        return where(extent.condition, value(extent.then), value(extent.other))
    return extent


def times(a: Extent, b: Extent) -> Extent:
    """The product of two extents."""
    if isinstance(a, Either):
        return _either(a.condition, times(a.then, b), times(a.other, b))
    if isinstance(b, Either):
        return times(b, a)
    return a * b


def quotient(r: IndexLike, extent: Extent) -> IndexLike:
    """`r // extent`. Of symbols, each alternative is divided by a constant; of arrays, the chosen one divides."""
    if _is_one(extent):
        return r
    if isinstance(extent, Either) and is_symbolic(r):
        return where(extent.condition, quotient(r, extent.then), quotient(r, extent.other))
    return r // value(extent)


def remainder(r: IndexLike, extent: Extent) -> IndexLike:
    """`r % extent`."""
    if _is_one(extent):
        return 0
    if isinstance(extent, Either) and is_symbolic(r):
        return where(extent.condition, remainder(r, extent.then), remainder(r, extent.other))
    return r % value(extent)


def piece(extent: Extent, size: Size, c: IndexLike) -> Extent:
    """The extent of piece c of an axis that is cut into pieces of `size`: the last may be narrower.

    It is positive also for a piece past the end, so that it may divide.
    """
    if isinstance(extent, Either):
        return _either(extent.condition, piece(extent.then, size, c), piece(extent.other, size, c))
    if is_single(extent, size):
        return extent
    if divides(size, extent):
        return size
    if isinstance(extent, int) and isinstance(size, int):
        return Either(c < extent // size, size, extent % size)
    return maximum(minimum(extent - c * size, size), 1)


def is_single(extent: Extent, size: Size) -> bool:
    """Whether an axis is known to have one piece of this size."""
    if isinstance(extent, Either):
        return is_single(extent.then, size) and is_single(extent.other, size)
    return isinstance(extent, int) and isinstance(size, int) and extent <= size


def divides(size: Size, extent: IndexLike) -> bool:
    """Whether the pieces are proved to divide an extent."""
    if isinstance(size, Index):
        return Index(as_expr(extent)).same(size) if isinstance(extent, Index) else False
    if isinstance(extent, Index):
        from lego_mlir.expr.intervals import bounds

        return bounds(as_expr(extent), {}).multiple_of % size == 0
    return bool(extent % size == 0)


def _either(condition: Cond, then: Extent, other: Extent) -> Extent:
    same = isinstance(then, int) and isinstance(other, int) and then == other
    return then if same else Either(condition, then, other)


def _is_one(extent: Extent) -> bool:
    return isinstance(extent, int) and extent == 1
