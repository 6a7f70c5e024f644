"""Values of ring programs: what is known of a count, a register or a number of rounds.

Two agents have to agree about the same value: a trip count that both load from memory, or a register that both advance
by a recurrence. Such a value is named by what it is computed from, with its free symbols as arguments, so that equal
computations have equal names and substitution still reaches the symbols. The prover takes each of these functions as a
symbol.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from operator import attrgetter
from typing import Any, Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.context import PlainRanges
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Larger, Le, Size
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.related import involved
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.verdict import Proved
from lego_mlir.proofs.rings.agents import NotFollowedError

QUICK_MS: Final = 200
"""The time that one question about ranges may take."""
PATIENT_MS: Final = 500
"""The time for a question under the requirements of a launch, or about a constant difference."""
MOST_QUESTIONS: Final = 20_000
"""The questions about the rings of one kernel: a number, so that a verdict does not depend on the machine's speed."""
LONGEST: Final = 80
"""Characters of a name that is not shortened."""
UNKNOWN: Final = Range(sympy.Integer(0), sympy.Integer(64))
"""Where values are tried of a symbol of which nothing is known."""
HIDDEN: Final = "_"
"""The first character of names inside of a name."""


class KnownRanges(PlainRanges):
    """Ranges of symbols, the requirements of a launch, which also hold, and how many questions may still be asked."""

    given: tuple[Cond, ...] = ()
    left: int | None = None

    def __init__(self, ranges: Mapping[Symbol, Range]) -> None:
        super().__init__(ranges)
        self.positive: dict[Expr, bool] = {}
        self.abstract: dict[Cond, Cond] = {}

    def setdefault(self, symbol: Symbol, over: Range) -> Range:
        """The range of a symbol, `over` if it has none."""
        if symbol not in self:
            self[symbol] = over
        return self[symbol]

    def has_range(self, rest: Expr) -> bool:
        """Whether a rest is of a division by sizes, positive ones; then its symbol has its range."""
        divisor = rest.args[1]
        if divisor.is_Integer or not all(isinstance(s, Size) for s in divisor.free_symbols):
            return False
        if divisor not in self.positive:
            self.positive[divisor] = isinstance(prove(Le(1, divisor), self, timeout_ms=QUICK_MS), Proved)
        if self.positive[divisor]:
            self.setdefault(_stand_in(rest), Range(0, divisor))
        return self.positive[divisor]

    def required(self) -> list[Cond]:
        """The requirements of a launch, abstracted."""
        for condition in self.given:
            if condition not in self.abstract:
                self.abstract[condition] = abstracted(condition, self)
        return [self.abstract[condition] for condition in self.given]

    def restart(self) -> None:
        """Give a kernel's rings their questions again, for another claim."""
        self.left = MOST_QUESTIONS

    def count_question(self) -> None:
        """Count one question. Raises NotFollowedError if a kernel's rings have no more."""
        if self.left is None:
            return
        if self.left <= 0:
            raise NotFollowedError(
                f"the order of its rings is not shown by {MOST_QUESTIONS} questions to the prover; numbers as sizes, "
                "or fewer groups, take fewer"
            )
        self.left -= 1


def symbol_named(text: str) -> Symbol:
    """An integer symbol."""
    return sympy.Symbol(text, integer=True)


def shortened_name(text: str) -> str:
    """A name as it is, or its beginning and a digest of it: names of values that other names decide grow."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}.. {hashlib.sha256(text.encode()).hexdigest()[:16]}"


@functools.cache
def _stand_in(value: Expr) -> Symbol:
    """The symbol for a named value."""
    return symbol_named(shortened_name(str(value)))


def value_named(kind: str, *exprs: Expr, bound: Symbol | None = None) -> Expr:
    """The value that `exprs` decide, equal for agents that compute alike; `bound` is a variable inside of them.

    Quotients of a symbol by a number stay whole as arguments: the number of a cluster is `block // 2`, which all blocks
    of the cluster share, while the block's own number differs.
    """
    found = {f for e in exprs for f in e.atoms(FloorDiv) if f.args[0].is_Symbol and f.args[1].is_Integer}
    quotients = sorted((f for f in found if f.args[0] != bound and not str(f).startswith(HIDDEN)), key=str)
    whole = {f: symbol_named(f"{HIDDEN}u{i}") for i, f in enumerate(quotients)}
    exprs = tuple(e.xreplace(whole) for e in exprs)
    free = {s for e in exprs for s in e.free_symbols if not str(s).startswith(HIDDEN)} - {bound}
    arguments = sorted(free, key=str)
    names: dict[Any, Symbol] = {s: symbol_named(f"{HIDDEN}x{i}") for i, s in enumerate(arguments)}
    if bound is not None:
        names[bound] = symbol_named(f"{HIDDEN}round")
    text = shortened_name(f"{kind}({', '.join(str(e.xreplace(names)) for e in exprs)})")
    if quotients or arguments:
        return sympy.Function(text, integer=True)(*quotients, *arguments)
    return symbol_named(text)


def value_at_round(kind: str, number: Symbol, *exprs: Expr) -> Expr:
    """The value in round `number` of what the rounds before it decide."""
    return sympy.Function(f"{kind} before", integer=True)(number, value_named(kind, *exprs, bound=number))


def without_functions(claim: Cond) -> Expr:
    """A claim with a symbol in place of each named value."""
    if not hasattr(claim, "atoms"):
        return claim
    found = claim.atoms(sympy.core.function.AppliedUndef)
    return claim.xreplace({f: _stand_in(f) for f in found}) if found else claim


def abstracted(claim: Cond, ranges: KnownRanges) -> Expr:
    """A claim with a symbol in place of each named value, and of each rest of a division by sizes.

    Of such a rest, the place of a part in a row of tiles, its range is kept: a claim that is proved for all values in
    it is proved, by comparisons that are linear in it.
    """
    if hasattr(claim, "atoms"):
        rests = {rest: _stand_in(rest) for rest in claim.atoms(FloorMod) if ranges.has_range(rest)}
        claim = claim.xreplace(rests) if rests else claim
    return without_functions(claim)


def for_any_length(claim: Cond) -> Cond:
    """A claim with a symbol for each x in max(x, c): the claim follows, if it is proved for any number in its place.

    Such lengths are computed from memory, and are long; two sums of rounds over one length need not look inside of it.
    """
    lengths = {e: [a for a in e.args if not a.is_Integer] for e in claim.atoms(Larger)}
    return claim.xreplace({
        e: Larger(_stand_in(rest[0]), *(a for a in e.args if a.is_Integer))
        for e, rest in lengths.items()
        if len(rest) == 1 and not rest[0].is_Symbol
    })  # fmt: skip


def simplified(expr: Expr, ranges: Mapping[Symbol, Range]) -> Expr:
    """An expression with named values, simplified, and so are their arguments."""
    outer: dict[Expr, Expr] = {}
    for f in sorted(expr.atoms(sympy.core.function.AppliedUndef), key=lambda f: -len(str(f))):
        if expr.has(f):
            held = symbol_named(f"{HIDDEN}value{len(outer)}")
            outer[held] = f.func(*(simplified(argument, ranges) for argument in f.args))
            expr = expr.xreplace({f: held})
    return simplify(expr, ranges).expr.xreplace(outer)


def holds(claim: Cond, ranges: KnownRanges, timeout_ms: int = QUICK_MS, facts: Sequence[Cond] = ()) -> bool:
    """Whether a claim is proved for all values in the ranges, or under `facts` and the requirements of a launch."""
    ranges.count_question()
    claim = abstracted(claim, ranges)
    if claim == True or isinstance(prove(claim, ranges, timeout_ms=timeout_ms), Proved):  # noqa: E712
        return True
    facts = [abstracted(fact, ranges) for fact in facts]
    given = [*about(involved(sympy.Or(claim, *facts), ranges), ranges.required()), *facts]
    if not given:
        return False
    negated = (sympy.Not(condition) for condition in given)
    return isinstance(prove(sympy.Or(claim, *negated), ranges, timeout_ms=PATIENT_MS), Proved)


def about(symbols: Set[Symbol], conditions: Sequence[Cond]) -> list[Cond]:
    """The conditions about these symbols alone: others, such as those of strides, say nothing of them."""
    return [condition for condition in conditions if _symbols_of(condition) <= symbols]


@functools.lru_cache(4096)
def _symbols_of(condition: Cond) -> frozenset[Symbol]:
    """The free symbols of a requirement, which is compared with every claim."""
    return frozenset(condition.free_symbols)


def is_possible(claim: Cond, ranges: KnownRanges) -> bool:
    """Whether a claim holds at some points in the ranges: a quick look before it is proved."""
    claim = abstracted(claim, ranges)
    if claim in (sympy.true, sympy.false):
        return bool(claim)
    for turn in range(3):
        point = _point(claim, ranges, turn)
        if point is None or claim.xreplace(point) != sympy.false:
            continue
        if not any(c.xreplace(point) == sympy.false for c in about(point.keys(), ranges.given)):
            return False
    return True


def _point(claim: Cond, ranges: KnownRanges, turn: int) -> dict[Symbol, Expr] | None:
    """Values of the symbols of a claim within their ranges; None if a range is empty for the values before."""
    point: dict[Symbol, Expr] = {}
    pending = sorted(involved(claim, ranges), key=attrgetter("name"))
    while pending:
        ready = [s for s in pending if not _ends(s, ranges) & set(pending)]
        for symbol in ready:
            over = ranges.get(symbol, UNKNOWN)
            lo, hi = over.lo.xreplace(point), over.hi.xreplace(point)
            if hi <= lo:
                return None
            value = int(lo) + (7 * turn + 3 * len(point)) % int(hi - lo)
            point[symbol] = sympy.Integer(_taken(symbol, value) if isinstance(symbol, Size) else value)
        pending = [s for s in pending if s not in point]
    return point


def _ends(symbol: Symbol, ranges: KnownRanges) -> set[Symbol]:
    """The symbols that the ends of a symbol's range depend on."""
    return ranges[symbol].lo.free_symbols | ranges[symbol].hi.free_symbols if symbol in ranges else set()


def _taken(size: Size, value: int) -> int:
    """A value of a size near another."""
    least = -(-max(size.min, 1) // size.multiple_of) * size.multiple_of
    return max(least, value // size.multiple_of * size.multiple_of)


def constant(difference: Expr, ranges: KnownRanges) -> int | None:
    """The value of a difference that is the same everywhere, None if it is not shown to be."""
    difference = abstracted(sympy.expand(difference), ranges)
    if difference.is_Integer:
        return int(difference)
    guesses = _frequent_values(difference)
    return next((guess for guess in guesses if holds(Eq(difference, guess), ranges, PATIENT_MS)), None)


def residue(use: Expr, count: Expr, modulus: int, ranges: KnownRanges) -> int | None:
    """`use - count` modulo a number, if it is the same everywhere; None if it is not shown to be."""
    known = constant(use - count, ranges)
    if known is not None:
        return known % modulus
    rest = FloorMod(sympy.expand(use - count), modulus)
    return next((guess for guess in range(modulus) if holds(Eq(rest, guess), ranges)), None)


def _frequent_values(expr: Expr) -> list[int]:
    """The most frequent values at some points: a difference may be constant under the launch's requirements only."""
    free = sorted(expr.free_symbols, key=str)
    found: Counter[int] = Counter()
    for k in range(5):
        point = {s: sympy.Integer(3 + 997 * k + (17 * i + 211 * k * i) % 613) for i, s in enumerate(free)}
        value = expr.xreplace(point)
        if not value.is_Integer:
            return []
        found[int(value)] += 1
    return [value for value, times in found.most_common(2) if times > 1]
