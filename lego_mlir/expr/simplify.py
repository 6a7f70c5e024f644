"""Simplification: the cheapest proved form of an index expression, with the steps that lead to it.

>>> import sympy
>>> from lego_mlir.expr.nodes import FloorDiv, FloorMod, Size
>>> from lego_mlir.expr.ranges import Range
>>> M, N = Size("M"), Size("N")
>>> i, j = sympy.symbols("i j", integer=True)
>>> flat = i * N + j
>>> found = simplify(FloorMod(flat, N) * M + FloorDiv(flat, N), {i: Range(0, M), j: Range(0, N)})
>>> found.expr, found.before, found.after
(M*j + i, 12, 2)
>>> for step in found.steps:
...     print(step)
(N*i + j) % N --> j % N  by remainder: N != 0 (intervals)
j % N --> j  by small remainder: 0 <= j and j < N (intervals)
(N*i + j) // N --> i  by quotient: 0 <= j and j < N (intervals)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import sympy

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.expr.budgets import within_recursion_limit
from lego_mlir.expr.context import Context, forget_contexts, working_in
from lego_mlir.expr.cost import OPERATIONS, CostModel, operations
from lego_mlir.expr.exclusive import LOCK, exclusive
from lego_mlir.expr.factor import Writer
from lego_mlir.expr.index import Condition, as_condition, as_expr
from lego_mlir.expr.nodes import COMPARISONS, replaced
from lego_mlir.expr.piecewise import Form, Pieces, is_condition, rewriting
from lego_mlir.expr.poly import Atom, Poly
from lego_mlir.expr.rewrite import Applied, Trace

if TYPE_CHECKING:
    from lego_mlir.expr.ranges import Ranges

LIKE_TERMS = "like terms"
CHEAPEST_FORM = "cheapest form"


@dataclass(frozen=True, slots=True)
class Step:
    """One replacement of every occurrence of `before` by `after`, with the proved condition and the proof method.

    `operations` are the operation counts of the whole expression before and after the step.
    """

    rule: str
    before: Any
    after: Any
    condition: tuple[Any, ...] = ()
    proof: str = "always"
    operations: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        condition = f": {' and '.join(map(str, self.condition))} ({self.proof})" if self.condition else ""
        return f"{self.before} --> {self.after}  by {self.rule}{condition}"


KEPT: Final = 4096
"""Derivations that are kept, the oldest dropped first: kernels have many in common, and schedules all."""
_derived: dict[Any, tuple[Derivation, ...]] = {}  # by ranges, expressions and model; used under the lock
MOST_SHOWN: Final = 64
"""Operations of an expression that the display of a derivation writes out."""


@dataclass(frozen=True)
class Derivation:
    """An expression, its cheapest form found, and their operation counts with shared subexpressions counted once.

    `steps` lead from `raw` to `expr`: each replaces every occurrence of its `before` and collects like terms. They are
    computed on first access.
    """

    raw: Any
    expr: Any
    before: int
    after: int
    model: CostModel = OPERATIONS
    _context: Callable[[], Context] = field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    _rewritten: tuple[Any, ...] = field(default=(), repr=False, compare=False)  # the parts of `raw` that were rewritten

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        with LOCK, within_recursion_limit("explained"):
            return tuple(_Trail(self._context(), self).steps)

    def __str__(self) -> str:
        return f"{self.raw} -> {self.expr}, {self.before} -> {self.after} operations"

    def __repr__(self) -> str:
        """With the expressions if they are short: written out, shared parts make a large one exponential."""
        if max(self.before, self.after) <= MOST_SHOWN:
            return f"<{self}>"
        return f"<Derivation, {self.before} -> {self.after} operations>"

    def replay(self) -> Expr:
        """`raw` with the steps applied one by one. Equal to `expr` if the steps are complete and correct."""
        current = self.raw
        for step in self.steps:
            current = apply_step(self._context(), current, step)
        return current


@exclusive
def apply_step(context: Context, expr: Expr, step: Step) -> Expr:
    """The expression after a step."""
    if step.rule in (LIKE_TERMS, CHEAPEST_FORM):
        return step.after if expr == step.before else expr
    found = replaced(expr, {step.before: step.after})
    return expr if found is expr or found == expr else _collected(context, found)


def _collected(context: Context, expr: Expr) -> Expr:
    """The expression with like terms collected and nothing else changed."""
    if not is_condition(expr):
        return context.terms.write(context.terms.read(expr))
    truth = context.terms.read_condition(expr)
    return context.terms.write_condition(truth)


def simplify(expr: IndexLike, ranges: Ranges, *, model: CostModel = OPERATIONS) -> Derivation:
    """The cheapest proved form of an expression or condition under these ranges, never costlier than the input."""
    return simplify_all([expr], ranges, model=model)[0]


def simplify_all(
    exprs: Iterable[IndexLike], ranges: Ranges, *, model: CostModel = OPERATIONS
) -> tuple[Derivation, ...]:
    """Simplify expressions that are computed together, minimizing their total cost.

    Raises BudgetError for an expression nested too deeply for Python's recursion limit.
    """
    with within_recursion_limit("simplified"), working_in(ranges) as context:
        raws = tuple(map(_plain, exprs))
        key = (context.key, raws, model)
        known = _derived.get(key)
        if known is None:
            count = cache(partial(operations, shared=True, model=model))  # many of the forms are equal
            known = tuple(_least_together(_forms(context, raws, model, count), count))
            _derived[key] = known
            while len(_derived) > KEPT:
                del _derived[next(iter(_derived))]
        return known


@exclusive
def forget() -> None:
    """Drop all derivations, and what this thread knows under any ranges, for measurements of cold tables."""
    _derived.clear()
    forget_contexts()


class Deferred:
    """An expression that is simplified when its derivation is first read."""

    __slots__ = ("_found", "_ranges", "raw")

    def __init__(self, raw: Expr, ranges: Ranges) -> None:
        self.raw, self._ranges = raw, ranges
        self._found: Derivation | None = None

    def __eq__(self, other: object) -> bool:
        return bool(self.raw == other.raw) if isinstance(other, Deferred) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.raw)

    @property
    def derivation(self) -> Derivation:
        """The derivation, the same whatever was derived before it is read."""
        if self._found is None:
            self._found = simplify(self.raw, self._ranges)
        return self._found


def _plain(expr: IndexLike) -> Expr:
    if isinstance(expr, (Condition, bool, sympy.logic.boolalg.Boolean)):
        return expr if isinstance(expr, sympy.Symbol) else as_condition(expr)
    return as_expr(expr)


def _forms(
    context: Context, raws: tuple[Expr, ...], model: CostModel, count: Callable[..., int]
) -> list[list[Derivation]]:
    """For each strategy of rewriting and writing, a form of each expression, never costlier than the input.

    Both whole and piecewise rewriting are tried: what saves in one place may cost in another. Where the writer finds
    nothing cheaper than the input, which it has compared over the cheapest forms of all parts, the pieces give nothing.
    """
    before = list(map(count, raws))
    as_written = [Derivation(r, r, b, b, model, context.again) for r, b in zip(raws, before, strict=True)]
    ways = [as_written]

    def derived(as_is: Derivation, form: Form, tried: Context) -> Derivation:
        after = count(form.expr)
        if after > as_is.after:
            return as_is
        return Derivation(as_is.raw, form.expr, as_is.after, after, model, tried.again, form.rewritten)

    for tried in (context, context.unexpanded):
        writer = Writer(tried, model)
        for raw in raws:
            writer.learn(raw)
        pieces = Pieces(tried, writer)
        ways.append([derived(as_is, pieces.whole(as_is.raw), tried) for as_is in as_written])
        if all(pieces.whole(raw).expr == raw for raw in raws):
            if not context.terms.expanded:
                break
            continue
        ways.insert(1, [derived(as_is, pieces.form(as_is.raw), tried) for as_is in as_written])  # ties: to later ones
        if writer.divided:
            pieces = Pieces(tried, writer.without_whole_numbers())
            ways.append([derived(as_is, pieces.whole(as_is.raw), tried) for as_is in as_written])
        if not context.terms.expanded:
            break  # there was no product of sums to leave unexpanded
    return ways


def _least_together(ways: list[list[Derivation]], count: Callable[..., int]) -> list[Derivation]:
    """One form of each expression: the cheapest strategy overall, then improved one expression at a time."""

    def total(forms: list[Derivation]) -> int:
        return count(*(f.expr for f in forms))

    chosen = min(reversed(ways), key=total)  # as written only if everything else is costlier
    if len(chosen) > 1:
        least = total(chosen)
        for place in range(len(chosen)):
            for other in {way[place].expr: way[place] for way in ways}.values():
                changed = [*chosen[:place], other, *chosen[place + 1 :]]
                cost = total(changed) if other.expr != chosen[place].expr else least
                if cost < least:
                    chosen, least = changed, cost
    return chosen


class _Trail:
    """The steps of a derivation, found by applying every replacement of its traces until none applies.

    A replacement applies to all occurrences at once, so the order may differ from that in which it was found, and it
    may occur twice; each is a proved equality, so any order is valid.
    """

    def __init__(self, context: Context, derivation: Derivation) -> None:
        self.context = context
        self.model = derivation.model
        self.steps: list[Step] = []
        self.current = derivation.raw
        self.count = derivation.before
        if derivation.expr == derivation.raw:
            return
        self.take(Step(LIKE_TERMS, derivation.raw, _collected(context, derivation.raw)))
        seen: set[int] = set()
        traces = [rewriting(context, part) for part in derivation._rewritten]
        applied = (replacement for trace in traces for replacement in _applied(trace, seen))
        replacements = list(map(self.step, dict.fromkeys(applied)))
        count = -1
        while count != len(self.steps):
            count = len(self.steps)
            for step in replacements:
                self.take(step)
        self.take(Step(CHEAPEST_FORM, self.current, derivation.expr))

    def step(self, applied: Applied) -> Step:
        claims = (op(self.write(left), self.write(right)) for op, left, right in applied.condition)
        condition = tuple(claim for claim in claims if claim is not sympy.true)
        return Step(applied.rule, self.write(applied.before), self.write(applied.after), condition, applied.proof)

    def write(self, value: Poly | Atom | bool) -> Expr:
        terms = self.context.terms
        if isinstance(value, Poly):
            return terms.write(value)
        if isinstance(value, bool) or value.op in COMPARISONS or value.op in (sympy.And, sympy.Or, sympy.Not):
            return terms.write_condition(value)
        return terms.write_factor(value)

    def take(self, step: Step) -> bool:
        """Apply a step, and keep it if it changed anything."""
        found = apply_step(self.context, self.current, step)
        if found == self.current:
            return False
        count = operations(found, shared=True, model=self.model)
        self.steps.append(replace(step, operations=(self.count, count)))
        self.current, self.count = found, count
        return True


def _applied(trace: Trace, seen: set[int]) -> Iterator[Applied]:
    """Every replacement of a trace and its parts, innermost first."""
    if id(trace) not in seen:
        seen.add(id(trace))
        for event in trace.history:
            if isinstance(event, Trace):
                yield from _applied(event, seen)
            else:
                yield event
