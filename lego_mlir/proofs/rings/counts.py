"""Counts of waits and arrivals at each place of an agent's program, for all rounds.

A loop's body is followed once with a symbol for each count and each register before the round, and the increments are
read off:

    an increment d that no round changes      c + n d before round n, c + rounds * d after the loop
    an increment that depends on the round    the sum over the rounds before, named by increment and bounds
    a register that is no sum                 named by its whole recurrence

The names are those of `values`, so that two agents whose loops run alike have equal counts, with trip counts that
neither of them knows. A loop whose first or last round differs is followed as that round and the others; the counts
after a branch are those of one side where that is shown, else a choice by its condition. A loop of at most one round
is a branch. What is unknown is equal to nothing else, and may differ between the threads of an agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import Eq, FloorDiv, Larger, Le, Lt, Ne, Select, Size
from lego_mlir.expr.ranges import Range
from lego_mlir.proofs.rings.agents import (
    ARRIVE,
    Counter,
    FromRoundBefore,
    Let,
    NotFollowedError,
    ProgramPart,
    RingBranch,
    RingLoop,
    RingWord,
    StageAccess,
    Unfollowed,
    events_in,
    has_words,
    symbols_given,
)
from lego_mlir.proofs.rings.repeating import unwound
from lego_mlir.proofs.rings.rounds_apart import round_apart
from lego_mlir.proofs.rings.use_registers import MOST_AHEAD, MOST_COUNTED, MOST_OF_ONE
from lego_mlir.proofs.rings.values import (
    KnownRanges,
    for_any_length,
    holds,
    is_possible,
    simplified,
    symbol_named,
    value_at_round,
    value_named,
    without_functions,
)

MOST_ROUNDS: Final = 2**30
NOT_UNIFORM: Final = (
    "{} may differ between threads, or between blocks of a cluster; compute it from sizes, block ids, votes of a warp "
    "and tensors that the kernel does not write"
)
NOT_COUNTED: Final = (
    "{}: this register becomes a use and may wrap around, as it is not shown to count what the role has waited for or "
    "arrived at before; let it count the uses of a ring, and add those of a loop after it"
)
BEFORE: Final = "before round: "
"""The first characters of the symbol that a count or register has before a round."""
Values = dict[Any, Any]
Counts = dict[Counter, Expr]


@dataclass(frozen=True, slots=True)
class EventSite:
    """An event where it is reached, with symbols for the rounds, the counts before it, and the part it came from.

    `turn` is the number of the outer loop around it, `facts` are the conditions of the branches around it.
    """

    event: RingWord | StageAccess | FromRoundBefore
    counts: Mapping[Counter, Expr]
    part: RingWord | StageAccess
    turn: int | None = None
    facts: tuple[Cond, ...] = ()


@dataclass(frozen=True, slots=True)
class OuterTurn:
    """A loop around all else, or its round that is followed apart, and the counts at the end of a round.

    `bounds` are the value of its variable in round `number`, its rounds, and the conditions of the branches around it.
    """

    bounds: tuple[object, ...]
    number: Symbol
    counts: Mapping[Counter, Expr]


@dataclass(slots=True)
class LastRound:
    """What the last round of a loop touched, where its accesses go on: over its number, and after `rounds` rounds."""

    number: Symbol
    rounds: Expr
    rows: dict[StageAccess, Expr] = field(default_factory=dict)

    def row(self, access: StageAccess) -> Expr:
        """The row that an access of a round touches."""
        if access.begun not in self.rows:
            raise NotFollowedError(f"{access.place}: an access that goes on from a round that does not make it")
        return self.rows[access.begun]


@dataclass(slots=True)
class ProgramWalk:
    """One agent's program followed: `sites` in program order, and `totals`, the counts at its end.

    `ranges` gains those of the rounds. `uniform` tells whether an expression has one value for all threads of the agent
    and all blocks of its cluster; waits and arrivals must not depend on anything else. `stages` has those of each ring,
    `named` what sums and choices of all agents were named by. `cuts` are where outer loops of these bounds have to be
    split, since a round of some agent differs there; those of this agent that are not are `whole`. `rounds` has how
    many rounds the number of a round counts, and `turns` the outer loops, of which a site has the number.
    """

    ranges: KnownRanges
    uniform: Callable[[Expr], bool] = lambda expr: True
    stages: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    named: dict[object, list[Expr]] = field(default_factory=dict)
    cuts: dict[tuple[Expr, ...], Expr] = field(default_factory=dict)
    whole: set[tuple[Expr, ...]] = field(default_factory=set)
    rounds: dict[Symbol, Expr] = field(default_factory=dict)
    turns: list[OuterTurn] = field(default_factory=list)
    sites: list[EventSite] = field(default_factory=list)
    totals: Counts = field(default_factory=dict)
    _recording: bool = True
    _unknown: set[Symbol] = field(default_factory=set)
    _facts: tuple[Cond, ...] = ()
    _counted: list[tuple[Expr, tuple[Cond, ...]]] = field(default_factory=list)
    _shown: dict[tuple[Cond, tuple[Cond, ...]], bool] = field(default_factory=dict)
    _last: dict[Symbol, list[LastRound]] = field(default_factory=dict)
    _inside: dict[Symbol, LastRound] = field(default_factory=dict)
    _turn: int | None = None

    def follow(self, program: Sequence[ProgramPart]) -> None:
        """Follow a program from its start. Raises NotFollowedError where a count cannot be stated."""
        counts = {event.counter: sympy.Integer(0) for event in events_in(program) if isinstance(event, RingWord)}
        _, self.totals = self._parts(program, {}, counts, 0)

    def _parts(self, parts: Sequence[ProgramPart], known: Values, counts: Counts, depth: int) -> tuple[Values, Counts]:
        pending = list(parts)
        while pending:
            part = pending.pop(0)
            match part:
                case Let(symbol=symbol, value=value):
                    known = {**known, symbol: _at(value, known)}
                    if part.counts and self._recording:
                        self._require_counted(known[symbol], part.counts, counts)
                case RingWord():
                    self._record(replace(part, use=_at(part.use, known)), counts, part)
                    counts = {**counts, part.counter: counts[part.counter] + 1}
                case StageAccess():
                    use = None if part.use is None else _at(part.use, known)
                    self._record(replace(part, row=_at(part.row, known), use=use), counts, part)
                case FromRoundBefore():
                    self._record_again(part, counts)
                case RingLoop() if (apart := self._apart(part, known, depth)) is not None:
                    self._last.pop(part.symbol, None)
                    taken, pending = _with_what_follows(part, apart, pending)
                    known, counts = self._branch(taken, known, counts, depth)
                case RingLoop():
                    known, counts = self._loop(part, known, counts, depth)
                case RingBranch():
                    known, counts = self._branch(part, known, counts, depth)
                case Unfollowed(reason=reason, registers=registers):
                    if not registers:
                        raise NotFollowedError(reason)
                    known = {**known, **{r: self._new_unknown() for r in registers}}
        return known, counts

    def _apart(self, loop: RingLoop, known: Values, depth: int) -> tuple[RingLoop, RingLoop] | None:
        """The loop as two, if a round of it differs, or one of an outer loop of another agent with these bounds."""
        apart = round_apart(loop)
        if depth or not has_words(loop.body):
            return apart
        bounds = tuple(_at(end, known) for end in (loop.lo, loop.hi, loop.step))
        if apart is not None:
            self.cuts[bounds] = _at(apart[0].hi, known)
        elif bounds in self.cuts:
            apart = replace(loop, hi=self.cuts[bounds]), replace(loop, lo=self.cuts[bounds])
        else:
            self.whole.add(bounds)
        return apart

    def _record(self, event: RingWord | StageAccess, counts: Counts, part: RingWord | StageAccess) -> None:
        if isinstance(event, RingWord) and not self._is_uniform(event.use):
            raise NotFollowedError(f"{event.place}: {NOT_UNIFORM.format('the use')}")
        if not self._recording:
            return
        ring = event.ring if isinstance(event, RingWord) else event.on
        if event.use is not None and ring is not None and ring in self.stages:
            use = unwound(self._decided(event.use), 2 * self.stages[ring])
            event = replace(event, use=use if isinstance(event, RingWord) else self._next(use, ring, counts))
        if isinstance(event, StageAccess) and isinstance(part, StageAccess):
            event = replace(event, row=self._decided(event.row))
            for around in self._inside.values():
                around.rows.setdefault(part.begun, event.row)
        self.sites.append(EventSite(event, dict(counts), part, self._turn, self._facts))

    def _next(self, use: Expr, ring: str, counts: Counts) -> Expr:
        """The use of a copy as that of one of the agent's next arrivals: a whole turn more or less changes nothing."""
        for counter, count in counts.items():
            ahead = sympy.expand(use - count) if counter[:2] == (ARRIVE, ring) else None
            if ahead is not None and ahead.is_Integer:
                return count + ahead % self.stages[ring]
        return use

    def _record_again(self, part: FromRoundBefore, counts: Counts) -> None:
        """An access of the round before: of a loop that is followed here, its row is known after its body only."""
        if not self._recording:
            return
        here, met = self._inside.get(part.loop), dict[Any, Any]()
        for last in reversed(self._last.get(part.loop, [])):
            if last is here:
                if last.rounds != 1:
                    self.sites.append(EventSite(part, dict(counts), part.access))
                    met = {last.number: sympy.Integer(0)}  # the round of another loop was before the first of this
                continue
            row = last.row(part.access).xreplace({last.number: sympy.expand(last.rounds - 1)}).xreplace(met)
            there = {c: sympy.expand(count.xreplace(met)) for c, count in counts.items()}
            self.sites.append(EventSite(replace(part.access, row=sympy.expand(row)), there, part.access))
            if here is not None or self._holds(Le(1, last.rounds)):
                return
            met |= _solved(last.rounds)  # only without rounds of this loop is the last one that of the loop before

    def _new_unknown(self) -> Symbol:
        """A value of which nothing is known: no other is equal to it, of this agent or of another."""
        found = symbol_named(f"unknown {len(self._unknown)} of {self.name}")
        self._unknown.add(found)
        return found

    def _is_uniform(self, expr: Expr | Cond) -> bool:
        """Whether an expression is one for all threads of the agent: what is unknown may differ between them."""
        return not self._unknown & expr.free_symbols and self.uniform(expr)

    def _holds(self, claim: Cond) -> bool:
        """Whether a claim is proved here, in the branches around."""
        key = claim, self._facts
        if key not in self._shown:
            self._shown[key] = holds(claim, self.ranges, facts=self._facts)
        return self._shown[key]

    def _decided(self, expr: Expr) -> Expr:
        """An expression without the choices that are decided here."""
        for choice in expr.atoms(Select) & without_functions(expr).atoms(Select):
            condition, a, b = choice.args
            if self._holds(condition):
                expr = expr.xreplace({choice: a})
            elif self._holds(sympy.Not(condition)):
                expr = expr.xreplace({choice: b})
        return expr

    def _require_counted(self, value: Expr, place: str, counts: Counts) -> None:
        """Raise NotFollowedError unless a value is small, or about how often the agent waits, a part or a few times it.

        Here, or where it was read before.
        """
        if any(value == other and facts == self._facts[: len(facts)] for other, facts in self._counted):
            return
        decided, counted, factors = self._decided(value), dict.fromkeys(counts.values()), range(1, MOST_OF_ONE + 1)
        ahead = [sympy.expand(n * decided - count) for n in factors for count in counted]
        ahead += [sympy.expand(decided - n * count) for n in factors[1:] for count in counted]
        if not any(self._is_within(d, MOST_AHEAD) for d in ahead) and not self._is_within(decided, MOST_COUNTED):
            near = (simplified(d, self.ranges) for d in ahead)
            if not any(self._holds(sympy.And(Le(-MOST_AHEAD, d), Le(d, MOST_AHEAD))) for d in near):
                raise NotFollowedError(NOT_COUNTED.format(place))
        self._counted.append((value, self._facts))

    def _is_within(self, value: Expr, most: int) -> bool:
        found = bounds(without_functions(value), self.ranges)
        return found.lo is not None and found.hi is not None and -most <= found.lo and found.hi <= most

    # -- branches

    def _branch(self, branch: RingBranch, known: Values, counts: Counts, depth: int) -> tuple[Values, Counts]:
        condition = _at(branch.condition, known)
        sides = ((branch.then, condition), (branch.otherwise, sympy.Not(condition)))
        uniform = self._is_uniform(condition)
        for side, taken in sides:
            if uniform and self._holds(taken):
                return self._parts(side, known, counts, depth)
        if has_words((branch,)) and not uniform:
            raise NotFollowedError(f"{branch.place}: {NOT_UNIFORM.format('the condition around waits or arrivals')}")
        found, around = [], self._facts
        for side, taken in sides:
            self._facts = (*around, taken)
            found.append(self._parts(side, known, counts, depth))
        self._facts = around
        (values, sums), (others, rest) = found
        for symbol in symbols_given((branch,)):
            one, other = (side.get(symbol, symbol) for side in (values, others))
            if any(side.get(symbol) != known.get(symbol) for side in (values, others)):
                known = {**known, symbol: self._joined(condition, one, other)}
        return known, {c: self._joined(condition, sums[c], rest[c]) for c in counts}

    def _joined(self, condition: Cond, one: Expr, other: Expr) -> Expr:
        """The value after a branch: `one` where its condition holds, else `other`."""
        more = sympy.expand(one - other)
        if more == 0:
            return one
        if not self._takes_all_values(more, condition):
            if self._holds(sympy.Or(condition, Eq(more, 0))):
                return one
            if self._holds(sympy.Or(sympy.Not(condition), Eq(more, 0))):
                return other
            grows = sympy.Or(sympy.Not(condition), Le(0, more))
            if self._holds(grows) and self._holds(sympy.Or(condition, Le(more, 0))):
                return sympy.expand(other + Larger(more, sympy.Integer(0)))
        return sympy.expand(other + Select(condition, self._same(condition, more, condition), sympy.Integer(0)))

    def _takes_all_values(self, more: Expr, condition: Cond) -> bool:
        """Whether a difference has a term of which nothing is known, by a condition either: no proof is tried."""
        known = condition, *self._facts, *self.ranges.given
        for term in sympy.Add.make_args(more):
            factor, value = term.as_coeff_Mul()
            named = value.is_Symbol and value not in self.ranges and not isinstance(value, Size)
            named = named or isinstance(value, sympy.core.function.AppliedUndef)
            if named and factor.is_Integer and not any(e.has(value) for e in (more - term, *known)):
                return True
        return False

    def _same(self, key: object, expr: Expr, where: Cond = sympy.true) -> Expr:
        """An expression that was named before and is equal to this one; this one if there is none.

        `key` has what else is in the name; the expressions have to be equal `where` a condition holds.
        """
        found = self.named.setdefault(key, [])
        for other in found:
            claim = sympy.Or(sympy.Not(where), Eq(other, expr))
            if sympy.expand(other - expr) == 0:
                return other
            if is_possible(claim, self.ranges) and (self._holds(for_any_length(claim)) or self._holds(claim)):
                return other
        found.append(expr)
        return expr

    # -- loops

    def _rounds(self, lo: Expr, hi: Expr, step: Expr) -> Expr:
        whole = sympy.expand(hi - lo) if step == 1 else FloorDiv(hi - lo + step - 1, step)
        return whole if self._holds(Le(lo, hi)) else Larger(whole, sympy.Integer(0))

    def _most(self, lo: Expr, hi: Expr, step: Expr) -> int:
        """An upper bound of the rounds of a loop: its bounds may be data, and its length not."""
        length = bounds(without_functions(sympy.expand(hi - lo)), self.ranges).hi
        return (
            MOST_ROUNDS if length is None or not step.is_Integer else min(MOST_ROUNDS, max(1, -(-length // int(step))))
        )

    def _loop(self, loop: RingLoop, known: Values, counts: Counts, depth: int) -> tuple[Values, Counts]:
        lo, hi, step = span = tuple(_at(end, known) for end in (loop.lo, loop.hi, loop.step))
        rounds = self._rounds(lo, hi, step)
        if has_words(loop.body) and not self._is_uniform(rounds):
            raise NotFollowedError(f"{loop.place}: {NOT_UNIFORM.format('the number of rounds')}")
        if rounds.is_Integer and rounds <= 1:
            return self._single(loop, lo, known, counts, depth) if rounds == 1 else (known, counts)
        if not rounds.is_Integer and self._holds(Le(hi, lo + step)):
            once = RingBranch(Lt(lo, hi), (replace(loop, lo=lo, hi=lo + step, step=step),), (), loop.place)
            return self._branch(once, known, counts, depth)
        number = symbol_named(f"round{depth} of {lo} .. {hi} by {step}")
        named = rounds.atoms(sympy.core.function.AppliedUndef)
        sized = rounds.is_Integer or (not named and all(isinstance(s, Size) for s in rounds.free_symbols))
        most = rounds if sized else sympy.Integer(self._most(lo, hi, step))
        self.ranges.setdefault(number, Range(0, int(most) if most.is_Integer else most))
        self.rounds[number] = rounds
        change = _LoopChange(number, rounds, span, f"{BEFORE}{depth}", self._same)
        inside = {**known, loop.symbol: lo + step * number}
        carried = [s for s in dict.fromkeys(symbols_given(loop.body)) if s in known]
        before = {s: symbol_named(f"{BEFORE}{depth} {s}") for s in carried}
        counted = {c: symbol_named(f"{BEFORE}{depth} {c}") for c in counts}
        recording, self._recording = self._recording, False
        around = self._facts
        if not sized:
            self._facts = (*around, Lt(number, rounds))
        values, sums = self._parts(loop.body, {**inside, **before}, dict(counted), depth + 1)
        self._facts = around
        self._recording = recording
        change.recurrences(before, known, values)
        added = {
            **{s: (known[s], before[s], values[s]) for s in carried},
            **{c: (counts[c], counted[c], sums[c]) for c in counts},
        }
        for key, (first, symbol, after) in added.items():
            if key not in change.begin and not change.grow(key, first, after - symbol, before):
                raise NotFollowedError(f"{loop.place}: how often a round waits or arrives is not known")
        if self._recording:
            begin = change.begin
            inside |= {s: begin[s] for s in carried}
            self._followed(loop, LastRound(number, rounds), inside, {c: begin[c] for c in counts}, depth)
        end = change.end
        return {**known, **{s: end[s] for s in carried}}, {c: end[c] for c in counts}

    def _single(self, loop: RingLoop, lo: Expr, known: Values, counts: Counts, depth: int) -> tuple[Values, Counts]:
        """A loop of one round."""
        only = LastRound(symbol_named(f"{BEFORE}{depth} of one"), sympy.Integer(1))
        return self._followed(loop, only, {**known, loop.symbol: lo}, counts, depth)

    def _followed(
        self, loop: RingLoop, this: LastRound, known: Values, counts: Counts, depth: int
    ) -> tuple[Values, Counts]:
        """Follow a round, and put in place what it finds of the round before."""
        start = len(self.sites)
        self._last.setdefault(loop.symbol, []).append(this)
        self._inside[loop.symbol] = this
        if depth == 0 and has_words(loop.body):
            self._turn = len(self.turns)
        found = self._parts(loop.body, known, counts, depth + 1)
        if depth == 0 and has_words(loop.body):
            self.turns.append(OuterTurn((known[loop.symbol], this.rounds, *self._facts), this.number, found[1]))
            self._turn = None
        del self._inside[loop.symbol]
        for place, site in enumerate(self.sites[start:], start):
            if isinstance(site.event, FromRoundBefore) and site.event.loop == loop.symbol:
                row = sympy.expand(this.row(site.event.access).xreplace({this.number: this.number - 1}))
                self.sites[place] = replace(site, event=replace(site.event.access, row=row))
        return found


@dataclass(slots=True)
class _LoopChange:
    """What counts and registers are before round `number` of a loop (`begin`) and after the loop (`end`)."""

    number: Symbol
    rounds: Expr
    span: tuple[Expr, ...]
    prefix: str
    same: Callable[[object, Expr], Expr]
    begin: dict[Any, Expr] = field(default_factory=dict)
    end: dict[Any, Expr] = field(default_factory=dict)

    def recurrences(self, before: Mapping[Symbol, Symbol], first: Values, after: Values) -> None:
        """Name the registers that do not grow by an increment, by all that they are computed from."""
        registers = {symbol: register for register, symbol in before.items()}
        for register, symbol in before.items():
            needed = sympy.expand(after[register] - symbol).free_symbols & set(registers)
            if not needed or (symbol not in needed and symbol in after[register].free_symbols):
                continue
            group, pending = [register], [register]
            while pending:
                for other in sorted(after[pending.pop()].free_symbols & set(registers), key=str):
                    if registers[other] not in group:
                        group.append(registers[other])
                        pending.append(registers[other])
            names = {before[r]: symbol_named(f"_{i}") for i, r in enumerate(group)}
            system = [e for r in group for e in (first[r], after[r].xreplace(names))]
            self.begin[register] = value_at_round("state", self.number, *system, *self.span)
            self.end[register] = value_named("state at the end", *system, *self.span, bound=self.number)

    def grow(self, key: Symbol | Counter, first: Expr, increment: Expr, before: Mapping[Symbol, Symbol]) -> bool:
        """State a count or register by its increment; False where that depends on values that are not stated."""
        stated = {before[r]: value for r, value in self.begin.items() if r in before}
        increment = sympy.expand(sympy.expand(increment).xreplace(stated))
        if any(str(s).startswith(self.prefix) for s in increment.free_symbols):
            return False
        lo, hi, step = self.span
        increment = increment if increment.is_Integer else self.same(self.number, increment)
        if self.number not in increment.free_symbols:
            self.begin[key] = sympy.expand(first + self.number * increment)
            self.end[key] = sympy.expand(first + self.rounds * increment)
        else:
            factor, part = increment.as_content_primitive()  # so that twice a sum is the sum of twice as much
            self.begin[key] = first + factor * value_at_round("sum", self.number, part, lo, step)
            self.end[key] = first + factor * value_named("all", part, lo, hi, step, bound=self.number)
        return True


def _solved(rounds: Expr) -> Values:
    """A value of one of its terms for which a number of rounds is 0; empty if none is found."""
    for term, factor in sympy.expand(rounds).as_coefficients_dict().items():
        if abs(factor) == 1 and (term.is_Symbol or isinstance(term, sympy.core.function.AppliedUndef | FloorDiv)):
            rest = sympy.expand(rounds - factor * term)
            if not rest.has(term):
                return {term: sympy.expand(-factor * rest)}
    return {}


def _with_what_follows(
    loop: RingLoop, apart: tuple[RingLoop, RingLoop], following: Sequence[ProgramPart]
) -> tuple[RingBranch, list[ProgramPart]]:
    """A loop with a round apart as a branch, which takes in a branch after it that asks as well whether it has rounds.

    Also what follows the branch.
    """
    holds_once, rest = Lt(loop.lo, loop.hi), list(following)
    values = []
    while rest and isinstance(rest[0], Let):
        values.append(rest.pop(0))
    if rest and isinstance(after := rest[0], RingBranch) and after.condition == holds_once:
        del rest[0]
        then, otherwise = (*apart, *values, *after.then), (*values, *after.otherwise)
        return RingBranch(holds_once, then, otherwise, loop.place), rest
    return RingBranch(holds_once, apart, (), loop.place), list(following)


def _at(expr: Expr, known: Mapping[Symbol, Expr]) -> Expr:
    """An expression with the values of its symbols, expanded; a condition with its sides expanded, as bounds are."""
    if isinstance(expr, sympy.Expr):
        return sympy.expand(expr.xreplace(known))
    if isinstance(expr, Lt | Le | Eq | Ne):
        return expr.func(*(_at(side, known) for side in expr.args))
    if isinstance(expr, sympy.And | sympy.Or | sympy.Not):
        return expr.func(*(_at(part, known) for part in expr.args))
    return expr.xreplace(known)
