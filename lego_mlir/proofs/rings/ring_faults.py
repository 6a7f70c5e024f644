"""A round in which a ring of barriers goes wrong: the programs of agents with numbers, run in every order.

The search goes over states: the place of each agent, the phase and the missing arrivals of each barrier, the copies in
flight. The first fault in the order of depth is returned, with its line and round:

    a copy into a stage while that of another use goes on       a read while a copy goes on
    more arrivals than it expects while copies go on            a deadlock

The warps of an agent are in step here, and of an access of threads only what the first one touches counts: a fault that
was found is one, and none may be found although there is one. Where data decides whether stages are read, these reads
are left out, as they change nothing for what comes after them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.proofs.rings.agents import (
    WAIT,
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
    symbols_given,
)
from lego_mlir.proofs.rings.order import RingOrder
from lego_mlir.proofs.rings.values import HIDDEN, symbol_named

MOST_STATES: Final = 200_000
MOST_EVENTS: Final = 2_000
UNKNOWN: Final = f"{HIDDEN}unknown "
"""The first characters of the symbol for a value that is data."""
LARGE: Final = 2**31
"""What a use of an unbounded count is raised by, up to whole turns of even number, so that it is not negative."""
EMPTY: Final = -1
"""The use in a stage that nothing was copied to."""
Box = tuple[range, range]
"""Rows and columns of a stage."""


@dataclass(frozen=True, slots=True)
class RingEvent:
    """What an agent does next, in numbers: a wait, an arrival, or an access of the stage `slot` of a buffer.

    The `box` of an access is None where it is by position, and its rows and columns are not known.
    """

    kind: str
    name: str
    use: int
    place: str
    rounds: str
    on: str = ""
    slot: int = 0
    box: Box | None = None

    @property
    def where(self) -> str:
        return f" (round {self.rounds})" if self.rounds else ""


@dataclass(frozen=True, slots=True)
class RingFault:
    """What goes wrong, and in which line."""

    text: str
    place: str


@dataclass(frozen=True, slots=True)
class InFlightCopy:
    """A copy of a use into a stage, and the barrier that it completes on, both by number."""

    barrier: int
    stage: int
    use: int
    box: Box


@dataclass(frozen=True, slots=True)
class RingState:
    """Places of agents, (phase, missing arrivals) of barriers, copies in flight."""

    at: tuple[int, ...]
    phases: tuple[tuple[int, int], ...]
    copies: tuple[InFlightCopy, ...]


_Touched = dict[StageAccess, RingEvent]


def find_fault(order: RingOrder, sizes: Mapping[str, int]) -> RingFault | None:
    """The first fault for these sizes; None if there is none, or too many states.

    Raises NotFollowedError where the programs depend on more than the sizes.
    """
    search = _Search(order, [list(_events(order, k, sizes)) for k in range(len(order.agents))])
    return search.first()


def _events(order: RingOrder, number: int, sizes: Mapping[str, int]) -> Iterator[RingEvent]:
    """What the first thread of an agent does, in order."""
    events = _Numbers(order, sizes).run(order.agents[number].program, {}, ())
    for count, event in enumerate(events, 1):
        if count > MOST_EVENTS:  # a list that is cut off would be a deadlock
            raise NotFollowedError("too many events for these sizes")
        yield event


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A program with numbers; `rounds` has what the present round of each loop touched, and the round before it."""

    order: RingOrder
    sizes: Mapping[str, int]
    rounds: dict[Symbol, tuple[_Touched, _Touched]] = field(default_factory=dict)
    inside: list[Symbol] = field(default_factory=list)

    def _value(self, expr: Expr | Cond, known: Mapping[Symbol, Expr]) -> Expr:
        value = expr.xreplace(known)
        free = [s for s in value.free_symbols if not str(s).startswith(UNKNOWN)]
        value = value.xreplace({s: sympy.Integer(self.sizes.get(str(s), 0)) for s in free})
        if value not in (sympy.true, sympy.false) and not value.is_Integer:
            raise NotFollowedError(f"{value} is not a number")
        return value

    def _number(self, expr: Expr | Cond, known: Mapping[Symbol, Expr]) -> Expr | None:
        try:
            return self._value(expr, known)
        except NotFollowedError:
            return None

    def run(
        self, parts: Sequence[ProgramPart], known: dict[Symbol, Expr], rounds: tuple[str, ...]
    ) -> Iterator[RingEvent]:
        where = ", ".join(rounds)
        for part in parts:
            match part:
                case Let(symbol=symbol, value=value):
                    number = self._number(value, known)
                    known |= _unknown([symbol]) if number is None else {symbol: number}
                case RingWord(kind=kind, ring=ring, use=use, place=place):
                    yield RingEvent(kind, ring, self._use(use, ring, known), place, where)
                case StageAccess() if part.buffer in self.order.buffers:
                    event = self._access(part, known, where)
                    for loop in self.inside:
                        self.rounds[loop][0].setdefault(part.begun, event)
                    yield event
                case FromRoundBefore(access=access, loop=loop):
                    before = self.rounds[loop][loop in self.inside].get(access.begun)
                    if before is not None:
                        yield replace(before, rounds=where)
                case RingLoop(symbol=symbol, body=body):
                    self.rounds[symbol] = {}, {}
                    self.inside.append(symbol)
                    for i in range(*(int(self._value(end, known)) for end in (part.lo, part.hi, part.step))):
                        known[symbol] = sympy.Integer(i)
                        self.rounds[symbol] = {}, self.rounds[symbol][0]
                        yield from self.run(body, known, (*rounds, f"{symbol} = {i}"))
                    self.inside.remove(symbol)
                case RingBranch(condition=condition) if _only_reads(part) and self._number(condition, known) is None:
                    known |= _unknown(symbols_given((part,)))
                case RingBranch(condition=condition, then=then, otherwise=otherwise):
                    taken = self._value(condition, known) == sympy.true
                    yield from self.run(then if taken else otherwise, known, rounds)
                case Unfollowed(registers=registers) if registers:
                    known |= _unknown(registers)
                case Unfollowed(reason=reason):
                    raise NotFollowedError(reason)
                case _:
                    pass

    def _use(self, expr: Expr, ring: str, known: Mapping[Symbol, Expr]) -> int:
        use, turns = int(self._value(expr, known)), 2 * self.order.rings[ring].stages
        return use + -LARGE // turns * turns if use >= LARGE // 2 else use

    def _access(self, part: StageAccess, known: Mapping[Symbol, Expr], where: str) -> RingEvent:
        buffer = self.order.buffers[part.buffer]
        size = buffer.elements if part.by_position else buffer.height
        slot = (int(self._value(part.row, known)) // size - buffer.first) // buffer.every % buffer.stages
        use = EMPTY if part.use is None or part.on is None else self._use(part.use, part.on, known)
        return RingEvent(part.kind, part.buffer, use, part.place, where, part.on or "", slot, self._box(part, known))

    def _box(self, part: StageAccess, known: Mapping[Symbol, Expr]) -> Box | None:
        """The rows and columns that an access touches; of a copy to all blocks, those that all of them copy."""
        buffer = self.order.buffers[part.buffer]
        if part.by_position:
            return None
        height, width = buffer.height, buffer.width
        row = int(self._value(part.row, known)) % height
        together = min(map(len, part.shared), default=1) * part.rows
        rows = range(height) if part.shared and together >= height else range(row, row + part.rows)
        if part.columns is None:
            return rows, range(width)
        column = int(self._value(part.columns[0], known))
        return rows, range(column, column + part.columns[1])


def _unknown(symbols: Iterable[Symbol]) -> dict[Symbol, Expr]:
    """Values of which nothing is known, none equal to another."""
    return {symbol: symbol_named(f"{UNKNOWN}{symbol}") for symbol in symbols}


def _only_reads(branch: RingBranch) -> bool:
    """Whether a branch does nothing but read stages and give values."""
    events = events_in((branch,))
    return all(
        isinstance(e, FromRoundBefore)
        or (isinstance(e, StageAccess) and e.kind == "read")
        or (isinstance(e, Unfollowed) and bool(e.registers))
        for e in events
    )


class _Search:
    """A breadth-first search over the states that agents with these events reach."""

    def __init__(self, order: RingOrder, events: list[list[RingEvent]]) -> None:
        self.order, self.events = order, events
        barriers = [(ring.name, slot) for ring in order.rings.values() for slot in range(ring.stages)]
        stages = [(name, slot) for name, buffer in order.buffers.items() for slot in range(buffer.stages)]
        self.barriers = {barrier: number for number, barrier in enumerate(barriers)}
        self.stages = {stage: number for number, stage in enumerate(stages)}
        self.expected = [order.rings[name].expected for name, _ in barriers]

    def whole(self, name: str) -> Box:
        """All rows and columns of a stage."""
        buffer = self.order.buffers[name]
        return range(buffer.height), range(buffer.width)

    def first(self) -> RingFault | None:
        start = RingState((0,) * len(self.events), tuple((0, n) for n in self.expected), ())
        seen, pending = {start}, deque([start])
        while pending and len(seen) < MOST_STATES:
            state = pending.popleft()
            following = list(self._landed(state))
            for k in range(len(self.events)):
                step = self._step(state, k)
                if isinstance(step, RingFault):
                    return step
                following += [] if step is None else [step]
            waiting = [events[at] for events, at in zip(self.events, state.at, strict=True) if at < len(events)]
            if waiting and not following:
                what = "; ".join(f"{event.place} waits for use {event.use}{event.where}" for event in waiting)
                return RingFault(f"deadlock: {what}", waiting[0].place)
            new = [s for s in dict.fromkeys(following) if s not in seen]
            seen.update(new)
            pending.extend(new)
        return None

    def _landed(self, state: RingState) -> Iterator[RingState]:
        for number, copy in enumerate(state.copies):
            rest = (*state.copies[:number], *state.copies[number + 1 :])
            yield replace(state, phases=self._completed(state.phases, rest, copy.barrier), copies=rest)

    def _completed(
        self, phases: tuple[tuple[int, int], ...], copies: Sequence[InFlightCopy], barrier: int
    ) -> tuple[tuple[int, int], ...]:
        """The phases after the barrier's own is complete, if it is."""
        phase, missing = phases[barrier]
        if missing > 0 or any(copy.barrier == barrier for copy in copies):
            return phases
        return (*phases[:barrier], (phase + 1, missing + self.expected[barrier]), *phases[barrier + 1 :])

    def _step(self, state: RingState, k: int) -> RingState | RingFault | None:
        """The state after an agent's next event, or its fault; None at its end, and where it waits."""
        if state.at[k] == len(self.events[k]):
            return None
        event = self.events[k][state.at[k]]
        after = replace(state, at=(*state.at[:k], state.at[k] + 1, *state.at[k + 1 :]))
        if event.name in self.order.rings:
            return self._word(after, event, k)
        return self._access(after, event, k)

    def _word(self, after: RingState, event: RingEvent, k: int) -> RingState | RingFault | None:
        ring, blocks = self.order.rings[event.name], self.order.blocks
        barrier = self.barriers[event.name, event.use % ring.stages]
        phase, missing = after.phases[barrier]
        if event.kind == WAIT:
            return after if phase % 2 != event.use // ring.stages % 2 else None
        arrivals, phases = self.order.agents[k].warps * blocks, after.phases
        while arrivals:  # those that complete a phase are followed by those of the next one
            phase, missing = phases[barrier]
            if missing == 0:
                text = f"more warps arrive than the {ring.expected} that it expects{event.where}"
                return RingFault(text, event.place)
            taken = min(missing, arrivals)
            arrivals -= taken
            phases = (*phases[:barrier], (phase, missing - taken), *phases[barrier + 1 :])
            phases = self._completed(phases, after.copies, barrier)
        return replace(after, phases=phases)

    def _access(self, after: RingState, event: RingEvent, k: int) -> RingState | RingFault:
        stage, whole = self.stages[event.name, event.slot], self.whole(event.name)
        flying = [c.use for c in after.copies if c.stage == stage and _meet(c.box, event.box, whole)]
        if event.kind == "copy":
            turns = 2 * self.order.rings[event.on].stages  # whole turns of even number change nothing
            other = next((use for use in flying if (use - event.use) % turns), None)
            if other is not None:
                text = f"the copy of use {event.use} is issued while that of use {other} goes on{event.where}"
                return RingFault(text, event.place)
            barrier = self.barriers[event.on, event.use % self.order.rings[event.on].stages]
            copies = (*after.copies, InFlightCopy(barrier, stage, event.use, event.box or whole))
            return replace(after, copies=tuple(sorted(copies, key=_key)))
        if flying:
            text = f"the {event.kind} of {event.name} while the copy of use {flying[0]} goes on{event.where}"
            return RingFault(text, event.place)
        return after


def _meet(copied: Box, touched: Box | None, whole: Box) -> bool:
    """Whether a copy and an access share an element: one that is not known is in what is copied `whole`."""
    if touched is None:
        return copied == whole
    return all(
        max(one.start, other.start) < min(one.stop, other.stop) for one, other in zip(copied, touched, strict=True)
    )


def _key(copy: InFlightCopy) -> tuple[int, ...]:
    return copy.barrier, copy.stage, copy.use, *(side.start for side in copy.box)
