"""Barriers that complete one phase after another, as both interpreters model them; `shared_shadow` has the clocks.

Who arrives releases a clock, which the barrier joins with those of the others; who waits for the phase acquires all.

    PhaseBarrier     that alone
    ClusterBarrier   knows warps: all of a cluster's arrive, and each waits before it arrives again
    NamedBarrier     counts threads, in whole warps: those of a block that have numbers
    MemoryBarrier    counts arrivals, and what asynchronous units bring: mbarrier

A phase of an mbarrier is complete when its arrivals and its bytes are all there. Then its number goes up, and `pending`
is the count again. A wait for parity P succeeds when the phase with that parity is over, that is, when the current
phase has the other one.

    init 1        phase 0: pending 1, flying 0        wait parity 1: true at once; wait parity 0: waits
    expect_tx n   phase 0: pending 0, flying n
    copies land   phase 1: pending 1, flying 0        wait parity 0: true
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from lego_mlir.aliases import Array, IntArray
from lego_mlir.interp.shared_shadow import VectorClocks, joined


@dataclass(eq=False, slots=True)
class PhaseBarrier:
    """The number of the current phase, and what the waits for it, and for the last one, learn; who waits."""

    phase: int = 0
    joint: Array | None = None
    done: Array | None = None
    waiting: list[Any] = field(default_factory=list)

    def learn(self, joint: Array | None) -> None:
        """What someone who arrives knows, or what a copy has written."""
        if joint is not None:
            self.joint = joined(self.joint, joint)

    def end_phase(self) -> None:
        """The next phase begins."""
        self.phase += 1
        self.done, self.joint = self.joint, None


@dataclass(eq=False, slots=True)
class ClusterBarrier(PhaseBarrier):
    """The warps that arrived, and for those that have not waited since, in which phase."""

    arrived: set[int] = field(default_factory=set)
    owes: dict[int, int] = field(default_factory=dict)

    def add(self, clocks: VectorClocks, warps: IntArray, *, releases: bool = True) -> bool:
        """These warps arrive; False if one of them has not waited since it arrived last."""
        numbers, joint = set(warps.tolist()), clocks.release(warps)
        waited = self.owes.keys().isdisjoint(numbers)
        self.learn(joint if releases else None)
        self.arrived |= numbers
        self.owes |= dict.fromkeys(numbers, self.phase)
        return waited

    def advance(self, expected: Collection[int]) -> bool:
        """End the phase if all the warps that are expected have arrived."""
        if not self.arrived or not self.arrived.issuperset(expected):
            return False
        self.end_phase()
        self.arrived = set()
        return True

    def is_open(self, warps: IntArray) -> bool | None:
        """Whether these warps have to wait; None if one has not arrived."""
        phases = {self.owes.get(warp) for warp in warps.tolist()}
        return None if None in phases else self.phase in phases

    def leave(self, clocks: VectorClocks, warps: IntArray) -> None:
        """The phase of these warps is over, and they have waited for it."""
        for warp in warps.tolist():
            del self.owes[warp]
        if self.done is not None:
            clocks.acquire(warps, self.done)


@dataclass(eq=False, slots=True)
class NamedBarrier(PhaseBarrier):
    """The threads that the phase counts and those that arrived, and their warps."""

    expected: int = 0
    arrived: int = 0
    warps: list[int] = field(default_factory=list)

    def add(self, clocks: VectorClocks, warps: IntArray, threads: int) -> bool:
        """Threads of these warps arrive; True if that completes the phase."""
        self.learn(clocks.release(warps))
        self.warps += warps.tolist()
        self.arrived += threads
        return self.arrived >= self.expected

    def restart(self) -> None:
        """End the phase, even if threads are still missing."""
        self.end_phase()
        self.arrived, self.warps = 0, []


@dataclass(frozen=True, slots=True)
class Promise:
    """What a phase must not end before, such as the issue of a copy: an agent's clock; `report` gets the phase."""

    agent: int
    clock: int
    report: Callable[[int], None]


@dataclass(eq=False, slots=True)
class MemoryBarrier(PhaseBarrier):
    """The arrivals of a phase, those that are missing, and the bytes, or copies, that are.

    `arrived` is what those who arrived in this phase know. Waits learn from all phases that are over.
    """

    count: int = 0
    pending: int = 0
    flying: int = 0
    arrived: Array | None = None
    promises: list[Promise] = field(default_factory=list)

    def arrive(self, arrivals: int, known: Array) -> None:
        """Count arrivals, no more than are missing."""
        self.arrived = joined(self.arrived, known)
        self.pending -= min(arrivals, self.pending)

    def advance(self) -> bool:
        """End the phase if nothing is missing, and report promises that no arrival follows."""
        if self.pending or self.flying:
            return False
        arrived, self.arrived, promises, self.promises = self.arrived, None, self.promises, []
        for promise in promises:
            if arrived is None or arrived[promise.agent] < promise.clock:
                promise.report(self.phase)
        if self.done is not None:
            self.learn(self.done)
        self.end_phase()
        self.pending = self.count
        return True
