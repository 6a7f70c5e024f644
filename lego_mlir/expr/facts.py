"""Facts about an expression's value under the ranges of its symbols: an interval, a congruence and a sign.

Three analyses of increasing power. Interval arithmetic bounds a polynomial by constants. Congruences give its residue
modulo a constant, so that divisibility needs no search. And because the ends of a range may be sizes known only at run
time (0 <= by < M//32), `Facts.nonnegative` eliminates symbols one by one: in `p == a*x + b`, where `a` has a known
sign, x is replaced by the end of its range that minimizes p, until only sizes remain and every coefficient is visibly
non-negative.

`Facts` work on the polynomials of one context (`expr.context`); `expr.intervals` applies them to expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lego_mlir.expr.integer_operations import End, Interval, product
from lego_mlir.expr.nodes import BitAnd, BitOr, BitXor, FloorDiv, FloorMod, Larger, Select, Size, Smaller, Table
from lego_mlir.expr.poly import ONE, PRODUCT, SYMBOL, ZERO, Atom, Monomial, Poly, number
from lego_mlir.expr.samples import POINTS, Samples
from lego_mlir.expr.terms import Terms

FUEL = 60  # eliminations tried for one query before giving up


@dataclass(frozen=True, slots=True)
class Bounds:
    """`lo <= value <= hi`, None where unbounded, and `value % modulus == remainder` (modulus 0: it is a constant)."""

    lo: int | None
    hi: int | None
    modulus: int = 1
    remainder: int = 0

    @property
    def multiple_of(self) -> int:
        """The largest known divisor of the value; 0 for the value 0, which every integer divides."""
        return math.gcd(self.modulus, self.remainder)

    @property
    def nonnegative(self) -> bool:
        return self.lo is not None and self.lo >= 0


def _sum(a: End, b: End) -> End:
    return None if a is None or b is None else a + b


class Facts:
    """Interval, congruence and sign queries on polynomials over one `Terms`, memoized."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._intervals: dict[Atom, Interval] = {}
        self._residues: dict[Atom, tuple[int, int]] = {}
        self._signs: dict[Poly, bool] = {}
        self._ends: dict[tuple[Atom, bool], list[Poly]] = {}
        self.samples = Samples(terms)
        self._fuel = 0
        self._lowest = 0  # that the fuel has been since somebody began to watch it

    def leaves_64_bits(self, poly: Poly, instead_of: Poly) -> bool:
        """Whether this operand overflows int64 at a sample point where the one that it replaces does not.

        As for `value_beyond`, bounds alone do not decide: they may be wider than the values.
        """
        lo, hi = self.interval(poly)
        if (lo is None or lo >= -(2**63)) and (hi is None or hi < 2**63):
            return False
        values = [(self.samples.value(poly, p), self.samples.value(instead_of, p)) for p in range(POINTS)]
        return any(
            new is not None and old is not None and not -(2**63) <= new < 2**63 and -(2**63) <= old < 2**63
            for new, old in values
        )

    # ---- constants: intervals and congruences

    def bounds(self, poly: Poly) -> Bounds:
        lo, hi = self.interval(poly)
        if lo is None or hi is None:
            lo, hi = self._best_constant(poly, lo, hi)
        modulus, remainder = self.residue(poly)
        if modulus and lo is not None:
            lo += (remainder - lo) % modulus
        if modulus and hi is not None:
            hi -= (hi - remainder) % modulus
        return Bounds(lo, hi, modulus, remainder)

    def _best_constant(self, poly: Poly, lo: End, hi: End) -> Interval:
        """Constant ends found by elimination: i*N + j has none by intervals, yet is never negative."""
        for end, sign in ((lo, 1), (hi, -1)):
            if end is None:
                for least in self.eliminated(poly.scaled(sign)):
                    found = self.interval(least)[0]
                    if found is not None and sign > 0:
                        lo = found if lo is None else max(lo, found)
                    elif found is not None:
                        hi = -found if hi is None else min(hi, -found)
        return lo, hi

    def interval(self, poly: Poly) -> Interval:
        """Constant ends by interval arithmetic, monomial by monomial."""
        lo: End = 0
        hi: End = 0
        for monomial, c in poly.terms.items():
            low, high = self._monomial(monomial)
            if c < 0:
                low, high = high, low
            lo = None if lo is None or low is None else lo + c * low
            hi = None if hi is None or high is None else hi + c * high
        return lo, hi

    def _monomial(self, monomial: Monomial) -> Interval:
        result: Interval = (1, 1)
        for atom in dict.fromkeys(monomial):
            base = self.atom(atom)
            power: Interval = (1, 1)
            count = monomial.count(atom)
            for _ in range(count):
                power = product(power, base)
            if count % 2 == 0 and (power[0] is None or power[0] < 0):
                power = (0, power[1])
            result = product(result, power)
        return result

    def atom(self, atom: Atom) -> Interval:
        known = self._intervals.get(atom)
        if known is None:
            bounded = _ATOM_INTERVALS.get(atom.op)
            if bounded is not None:
                known = bounded(self, atom)
            else:
                known = atom.op.operation.interval(*map(self.interval, atom.args))
            self._intervals[atom] = known
        return known

    def residue(self, poly: Poly) -> tuple[int, int]:
        """(m, r) with value % m == r; m == 0 means that the value is the constant r."""
        modulus, remainder = 0, 0
        for monomial, c in poly.terms.items():
            m, r = 0, 1
            for atom in monomial:
                m2, r2 = self._atom_residue(atom)
                m, r = math.gcd(m * m2, m * r2, r * m2), r * r2
            modulus = math.gcd(modulus, m * c)
            remainder += r * c
        return modulus, remainder % modulus if modulus else remainder

    def _atom_residue(self, atom: Atom) -> tuple[int, int]:
        known = self._residues.get(atom)
        if known is None:
            known = self._residues[atom] = self._new_residue(atom)
        return known

    def _new_residue(self, atom: Atom) -> tuple[int, int]:
        if atom.op is FloorMod:
            m, r = self.residue(atom.args[0])
            d, e = self.residue(atom.args[1])
            common = math.gcd(m, d, e)
            return (common, r % common) if common else (1, 0)
        if atom.op in (Smaller, Larger, Select):
            (m, r), (n, s) = map(self.residue, atom.args[-2:])
            common = math.gcd(m, n, r - s)
            return (common, r % common) if common else (0, r)
        if atom.op in (BitXor, BitOr, BitAnd):
            (m, r), (n, s) = map(self.residue, atom.args)
            trailing = [math.gcd(a, b) & -math.gcd(a, b) for a, b in ((m, r), (n, s)) if (a, b) != (0, 0)]
            zeros = max(trailing) if atom.op is BitAnd else min(trailing)
            return zeros, 0
        if atom.op is FloorDiv:
            (m, r), divisor = self.residue(atom.args[0]), atom.args[1].constant
            return (m // divisor, r // divisor) if divisor and divisor > 0 and m % divisor == 0 else (1, 0)
        if atom.op is PRODUCT:
            return self.residue(atom.args[0])
        return 1, 0

    # ---- signs

    def nonnegative(self, poly: Poly) -> bool:
        """Whether the value is proved non-negative."""
        known = self._signs.get(poly)
        if known is None:
            if self._least_by_residue(poly) >= 0:
                known = True
            elif self.samples.refutes(poly):
                known = False
            else:
                self._fuel = FUEL
                known = self._shown(poly)
            self._signs[poly] = known
        return known

    def _least_by_residue(self, poly: Poly) -> float:
        """The least value of its residue within the interval: of x >= -3 and x % 8 == 7, it is 7."""
        lo = self.interval(poly)[0]
        if lo is None or lo >= 0:
            return -math.inf if lo is None else lo
        modulus, remainder = self.residue(poly)
        return lo + (remainder - lo) % modulus if modulus else lo

    def positive(self, poly: Poly) -> bool:
        """Whether the value is proved to be at least one."""
        return self.nonnegative(poly.plus(-1))

    def within(self, low: Poly, value: Poly, below: Poly) -> bool:
        """Whether low <= value < below is proved."""
        return self.nonnegative(value - low) and self.positive(below - value)

    def _shown(self, poly: Poly) -> bool:
        lo = self.interval(poly)[0]
        if lo is not None and lo >= 0:
            return True
        return any(self._plainly(least) for least in self._eliminated(poly))

    def eliminated(self, poly: Poly) -> Iterator[Poly]:
        """Lower bounds of a polynomial over ever fewer atoms; 0 for one proved non-negative."""
        self._fuel = FUEL
        yield from self._eliminated(poly)

    def _eliminated(self, poly: Poly) -> Iterator[Poly]:
        """Lower bounds of the polynomial over ever fewer atoms, itself first."""
        yield poly
        if self._fuel <= 0:
            return
        self._fuel -= 1
        self._lowest = min(self._lowest, self._fuel)
        for atom in sorted(poly.atoms(), key=lambda a: -a.order):
            parts = poly.split(atom)
            if parts is None:
                continue
            if atom.op is Select:
                yield from self._both_branches(poly, atom)
                return
            factor, rest = parts
            if self._shown_by_parts(poly, atom, factor):
                yield ZERO
                return
            ends = list(self._least(atom, factor))
            if ends:
                for end in ends:
                    yield from self._eliminated(end + rest)
                return

    def _both_branches(self, poly: Poly, atom: Atom) -> Iterator[Poly]:
        """0 as a lower bound of a selection, where it is one for both branches."""
        _, a, b = atom.args
        if self._shown(poly.substituted(atom, a)) and self._shown(poly.substituted(atom, b)):
            yield ZERO

    def _shown_by_parts(self, poly: Poly, atom: Atom, factor: Poly) -> bool:
        """Whether the polynomial is non-negative by analyses that only `ThoroughFacts` have."""
        return False

    def _least(self, atom: Atom, factor: Poly) -> Iterator[Poly]:
        """Polynomial lower bounds of factor*atom."""
        sign = self._sign(factor)
        if sign == 0:
            return
        for end in self.ends(atom, upper=sign < 0):
            yield factor * end
        if atom.op is FloorDiv:
            x, d = atom.args
            quotient, rest = factor.divided(d)
            if not rest and self._sign(d) > 0:  # d*(x//d) lies in (x - d, x]
                yield quotient * (x if sign < 0 else x - d + ONE)

    def _sign(self, poly: Poly) -> int:
        """1 for non-negative, -1 for non-positive, 0 for unknown."""
        lo, hi = self.interval(poly)
        if lo is not None and lo >= 0:
            return 1
        if hi is not None and hi <= 0:
            return -1
        if self._shown(poly):
            return 1
        return -1 if self._shown(-poly) else 0

    def _plainly(self, poly: Poly) -> bool:
        """Whether p >= 0 follows from the coefficients, each atom written as its minimum plus a non-negative rest."""
        lo = self.interval(poly)[0]
        if lo is not None and lo >= 0:
            return True
        for atom in list(poly.atoms()):
            low = self.atom(atom)[0]
            if low is None:
                return False
            if low:
                poly = poly.substituted(atom, Poly({(atom,): 1}).plus(low))
        return all(c >= 0 for c in poly.terms.values())

    def ends(self, atom: Atom, upper: bool) -> list[Poly]:
        """Upper or lower bounds of the atom, as polynomials over older atoms."""
        known = self._ends.get((atom, upper))
        if known is None:
            self._ends[atom, upper] = []  # a bound must not depend on itself
            fuel, self._fuel = self._fuel, FUEL  # the result must not depend on the caller's remaining fuel
            found = list(self._new_ends(atom, upper))
            self._fuel = fuel
            known = [e for e in found if all(a.order < atom.order or a.op is SYMBOL for a in e.atoms())]
            constant = self.atom(atom)[1 if upper else 0]
            if constant is not None and number(constant) not in known:
                known.append(number(constant))
            self._ends[atom, upper] = known
        return known

    def _new_ends(self, atom: Atom, upper: bool) -> Iterator[Poly]:
        if atom.op is SYMBOL and atom.args[0] in self.terms.ranges:
            known = self.terms.ranges[atom.args[0]]
            end = self.terms.read(known.hi if upper else known.lo)
            low = end.plus(-1 - atom.offset) if upper else end.plus(-atom.offset)
            if atom.scale == 1:
                yield low
            elif upper:  # the last step below hi: exact where the step divides hi - offset
                yield self.terms.node(FloorDiv, low, number(atom.scale))
            else:
                yield -self.terms.node(FloorDiv, -low, number(atom.scale))
        elif atom.op is FloorMod:
            x, d = atom.args
            if upper and self._sign(d) > 0:
                yield d.plus(-1)
            if upper and self._sign(x) > 0 and self._sign(d) > 0:
                yield x
        elif atom.op is FloorDiv:
            x, d = atom.args
            yield from self._quotient_ends(x, d, upper)
        elif atom.op is PRODUCT:
            yield atom.args[0]
        elif atom.op is (Smaller if upper else Larger):
            yield from atom.args

    def _quotient_ends(self, x: Poly, d: Poly, upper: bool) -> Iterator[Poly]:
        if self._sign(d.plus(-1)) <= 0:
            return
        for extreme in self._extremes(x, upper):
            quotient, rest = extreme.divided(d)
            if upper and self._sign(-rest.plus(1)) > 0:  # x <= d*q + rest with rest <= -1
                quotient, rest = quotient.plus(-1), rest + d
            if not rest or (upper and self._sign(d - rest.plus(1)) > 0) or (not upper and self._sign(rest) > 0):
                yield quotient

    def _extremes(self, poly: Poly, upper: bool) -> Iterator[Poly]:
        if upper:
            for least in self._eliminated(-poly):
                yield -least
        else:
            yield from self._eliminated(poly)


# ---- the interval of an atom, by its operation


def _symbol_interval(facts: Facts, atom: Atom) -> Interval:
    symbol = atom.args[0]
    least, most = None, None
    if isinstance(symbol, Size):
        least, most = -(-symbol.min // atom.scale), None if symbol.max is None else symbol.max // atom.scale
    if symbol not in facts.terms.ranges:
        return least, most
    known = facts.terms.ranges[symbol]
    lo, _ = facts.interval(facts.terms.read(known.lo))
    _, hi = facts.interval(facts.terms.read(known.hi))
    low = None if lo is None else -((atom.offset - lo) // atom.scale)
    high = None if hi is None else (hi - 1 - atom.offset) // atom.scale
    lows, highs = ([e for e in ends if e is not None] for ends in ((least, low), (most, high)))
    return max(lows, default=None), min(highs, default=None)


def _quotient_interval(facts: Facts, atom: Atom) -> Interval:
    x, d = map(facts.interval, atom.args)
    low, high = FloorDiv.operation.interval(x, d)
    if low is None and d[0] is not None and d[0] > 0 and facts.nonnegative(atom.args[0]):
        low = 0
    return low, high


def _table_interval(facts: Facts, atom: Atom) -> Interval:
    _, _, _, bound, entries = atom.args
    if len(entries):
        values = tuple(map(int, entries))
        return min(values), max(values)
    high = facts.interval(bound)[1]
    return 0, None if high is None else high - 1


_ATOM_INTERVALS: dict[Any, Callable[[Facts, Atom], Interval]] = {
    SYMBOL: _symbol_interval,
    PRODUCT: lambda facts, atom: facts.interval(atom.args[0]),
    FloorDiv: _quotient_interval,
    Select: lambda facts, atom: Select.operation.interval((0, 1), *map(facts.interval, atom.args[1:])),
    Table: _table_interval,
}
"""Those of atoms that are no operations on integers alone, or are bounded by more than their operands' intervals."""
