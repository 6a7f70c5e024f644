"""Stages that are filled before they are read: which buffers of a proved order have no read before a write.

    wait empty[k - 3];  copy rows 0 .. 63 of stage k, completing on full[k];  arrive at full[k]
    wait full[k];  read a row of stage k

A wait for use k passes after the arrivals for k and the copies that complete on it. So a read of use y is of written
elements if its agent has waited for y, and if on the way to each arrival of an agent at that ring its copies, in the
same round and under no condition, fill all rows of the stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.expr.nodes import Le
from lego_mlir.proofs.rings.agents import (
    ARRIVE,
    WAIT,
    ProgramPart,
    RingBranch,
    RingLoop,
    RingWord,
    StageAccess,
    has_words,
)
from lego_mlir.proofs.rings.counts import EventSite
from lego_mlir.proofs.rings.obligations import Obligations
from lego_mlir.proofs.rings.order import RingOrder
from lego_mlir.proofs.rings.values import constant, holds, simplified


@dataclass(frozen=True, slots=True)
class _Arrival:
    """An arrival, and the copies of its round before it that complete on its use."""

    word: RingWord
    copies: tuple[StageAccess, ...]


def unfilled(order: RingOrder) -> dict[str, str]:
    """The buffers of a proved order with a read that is not shown to come after a write, and the reason."""
    fills = _Fills(order)
    check, found = Obligations(order), dict[str, str]()
    for k, walk in enumerate(order.walks):
        for site in walk.sites:
            access = site.event
            if not isinstance(access, StageAccess) or access.kind != "read" or access.buffer not in order.buffers:
                continue
            name = order.buffers[access.buffer].buffer
            if name not in found and not _comes_after(order, check, fills, k, access, site):
                found[name] = f"{access.place}: the read of {name} may come before the copy of its stage"
    return found


def _comes_after(
    order: RingOrder, check: Obligations, fills: _Fills, k: int, access: StageAccess, site: EventSite
) -> bool:
    """Whether the agent has waited for the copies of a use whose stage it reads."""
    ring, use = order.buffers[access.buffer].ring, check.use_of(access, site)
    waits = site.counts.get((WAIT, ring, None))
    if use is None or waits is None or not fills.whole(access.buffer):
        return False
    shift, stages = order.shift.get((k, ring), 0), order.buffers[access.buffer].stages
    if order.low(waits + shift - 1 - use) < 0:
        use = sympy.expand(use - stages)  # the same stage, one turn before
    if order.low(waits + shift - 1 - use) < 0:
        return False
    before = (s.counts[word.counter] for word, s in order.words(k) if word.counter == (WAIT, ring, None))
    at_least_first = shift >= 0 and any(
        order.low(use - shift - count) >= 0 for count in before
    )  # a count is not negative
    return at_least_first or holds(Le(0, use), order.ranges)


class _Fills:
    """The rows of each buffer's stages that are filled for every use."""

    def __init__(self, order: RingOrder) -> None:
        self.order = order
        self.events: list[dict[int, list[StageAccess]]] = [{} for _ in order.walks]
        for events, walk in zip(self.events, order.walks, strict=True):
            for site in walk.sites:
                if isinstance(site.event, StageAccess):
                    events.setdefault(id(site.part), []).append(site.event)
        reached = {id(site.part) for walk in order.walks for site in walk.sites}
        self.arrivals = [[a for a in _arrivals(agent.program) if id(a.word) in reached] for agent in order.agents]
        self._whole: dict[str, bool] = {}

    def whole(self, buffer: str) -> bool:
        """Whether all rows are filled for each use of the buffer's ring."""
        if buffer not in self._whole:
            rows: set[int] = set()
            for k in range(len(self.order.agents)):
                rows |= self._rows(k, buffer)
            self._whole[buffer] = rows >= set(range(self.order.buffers[buffer].height))
        return self._whole[buffer]

    def _rows(self, k: int, buffer: str) -> set[int]:
        """The rows that an agent fills before each of its arrivals at the buffer's ring."""
        ring = self.order.buffers[buffer].ring
        each = [
            {row for copy in arrival.copies if copy.buffer == buffer for row in self._copied(k, copy)}
            for arrival in self.arrivals[k]
            if arrival.word.ring == ring
        ]
        return set.intersection(*each) if each else set()

    def _copied(self, k: int, copy: StageAccess) -> set[int]:
        """The rows of its stage that a copy fills wherever it is reached."""
        found = [self._filled(copy, event) for event in self.events[k].get(id(copy), [])]
        return set.intersection(*found) if found else set()

    def _filled(self, copy: StageAccess, event: StageAccess) -> set[int]:
        """The rows of its stage that a copy fills in every block, with what other blocks copy there."""
        if not copy.whole_rows or event.use is None:
            return set()
        offset, _ = self.order.buffers[copy.buffer].offset(event, event.use)
        ranks = self.order.ranks
        each = [[ranks[k] for k in members] for members in copy.shared] or [[{}]]
        return set.intersection(*({row for rank in held for row in self._part(offset, rank, copy)} for held in each))

    def _part(self, offset: Expr, rank: Mapping[Symbol, Expr], copy: StageAccess) -> range:
        """The rows that the block of a rank copies; none if they are not known."""
        first = constant(simplified(offset.xreplace(rank), self.order.ranges), self.order.ranges)
        return range(0) if first is None else range(first, first + copy.rows)


def _arrivals(parts: Sequence[ProgramPart]) -> Iterator[_Arrival]:
    """The arrivals of a program, each with the copies since the last words on its way."""
    copies: list[StageAccess] = []
    for part in parts:
        match part:
            case StageAccess(kind="copy"):
                copies.append(part)
            case RingWord(kind=kind, ring=ring, use=use) if kind == ARRIVE:
                own = [c for c in copies if c.on == ring and c.use is not None and sympy.expand(c.use - use) == 0]
                yield _Arrival(part, tuple(own))
                copies = [c for c in copies if c.on != ring]
            case RingLoop(body=body):
                yield from _arrivals(body)
                copies = [] if has_words(body) else copies
            case RingBranch(then=then, otherwise=otherwise):
                yield from _arrivals(then)
                yield from _arrivals(otherwise)
                copies = [] if has_words((*then, *otherwise)) else copies
            case _:
                pass
