"""Do two accesses meet in one element only if they are of one thread? The equations of their indices, solved.

The two sides have the same digits, those of the second renamed: t and t'. An equation between sums of digits falls
apart where a stride exceeds everything that is smaller:

    32*b + t = 32*b' + t'   with t, t' in 0 .. 31      since -32 < t - t' < 32:   b = b' and t = t'

This is how a number in mixed radix determines its digits, with sizes as radices too. An equation that no values solve
proves that the accesses never meet. What is left is enumerated where the digits have few values, and given to Z3, with
the conditions of both accesses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.context import Context, working_in
from lego_mlir.expr.nodes import Eq, FloorDiv, Le, Lt, Size
from lego_mlir.expr.poly import SYMBOL, Poly
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.proofs.collisions import Side, apart
from lego_mlir.proofs.images import MapValue, followed
from lego_mlir.proofs.mixed_radix import is_primed

Z3_MS: Final = 100
"""Z3's steps for one pair of accesses, as milliseconds of `expr.solver`."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """An element of a tensor whose elements are distinct, those in the range `among` if it is given: name and index."""

    name: str
    index: tuple[Expr, ...]
    among: tuple[Expr, Expr] | None

    def over(self, written: Callable[[Expr], Expr]) -> Loaded:
        """The element at an index that is written in another way."""
        return Loaded(self.name, tuple(map(written, self.index)), self.among)


@dataclass(frozen=True, slots=True)
class Question:
    """`equations` are sums that are 0 where two accesses meet, under `conditions`; `goals` are then 0 as well.

    `distinct` are variables loaded from tensors whose elements are distinct: equal values have equal indices.
    `images` are values of bijections.
    """

    equations: tuple[Expr, ...]
    conditions: tuple[Cond, ...]
    goals: tuple[Expr, ...]
    ranges: dict[Symbol, Range]
    distinct: Mapping[Symbol, Loaded] = field(default_factory=dict)
    images: tuple[MapValue, ...] = ()


def answered(question: Question) -> Verdict:
    """Proved with the method, Refuted with values that may be unreachable, or Unknown."""
    system = Equations(question)
    by = system.solve()
    if by is not None:
        return Proved(by)
    points = apart(*system.sides(), system.ranges)
    if points is not None:
        return Proved(f"enumeration of {points} accesses")
    return system.decided()


class Equations:
    """Equations that are being solved. `trail` has what was derived, as text: `b' = b`."""

    def __init__(self, question: Question) -> None:
        self.ranges = question.ranges
        self.conditions = [part for c in question.conditions for part in _conjuncts(c)]
        self.equations = [*question.equations, *(c.args[0] - c.args[1] for c in self.conditions if isinstance(c, Eq))]
        self.goals = list(question.goals)
        self.distinct = dict(question.distinct)
        self.images = question.images
        self._followed: set[Expr] = set()
        self.trail: list[str] = []

    def solve(self) -> str | None:
        """How the goals follow, or that no values solve the equations; None if neither is found."""
        changed = True
        while changed:
            changed = self._follow_maps()
            with working_in(self.ranges) as context:
                split: list[Expr] = []
                for equation in self.equations:
                    parts = _split(context, equation)
                    if parts is None:
                        return "the indices always differ"
                    split += parts
                    changed = changed or len(parts) != 1
            self.equations = list(dict.fromkeys(split))
            changed = self._substitute() or changed
            if all(goal == 0 for goal in self.goals):
                return "mixed radix"
            if any(c is sympy.false for c in self.conditions):
                return "the conditions exclude each other"
        return None

    def _substitute(self) -> bool:
        """Replace a digit by the other side's where an equation makes them equal."""
        for equation in self.equations:
            pair = _equal_symbols(equation)
            if pair is not None:
                gone, kept = pair
                values = {gone: kept}
                self.trail.append(shown(gone, kept))
                self.equations += self._same_element(gone, kept)
                self.equations = [_replaced(e, values) for e in self.equations]
                self.equations = [e for e in self.equations if e != 0]
                self.goals = [_replaced(g, values) for g in self.goals]
                self.conditions = [c.xreplace(values) for c in self.conditions]
                self.images = tuple(image.xreplace(values) for image in self.images)
                return True
        return False

    def _follow_maps(self) -> bool:
        """Add what follows because maps are bijections; whether that is anything new."""
        new = [e for e in followed(self.images) if e not in self._followed]
        self._followed.update(new)
        self.equations += new
        return bool(new)

    def _same_element(self, one: Symbol, other: Expr) -> list[Expr]:
        """The equations of the indices of two equal values of a tensor whose elements are distinct.

        Of elements that are distinct in a range only, the conditions have to imply that the value is in it.
        """
        a, b = self.distinct.pop(one, None), self.distinct.get(other)
        if a is None or b is None or a.name != b.name:
            return []
        if a.among is not None:
            inside = sympy.And(Le(a.among[0], one), Lt(one, a.among[1]))
            if not isinstance(prove(sympy.Or(inside, *map(sympy.Not, self.conditions)), self.ranges), Proved):
                return []
        return [sympy.expand(i - j) for i, j in zip(a.index, b.index, strict=True)]

    def sides(self) -> tuple[Side, Side]:
        """What is left of the equations and goals, a side for each access."""
        equations, goals = ([_parted(e) for e in exprs] for exprs in (self.equations, self.goals))
        both = {s for parts in (*equations, *goals) for s in parts[1].free_symbols if not is_primed(s)}
        common = tuple(sorted(both, key=str))
        conditions = tuple(self.conditions)
        first, second = (
            Side((*(e[k] for e in equations), *common), conditions, tuple(g[k] for g in goals)) for k in (0, 1)
        )
        return first, second

    def decided(self) -> Verdict:
        """By enumeration and Z3, under the conditions."""
        parts = [Eq(e, 0) for e in self.equations] + [c for c in self.conditions if c is not sympy.true]
        goal = sympy.And(*(Eq(g, 0) for g in self.goals))
        claim = sympy.Or(goal, *map(sympy.Not, parts))
        if not parts:
            return Unknown("different threads access the same element")
        return prove(claim, self.ranges, timeout_ms=Z3_MS)


def _replaced(expr: Expr, values: dict[Symbol, Expr]) -> Expr:
    written = expr.xreplace(values)
    return written if written == expr else sympy.expand(written)


def shown(one: Expr, other: Expr) -> str:
    """An equation as text."""
    return f"{one} = {other}".replace(" '", "'")


def _parted(equation: Expr) -> tuple[Expr, Expr]:
    """(a, b) with equation == a - b, where b has the terms with variables of the second access."""
    terms = sympy.Add.make_args(sympy.expand(equation))
    second = [term for term in terms if any(map(is_primed, term.free_symbols))]
    return sympy.Add(*(term for term in terms if term not in second)), -sympy.Add(*second)


def _conjuncts(condition: Cond) -> Iterator[Cond]:
    if isinstance(condition, sympy.And):
        for part in condition.args:
            yield from _conjuncts(part)
    elif condition is not sympy.true:
        yield condition


def _equal_symbols(equation: Expr) -> tuple[Symbol, Expr] | None:
    """(x', x) for an equation x - x' = 0; (x, n) for x - n = 0."""
    terms = sympy.Add.make_args(equation)
    if len(terms) > 2:
        return None
    found = [term.as_coeff_Mul() for term in terms]
    symbols = [(c, s) for c, s in found if s.is_Symbol and not isinstance(s, Size) and abs(c) == 1]
    if len(terms) == 1:
        c, s = found[0]
        return (s, sympy.Integer(0)) if s.is_Symbol and not isinstance(s, Size) else None
    if len(symbols) == 2 and symbols[0][0] == -symbols[1][0]:
        (_, a), (_, b) = symbols
        return (a, b) if is_primed(a) else (b, a)
    if len(symbols) == 1:
        (c, s) = symbols[0]
        rest = equation - c * s
        return (s, -rest * c) if rest.is_Integer else None
    return None


def _split(context: Context, equation: Expr) -> tuple[Expr, ...] | None:
    """The equations that one is equivalent to; None if no values solve it."""
    key = _split, equation
    if key not in context.derivations:
        context.derivations[key] = _newly_split(context, equation)
    found: tuple[Expr, ...] | None = context.derivations[key]
    return found


def _newly_split(context: Context, equation: Expr) -> tuple[Expr, ...] | None:
    poly = context.rewriter.sum(context.terms.read(equation)).result
    pending, done = [poly], []
    while pending:
        poly = pending.pop()
        if not poly:
            continue
        if _unsolvable(context, poly):
            return None
        parts = _at_a_stride(context, poly)
        if parts is None:
            done.append(poly)
        else:
            pending += parts
    return tuple(sympy.expand(context.terms.write(_reduced(p))) for p in done)


def _unsolvable(context: Context, poly: Poly) -> bool:
    facts = context.facts
    if facts.residue(poly)[1]:
        return True
    return facts.positive(poly) or facts.positive(-poly)


def _reduced(poly: Poly) -> Poly:
    """Divided by the common divisor of its coefficients."""
    common = math.gcd(*poly.terms.values())
    return Poly({m: c // common for m, c in poly.terms.items()}) if common > 1 else poly


def _at_a_stride(context: Context, poly: Poly) -> list[Poly] | None:
    """(high, low) where poly = stride * high + low, and low is within (-stride, stride)."""
    if len(poly.terms) < 2:
        return None
    facts = context.facts
    for stride in _strides(poly):
        high, low = poly.divided(stride)
        if not high or not low:
            continue
        if facts.positive(stride - low) and facts.positive(stride + low):
            return [high, low]
        multiple = _only_multiple(context, low, stride)
        if multiple is not None:
            return [high.plus(multiple), low - stride.scaled(multiple)]
    return None


def _only_multiple(context: Context, low: Poly, stride: Poly) -> int | None:
    """The only multiple of a constant stride that `low` can be."""
    number = stride.constant
    if number is None:
        return None
    lo, hi = context.facts.interval(low)
    if lo is None or hi is None:
        return None
    first, last = -(-lo // number), hi // number
    return first if first == last and first != 0 else None


def _strides(poly: Poly) -> Iterator[Poly]:
    """The factors of terms that do not depend on digits: sizes and ints."""
    found: dict[Poly, int] = {}
    for monomial, c in poly.terms.items():
        if not monomial:
            continue
        sizes = tuple(a for a in monomial if _is_size(a))
        stride = Poly({sizes: abs(c)})
        if stride.constant != 1:
            found[stride] = len(sizes)
    yield from sorted(found, key=lambda s: (-found[s], -max(s.terms.values())))


def _is_size(atom: Any) -> bool:
    if atom.op is SYMBOL:
        return isinstance(atom.args[0], Size)
    return atom.op is FloorDiv and all(_is_size(a) for arg in atom.args for a in arg.atoms())
