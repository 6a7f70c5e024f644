"""Bounds of an expression's value, from the ranges of its symbols.

>>> import sympy
>>> from lego_mlir.expr.nodes import FloorDiv, Size
>>> from lego_mlir.expr.ranges import Range
>>> M, (by, ty) = Size("M", min=32, max=4096, multiple_of=32), sympy.symbols("by ty", integer=True)
>>> bounds(32 * by + ty, {by: Range(0, FloorDiv(M, 32)), ty: Range(0, 32)})
Bounds(lo=0, hi=4095, modulus=1, remainder=0)
>>> bounds(8 * by + 4, {by: Range(0, 4)}).multiple_of
4
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lego_mlir.aliases import IndexLike
from lego_mlir.expr.budgets import within_recursion_limit
from lego_mlir.expr.context import context_of, working_in
from lego_mlir.expr.facts import Bounds
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.samples import POINTS

if TYPE_CHECKING:
    from lego_mlir.expr.ranges import Ranges

__all__ = ["Bounds", "bounds", "value_beyond", "within"]


def bounds(expr: IndexLike, ranges: Ranges) -> Bounds:
    """Constant bounds and congruence of an expression (a SymPy expression, an Index or an int)."""
    with within_recursion_limit("bounded"), working_in(ranges) as context:
        return context.facts.bounds(context.terms.read(as_expr(expr)))


def within(expr: IndexLike, ranges: Ranges, low: int, high: int) -> bool:
    """Whether eliminating symbols proves low <= value <= high; it is tighter than constant bounds:

    >>> import sympy
    >>> from lego_mlir.expr.nodes import FloorDiv, Size
    >>> from lego_mlir.expr.ranges import Range
    >>> M, T, tile = Size("M", max=100), Size("T", max=64), sympy.Symbol("tile", integer=True)
    >>> ranges = {tile: Range(0, FloorDiv(M + T - 1, T))}
    >>> bounds(tile * T, ranges).hi, within(tile * T, ranges, 0, 99)
    (10368, True)
    """
    context = context_of(ranges)
    value = context.terms.read(as_expr(expr))
    return context.facts.nonnegative(value.plus(-low)) and context.facts.nonnegative((-value).plus(high))


def value_beyond(expr: IndexLike, ranges: Ranges, low: int, high: int) -> int | None:
    """A value below `low` or above `high` that the expression takes at a sample point, or None."""
    with working_in(ranges) as context:
        poly = context.terms.read(as_expr(expr))
        found = (context.facts.samples.value(poly, point) for point in range(POINTS))
        return next((value for value in found if value is not None and not low <= value <= high), None)
