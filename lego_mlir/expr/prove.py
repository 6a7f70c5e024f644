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
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import sympy

from lego_mlir.aliases import Cond, Symbol
from lego_mlir.errors import BudgetError
from lego_mlir.expr.budgets import within_recursion_limit
from lego_mlir.expr.context import Context, working_in
from lego_mlir.expr.index import as_condition
from lego_mlir.expr.nodes import COMPARISONS, Le, Lt, Size
from lego_mlir.expr.poly import Atom, Poly, Truth
from lego_mlir.expr.prover import by_enumeration, refuted
from lego_mlir.expr.related import involved
from lego_mlir.expr.rewrite import Applied, Trace
from lego_mlir.expr.samples import MORE_POINTS, POINTS
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict

if TYPE_CHECKING:
    from lego_mlir.expr.ranges import Ranges

LEAST: Final = 1
"""The sample point at which symbols have the least values of their ranges."""
LAST_FOUND: Final[deque[dict[Symbol, int]]] = deque(maxlen=16)
"""The last counter-examples that Z3 found."""


def prove(condition: Cond, ranges: Ranges, *, timeout_ms: int = 200) -> Verdict:
    """Proved, Refuted with checked values, or Unknown with the reason.

    The condition is a SymPy Boolean of this package's nodes, a `Condition` or a bool. Values for which the expression
    divides by zero are excluded from the claim.
    """
    try:
        with within_recursion_limit("proved"), working_in(ranges) as context:
            key = (as_condition(condition), timeout_ms)
            if key not in context.verdicts:
                context.verdicts[key] = _prove(context, *key)
            return context.verdicts[key]
    except BudgetError as error:
        return Unknown(str(error))


def holds(condition: Cond, ranges: Ranges, *, timeout_ms: int = 200) -> bool:
    """Whether `prove` proves a condition. No counter-example is told, so that more points are tried before Z3 is."""
    try:
        with within_recursion_limit("proved"), working_in(ranges) as context:
            claim = as_condition(condition)
            known = context.verdicts.get((claim, timeout_ms))
            if known is None and (claim, timeout_ms) not in context.refuted:
                known = _prove(context, claim, timeout_ms, range(POINTS, MORE_POINTS))
                if isinstance(known, Refuted):
                    context.refuted.add((claim, timeout_ms))
                else:
                    context.verdicts[claim, timeout_ms] = known
            return isinstance(known, Proved)
    except BudgetError:
        return False


def _prove(context: Context, claim: Cond, timeout_ms: int, more: range = range(0)) -> Verdict:
    """The verdict; `more` points are tried before the search by Z3."""
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
        found = _sampled_counter_example(context, claim, truth, more) or _first_counter_example(context, claim, more)
    if found is None and more:
        found = _known_counter_example(context, claim)
    if found is None:
        from lego_mlir.expr.solver import solve

        answer = solve(claim, context.ranges, timeout_ms)
        if answer.proved:
            return Proved("z3")
        if answer.values is not None:
            LAST_FOUND.append(answer.values)
        found, reason = answer.values, answer.reason
        if found is None or not _fails(claim, found, context.ranges):
            return Unknown(reason or "z3 gave values that do not refute the claim when evaluated")
    return refuted(claim, found)


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
            found.append(_divided(difference.plus(-context.facts.residue(difference)[1])))  # p >= 0, p % m == r: p >= r
    return found


def _divided(poly: Poly) -> Poly:
    """A polynomial that is non-negative where this one is, without a common factor: `8 x >= 9` means `x >= 2`."""
    factor = math.gcd(*(c for m, c in poly.terms.items() if m))
    return Poly({m: c // factor for m, c in poly.terms.items() if c // factor}) if factor > 1 else poly


def _follows(context: Context, claim: Atom, given: list[Poly]) -> bool:
    """Whether a comparison holds where polynomials are non-negative: `p - c * h >= 0` with c > 0 and `h >= 0`."""
    if claim.op not in (Le, Lt):
        return False
    difference = (claim.args[1] - claim.args[0]).plus(-1 if claim.op is Lt else 0)
    nonnegative = context.facts.nonnegative
    return any(
        nonnegative(difference - h.scaled(factor)) for h in given for factor in _factors(difference, h)
    ) or nonnegative(difference)


def _factors(poly: Poly, given: Poly) -> list[int]:
    """Factors of `given` with which a monomial of `poly` disappears; 1 first."""
    shared = ((poly.terms[m], c) for m, c in given.terms.items() if m and m in poly.terms)
    return list(dict.fromkeys([1, *(a // c for a, c in shared if a % c == 0 and a // c > 0)]))


def _sampled_counter_example(
    context: Context, claim: Cond, truth: Truth, points: range = range(POINTS)
) -> dict[Symbol, int] | None:
    """Sample values that make the claim false, confirmed by evaluation: reading may have folded a division by zero."""
    symbols = None
    for point in points:
        if context.facts.samples.truth(truth, point) is False:
            symbols = symbols or involved(claim, context.ranges)
            values = {s: context.facts.samples.value(context.terms.read(s), point) for s in symbols}
            if None not in values.values() and _fails(claim, values, context.ranges):  # type: ignore[arg-type]
                return values  # type: ignore[return-value]  # checked just now
    return None


def _first_counter_example(context: Context, claim: Cond, points: range) -> dict[Symbol, int] | None:
    """Values that make `not (first <= s) or ..` false, with s at `first`: a symbol between expressions of others.

    Its own range is wide where these have many values, and few samples of it are between them.
    """
    parts = claim.args if isinstance(claim, sympy.Or) else ()
    given = [part.args[0] for part in parts if isinstance(part, sympy.Not)]
    most = {c.args[1]: c.args[0] for c in given if isinstance(c, Le) and c.args[1].is_Symbol and c.args[0].args}
    bounds = {s: bound for s, bound in most.items() if not isinstance(s, Size)}  # sizes are equal to other sizes
    symbols = involved(claim, context.ranges) if bounds else set()
    for point in points if bounds else ():
        values = {s: context.facts.samples.value(context.terms.read(bounds.get(s, s)), point) for s in symbols}
        if None not in values.values() and _fails(claim, values, context.ranges):  # type: ignore[arg-type]
            return values  # type: ignore[return-value]  # checked just now
    return None


def _known_counter_example(context: Context, claim: Cond) -> dict[Symbol, int] | None:
    """Values that Z3 found for another claim and that make this one false too; further symbols are at their least.

    Claims about the rows of a tile differ by a constant and by what was loaded for each. Z3 would refute this one, too,
    by values of its own, so that only `holds` may take these.
    """
    symbols, samples, read = involved(claim, context.ranges), context.facts.samples, context.terms.read
    for known in reversed(tuple(LAST_FOUND)):
        values = {s: known[s] if s in known else samples.value(read(s), LEAST) for s in symbols}
        if None not in values.values() and _fails(claim, values, context.ranges):  # type: ignore[arg-type]
            return values  # type: ignore[return-value]  # checked just now
    return None


def _fails(claim: Cond, values: Mapping[Symbol, int], ranges: Ranges) -> bool:
    """Whether the values lie within the ranges and the claim evaluates to false at them."""
    from lego_mlir.expr.evaluate import admissible, evaluate

    try:
        return admissible(values, ranges) and not evaluate(claim, values)
    except (ZeroDivisionError, ValueError):
        return False
