"""The claims that no two threads race for an element of memory.

Two accesses race if they touch one element, one of them writes, not both are atomic, and no barrier is between them.
Threads of two blocks have no barrier between them at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.proofs.copies_in_flight import Flights
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.phases import Pair, Phases, across_blocks
from lego_mlir.proofs.rings.overlaid import open_overlay, overlaid
from lego_mlir.tracing.trace.trace import Buffer

OF_PEERS: Final = "other blocks of the cluster access it, whose order only runs check"


@dataclass(frozen=True, slots=True)
class RaceClaim:
    """A claim about one buffer; `pair` is what is not proved."""

    buffer: Buffer
    across: bool
    verdict: Verdict
    pair: Pair | None = None

    @property
    def text(self) -> str:
        who = "two blocks" if self.across else "two threads of a block"
        return f"no race for {self.buffer.name} between {who}"


@dataclass(frozen=True)
class PairsInside:
    """The pairs of accesses that threads of a block may execute at the same time, without the barriers `left_out`.

    Copies in flight are followed last, and only those into a buffer of which pairs are needed: in nested loops they
    have hundreds of thousands.
    """

    model: KernelModel
    left_out: frozenset[int] = frozenset()

    @cached_property
    def guarded(self) -> frozenset[str]:
        """The buffers whose uses are proved to be ordered by rings of barriers."""
        return frozenset() if self.model.rings is None else self.model.rings.guarded

    @cached_property
    def _phases(self) -> Phases:
        phases = Phases(self.left_out)
        phases.collect(self.model.nodes)
        return phases

    def of(self, buffer: Buffer) -> Iterator[Pair]:
        """The pairs whose accesses are of this buffer; where rings order its uses, those of one use by one role."""
        if buffer.name not in self.guarded:
            yield from self._concurrent(buffer)
        elif self._is_written_by_a_reader(buffer):
            pairs = self._concurrent(buffer)
            yield from (pair for pair in pairs if pair.one.conditions[:1] == pair.other.conditions[:1])
        else:
            yield from self._of_one_use(buffer)

    def _concurrent(self, buffer: Buffer) -> Iterator[Pair]:
        yield from (pair for pair in self._phases.pairs if pair.one.buffer.name == buffer.name)
        flights = Flights(self.left_out, buffer.name)
        flights.collect(self.model.nodes)
        yield from flights.pairs

    def _is_written_by_a_reader(self, buffer: Buffer) -> bool:
        """Whether a role writes elements that it also reads: its own barriers have to order these."""
        writes, reads = (
            {a.conditions[:1] for a in self.model.accesses if a.buffer.name == buffer.name and a.writes == writes}
            for writes in (True, False)
        )
        return bool(writes & reads)

    def _of_one_use(self, buffer: Buffer) -> Iterator[Pair]:
        """Writes of a role to one stage, in one round: other rounds are of other uses."""
        writes = [a for a in self.model.accesses if a.buffer.name == buffer.name and a.writes]
        for number, one in enumerate(writes):
            for other in writes[number:]:
                if one.rounds == other.rounds and one.conditions[:1] == other.conditions[:1]:
                    yield Pair(one, other, frozenset(one.rounds))


def race_claims(model: KernelModel, pairs: PairsInside | None = None) -> Iterator[RaceClaim]:
    """A claim for each buffer that is written, the shared tiles first."""
    if pairs is None:
        pairs = PairsInside(model)
    buffers = {a.buffer.name: a.buffer for a in model.accesses if a.writes}
    peers = model.trace.tiles_of_peers()
    for buffer in sorted(buffers.values(), key=lambda b: b.space == "global"):
        if buffer.name in peers and buffer.name not in pairs.guarded:
            yield RaceClaim(buffer, False, Unknown(OF_PEERS))
            continue
        below = open_overlay(model.trace, model.rings) if buffer.name in overlaid(model.trace) else None
        if below is not None:
            yield RaceClaim(buffer, False, Unknown(below))
            continue
        order = ("the order of its ring, for all uses",) if buffer.name in pairs.guarded else ()
        yield _claim(model, buffer, False, pairs.of(buffer), order)
        if buffer.space == "global":
            accesses = [a for a in model.accesses if a.buffer.name == buffer.name]
            yield _claim(model, buffer, True, across_blocks(accesses))


def _claim(
    model: KernelModel, buffer: Buffer, across: bool, pairs: Iterable[Pair], order: Sequence[str] = ()
) -> RaceClaim:
    """The claim about these pairs; `order` is what separates all others."""
    methods = dict.fromkeys(order)
    for pair in pairs:
        verdict = model.proved_apart(pair, across)
        if isinstance(verdict, Proved):
            methods[verdict.by] = None
        else:
            return RaceClaim(buffer, across, Unknown(_reason(pair) + _why(model, pair)), pair)
    return RaceClaim(buffer, across, Proved(", ".join(methods) or "no two accesses are concurrent"))


def _reason(pair: Pair) -> str:
    if pair.in_flight and not pair.once:
        return f"not proved that the {pair.other} avoids what the {pair.one} may still copy"
    if pair.one is pair.other:
        return f"not proved that the {pair.one} touches a different element in each thread"
    return f"not proved that the {pair.one} and the {pair.other} touch different elements"


def _why(model: KernelModel, pair: Pair) -> str:
    if not model.by_data(pair):
        return ""
    return (
        ": the index depends on the contents of memory; if no two elements of the tensor that it is loaded from are "
        "equal, state it with lego.assume_distinct, else update atomically"
    )
