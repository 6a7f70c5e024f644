"""Which accesses of a block no barrier separates.

Barriers are reached by all threads together, so that the threads of a block are always in the same interval between two
barriers, in the same round of the loops that contain barriers. Two accesses can meet if some path from one to the other
has no barrier. With `|` a barrier, in a loop

    for k:  W(k)  |  R(k)            W and R of one round are separated;
                                     R of round k and W of round k + 1 are not: a pair with `step`

A `Passage` summarises a part of the program: the accesses reachable from its start without a barrier (`head`), those
from which its end is reachable (`tail`), and whether it can be passed without one (`clear`). A barrier of a warp
separates the lanes of each warp only: such a pair is `warps_apart`, and must be of one warp instead of one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lego_mlir.aliases import Cond, Symbol
from lego_mlir.expr.nodes import Eq
from lego_mlir.proofs.footprints import Commit, Copies, Footprint, Fork, Node, Rounds, Stretch, Sync, Wait


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accesses that may be executed by two threads of a block at the same time.

    `common` are the rounds that are equal for both; in `step` the second is one round ahead. The other rounds are
    independent. `given` holds of the first, `given_other` of the second.

    `in_flight`: the first is an asynchronous copy, whose element no access may touch; with `once`, the second is the
    same copy, of any thread. In `step` its wait may be `ahead` rounds later.
    """

    one: Footprint
    other: Footprint
    common: frozenset[Symbol] = frozenset()
    step: Symbol | None = None
    given: tuple[Cond, ...] = ()
    given_other: tuple[Cond, ...] = ()
    warps_apart: bool = False
    ahead: int = 1
    in_flight: bool = False
    once: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """An access at the boundary of a segment, and what holds of its rounds there."""

    access: Footprint
    given: tuple[Cond, ...] = ()
    warps_apart: bool = False


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of the program; `fenced` if every way through it passes a barrier of the warp."""

    head: tuple[Edge, ...] = ()
    tail: tuple[Edge, ...] = ()
    clear: bool = True
    fenced: bool = False


@dataclass(slots=True)
class Phases:
    """Collects the pairs of a kernel. `left_out` is a barrier that is not there, to find out what it is needed for."""

    left_out: frozenset[int] = frozenset()
    pairs: dict[Pair, None] = field(default_factory=dict)

    def collect(self, nodes: Sequence[Node], common: frozenset[Symbol] = frozenset()) -> Passage:
        """The segment of a sequence of nodes, inside the loops whose rounds are `common`."""
        whole = Passage()
        for node in nodes:
            segment = self._segment(node, common)
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
                return Passage(clear=node.scope == "warp", fenced=node.scope == "warp")
            case Fork(then=then, otherwise=otherwise):
                a, b = self.collect(then, common), self.collect(otherwise, common)
                if a.clear and b.clear:  # threads may take different sides
                    self._meet(a.tail, b.head, common)
                return Passage((*a.head, *b.head), (*a.tail, *b.tail), a.clear or b.clear, a.fenced and b.fenced)
            case Rounds():
                return self._rounds(node, common)

    def _rounds(self, loop: Rounds, common: frozenset[Symbol]) -> Passage:
        inside = common if loop.round is None else common | {loop.round}
        body = self.collect(loop.body, inside)
        self._meet(body.tail, body.head, inside, step=loop.round)
        if body.clear:  # rounds further apart may be in one interval too
            later = tuple(replace(edge, warps_apart=edge.warps_apart or body.fenced) for edge in body.tail)
            self._meet(later, body.head, common)
        head, tail = body.head, body.tail
        if loop.round is not None and not body.clear:
            head = tuple(replace(edge, given=(*edge.given, Eq(loop.round, 0))) for edge in head)
            tail = tuple(replace(edge, given=(*edge.given, loop.last)) for edge in tail)
        return Passage(head, tail, body.clear or not loop.runs, body.fenced and loop.runs)

    def _meet(
        self,
        tail: Iterable[Edge],
        head: Sequence[Edge],
        common: frozenset[Symbol],
        step: Symbol | None = None,
    ) -> None:
        for one in tail:
            for other in head:
                if are_harmless(one.access, other.access):
                    continue
                apart = one.warps_apart or other.warps_apart
                pair = Pair(one.access, other.access, common, step, one.given, other.given, apart)
                self.pairs[pair] = None


def _joined(a: Passage, b: Passage) -> Passage:
    head, tail = a.head, b.tail
    if a.clear:
        head = (*head, *_marked(b.head, a.fenced))
    if b.clear:
        tail = (*tail, *_marked(a.tail, b.fenced))
    return Passage(head, tail, a.clear and b.clear, a.fenced or b.fenced)


def _marked(edges: Iterable[Edge], fenced: bool) -> Iterator[Edge]:
    return (replace(edge, warps_apart=True) if fenced else edge for edge in edges)


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
