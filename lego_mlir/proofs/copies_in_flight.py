"""Asynchronous copies: which accesses may happen between the issue of a copy and the wait that completes it.

A copy writes its tile at some time before the wait, whatever barriers are between them. Until then no access of any
thread may touch the element; after the wait the copy is a write of its thread, which a barrier must separate from
accesses of other threads. What is concurrent with the issue is found as for any write, by `phases`.

    copy; commit; barrier; R; wait; S; barrier; T        R may not touch the element; S if it is of the same thread

A wait leaves the newest n groups in flight. A copy is complete if at least n + 1 commits follow it on every path, so
each flight carries the least number of commits. Around a loop, flights are followed until nothing changes: a copy of
round k meets the accesses of round k + 1, k + 2, ..
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lego_mlir.aliases import Cond, Symbol
from lego_mlir.expr.nodes import Eq
from lego_mlir.proofs.footprints import (
    Commit,
    Copies,
    Footprint,
    Fork,
    Node,
    Rounds,
    Stretch,
    Sync,
    Wait,
    copies_in,
    has_groups,
    waits_in,
)
from lego_mlir.proofs.phases import Pair, are_harmless

MOST_ROUNDS: Final = 4
"""Rounds for which a flight is followed; then its round and that of the other access are independent."""


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """A copy after its issue. `ahead` has, for each loop around it, how many rounds ago that was, None if unknown.

    `landed` after its wait, until a barrier. `entered` has the present round of loops that began after the copy. Nested
    loops have thousands of flights, which `Flights` keeps once each: they are compared by identity.
    """

    copy: Footprint
    ahead: tuple[tuple[Symbol, int | None], ...] = ()
    given: tuple[Cond, ...] = ()
    entered: tuple[tuple[Symbol, int], ...] = ()
    landed: bool = False
    unit: int = 1


InFlight = dict[Flight, int]
"""Each flight with the least number of commits since its issue."""


@dataclass(slots=True)
class Flights:
    """Collects the pairs of copies into the buffer `into` and accesses. `left_out` are barriers to ignore.

    Copies of no group, which complete on a barrier of a ring, are in flight from their issue on, for all rounds alike:
    their rounds are not followed.
    """

    left_out: frozenset[int]
    into: str
    pairs: dict[Pair, None] = field(default_factory=dict)
    _most: int = 0
    _grouped: bool = True
    _known: dict[Hashable, Flight] = field(default_factory=dict)
    _changes: dict[Hashable, Flight] = field(default_factory=dict)
    _met: set[tuple[Flight, int]] = field(default_factory=set)

    def collect(self, nodes: Sequence[Node]) -> None:
        if not any(copy.buffer.name == self.into for copy in copies_in(nodes)):
            return
        self._grouped = has_groups(nodes)
        self._most = max((wait.pending + 1 for wait in waits_in(nodes)), default=0)
        self._follow(nodes, {}, ())

    def _follow(self, nodes: Sequence[Node], state: InFlight, loops: tuple[Symbol, ...]) -> InFlight:
        for node in nodes:
            match node:
                case Stretch(accesses=accesses):
                    self._meet(state, accesses, loops)
                case Copies(accesses=accesses):
                    self._meet(state, accesses, loops)
                    copies = [copy for copy in accesses if copy.buffer.name == self.into]
                    self._meet_each_other(copies, loops)
                    ago = 0 if self._grouped else None  # it meets every later round alike
                    issued = (Flight(copy, tuple((loop, ago) for loop in loops)) for copy in copies)
                    state = state | {self._kept(flight): 0 for flight in issued}
                case Commit():
                    state = {flight: min(commits + 1, self._most) for flight, commits in state.items()}
                case Wait(pending=pending):
                    state = self._landed(state, pending)
                case Sync() if id(node) not in self.left_out:
                    state = self._separated(state, node)
                case Sync():
                    pass
                case Fork(then=then, otherwise=otherwise):
                    state = _joined(self._follow(then, state, loops), self._follow(otherwise, state, loops))
                case Rounds():
                    state = self._rounds(node, state, loops)
        return state

    def _rounds(self, loop: Rounds, before: InFlight, loops: tuple[Symbol, ...]) -> InFlight:
        if loop.round is None:
            state, known = before, None
            while state != known:
                known = state
                state = _joined(before, self._follow(loop.body, state, loops))
            return state
        inside = (*loops, loop.round)
        start = self._changed(before, _entering, loop) if self._grouped else before
        state, known, after = start, None, {}
        while state != known:
            known = state
            after = self._follow(loop.body, state, inside)
            state = _joined(start, state, self._changed(after, _a_round_later, loop))
        return _joined({} if loop.runs else before, self._changed(after, _left, loop))

    def _kept(self, flight: Flight) -> Flight:
        """The one flight of this value."""
        value = (id(flight.copy), flight.ahead, flight.given, flight.entered, flight.landed, flight.unit)
        return self._known.setdefault(value, flight)

    def _change(self, flight: Flight, change: Callable[[Flight, Rounds], Flight], loop: Rounds) -> Flight:
        """The changed flight, which a loop around another computes again and again."""
        key = (flight, change, id(loop))
        if key not in self._changes:
            self._changes[key] = self._kept(change(flight, loop))
        return self._changes[key]

    def _changed(self, state: InFlight, change: Callable[[Flight, Rounds], Flight], loop: Rounds) -> InFlight:
        found: InFlight = {}
        for flight, commits in state.items():
            changed = self._change(flight, change, loop)
            found[changed] = min(commits, found.get(changed, commits))
        return found

    def _landed(self, state: InFlight, pending: int) -> InFlight:
        found: InFlight = {}
        for flight, commits in state.items():
            if commits > pending:
                found[self._kept(replace(flight, landed=True))] = 0
            else:
                found[flight] = commits
        return found

    def _separated(self, state: InFlight, sync: Sync) -> InFlight:
        """After a barrier of the block, nothing is concurrent with copies that have landed; one of a role is not it."""
        if sync.role is not None:
            return state
        found: InFlight = {}
        for flight, commits in state.items():
            if not flight.landed:
                found[flight] = commits
            elif sync.scope == "warp":
                found[self._kept(replace(flight, unit=sync.unit))] = commits
        return found

    def _meet(self, state: InFlight, accesses: Sequence[Footprint], loops: tuple[Symbol, ...]) -> None:
        for flight in state:
            if (flight, id(accesses)) in self._met:
                continue
            self._met.add((flight, id(accesses)))
            for access in accesses:
                if not are_harmless(flight.copy, access):
                    self.pairs[_pair(flight, access, loops)] = None

    def _meet_each_other(self, copies: Sequence[Footprint], loops: tuple[Symbol, ...]) -> None:
        """Copies that are issued together fill different elements."""
        for k, one in enumerate(copies):
            for other in copies[k:]:
                if not are_harmless(one, other):
                    self.pairs[Pair(one, other, frozenset(loops), in_flight=True, once=one is other)] = None


def _pair(flight: Flight, access: Footprint, loops: tuple[Symbol, ...]) -> Pair:
    ahead = dict(flight.ahead)
    common = frozenset(loop for loop in loops if ahead.get(loop) is not None)
    step = next((loop for loop in common if ahead[loop]), None)
    given = tuple(Eq(loop, number) for loop, number in flight.entered)
    return Pair(
        flight.copy, access, common, step, flight.given, given, flight.unit,
        ahead=1 if step is None else ahead[step] or 1, in_flight=not flight.landed,
    )  # fmt: skip


def _joined(*states: InFlight) -> InFlight:
    found: InFlight = {}
    for state in states:
        for flight, commits in state.items():
            found[flight] = min(commits, found.get(flight, commits))
    return found


def _entering(flight: Flight, loop: Rounds) -> Flight:
    assert loop.round is not None
    return replace(flight, entered=(*flight.entered, (loop.round, 0)))


def _a_round_later(flight: Flight, loop: Rounds) -> Flight:
    later = tuple((of, _plus_one(n) if of == loop.round else n) for of, n in flight.ahead)
    entered = ((of, n + 1 if of == loop.round else n) for of, n in flight.entered)
    return replace(flight, ahead=later, entered=tuple((of, n) for of, n in entered if n < MOST_ROUNDS))


def _plus_one(rounds: int | None) -> int | None:
    return None if rounds is None or rounds == MOST_ROUNDS else rounds + 1


def _left(flight: Flight, loop: Rounds) -> Flight:
    """After the loop: the distance from the copy's round to the last round."""
    assert loop.round is not None
    rounds = dict(flight.ahead).get(loop.round)
    given = flight.given
    if rounds is not None:
        given = (*given, loop.last.xreplace({loop.round: loop.round + rounds}))
    ahead = tuple((of, None if of == loop.round else n) for of, n in flight.ahead)
    return replace(flight, ahead=ahead, given=given, entered=tuple(e for e in flight.entered if e[0] != loop.round))
