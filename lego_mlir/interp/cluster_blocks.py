"""The blocks of a cluster run concurrently and reach each other's shared memory.

Each block has a machine with its values and barriers, and a thread of the host that runs until it waits, as warp roles
do (`role_scheduler`); the roles of a block take turns within it. The machines have in common

    shared memory     buffers with a row for each block: an access to another block's memory is one to its row
    clocks            vector clocks of all warps of the cluster (`happens_before`), which order accesses across blocks
    copies in flight  the oldest one lands when no block can go on

A block's shared memory ends with the block. When it ends, all accesses to it by other blocks must be known to its
warps, through a barrier of the cluster or one in memory; those that are not, and later ones, are faults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.interp.barrier_phases import ClusterBarrier
from lego_mlir.interp.geometry import Dim3, coordinates
from lego_mlir.interp.memory import DeviceBuffer, Space
from lego_mlir.interp.report import Kind, SourceLocation
from lego_mlir.interp.role_scheduler import RoleScheduler, Waiting
from lego_mlir.interp.shared_shadow import UNITS

if TYPE_CHECKING:
    from lego_mlir.interp.machine import Machine
    from lego_mlir.interp.values import Array


@dataclass(frozen=True, slots=True)
class RemoteArrival:
    """The last arrival of a warp at a barrier of another block: its clock, and the line."""

    clock: int
    place: SourceLocation


@dataclass(slots=True)
class ClusterBlocks:
    """What the blocks of one cluster have in common; `ids` are their linear ids by rank."""

    ids: Array
    grid: Dim3
    machines: list[Machine] = field(default_factory=list)
    barrier: ClusterBarrier = field(default_factory=ClusterBarrier)
    ended: dict[int, Array] = field(default_factory=dict)  # what the warps of a block knew when it ended
    arrivals: dict[tuple[int, int], RemoteArrival] = field(default_factory=dict)  # by block and agent
    _buffers: dict[tuple[str, int, int], DeviceBuffer] = field(default_factory=dict)
    _allocated: dict[int, int] = field(default_factory=dict)

    def buffer(self, m: Machine, nbytes: int, name: str, granule: int) -> DeviceBuffer:
        """The shared memory that each block allocates at this point, a row for each."""
        number = self._allocated[m.rank] = self._allocated.get(m.rank, 0) + 1
        key = name, nbytes, number
        if key not in self._buffers:
            storage = np.zeros((len(self.ids), nbytes), np.uint8)
            self._buffers[key] = DeviceBuffer(Space.SHARED, storage, name, granule, clustered=True)
        return self._buffers[key]

    def holds(self, blocks: Array) -> Array:
        """Which linear block ids are of this cluster."""
        return np.isin(blocks, self.ids)

    def ranks(self, blocks: Array) -> Array:
        """The ranks of blocks of this cluster; unspecified for others."""
        order = np.argsort(self.ids)
        at = np.searchsorted(self.ids[order], blocks)
        return np.asarray(order[np.minimum(at, len(order) - 1)])

    def place_of(self, rank: int) -> Dim3:
        """The place in the grid of the block with a rank."""
        return coordinates(int(self.ids[rank]), self.grid)

    def require_alive(self, m: Machine, ranks: Array, active: Array, place: SourceLocation, what: str) -> None:
        """Report an access of some lanes to the memory of a block that has ended."""
        for rank in np.unique(np.broadcast_to(ranks, m.lanes)[active]):
            if int(rank) in self.ended:
                lane = int(np.flatnonzero((np.broadcast_to(ranks, m.lanes) == rank)[0] & active[0])[0])
                text = f"{what} of block {self.place_of(int(rank))}, which has ended"
                m.faults.add(Kind.ENDED, f"{text}{REMEDY}", place, *m.name_lane(0, lane))

    # -- the end of a block

    def end(self, m: Machine) -> None:
        """A block ends: report accesses of other blocks to its memory that may come later."""
        assert m.clocks is not None
        known = m.clocks.known[m.first_warp : m.first_warp + m.warps].max(axis=0)
        self.ended[m.rank] = known
        own = np.arange(len(known)) // UNITS // m.warps == m.rank
        for buffer, shadow in m.clocks.shadows.values():
            if not buffer.clustered:
                continue
            count = buffer.bytes // buffer.granule
            rows = slice(m.rank * count, (m.rank + 1) * count)
            late = (shadow.reads[rows] > known) & ~own
            by, lines = np.argwhere(late), shadow.read_line[rows]
            if len(by):
                self._report(m, buffer, "read", m.place_of_site(int(lines[by[0][0]])), int(by[0][1]), int(by[0][0]))
            writer = shadow.writer[rows]
            written = np.flatnonzero((shadow.written[rows] > known[writer]) & ~own[writer])
            if len(written):
                element = int(written[0])
                line = m.place_of_site(int(shadow.write_line[rows][element]))
                self._report(m, buffer, "written", line, int(writer[element]), element)
        for (rank, agent), arrival in self.arrivals.items():
            if rank == m.rank and arrival.clock > known[agent]:
                by_block = self.place_of(agent // UNITS // m.warps)
                text = f"block {{}} may end before block {by_block} arrives at its barrier{REMEDY}"
                block, thread = m.name_lane(0, 0)
                m.faults.add(Kind.ENDED, text.format(block), arrival.place, block, thread)

    def _report(
        self, m: Machine, buffer: DeviceBuffer, what: str, place: SourceLocation | None, agent: int, element: int
    ) -> None:
        block, thread = m.name_lane(0, 0)
        by = self.place_of(agent // UNITS // m.warps)
        m.faults.add(
            Kind.ENDED,
            f"block {block} may end while its {buffer.name}[{element}] is {what} by block {by}{REMEDY}",
            place or SourceLocation("unknown", 0), block, thread, address=element, buffer=buffer.name,
        )  # fmt: skip


REMEDY = "; a barrier of the cluster must follow the last access"


class ClusterScheduler(RoleScheduler):
    """The blocks of a cluster, each until it waits, in turns."""

    others = "all that runs in the cluster waits too"

    def __init__(self, blocks: ClusterBlocks, body: Callable[[Machine], None]) -> None:
        super().__init__(blocks.machines[0], ())
        self.blocks = blocks
        self.add([(machine, self._until_end(body)) for machine in blocks.machines])
        for machine in blocks.machines:
            machine.scheduler = self

    def _until_end(self, body: Callable[[Machine], None]) -> Callable[[Machine], None]:
        def step(m: Machine) -> None:
            body(m)
            self.blocks.end(m)

        return step


def clusters_of(grid: Dim3, cluster: Dim3, chosen: Array) -> list[Array]:
    """The linear ids of the blocks of each cluster that has a chosen block, by rank."""
    found: dict[Dim3, Array] = {}
    for block in chosen:
        x, y, z = (n // c for n, c in zip(coordinates(int(block), grid), cluster, strict=True))
        if (x, y, z) not in found:
            places = product(range(cluster[2]), range(cluster[1]), range(cluster[0]))
            found[x, y, z] = np.array(
                [
                    (x * cluster[0] + i) + grid[0] * ((y * cluster[1] + j) + grid[1] * (z * cluster[2] + k))
                    for k, j, i in places
                ],
                np.int64,
            )
    return list(found.values())


def arrive(m: Machine, place: SourceLocation) -> None:
    """All threads of the block arrive at the barrier of their cluster."""
    blocks = m.cluster_blocks
    assert blocks is not None and m.clocks is not None
    _require_all(m, place)
    m.forget_tags()
    barrier, warps = blocks.barrier, np.arange(m.first_warp, m.first_warp + m.warps)
    if not barrier.add(m.clocks, warps):
        text = "the block arrives at the barrier of its cluster twice without a wait"
        m.faults.add(Kind.BARRIER, text, place, *m.name_lane(0, 0))
    barrier.advance(range(len(blocks.ids) * m.warps))


def wait(m: Machine, place: SourceLocation) -> None:
    """Wait until all blocks of the cluster have arrived."""
    blocks = m.cluster_blocks
    assert blocks is not None and m.clocks is not None
    barrier, warps = blocks.barrier, np.arange(m.first_warp, m.first_warp + m.warps)
    if barrier.is_open(warps) is None:
        text = "the block waits at the barrier of its cluster without having arrived"
        m.faults.add(Kind.BARRIER, text, place, *m.name_lane(0, 0))
        return

    def reason() -> str:
        here = [warp // m.warps for warp in barrier.arrived]
        missing = [blocks.place_of(rank) for rank in range(len(blocks.ids)) if rank not in here]
        ended = [blocks.place_of(rank) for rank in blocks.ended]
        after = f"; {_listed(ended)} ended without it" if ended else ""
        return f"{_listed(missing)} did not arrive at the barrier of the cluster{after}"

    if barrier.is_open(warps):
        m.wait_for(Waiting(lambda: not barrier.is_open(warps), place, reason, 0))
    m.forget_tags()
    barrier.leave(m.clocks, warps)


def _listed(places: Sequence[Dim3]) -> str:
    return ("block " if len(places) == 1 else "blocks ") + ", ".join(map(str, places))


def _require_all(m: Machine, place: SourceLocation) -> None:
    """Report threads of the block that skip the barrier."""
    active = m.active()
    if active.all() or not m.checks:
        return
    block, thread = m.name_lane(0, int(np.flatnonzero(~active[0])[0]))
    text = f"{int(active.sum())} of the block's {m.threads} threads reach this barrier of the cluster; thread {thread} "
    m.faults.add(Kind.BARRIER, text + "does not", place, block, thread)
