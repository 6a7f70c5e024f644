"""Proofs of comparisons between polynomials of one context: by arithmetic, intervals, divisibility, enumeration, Z3.

`expr.prove` applies them to conditions, and `expr.rewrite` to the side conditions of its rules.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lego_mlir.aliases import Cond, Symbol
from lego_mlir.expr.exclusive import LOCK
from lego_mlir.expr.nodes import Eq, Le, Lt, Ne, NodeType, Size
from lego_mlir.expr.poly import Comparison, Poly
from lego_mlir.expr.prefix import shown
from lego_mlir.expr.samples import MORE_POINTS, POINTS
from lego_mlir.expr.verdict import Proved, Refuted

if TYPE_CHECKING:
    from lego_mlir.expr.context import Context
    from lego_mlir.expr.facts import Facts
    from lego_mlir.expr.ranges import Range, Ranges

OPPOSITE: dict[Any, Any] = {Lt: (Le, True), Le: (Lt, True), Eq: (Ne, False), Ne: (Eq, False)}
SIDE_CONDITION_MS = 100  # Z3's time for one side condition of a rule
THOROUGHLY = "cases"  # the name of proofs by `ThoroughFacts`
MOST_TIMEOUTS = 5  # side conditions on which Z3 may time out before it is skipped for the rest
MOST_VALUES = 1 << 18  # combinations of the symbols' values that enumeration tries, as arrays
FEW_VALUES = 1 << 16  # above these, some are tried before all
SOME_VALUES = 1 << 10  # combinations of which these are
MOST_COMBINATIONS = 1 << 53
GOLDEN = (math.sqrt(5) - 1) / 2  # multiples of it, modulo 1, are spread evenly


class Prover:
    """Proofs of comparisons between polynomials of one context, memoized."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._proofs: dict[tuple[Any, Poly, Poly], str | None] = {}
        self._timeouts = 0

    @staticmethod
    def negated(op: NodeType, left: Poly, right: Poly) -> Comparison:
        """The comparison that holds exactly where this one fails."""
        opposite, swapped = OPPOSITE[op]
        return (opposite, right, left) if swapped else (opposite, left, right)

    def proof(self, op: NodeType, left: Poly, right: Poly, timeout_ms: int = SIDE_CONDITION_MS) -> str | None:
        """The name of the method that proves `left op right`, or None."""
        key = (op, left, right)
        if key not in self._proofs:
            found = self.without_solver(op, left, right)
            if found is None and not self.refuting_point(op, left, right):
                found = self._by_order(left, right, timeout_ms) if op is Ne else None
                found = found or self._with_solver(op, left, right, timeout_ms)
            self._proofs[key] = found
        return self._proofs[key]

    def _by_order(self, left: Poly, right: Poly, timeout_ms: int) -> str | None:
        """A proof of inequality by order: `right < left` or `left < right`, claims made of divisors too and cached."""
        for less, greater in ((right, left), (left, right)):
            if not self.refuting_point(Lt, less, greater):
                return self.proof(Le, less.plus(1), greater, timeout_ms)
        return None

    def without_solver(self, op: NodeType, left: Poly, right: Poly, facts: Facts | None = None) -> str | None:
        """A proof by arithmetic, intervals or divisibility."""
        facts, difference = facts or self.context.facts, right - left
        constant = difference.constant
        if constant is not None:
            return "arithmetic" if op.holds(0, constant) else None
        if op is Le or op is Lt:
            return "intervals" if facts.nonnegative(difference.plus(-1 if op is Lt else 0)) else None
        if op is Eq:
            both = facts.nonnegative(difference) and facts.nonnegative(-difference)
            return "intervals" if both else None
        if facts.residue(difference)[1]:
            return "divisibility"
        apart = facts.positive(difference) or facts.positive(-difference)
        return "intervals" if apart else None

    def refuting_point(self, op: NodeType, left: Poly, right: Poly, points: range = range(POINTS)) -> bool:
        """Whether a sample within the ranges makes the comparison false."""
        facts = self.context.facts
        for point in points:
            one, other = facts.samples.value(left, point), facts.samples.value(right, point)
            if one is not None and other is not None and not op.holds(one, other):
                return True
        return False

    def _with_solver(self, op: NodeType, left: Poly, right: Poly, timeout_ms: int) -> str | None:
        """A proof by the methods that take long, of a claim that no sample refutes."""
        write = self.context.terms.write
        condition = op(write(left), write(right))
        tried = by_enumeration(condition, self.context.ranges)
        if tried is not None:
            return tried.by if isinstance(tried, Proved) else None
        if self.without_solver(op, left, right, self.context.thorough_facts) is not None:
            return THOROUGHLY
        return self.by_solver(op, left, right, timeout_ms)

    def by_solver(self, op: NodeType, left: Poly, right: Poly, timeout_ms: int = SIDE_CONDITION_MS) -> str | None:
        """A proof by Z3."""
        from lego_mlir.expr.solver import solve

        if self._timeouts >= MOST_TIMEOUTS or self.refuting_point(op, left, right, range(POINTS, MORE_POINTS)):
            return None
        write = self.context.terms.write
        answer = solve(op(write(left), write(right)), self.context.ranges, timeout_ms)
        self._timeouts += not answer.proved and answer.values is None
        return "z3" if answer.proved else None


def refuted(claim: Cond, values: Mapping[Symbol, int]) -> Refuted:
    """The verdict on a claim that is false for these values."""
    names = _names(values)
    example = {names[symbol]: values[symbol] for symbol in sorted(values, key=names.__getitem__)}

    def explanation() -> str:
        text = ", ".join(f"{name} = {value}" for name, value in example.items())
        with LOCK:
            return f"{shown(claim)} is false" + (f" for {text}" if text else "")

    return Refuted(example, explanation)


def _names(symbols: Iterable[Symbol]) -> dict[Symbol, str]:
    """A distinct name for each symbol: its own, extended by its facts or a prime where two symbols share a name."""
    symbols = list(symbols)
    plain: dict[Any, str] = {symbol: symbol.name for symbol in symbols}
    if len(set(plain.values())) == len(plain):
        return plain
    symbols = sorted(symbols, key=lambda s: (str(s), str(getattr(s, "facts", ""))))
    named = Counter(map(str, symbols))
    names: dict[Any, str] = {}
    for symbol in symbols:
        name = f"{symbol} ({symbol.facts})" if named[str(symbol)] > 1 and isinstance(symbol, Size) else str(symbol)
        while name in names.values():
            name += "'"
        names[symbol] = name
    return names


def by_enumeration(claim: Cond, ranges: Ranges) -> Proved | Refuted | None:
    """The verdict of trying all values of the claim's symbols, or None if there are too many or some are undefined."""
    import numpy

    from lego_mlir.expr.evaluate import evaluate

    symbols = sorted(claim.free_symbols, key=str)
    spans = [_constant_span(ranges.get(symbol)) for symbol in symbols]
    known = [span for span in spans if span is not None]
    count = math.prod(max(0, -((s.start - s.stop) // s.step)) for s in known)  # len() fails beyond int64
    if not symbols or len(known) < len(spans) or not count > 0:
        return None
    if count > FEW_VALUES:
        found = _refuted_by_some(claim, dict(zip(symbols, known, strict=True)), count)
        if found is not None or count > MOST_VALUES:
            return found
    small = all(abs(end) < 1 << 62 for span in known for end in (span.start, span.stop))
    axes = (numpy.array(span, dtype=numpy.int64 if small else object) for span in known)
    grid = numpy.meshgrid(*axes, indexing="ij")
    values = {symbol: axis.ravel() for symbol, axis in zip(symbols, grid, strict=True)}
    try:
        holds = numpy.broadcast_to(numpy.asarray(evaluate(claim, values)), (count,))
    except (ZeroDivisionError, ValueError):  # undefined somewhere, a run-time table, or numbers beyond the budget
        return None
    if holds.all():
        return Proved(f"enumeration of {count} values")
    place = int(numpy.argmin(holds))
    return refuted(claim, {symbol: int(axis[place]) for symbol, axis in values.items()})


def _refuted_by_some(claim: Cond, spans: Mapping[Symbol, range], count: int) -> Refuted | None:
    """A refutation by some of the values, spread evenly; None where all of them satisfy the claim.

    Claims that tiles stay inside a matrix fail at its end alone, which few samples find and Z3 finds slowly.
    """
    import numpy

    from lego_mlir.expr.evaluate import evaluate

    if count > MOST_COMBINATIONS:
        return None
    stride = int(count * GOLDEN) | 1
    left = numpy.arange(SOME_VALUES) * stride % count
    values = {}
    for symbol, span in spans.items():
        left, place = left // len(span), left % len(span)
        values[symbol] = span.start + span.step * place
    try:
        holds = numpy.broadcast_to(numpy.asarray(evaluate(claim, values)), (SOME_VALUES,))
    except (ZeroDivisionError, ValueError):
        return None
    if holds.all():
        return None
    first = int(numpy.argmin(holds))
    return refuted(claim, {symbol: int(axis[first]) for symbol, axis in values.items()})


def _constant_span(known: Range | None) -> range | None:
    if known is None or not (known.lo.is_Integer and known.hi.is_Integer):
        return None
    return range(int(known.lo), int(known.hi), known.step)
