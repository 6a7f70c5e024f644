"""Values at a few sample points within the ranges: cheap refutation, never a proof.

Most side conditions of rules are false, and a counter-example costs less than a search for a proof. The points are the
ends of ranges, sizes at which claims about tiles tend to fail, and pseudo-random ones, the same in every run.
"""

from __future__ import annotations

import random

import sympy

from lego_mlir.expr.nodes import Select, Size, Table
from lego_mlir.expr.poly import PRODUCT, SYMBOL, Atom, Poly, Truth
from lego_mlir.expr.terms import Terms

POINTS = 10
MORE_POINTS = 40
"""Points before a search by Z3, which takes as long as thousands: sizes are larger, symbols mixed at both ends."""
LIKELY_SIZES = (8, 128, 4096)  # sizes at which a claim about tiles is likely to fail if it is false
LARGE_SIZE = 1 << 16  # of every second point before a search by Z3: many groups of tiles


class Samples:
    """The values of polynomials over one `Terms` at the sample points, memoized."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._known: dict[tuple[Atom, int], int | None] = {}

    def refutes(self, poly: Poly) -> bool:
        """Whether the polynomial is negative at a sample point."""
        for point in range(POINTS):
            value = self.value(poly, point)
            if value is not None and value < 0:
                return True
        return False

    def value(self, poly: Poly, point: int) -> int | None:
        """The value at a sample point, None if the point lies in an empty range or divides by zero."""
        total = 0
        for monomial, c in poly.terms.items():
            for atom in monomial:
                value = self._sampled(atom, point)
                if value is None:
                    return None
                c *= value
            total += c
        return total

    def _sampled(self, atom: Atom, point: int) -> int | None:
        key = (atom, point)
        if key not in self._known:
            self._known[key] = self._draw(atom, point) if atom.op is SYMBOL else self._compute(atom, point)
        return self._known[key]

    def _draw(self, atom: Atom, point: int) -> int | None:
        symbol = atom.args[0]
        source = random.Random(f"{symbol}{point}")
        mixed = point >= POINTS
        if isinstance(symbol, Size) and symbol not in self.terms.ranges:
            low = -(-symbol.min // atom.scale)
            high = None if symbol.max is None else symbol.max // atom.scale
            places = (0, low + 1, *(-(-n // atom.scale) for n in LIKELY_SIZES))
            large = -(-LARGE_SIZE // atom.scale) if mixed and point % 2 else places[-1]
            likely = max(low, large if mixed else places[point % 5])
            high = likely if high is None else min(high, likely)
            if mixed:
                return (low, high, source.randint(low, high))[source.randint(0, 2)]
            return source.randint(low, high) if point > 4 else high
        if symbol not in self.terms.ranges:
            return (0, 1, -1, 7)[point] if point < 4 else source.randint(-100, 100)
        known = self.terms.ranges[symbol]
        lo = self.value(self.terms.read(known.lo), point)
        hi = self.value(self.terms.read(known.hi), point)
        if lo is None or hi is None or lo >= hi:
            return None
        steps = (hi - 1 - lo) // known.step
        end = source.randint(0, 2) if mixed else point % 3
        chosen = steps if end == 0 else 0 if point == 1 or (mixed and end == 1) else source.randint(0, steps)
        value = lo + known.step * chosen
        if isinstance(symbol, Size) and not symbol.takes(value):
            return None
        return (value - atom.offset) // atom.scale

    def _compute(self, atom: Atom, point: int) -> int | None:
        if atom.op is Table:
            index, entries = self.value(atom.args[1], point), atom.args[4]
            return int(entries[index]) if index is not None and 0 <= index < len(entries) else None
        if atom.op is PRODUCT:
            return self.value(atom.args[0], point)
        if atom.op is Select:
            chosen = self.truth(atom.args[0], point)
            return None if chosen is None else self.value(atom.args[1 if chosen else 2], point)
        values = [self.value(a, point) for a in atom.args]
        if None in values:
            return None
        try:
            return int(atom.op.operation.of(*values))
        except (ZeroDivisionError, ValueError):
            return None

    def truth(self, truth: Truth, point: int) -> bool | None:
        """The value of a condition at a sample point, None if undefined."""
        if isinstance(truth, bool):
            return truth
        if truth.op in (sympy.And, sympy.Or, sympy.Not):
            parts = [self.truth(a, point) for a in truth.args]
            if None in parts:
                return None
            return all(parts) if truth.op is sympy.And else any(parts) if truth.op is sympy.Or else not parts[0]
        a, b = (self.value(x, point) for x in truth.args)
        return None if a is None or b is None else bool(truth.op.holds(a, b))
