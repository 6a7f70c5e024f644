"""Rings that are used in strides, as several rings.

    ring[2 k + g]  with 6 stages, g = 0, 1      two rings of 3 stages, used by k

Groups of a role that have stages of their own in one ring, or take turns with it, use it so. Uses, rings and the
buffers that they guard are divided by the residue of the use, and nothing else has to know of strides. A loop over all
uses, as of the role that fills the stages, is unrolled before: each of `count` rounds in turn has a residue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sympy

from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Larger, Lt
from lego_mlir.proofs.rings.agents import (
    ARRIVE,
    FromRoundBefore,
    Let,
    NotFollowedError,
    ProgramPart,
    RingBranch,
    RingLoop,
    RingShape,
    RingWord,
    StageAccess,
    events_in,
)
from lego_mlir.proofs.rings.counts import EventSite
from lego_mlir.proofs.rings.order import RingOrder, StagedBuffer
from lego_mlir.proofs.rings.values import holds, residue, symbol_named


@dataclass(frozen=True, slots=True)
class Stride:
    """A ring as `count` rings: the residue of each word, by the identity of its part."""

    count: int
    residues: dict[int, int]


def divided(order: RingOrder) -> RingOrder:
    """The order with each ring that is used in strides divided; the same order if there is none."""
    for name in order.rings:
        order = _with_turns(order, name)
    strides = {name: stride for name in order.rings if (stride := _stride(order, name)) is not None}
    return _Division(order, strides).order() if strides else order


def _words(order: RingOrder, name: str) -> list[tuple[RingWord, EventSite]]:
    return [(w, site) for k in range(len(order.agents)) for w, site in order.words(k) if w.ring == name]


def _follow(order: RingOrder, name: str) -> bool:
    """Whether the uses of a ring follow each other."""
    stages = order.rings[name].stages
    return all(order.residue(w, s) in ((0,) if w.kind == ARRIVE else (0, stages)) for w, s in _words(order, name))


def _counts(order: RingOrder, name: str) -> Iterator[int]:
    stages = order.rings[name].stages
    return (d for d in range(stages, 1, -1) if stages % d == 0)


def _residues(order: RingOrder, name: str, count: int) -> dict[int, int | None]:
    """The residue of the uses of each word of a ring, by the identity of its part; None if it has not one."""
    found: dict[int, set[int | None]] = {}
    for w, site in _words(order, name):
        found.setdefault(id(site.part), set()).add(residue(w.use, sympy.Integer(0), count, order.ranges))
    return {part: each.pop() if len(each) == 1 else None for part, each in found.items()}


def _stride(order: RingOrder, name: str) -> Stride | None:
    """How a ring is divided, None where its uses follow each other or no divisor of its stages fits."""
    for count in () if _follow(order, name) else _counts(order, name):
        found = _residues(order, name, count)
        known = {part: rest for part, rest in found.items() if rest is not None}
        if len(known) == len(found):
            return Stride(count, known)
    return None


# -- loops over all uses


def _with_turns(order: RingOrder, name: str) -> RingOrder:
    """The order with loops unrolled where a ring has strides then; the same order if that does not help."""
    for count in () if _follow(order, name) or _stride(order, name) is not None else _counts(order, name):
        found = _residues(order, name, count)
        open_ = {part for part, rest in found.items() if rest is None}
        loops = {id(loop) for agent in order.agents for loop in _innermost(agent.program, open_)}
        if len(open_) == len(found) or not loops:
            continue
        agents = [replace(a, program=tuple(_unrolled(a.program, loops, count))) for a in order.agents]
        tried = replace(order, agents=agents, shift={}, cuts={}, _least={})
        try:
            if _stride(tried, name) is not None:
                return tried
        except NotFollowedError:
            pass
    return order


def _innermost(parts: Sequence[ProgramPart], words: set[int], around: RingLoop | None = None) -> Iterator[RingLoop]:
    """The innermost loops around some words, whose rounds leave nothing to the next ones."""
    for part in parts:
        match part:
            case RingLoop(body=body):
                yield from _innermost(body, words, part)
            case RingBranch(then=then, otherwise=otherwise):
                yield from _innermost((*then, *otherwise), words, around)
            case _ if id(part) in words and around is not None and around.step == 1:
                if not any(isinstance(event, FromRoundBefore) for event in events_in(around.body)):
                    yield around


def _unrolled(parts: Sequence[ProgramPart], loops: set[int], count: int) -> Iterator[ProgramPart]:
    """Copies of parts, in which `count` rounds of some loops are one."""
    for part in parts:
        match part:
            case RingLoop(body=body) if id(part) in loops:
                yield from _in_turns(part, count)
            case RingLoop(body=body):
                yield replace(part, body=tuple(_unrolled(body, loops, count)))
            case RingBranch(then=then, otherwise=otherwise):
                one, other = (tuple(_unrolled(side, loops, count)) for side in (then, otherwise))
                yield RingBranch(part.condition, one, other, part.place)
            case Let():
                yield replace(part, counts="")  # shown for the program before
            case _:
                yield replace(part)


def _in_turns(loop: RingLoop, count: int) -> Iterator[ProgramPart]:
    """A loop of `count` rounds at a time, and the rounds that are left."""
    first = symbol_named(f"turn of {loop.symbol}")

    def round_at(place: int) -> tuple[ProgramPart, ...]:
        return Let(loop.symbol, first + place), *_unrolled(loop.body, set(), count)

    whole = FloorDiv(Larger(sympy.expand(loop.hi - loop.lo), sympy.Integer(0)), count) * count
    body = tuple(part for place in range(count) for part in round_at(place))
    yield RingLoop(first, loop.lo, loop.lo + whole, sympy.Integer(count), body, loop.place)
    yield Let(first, loop.lo + whole)
    for place in range(count - 1):
        yield RingBranch(Lt(first + place, loop.hi), round_at(place), (), loop.place)


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
                rest = stride.residues.get(id(part), 0)  # a word that no walk reaches is in none
                return replace(part, ring=f"{ring} {rest}", use=sympy.expand((part.use - rest) / stride.count))
            case Let():
                return replace(part, counts="")  # shown for the program before
            case StageAccess(buffer=buffer) if buffer in self.guards:
                return self._access(part, self.guards[buffer] or "")
            case FromRoundBefore(access=access) if access.buffer in self.guards:
                return replace(part, access=self._access(access, self.guards[access.buffer] or ""))
        return part

    def _access(self, part: StageAccess, guard: str) -> StageAccess:
        """An access of the buffer of one residue: the one in whose stages it is shown to be.

        One that is not shown to be in any is of the first: its place has to be shown there, and is not.
        """
        count = self.strides[guard].count
        c = next((c for c in range(count) if self._is_inside(part, count, c)), 0)
        on = part.on if part.on is None else f"{part.on} {c}"
        use = part.use if part.use is None else sympy.expand((part.use - c) / count)
        return replace(part, buffer=f"{part.buffer} {c}", on=on, use=use)

    def _is_inside(self, part: StageAccess, count: int, c: int) -> bool:
        """Whether an access is in stages of residue `c`, wherever it is reached."""
        buffer, events = self.origin.buffers[part.buffer], self.events.get(id(part), [])
        for event in events:
            size = buffer.elements if event.by_position else buffer.height
            if not holds(Eq(FloorMod(FloorDiv(event.row, size), count), c), self.origin.ranges):
                return False
        return bool(events)
