"""Races between warps that synchronise by barriers in memory: vector clocks instead of epochs of the block.

Kernels with warp roles have no points in time that all threads of a block share. So each warp counts in its clock the
points at which it synchronises, and knows of every other warp, and of the asynchronous copies that these issued, how
far they were when something last ordered them (`shared_shadow` has the method). One block runs at a time then.

    warp 0: copy to t, arrive at full      the copy's clock goes to `full` when it lands
    warp 1: wait for full, read t          ordered: warp 1 has learned that clock
    warp 2: read t                         a race, although the copy has landed

Accesses of two threads of one warp are ordered by the warp's barriers, as in other kernels (`warp_order`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.aliases import IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.report import Kind, SourceLocation
from lego_mlir.interp.shared_shadow import COPY_AGENT, UNITS, Conflict, ShadowAccess, SharedShadow, VectorClocks
from lego_mlir.interp.values import Array, like_vector, spread

if TYPE_CHECKING:
    from lego_mlir.interp.access import MemoryAccess
    from lego_mlir.interp.machine import Machine
    from lego_mlir.interp.memory import DeviceBuffer, Touch


class WarpClocks(VectorClocks):
    """What each warp of a block, or of a cluster, knows of the others, and the accesses to its shared memory."""

    def __init__(self, warps: int) -> None:
        super().__init__(warps, warps)
        self.shadows: dict[int, tuple[DeviceBuffer, SharedShadow]] = {}
        self._warps = warps

    def of_lanes(self, m: Machine) -> Array:
        """Each thread's clock, that of its warp: (1, threads)."""
        clocks = self.clocks(np.arange(m.first_warp, m.first_warp + m.warps))
        return np.repeat(clocks, WARP)[None, : m.threads]

    def acquire(self, warps: IntArray, joint: Array) -> None:
        """The warps learn what was released, and what they do from now on is later than what they did."""
        super().acquire(warps, joint)
        self.step(warps)

    def meet(self, warps: IntArray) -> None:
        """A barrier of these warps."""
        self.acquire(warps, self.release(warps))

    def issue_copies(self, warps: IntArray) -> Array:
        """New asynchronous copies of these warps: what a barrier learns when they have landed."""
        joint = np.zeros((2, self.known.shape[1]), np.int64)
        for warp in warps:
            agent, clock = self.issue(int(warp), COPY_AGENT)
            joint[:, agent] = clock
        return joint

    def shadow_of(self, buffer: DeviceBuffer) -> SharedShadow:
        """The accesses to one shared buffer."""
        found = self.shadows.get(id(buffer))
        if found is None:
            made = SharedShadow(buffer.storage.size, buffer.granule, self._warps * UNITS)
            found = self.shadows[id(buffer)] = buffer, made
        return found[1]

    def are_ordered(self, thread: Array, epoch: Array, other: Array) -> Array:
        """Where accesses of `thread`s at their warps' clocks `epoch` are known to the warps of the threads `other`.

        Threads are counted from the first warp of the cluster.
        """
        warps = np.minimum(thread // WARP, self._warps - 1)
        return np.asarray(epoch <= self.known[other // WARP, self.first_agent[warps]])


def active_warps(m: Machine, active: Array | None = None) -> Array:
    """The warps with an active lane, as the clocks number them."""
    lanes = m.mask if active is None else active
    if lanes is None:
        return np.arange(m.first_warp, m.first_warp + m.warps)
    return m.first_warp + np.unique(np.flatnonzero(np.broadcast_to(lanes, m.lanes)[0]) // WARP)


def check_shared(
    m: Machine, access: MemoryAccess, touch: Touch, kind: str, *, asynchronous: bool, atomic: bool
) -> None:
    """Report an access to shared memory that nothing orders with an earlier one of another warp.

    Atomic updates are ordered among themselves.
    """
    assert m.clocks is not None
    elements, clocks = touch.elements(), m.clocks
    shape = np.broadcast_shapes(elements.shape, (1, m.threads) + (1,) * (elements.ndim - 2))
    at = np.broadcast_to(elements, shape) * touch.item
    if touch.buffer.clustered:
        rows = touch.rows(m)
        assert rows is not None
        at = at + like_vector(rows, len(shape)) * touch.buffer.bytes
    at = at.reshape(-1)
    threads = spread(like_vector(m.linear_thread(), len(shape)), shape).reshape(-1)
    ok = touch.active(len(shape))
    if ok is not None:
        chosen = np.flatnonzero(np.broadcast_to(ok, shape))
        at, threads = at[chosen], threads[chosen]
    if not at.size:
        return
    if touch.rank is not None and m.cluster_blocks is not None:
        active = np.isin(np.arange(m.threads), threads)[None, :]
        m.cluster_blocks.require_alive(m, touch.rank, active, access.place, f"{kind} of {touch.name}")
    warps = m.first_warp + threads // WARP
    agents, own = clocks.first_agent[warps], clocks.clocks(warps)
    if asynchronous:
        agents, own = agents + COPY_AGENT, clocks.issued[warps, COPY_AGENT] + 1
    row = ShadowAccess(at, touch.item, agents, own, clocks.known[warps], access.number)
    shadow = m.clocks.shadow_of(touch.buffer)
    conflict = shadow.read(row) if kind == "read" else shadow.write(row, atomic=atomic)
    if conflict is not None:
        element = int(at[conflict.row]) % touch.buffer.bytes // touch.item
        _report(m, access, touch, conflict, int(threads[conflict.row]), element)


def name_warp(m: Machine, number: int) -> str:
    """A warp by its number among those that the clocks know."""
    rank, warp = divmod(number, m.warps)
    if m.cluster_blocks is None or rank == m.rank:
        return f"warp {warp}"
    return f"warp {warp} of block {m.cluster_blocks.place_of(rank)}"


def _report(m: Machine, access: MemoryAccess, touch: Touch, conflict: Conflict, thread: int, element: int) -> None:
    block, lane = m.name_lane(0, thread)
    place: SourceLocation | None = m.place_of_site(conflict.line)
    what = "written" if conflict.written else "read"
    by = f"{'a copy of ' if conflict.unit else ''}{name_warp(m, conflict.agent // UNITS)}"
    where = "" if place is None else f" at {place}"
    m.faults.add(
        Kind.RACE,
        f"{access.kind} of {touch.name}[{element}], {what} by {by}{where} with no barrier between",
        access.place, block, lane, address=element, other=place, buffer=touch.name, count=conflict.rows,
    )  # fmt: skip
