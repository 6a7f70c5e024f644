"""A gang: warps that are at the same instruction, executed together as NumPy arrays of one element a lane.

All warps of the resident blocks begin as few large gangs. A branch that some lanes take and others do not splits a gang
in two; the halves merge where the branch's paths meet (`reconvergence`), or at a barrier. Registers are arrays of bits
that are never changed in place, so a split by lanes shares them and a merge copies only those that differ.

    lanes      0 1 2 .. 31 | 32 33 .. 63 | ..        warps one after the other
    active     None: all lanes execute; else a truth value a lane
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.call_stack import CallFrame, merged_frames
from lego_mlir.interp.ptx.ptx_types import BITS

Registers = list["Array | None"]


@dataclass(eq=False, slots=True)
class Join:
    """A place where the parts of a split gang meet: `missing` lanes have neither arrived nor exited.

    `depth` is the number of calls that they are in there: code of a function that calls itself has a place for each.
    """

    pc: int
    missing: int
    depth: int = 0
    arrived: list[Gang] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PollState:
    """A gang at an instruction that polls: the changes of memory until then, and its live registers."""

    pc: int
    changes: int
    registers: Registers

    def equals(self, other: PollState) -> bool:
        """Whether what follows is the same, while memory does not change."""
        if (self.pc, self.changes) != (other.pc, other.changes):
            return False
        pairs = zip(self.registers, other.registers, strict=True)
        return all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class DeferredMove:
    """A move of registers of a wgmma in flight, to be made when it has landed."""

    sources: frozenset[int]
    targets: frozenset[int]
    perform: Callable[[Gang], object]


@dataclass(eq=False, slots=True)
class Gang:
    """Warps at one instruction: `warps` are numbers of resident warps, `joins` the splits that it is part of.

    `polled` is its state at its last poll; `stuck_at` the count of changes of memory at which it polls in vain;
    `parked_at` the instruction at which it was parked; `deferred` are moves of what is `pending`.
    """

    warps: IntArray
    regs: Registers
    active: Array | None
    pc: int = 0
    joins: tuple[Join, ...] = ()
    pending: frozenset[int] = frozenset()
    fenced: Registers | None = None
    impatience: int = 0
    polled: PollState | None = None
    stuck_at: int = -1
    frames: tuple[CallFrame, ...] = ()
    state: str = "runnable"
    waits: str = ""
    parked_at: int = 0
    deferred: tuple[DeferredMove, ...] = ()
    lane_warp: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.lane_warp = np.repeat(self.warps, WARP)

    @property
    def lanes(self) -> int:
        return len(self.lane_warp)

    def live(self) -> IntArray:
        """The numbers of the active lanes."""
        return np.arange(self.lanes) if self.active is None else np.flatnonzero(self.active)

    def count(self) -> int:
        return self.lanes if self.active is None else int(np.count_nonzero(self.active))

    def mask(self) -> Array:
        """A truth value for each lane: whether it is active."""
        return np.ones(self.lanes, np.bool_) if self.active is None else self.active

    def get(self, slot: int, bits: int) -> Array:
        """The bits of a register; zeros where nothing was written."""
        value = self.regs[slot]
        if value is None:
            value = self.regs[slot] = np.zeros(self.lanes, BITS[bits])
        return value

    def put(self, slot: int, value: Array) -> None:
        """Write the active lanes of a register; `value` has the register's dtype, and one element or one a lane."""
        if value.shape[0] != self.lane_warp.shape[0]:
            assert value.shape[0] == 1, f"{value.shape[0]} values for {self.lanes} lanes"
            value = np.repeat(value, self.lane_warp.shape[0])
        if self.active is not None and (old := self.regs[slot]) is not None:
            value = np.where(self.active, value, old)
        self.regs[slot] = value

    def of_warps(self, chosen: Array) -> Gang:
        """The part of the gang with the chosen warps (a truth value for each)."""
        lanes = np.repeat(chosen, WARP)
        regs = [None if r is None else r[lanes] for r in self.regs]
        fenced = None
        if self.fenced is not None:  # keep the identity of registers that are unchanged since the fence
            fenced = [new if old is now else None for now, old, new in zip(self.regs, self.fenced, regs, strict=True)]
        active = None if self.active is None else self.active[lanes]
        return Gang(
            self.warps[chosen], regs, simplified(active), self.pc, self.joins, self.pending, fenced, self.impatience,
            frames=tuple(frame.of(lanes) for frame in self.frames), deferred=self.deferred,
        )  # fmt: skip

    def of_lanes(self, lanes: Array) -> Gang:
        """The part of the gang with some of its lanes: all its warps, another mask."""
        fenced = None if self.fenced is None else list(self.fenced)
        return Gang(
            self.warps, list(self.regs), lanes, self.pc, self.joins, self.pending, fenced, self.impatience,
            frames=self.frames, deferred=self.deferred,
        )  # fmt: skip

    @property
    def origins(self) -> tuple[int, ...]:
        """The calls that the gang is in."""
        return tuple(frame.origin for frame in self.frames)


def simplified(active: Array | None) -> Array | None:
    """None for a mask of all lanes."""
    return None if active is None or active.all() else active


def by_warp(taken: Array, active: Array | None) -> tuple[Array, Array]:
    """Per warp: whether any active lane takes the branch, and whether any does not."""
    rows = taken.reshape(-1, WARP)
    mask = np.ones_like(rows) if active is None else active.reshape(-1, WARP)
    taking = np.any(rows & mask, axis=1, keepdims=True)[:, 0]
    staying = np.any(~rows & mask, axis=1, keepdims=True)[:, 0]
    return taking, staying


def merge(parts: Sequence[Gang], joins: tuple[Join, ...]) -> Gang:
    """One gang of disjoint parts at one instruction."""
    first = parts[0]
    if len(parts) == 1:
        first.joins = joins
        return first
    warps = np.unique(np.concatenate([part.warps for part in parts]))
    row = {int(w): i for i, w in enumerate(warps)}
    targets, sources = [], []
    for part in parts:
        base = np.array([row[int(w)] for w in part.warps]) * WARP
        places = (base[:, None] + np.arange(WARP)).reshape(-1)
        live = part.live()
        targets.append(places[live])
        sources.append(live)
    lanes = len(warps) * WARP
    same_warps = all(np.array_equal(part.warps, warps) for part in parts)
    regs: Registers = []
    for slot in range(len(first.regs)):
        values = [part.regs[slot] for part in parts]
        known = [v for v in values if v is not None]
        if not known or (same_warps and all(v is values[0] for v in values)):
            regs.append(values[0])
            continue
        merged = np.zeros(lanes, known[0].dtype)
        for value, to, at in zip(values, targets, sources, strict=True):
            if value is not None:
                merged[to] = value[at]
        regs.append(merged)
    active = np.zeros(lanes, np.bool_)
    for to in targets:
        active[to] = True
    pending = frozenset().union(*(part.pending for part in parts))
    fenced: Registers | None = None
    if all(part.fenced is not None for part in parts):
        fenced = [
            new if all(p.fenced is not None and p.fenced[i] is p.regs[i] for p in parts) else None
            for i, new in enumerate(regs)
        ]
    impatience = max(part.impatience for part in parts)
    frames = merged_frames([part.frames for part in parts], targets, sources, lanes) if first.frames else ()
    return Gang(
        warps, regs, simplified(active), first.pc, joins, pending, fenced, impatience, frames=frames,
        deferred=first.deferred,
    )  # fmt: skip


LANES_AT_ONCE: Final = 2048
"""Lanes of a gang at the start of a block: more makes one instruction cheaper per lane, fewer limits memory."""
