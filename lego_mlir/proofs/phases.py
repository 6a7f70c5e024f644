"""Phases: the accesses of a block that no barrier separates.

Barriers are reached by all threads together, so that the threads of a block are always in the same interval between two
barriers, in the same round of the loops that contain barriers. Two accesses can meet if some path from one to the other
has no barrier. With `|` a barrier, in a loop

    for k:  W(k)  |  R(k)            W and R of one round are separated;
                                     R of round k and W of round k + 1 are not: a pair with `step`

A `Passage` summarises a part of the program: the accesses reachable from its start without a barrier (`head`), those
from which its end is reachable (`tail`), and whether it can be passed without one (`clear`). A barrier of a warp
separates the lanes of each warp only, that of a role's groups the threads of each group: such a pair must be of one
`unit` of so many threads instead of one thread.

Roles with barriers run concurrently: each access of one may meet each of another, and what comes before and after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

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
    flat,
    syncs_in,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accesses that may be executed by two threads of a block at the same time.

    `common` are the rounds that are equal for both; in `step` the second is one round ahead. The other rounds are
    independent. `given` holds of the first, `given_other` of the second. Threads of one `unit` do not meet.

    `in_flight`: the first is an asynchronous copy, whose element no access may touch; with `once`, the second is the
    same copy, of any thread. In `step` its wait may be `ahead` rounds later.
    """

    one: Footprint
    other: Footprint
    common: frozenset[Symbol] = frozenset()
    step: Symbol | None = None
    given: tuple[Cond, ...] = ()
    given_other: tuple[Cond, ...] = ()
    unit: int = 1
    ahead: int = 1
    in_flight: bool = False
    once: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """An access at the boundary of a segment, and what holds of its rounds there."""

    access: Footprint
    given: tuple[Cond, ...] = ()
    unit: int = 1


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of the program; each way through it passes a barrier of units of `fenced` threads, unless that is 1."""

    head: tuple[Edge, ...] = ()
    tail: tuple[Edge, ...] = ()
    clear: bool = True
    fenced: int = 1


@dataclass(slots=True)
class Phases:
    """Collects the pairs of a kernel. `left_out` is a barrier that is not there, to find out what it is needed for."""

    left_out: frozenset[int] = frozenset()
    pairs: dict[Pair, None] = field(default_factory=dict)

    def collect(self, nodes: Sequence[Node], common: frozenset[Symbol] = frozenset()) -> Passage:
        """The segment of a sequence of nodes, inside the loops whose rounds are `common`."""
        whole = Passage()
        for group in _concurrent(nodes):
            segment = self._roles(group, common) if isinstance(group, tuple) else self._segment(group, common)
            self._meet(whole.tail, segment.head, common)
            whole = _joined(whole, segment)
        return whole

    def _segment(self, node: Node, common: frozenset[Symbol]) -> Passage:
        match node:
            case Stretch(accesses=accesses) | Copies(accesses=accesses):
                edges = tuple(map(Edge, accesses))
                self._meet(edges, edges, common)
                return Passage(edges, edges)
            case Commit() | Wait():
                return Passage()
            case Sync():
                if id(node) in self.left_out:
                    return Passage()
                return Passage(clear=node.unit > 0, fenced=node.unit or 1)
            case Fork(then=then, otherwise=otherwise):
                a, b = self.collect(then, common), self.collect(otherwise, common)
                if a.clear and b.clear:  # threads may take different sides
                    self._meet(a.tail, b.head, common)
                return Passage((*a.head, *b.head), (*a.tail, *b.tail), a.clear or b.clear, min(a.fenced, b.fenced))
            case Rounds():
                return self._rounds(node, common)

    def _roles(self, roles: Sequence[Fork], common: frozenset[Symbol]) -> Passage:
        """Roles that run concurrently: their barriers order nothing of each other, nor of threads without a role."""
        for role in roles:
            self.collect(role.then, common)
        accesses = [list(flat(role.then)) for role in roles]
        edges = tuple(Edge(access) for each in accesses for access in each)
        for number, each in enumerate(accesses):
            others = [Edge(access) for other in accesses[number + 1 :] for access in other]
            self._meet(map(Edge, each), others, common)
        return Passage(edges, edges)

    def _rounds(self, loop: Rounds, common: frozenset[Symbol]) -> Passage:
        inside = common if loop.round is None else common | {loop.round}
        body = self.collect(loop.body, inside)
        self._meet(body.tail, body.head, inside, step=loop.round)
        if body.clear:  # rounds further apart may be in one interval too
            later = tuple(_marked(body.tail, body.fenced))
            self._meet(later, body.head, common)
        head, tail = body.head, body.tail
        if loop.round is not None and not body.clear:
            head = tuple(replace(edge, given=(*edge.given, Eq(loop.round, 0))) for edge in head)
            tail = tuple(replace(edge, given=(*edge.given, loop.last)) for edge in tail)
        return Passage(head, tail, body.clear or not loop.runs, body.fenced if loop.runs else 1)

    def _meet(
        self, tail: Iterable[Edge], head: Sequence[Edge], common: frozenset[Symbol], step: Symbol | None = None
    ) -> None:
        for one in tail:
            for other in head:
                if are_harmless(one.access, other.access):
                    continue
                unit = max(one.unit, other.unit)
                pair = Pair(one.access, other.access, common, step, one.given, other.given, unit)
                self.pairs[pair] = None


def _joined(a: Passage, b: Passage) -> Passage:
    head, tail = a.head, b.tail
    if a.clear:
        head = (*head, *_marked(b.head, a.fenced))
    if b.clear:
        tail = (*tail, *_marked(a.tail, b.fenced))
    return Passage(head, tail, a.clear and b.clear, max(a.fenced, b.fenced))


def _marked(edges: Iterable[Edge], fenced: int) -> Iterator[Edge]:
    return (replace(edge, unit=max(edge.unit, fenced)) for edge in edges)


def _concurrent(nodes: Sequence[Node]) -> Iterator[Node | tuple[Fork, ...]]:
    """The nodes one by one, adjacent roles together where one of them has a barrier of its own."""
    for is_role, group in groupby(nodes, lambda node: isinstance(node, Fork) and node.role):
        together = list(group)
        if is_role and any(sync.role is not None for sync in syncs_in(together)):
            yield tuple(node for node in together if isinstance(node, Fork))
        else:
            yield from together


def are_harmless(one: Footprint, other: Footprint) -> bool:
    """Accesses of different memory, two reads, and two atomic updates."""
    return one.buffer.name != other.buffer.name or (one.kind == other.kind and one.kind in ("read", "atomic"))


def across_blocks(accesses: Sequence[Footprint]) -> Iterator[Pair]:
    """The pairs of accesses of global memory that two blocks may execute at the same time: all of them."""
    kept = [access for access in accesses if access.buffer.space == "global"]
    for k, one in enumerate(kept):
        for other in kept[k:]:
            if not are_harmless(one, other):
                yield Pair(one, other)
