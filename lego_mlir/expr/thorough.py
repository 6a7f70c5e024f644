"""Three more analyses of signs, for claims that would otherwise need Z3, which takes a thousand times as long.

    min(a, b) + c >= 0     where a + c and b + c are, and in the same way c - max(a, b)
    -g*(x // (g*d)) + c    >= -(x // d) + c, whose quotient may have a bound where the other one has none
    x // d + c >= 0        where x + d*c is, of an x without a bound, such as a minimum

The second one bounds the tiles of a group of the grouped order: with x < R*C, 8*(x // (8*C)) is at most R - 1. Forms
of expressions are chosen by the plain `Facts`, and do not depend on what is shown here.

>>> import sympy
>>> from lego_mlir.expr.context import context_of
>>> from lego_mlir.expr.nodes import FloorDiv, Size, Smaller
>>> from lego_mlir.expr.ranges import Range
>>> R, C, x = Size("R"), Size("C"), sympy.Symbol("x", integer=True)
>>> context = context_of({x: Range(0, R * C)})
>>> rows_left = context.terms.read(Smaller(R - 8 * FloorDiv(x, 8 * C), 8) - 1)
>>> context.facts.nonnegative(rows_left), context.thorough_facts.nonnegative(rows_left)
(False, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from lego_mlir.expr.facts import Facts
from lego_mlir.expr.nodes import FloorDiv, Larger, Smaller
from lego_mlir.expr.poly import ONE, Atom, Poly, number
from lego_mlir.expr.terms import Terms

MOST_TRIED: Final = 20_000
"""Attempts that are remembered at once, for the ranges of one context."""


class ThoroughFacts(Facts):
    """Facts that take both sides of a minimum or maximum, and quotients by a part of their divisor.

    Both sides of several extrema lead to the same polynomials again and again, so that attempts are remembered. What an
    attempt finds depends on the atoms whose ends are being sought around it, and on its fuel where that runs out.
    """

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._tried: dict[tuple[Any, ...], tuple[bool, int, int]] = {}
        self._plain: dict[Poly, bool] = {}
        self._sought: frozenset[tuple[Atom, bool]] = frozenset()

    def nonnegative(self, poly: Poly) -> bool:
        fuel, lowest = self._fuel, self._lowest
        found = super().nonnegative(poly)
        self._fuel, self._lowest = fuel, lowest  # of the attempt that asks
        return found

    def ends(self, atom: Atom, upper: bool) -> list[Poly]:
        known = self._ends.get((atom, upper))
        if known is not None:
            return known
        sought, lowest = self._sought, self._lowest
        self._sought = sought | {(atom, upper)}
        found = super().ends(atom, upper)
        self._sought, self._lowest = sought, lowest
        return found

    def _shown(self, poly: Poly) -> bool:
        """Whether the value is shown to be non-negative, with the fuel that is left.

        An attempt that took at most `most` of the fuel at once, and did not run out, is the same with any more.
        """
        fuel, outer = self._fuel, self._lowest
        shown, most, spent = self._tried.get((poly, self._sought), (False, fuel, 0))
        if most >= fuel:
            shown, most, spent = self._tried.get((poly, self._sought, fuel)) or self._attempt(poly, fuel)
        self._fuel, self._lowest = fuel - spent, min(outer, fuel - most)
        return shown

    def _attempt(self, poly: Poly, fuel: int) -> tuple[bool, int, int]:
        """Whether the value is shown to be non-negative, the most fuel that this took at once, and what it spent."""
        self._lowest = fuel
        found = super()._shown(poly), fuel - self._lowest, fuel - self._fuel
        if len(self._tried) >= MOST_TRIED:
            self._tried.clear()
        key = (poly, self._sought) if self._lowest > 0 else (poly, self._sought, fuel)
        self._tried[key] = found
        return found

    def _plainly(self, poly: Poly) -> bool:
        known = self._plain.get(poly)
        if known is None:
            if len(self._plain) >= MOST_TRIED:
                self._plain.clear()
            known = self._plain[poly] = super()._plainly(poly)
        return known

    def _shown_by_parts(self, poly: Poly, atom: Atom, factor: Poly) -> bool:
        fuel = self._fuel
        if atom.op is FloorDiv and factor == ONE and self._sign(atom.args[1]) > 0:
            x, d = atom.args
            shown = self._shown(x + d * (poly - Poly({(atom,): 1})))
        elif atom.op in (Smaller, Larger) and self._sign(factor) == (1 if atom.op is Smaller else -1):
            shown = all(self._shown(poly.substituted(atom, side)) for side in atom.args)
        else:
            return False
        if not shown:
            self._fuel = fuel  # what else is tried must not depend on this attempt
        return shown

    def _least(self, atom: Atom, factor: Poly) -> Iterator[Poly]:
        yield from super()._least(atom, factor)
        if atom.op is FloorDiv and self._sign(factor) < 0:
            x, d = atom.args
            common = math.gcd(*d.terms.values())
            if common > 1 and d.constant is None and all(c % common == 0 for c in factor.terms.values()):
                whole, divisor = (p.divided(number(common))[0] for p in (factor, d))
                yield from (whole * end for end in self._quotient_ends(x, divisor, upper=True))
