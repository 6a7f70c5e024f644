"""Watches of a second run: who touches the element of a fault, and who writes an element twice.

Shadow memory keeps the thread and the source of the last access of each element, but neither the rounds of its loops
nor which threads several were. A second run with an `ElementWatch` records who touches the element until the fault is
found. A `WriterWatch` keeps the writers of each element of a tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.report import Fault, Kind, LoopRound, SourceLocation

if TYPE_CHECKING:
    from lego_mlir.interp.access import MemoryAccess
    from lego_mlir.interp.geometry import Dim3
    from lego_mlir.interp.machine import Machine
    from lego_mlir.interp.memory import Touch


class RunWatch(Protocol):
    """Sees each access of a run before it is checked."""

    def see(self, m: Machine, access: MemoryAccess, touch: Touch) -> None: ...


@dataclass(frozen=True, slots=True)
class WatchedAccess:
    """One thread's access of the element."""

    place: SourceLocation
    block: Dim3
    thread: Dim3
    rounds: tuple[LoopRound, ...]

    def __str__(self) -> str:
        return ", ".join([f"thread {self.thread} of block {self.block} in {self.place}", *map(str, self.rounds)])


@dataclass(slots=True)
class WriterWatch:
    """Finds an element of a tensor that two threads write, or one thread by one statement: `twice` has both writes.

    A later statement of the same thread may replace what an earlier one wrote.
    """

    buffer: str
    twice: tuple[int, WatchedAccess, WatchedAccess] | None = None
    _writers: dict[int, dict[SourceLocation, WatchedAccess]] = field(default_factory=dict)

    def see(self, m: Machine, access: MemoryAccess, touch: Touch) -> None:
        """Compare a write with earlier ones, element by element."""
        if self.twice is not None or touch.name != self.buffer or access.kind == "read":
            return
        elem = touch.elements()
        shape = (*m.lanes, *elem.shape[2:])
        ok = touch.active(elem.ndim)
        active = np.broadcast_to(True if ok is None else ok, shape)
        lanes = np.argwhere(active)[:, :2]
        if touch.by_warp:  # the lanes of a warp write together
            lanes[:, 1] -= lanes[:, 1] % WARP
        written = np.column_stack([lanes, np.broadcast_to(elem, shape)[active]])
        for row, thread, element in np.unique(written, axis=0) if touch.by_warp else written:
            now = WatchedAccess(access.place, *m.name_lane(int(row), int(thread)), m.rounds())
            known = self._writers.setdefault(int(element), {})
            for before in known.values():
                if before.place == now.place or (before.block, before.thread) != (now.block, now.thread):
                    self.twice = int(element), before, now
                    return
            known[now.place] = now


@dataclass(slots=True)
class ElementWatch:
    """Records the accesses of the element of a fault, its own last."""

    fault: Fault
    seen: list[WatchedAccess] = field(default_factory=list)

    def see(self, m: Machine, access: MemoryAccess, touch: Touch) -> None:
        """Record the active lanes of an access that touch the element."""
        fault = self.fault
        if fault.other is None:  # of several reads
            wanted = access.place == fault.place or access.kind == "read"
        else:
            wanted = access.place in (fault.place, fault.other)
        if touch.name != fault.buffer or not wanted:
            return
        if m.faults.has(self.fault):
            return
        elem = touch.elements()
        ok = touch.active(elem.ndim)
        hit = elem == self.fault.address if ok is None else (elem == self.fault.address) & ok
        lanes = np.broadcast_to(hit.reshape(*hit.shape[:2], -1).any(axis=2), m.lanes)
        for row, thread in zip(*lanes.nonzero(), strict=True):
            self.seen.append(WatchedAccess(access.place, *m.name_lane(int(row), int(thread)), m.rounds()))

    def other(self) -> WatchedAccess | None:
        """The latest access of the other side of the fault; None if it was not seen."""
        fault, found = self.fault, None
        own = [k for k, touched in enumerate(self.seen) if self._is_own(touched)]
        for number, touched in enumerate(self.seen):
            if (
                fault.other not in (None, touched.place)
                or number in own[-1:]
                or (number in own and fault.kind is Kind.RACE)
            ):
                continue
            if fault.across_blocks != (touched.block != fault.block):
                continue
            named = f"thread {touched.thread}" in fault.message
            if named or found is None or f"thread {found.thread}" not in fault.message:
                found = touched
        return found

    def _is_own(self, touched: WatchedAccess) -> bool:
        return (touched.thread, touched.block) == (self.fault.thread, self.fault.block)
