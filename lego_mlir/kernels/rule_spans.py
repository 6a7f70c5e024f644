"""Intervals of tiles that a rule allows, by proof: of keys for a block of queries, or of queries for a block of keys.

A condition that is made of comparisons of affine expressions, a i + b j + d >= 0, with `&`, `|` and `~`, is bounded by
formulas of the block's first row. With i in a block, of whose values a i is at most A and at least L:

    some pair is allowed     only where  b j >= -(A + d)        the interval `some`: tiles outside are not visited
    all pairs are allowed    where       b j >= -(L + d)        the interval `all`: tiles inside have no mask

Both are joined by the condition's operators; of a union the first one is within `some`, and `all` is within the second.
For causal attention, j <= i, `some` ends after the last query of the block and `all` after the first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import sympy

import lego_mlir as lego
from lego_mlir.aliases import Cond, Expr, Operand
from lego_mlir.expr.index import Condition, Index, as_condition
from lego_mlir.expr.nodes import Eq, Le, Lt, Ne


class NotAffineError(Exception):
    """A condition that is not made of comparisons of affine expressions; callers that ask for spans catch it."""


@dataclass(frozen=True, slots=True)
class AllowedSpan:
    """The positions from `low` up to, but not including, `high`; None means unbounded on that side."""

    low: Operand = None
    high: Operand = None

    def and_(self, other: AllowedSpan) -> AllowedSpan:
        """The intersection."""
        return AllowedSpan(_of(lego.maximum, self.low, other.low), _of(lego.minimum, self.high, other.high))

    def around(self, other: AllowedSpan) -> AllowedSpan:
        """The least span that contains both."""
        if self is NOWHERE or other is NOWHERE:
            return other if self is NOWHERE else self
        low, high = _of(lego.minimum, self.low, other.low, True), _of(lego.maximum, self.high, other.high, True)
        return AllowedSpan(low, high)

    def either(self, other: AllowedSpan) -> AllowedSpan:
        """A span of positions that are in one of both: their union if both are without an end on one side."""
        open_ = (self.low is None and other.low is None) or (self.high is None and other.high is None)
        return self.around(other) if open_ or self is NOWHERE or other is NOWHERE else self


EVERYWHERE: Final = AllowedSpan()
NOWHERE: Final = AllowedSpan(0, 0)


def _of(function: Callable[..., Operand], a: Operand, b: Operand, both: bool = False) -> Operand:
    """The function of two ends; if one is None, the other one, or None with `both`."""
    if a is None or b is None:
        return None if both else a if b is None else b
    return function(a, b)


def spans(
    allowed: Callable[[Operand, Operand], Operand], first: Operand, count: int, *, of_keys: bool = False
) -> tuple[AllowedSpan, AllowedSpan]:
    """The spans `some` and `all` of keys for the queries from `first` on, `count` of them; or of queries for keys.

    `allowed(i, j)` is a condition of a query and a key. Raises NotAffineError where none of them are known.
    """
    i, j = (sympy.Symbol(name, integer=True) for name in ("_query", "_key"))
    condition = allowed(Index(i), Index(j))
    if not isinstance(condition, Condition | bool):
        raise NotAffineError
    held, visited = (j, i) if of_keys else (i, j)

    def reached(e: Expr) -> tuple[AllowedSpan, AllowedSpan]:
        """The spans of e >= 0."""
        e = sympy.expand(e)
        a, b = e.coeff(held), e.coeff(visited)
        rest = sympy.expand(e - a * held - b * visited)
        if not (a.is_Integer and b.is_Integer) or rest.has(held, visited):
            raise NotAffineError
        ends = (max(0, int(a) * (count - 1)), min(0, int(a) * (count - 1)))
        some, all_ = (_half(int(b), Index(rest) + int(a) * first + end) for end in ends)
        return some or EVERYWHERE, all_ or NOWHERE

    return _walk(as_condition(condition), False, reached)


def _half(b: int, rest: Operand) -> AllowedSpan | None:
    """The span of b j + rest >= 0; None without j."""
    if b > 0:
        return AllowedSpan(low=lego.cdiv(-rest, b))
    return AllowedSpan(high=rest // -b + 1) if b < 0 else None


Spans = tuple[AllowedSpan, AllowedSpan]


def _walk(condition: Cond, negated: bool, reached: Callable[[Expr], Spans]) -> Spans:
    """The spans of a condition, or of its negation."""

    def both(one: Spans, other: Spans) -> Spans:
        return one[0].and_(other[0]), one[1].and_(other[1])

    def either(one: Spans, other: Spans) -> Spans:
        return one[0].around(other[0]), one[1].either(other[1])

    match condition:
        case sympy.Not():
            return _walk(condition.args[0], not negated, reached)
        case sympy.And() | sympy.Or():
            parts = [_walk(part, negated, reached) for part in condition.args]
            return functools.reduce(both if isinstance(condition, sympy.And) != negated else either, parts)
        case Le():
            a, b = condition.args
            return reached(a - b - 1 if negated else b - a)
        case Lt():
            a, b = condition.args
            return reached(a - b if negated else b - a - 1)
        case Eq() | Ne():
            e = condition.args[0] - condition.args[1]
            if isinstance(condition, Eq) != negated:
                return both(reached(e), reached(-e))
            return either(reached(e - 1), reached(-e - 1))
    if condition in (sympy.true, sympy.false):
        found = EVERYWHERE if bool(condition) != negated else NOWHERE
        return found, found
    raise NotAffineError
