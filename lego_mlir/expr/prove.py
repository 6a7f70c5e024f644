"""The prover: does a condition hold for all values within the ranges?

Four methods, cheapest first: congruences for divisibility; intervals, with sizes eliminated symbolically, for
inequalities; enumeration where the symbols have few values; Z3, with a step limit, for what remains. `Refuted` is
returned only with values for which the condition evaluates to false.

>>> import sympy
>>> from lego_mlir.expr.nodes import FloorMod, Le, Lt, Size
>>> from lego_mlir.expr.ranges import Range
>>> M, N = Size("M"), Size("N")
>>> i, j = sympy.symbols("i j", integer=True)
>>> prove(Lt(i * N + j, M * N), {i: Range(0, M), j: Range(0, N)})
Proved(by='intervals')
>>> prove(Lt(i + j, M), {i: Range(0, M), j: Range(0, 2)}).counter_example
{'M': 1, 'i': 0, 'j': 1}
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import sympy

from lego_mlir.aliases import Cond, Symbol
from lego_mlir.errors import BudgetError
from lego_mlir.expr.budgets import within_recursion_limit
from lego_mlir.expr.context import Context, working_in
from lego_mlir.expr.index import as_condition
from lego_mlir.expr.nodes import COMPARISONS, Eq, Le, Lt, Ne, NodeType, Size
from lego_mlir.expr.poly import Atom, Comparison, Poly, Truth
from lego_mlir.expr.prefix import shown
from lego_mlir.expr.rewrite import Applied, Trace
from lego_mlir.expr.samples import POINTS
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict

if TYPE_CHECKING:
    from lego_mlir.expr.ranges import Range, Ranges

OPPOSITE: dict[Any, Any] = {Lt: (Le, True), Le: (Lt, True), Eq: (Ne, False), Ne: (Eq, False)}
SIDE_CONDITION_MS = 100  # Z3's time for one side condition of a rule
MOST_TIMEOUTS = 5  # side conditions on which Z3 may time out before it is skipped for the rest
MOST_VALUES = 1 << 16  # combinations of the symbols' values that enumeration tries, as arrays


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

    def without_solver(self, op: NodeType, left: Poly, right: Poly) -> str | None:
        """A proof by arithmetic, intervals or divisibility."""
        facts, difference = self.context.facts, right - left
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

    def refuting_point(self, op: NodeType, left: Poly, right: Poly) -> bool:
        """Whether a sample within the ranges makes the comparison false."""
        facts = self.context.facts
        for point in range(POINTS):
            one, other = facts.samples.value(left, point), facts.samples.value(right, point)
            if one is not None and other is not None and not op.holds(one, other):
                return True
        return False

    def _with_solver(self, op: NodeType, left: Poly, right: Poly, timeout_ms: int) -> str | None:
        from lego_mlir.expr.solver import solve

        write = self.context.terms.write
        condition = op(write(left), write(right))
        tried = by_enumeration(condition, self.context.ranges)
        if tried is not None:
            return tried.by if isinstance(tried, Proved) else None
        if self._timeouts >= MOST_TIMEOUTS:
            return None
        answer = solve(condition, self.context.ranges, timeout_ms)
        self._timeouts += not answer.proved and answer.values is None
        return "z3" if answer.proved else None


def prove(condition: Cond, ranges: Ranges, *, timeout_ms: int = 200) -> Verdict:
    """Proved, Refuted with checked values, or Unknown with the reason.

    The condition is a SymPy Boolean of this package's nodes, a `Condition` or a bool. Values for which the expression
    divides by zero are excluded from the claim.
    """
    try:
        with within_recursion_limit("proved"), working_in(ranges) as context:
            return _prove(context, as_condition(condition), timeout_ms)
    except BudgetError as error:
        return Unknown(str(error))


def _prove(context: Context, claim: Cond, timeout_ms: int) -> Verdict:
    truth = context.terms.read_condition(claim)
    trace = context.rewriter.condition(truth)
    by = _methods(trace) if trace.result is True else _shown(context, trace.result)
    if by is not None:
        return Proved(by)
    found = _sampled_counter_example(context, claim, truth)
    if found is None:
        tried = by_enumeration(claim, context.ranges)
        if tried is not None:
            return tried
        from lego_mlir.expr.solver import solve

        answer = solve(claim, context.ranges, timeout_ms)
        if answer.proved:
            return Proved("z3")
        found, reason = answer.values, answer.reason
        if found is None or not _fails(claim, found, context.ranges):
            return Unknown(reason or "z3 gave values that do not refute the claim when evaluated")
    return _refuted(claim, found)


def _refuted(claim: Cond, values: Mapping[Symbol, int]) -> Refuted:
    names = _names(values)
    example = {names[symbol]: values[symbol] for symbol in sorted(values, key=names.__getitem__)}
    text = ", ".join(f"{name} = {value}" for name, value in example.items())
    return Refuted(example, f"{shown(claim)} is false" + (f" for {text}" if text else ""))


def _names(symbols: Iterable[Symbol]) -> dict[Symbol, str]:
    """A distinct name for each symbol: its own, extended by its facts or a prime where two symbols share a name."""
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
    if not symbols or len(known) < len(spans) or not 0 < count <= MOST_VALUES:
        return None
    grid = numpy.meshgrid(*(numpy.array(span, dtype=object) for span in known), indexing="ij")
    values = {symbol: axis.ravel() for symbol, axis in zip(symbols, grid, strict=True)}
    try:
        holds = numpy.broadcast_to(numpy.asarray(evaluate(claim, values)), (count,))
    except (ZeroDivisionError, ValueError):  # undefined somewhere, a run-time table, or numbers beyond the budget
        return None
    if holds.all():
        return Proved(f"enumeration of {count} values")
    place = int(numpy.argmin(holds))
    return _refuted(claim, {symbol: int(axis[place]) for symbol, axis in values.items()})


def _constant_span(known: Range | None) -> range | None:
    if known is None or not (known.lo.is_Integer and known.hi.is_Integer):
        return None
    return range(int(known.lo), int(known.hi), known.step)


def _methods(trace: Trace) -> str:
    """The methods that decided the comparisons of a condition rewritten to True."""
    found: dict[str, None] = {}
    for event in trace.history:
        if isinstance(event, Applied):
            found[event.proof] = None
        elif not isinstance(event.subject, Poly):
            found |= dict.fromkeys(_methods(event).split(", "))
    found.pop("arithmetic", None)
    return ", ".join(found) or "arithmetic"


def _shown(context: Context, truth: Truth) -> str | None:
    """The method that proves a condition, through And and Or; Not is handled only on comparisons."""
    if isinstance(truth, bool):
        return None
    if truth.op in COMPARISONS:
        return context.prover.without_solver(truth.op, *truth.args)
    parts = [_shown(context, a) for a in truth.args] if truth.op is not sympy.Not else []
    if truth.op is sympy.And and None not in parts:
        return ", ".join(dict.fromkeys(p for p in parts if p))
    if truth.op is sympy.Or:
        return next((p for p in parts if p), None) or _shown_by_cases(context, truth)
    if truth.op is sympy.Not and truth.args[0].op in COMPARISONS:
        return context.prover.without_solver(*context.prover.negated(truth.args[0].op, *truth.args[0].args))
    return None


def _shown_by_cases(context: Context, disjunction: Atom) -> str | None:
    """Whether one part of an Or holds wherever the others fail: `C or not A` means that A implies C."""
    for goal in disjunction.args:
        comparisons = goal.args if goal.op is sympy.And else (goal,)
        others = [part for part in disjunction.args if part is not goal]
        given = [h for part in others for h in _nonnegative_where_false(context, part)]
        if given and all(_follows(context, comparison, given) for comparison in comparisons):
            return "intervals"
    return None


def _nonnegative_where_false(context: Context, truth: Atom) -> list[Poly]:
    """Polynomials that are non-negative wherever a condition fails, each reduced by its known residue."""
    if truth.op is sympy.Not:
        inner = truth.args[0]
        claims = [(c.op, *c.args) for c in (inner.args if inner.op is sympy.And else (inner,)) if c.op in COMPARISONS]
    elif truth.op in COMPARISONS:
        claims = [context.prover.negated(truth.op, *truth.args)]
    else:
        return []
    found = []
    for op, left, right in claims:
        if op in (Le, Lt):
            difference = (right - left).plus(-1 if op is Lt else 0)
            found.append(difference.plus(-context.facts.residue(difference)[1]))  # p >= 0 and p % m == r: p >= r
    return found


def _follows(context: Context, claim: Atom, given: list[Poly]) -> bool:
    if claim.op not in (Le, Lt):
        return False
    difference = (claim.args[1] - claim.args[0]).plus(-1 if claim.op is Lt else 0)
    return any(context.facts.nonnegative(difference - h) for h in given) or context.facts.nonnegative(difference)


def _sampled_counter_example(context: Context, claim: Cond, truth: Truth) -> dict[Symbol, int] | None:
    """Sample values that make the claim false, confirmed by evaluation: reading may have folded a division by zero."""
    symbols = None
    for point in range(POINTS):
        if context.facts.samples.truth(truth, point) is False:
            symbols = symbols or _involved(claim, context.ranges)
            values = {s: context.facts.samples.value(context.terms.read(s), point) for s in symbols}
            if None not in values.values() and _fails(claim, values, context.ranges):  # type: ignore[arg-type]
                return values  # type: ignore[return-value]  # checked just now
    return None


def _involved(claim: Cond, ranges: Ranges) -> set[Symbol]:
    """The symbols of a claim, and those that the ends of their ranges depend on."""
    found: set[Any] = set()
    stack = list(claim.free_symbols)
    while stack:
        symbol = stack.pop()
        if symbol not in found:
            found.add(symbol)
            if symbol in ranges:
                stack.extend(ranges[symbol].lo.free_symbols | ranges[symbol].hi.free_symbols)
            if isinstance(symbol, Size) and symbol.equals is not None:
                stack.extend(symbol.equals.free_symbols)
    return found


def _fails(claim: Cond, values: Mapping[Symbol, int], ranges: Ranges) -> bool:
    """Whether the values lie within the ranges and the claim evaluates to false at them."""
    from lego_mlir.expr.evaluate import admissible, evaluate

    try:
        return admissible(values, ranges) and not evaluate(claim, values)
    except (ZeroDivisionError, ValueError):
        return False
