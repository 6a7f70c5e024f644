"""Rings that are used in strides, as several rings.

    ring[2 k + g]  with 6 stages, g = 0, 1      two rings of 3 stages, used by k

Groups of a role that have stages of their own in one ring, or take turns with it, use it so. Uses, rings and the
buffers that they guard are divided by the residue of the use, and nothing else has to know of strides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.proofs.rings.agents import (
    ARRIVE,
    FromRoundBefore,
    ProgramPart,
    RingBranch,
    RingLoop,
    RingShape,
    RingWord,
    StageAccess,
)
from lego_mlir.proofs.rings.order import RingOrder, StagedBuffer
from lego_mlir.proofs.rings.values import holds, residue


@dataclass(frozen=True, slots=True)
class Stride:
    """A ring as `count` rings: the residue of each word, by the identity of its part."""

    count: int
    residues: dict[int, int]


def divided(order: RingOrder) -> RingOrder:
    """The order with each ring that is used in strides divided; the same order if there is none."""
    strides = {name: stride for name in order.rings if (stride := _stride(order, name)) is not None}
    return _Division(order, strides).order() if strides else order


def _stride(order: RingOrder, name: str) -> Stride | None:
    """How a ring is divided, None where its uses follow each other or no divisor of its stages fits."""
    stages = order.rings[name].stages
    words = [(w, site) for k in range(len(order.agents)) for w, site in order.words(k) if w.ring == name]
    if all(order.residue(w, site) in ((0,) if w.kind == ARRIVE else (0, stages)) for w, site in words):
        return None
    for count in (d for d in range(stages, 1, -1) if stages % d == 0):
        found: dict[int, set[int | None]] = {}
        for w, site in words:
            found.setdefault(id(site.part), set()).add(residue(w.use, sympy.Integer(0), count, order.ranges))
        known = {part: rest for part, (rest, *others) in found.items() if rest is not None and not others}
        if len(known) == len(found):
            return Stride(count, known)
    return None


class _Division:
    """Rewrites the programs, rings and buffers of an order for the rings in `strides`."""

    def __init__(self, order: RingOrder, strides: dict[str, Stride]) -> None:
        self.origin, self.strides = order, strides
        self.events: dict[int, list[StageAccess]] = {}
        for site in (site for walk in order.walks for site in walk.sites):
            if isinstance(site.event, StageAccess):
                self.events.setdefault(id(site.part), []).append(site.event)
        events = [event for each in self.events.values() for event in each]
        self.guards = {event.buffer: event.on for event in events if event.on in strides}
        self.rings: dict[str, RingShape] = {}
        self.buffers: dict[str, StagedBuffer] = {}

    def order(self) -> RingOrder:
        origin = self.origin
        for name, ring in origin.rings.items():
            if name not in self.strides:
                self.rings[name] = ring
                continue
            count = self.strides[name].count
            for c in range(count):
                self.rings[f"{name} {c}"] = RingShape(f"{name} {c}", ring.stages // count, ring.expected)
        for name, buffer in origin.buffers.items():
            guard = self.guards.get(name)
            if guard is None:
                self.buffers[name] = buffer
                continue
            count = self.strides[guard].count
            for c in range(count):
                stages = buffer.stages // count
                self.buffers[f"{name} {c}"] = replace(buffer, stages=stages, every=count, first=c, ring=f"{guard} {c}")
        agents = [replace(a, program=tuple(map(self._part, a.program))) for a in origin.agents]
        return replace(origin, rings=self.rings, buffers=self.buffers, agents=agents, shift={}, _least={})

    def _part(self, part: ProgramPart) -> ProgramPart:
        match part:
            case RingLoop(body=body):
                return replace(part, body=tuple(map(self._part, body)))
            case RingBranch(then=then, otherwise=otherwise):
                return replace(part, then=tuple(map(self._part, then)), otherwise=tuple(map(self._part, otherwise)))
            case RingWord(ring=ring) if ring in self.strides:
                stride = self.strides[ring]
                rest = stride.residues[id(part)]
                return replace(part, ring=f"{ring} {rest}", use=sympy.expand((part.use - rest) / stride.count))
            case StageAccess(buffer=buffer) if buffer in self.guards:
                return self._access(part, self.guards[buffer] or "")
            case FromRoundBefore(access=access) if access.buffer in self.guards:
                return replace(part, access=self._access(access, self.guards[access.buffer] or ""))
        return part

    def _access(self, part: StageAccess, guard: str) -> StageAccess:
        """An access of the buffer of one residue: the one in whose stages it is proved to be."""
        events, count = self.events.get(id(part), []), self.strides[guard].count
        for c in range(count) if events else ():
            buffer = self.buffers[f"{part.buffer} {c}"]
            if all(self._is_inside(buffer, event) for event in events):
                on = part.on if part.on is None else f"{part.on} {c}"
                use = part.use if part.use is None else sympy.expand((part.use - c) / count)
                return replace(part, buffer=f"{part.buffer} {c}", on=on, use=use)
        return part

    def _is_inside(self, buffer: StagedBuffer, event: StageAccess) -> bool:
        for slot in range(buffer.stages):
            offset, size = buffer.offset(event, sympy.Integer(slot))
            if holds(Le(0, offset) & Lt(offset, size), self.origin.ranges):
                return True
        return False
