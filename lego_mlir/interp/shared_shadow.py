"""Races on shared memory, by vector clocks: who wrote and read each granule, and what each warp knows of the others.

An *agent* is a warp, or an asynchronous unit that works for it: cp.async, the bulk (TMA) unit, the reads of wgmma, and
in kernels with tensor memory (`TENSOR_UNITS`) the products and copies of tcgen05, and its loads and stores. Each agent
counts its operations in its clock. A warp's vector clock holds, for each agent of its cluster, the last operation that
is known to have happened: barriers and waits copy clocks from those who arrive to those who wait. An access races with
an earlier one of another agent if that one's clock is later than the accessing warp's entry for it.

    warp 0: store, clock 5      warp 0: bar.sync          entry of warp 1 for warp 0 becomes 5
    warp 1: load                warp 1: bar.sync; load
    5 > 0: race                 5 <= 5: ordered

The unit's accesses are made with the clocks of the warp that issued them, but happen at a later clock of the unit,
which nobody knows before the wait: an access before it is a race, whenever the copy lands. An access through the
asynchronous proxy sees a write of the generic one only after fence.proxy.async: a second vector clock holds what was
fenced. Of the reads of wgmma, the first one holds those before which stores are ordered, the second one copies.
Flanagan and Freund, "FastTrack", 2009; PTX ISA, "Memory Consistency Model", "Proxies".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray

UNITS: Final = 4
TENSOR_UNITS: Final = 6
"""Of kernels with tensor memory."""
WARP_AGENT, COPY_AGENT, BULK_AGENT, WGMMA_AGENT, PRODUCT_AGENT, TENSOR_AGENT = range(TENSOR_UNITS)
WARPS_OF_PRODUCT: Final = 4
"""Of a group that executes a wgmma."""
AGENT_NAMES: Final = (
    "a warp's own access", "cp.async", "a bulk copy or st.async", "wgmma", "tcgen05.mma or tcgen05.cp",
    "tcgen05.ld or tcgen05.st",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShadowAccess:
    """Bytes `at .. at + size` of the shared arena, one row each, by agents at clocks, knowing `known`.

    `agents` and `clocks` have one element, or one a row; `known` likewise has one row of clocks, or one a row.
    """

    at: IntArray
    size: int
    agents: IntArray
    clocks: IntArray
    known: IntArray
    line: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """The first row of an access that conflicts, the number of such rows, and the earlier access."""

    row: int
    rows: int
    line: int
    agent: int
    clock: int
    written: bool
    unit: int


class SharedShadow:
    """The last write and the reads of every granule of the shared memory of all resident blocks."""

    def __init__(self, nbytes: int, granule: int, agents: int, units: int = UNITS) -> None:
        self.granule, self.units = granule, units
        count = -(-nbytes // granule)
        self.writer = np.zeros(count, np.int32)
        self.written = np.zeros(count, np.int64)
        self.write_line = np.zeros(count, np.int32)
        self.atomic = np.zeros(count, np.bool_)
        self.reads = np.zeros((count, agents), np.int32)
        self.read_line = np.zeros(count, np.int32)
        self.initialised = np.zeros(nbytes, np.bool_)

    def granules(self, access: ShadowAccess) -> IntArray:
        """The granules of each row: (rows, granules)."""
        first = access.at // self.granule
        steps = max(access.size // self.granule, 1)
        return first[:, None] if steps == 1 else first[:, None] + np.arange(steps)

    def uninitialised(self, access: ShadowAccess) -> IntArray:
        """The rows with a byte that nothing has written."""
        first = access.at
        if access.size == 1:
            return np.flatnonzero(~self.initialised[first])
        bytes_of = first[:, None] + np.arange(access.size)
        return np.flatnonzero(~self.initialised[bytes_of].all(axis=1))

    def read(self, access: ShadowAccess, *, atomic: bool = False) -> Conflict | None:
        """Record a read; the conflict with an unordered write, if any."""
        granules = self.granules(access)
        conflict = self._unordered_write(access, granules, atomic)
        if access.agents.size == 1:
            self.reads[granules, access.agents[0]] = access.clocks[0]
        else:
            self.reads[granules, access.agents[:, None]] = access.clocks[:, None]
        self.read_line[granules] = access.line
        return conflict

    def write(self, access: ShadowAccess, *, atomic: bool = False, changed: Array | None = None) -> Conflict | None:
        """Record a write; the conflict with an unordered write or read, if any.

        `changed`: the rows that write another value than was there. The others agree with an earlier write, and rows
        that write different values at once are found where the values are known.
        """
        granules = self.granules(access)
        conflict = self._unordered_write(access, granules, atomic, changed)
        if conflict is None and not atomic:
            conflict = self._unordered_read(access, granules)
        agents = np.broadcast_to(access.agents[:, None], granules.shape)
        self.writer[granules] = agents
        self.written[granules] = access.clocks[:, None]
        self.write_line[granules] = access.line
        self.atomic[granules] = atomic
        if conflict is None and not atomic and changed is None and access.agents.size > 1:
            lost = (self.writer[granules] != agents).any(axis=1)
            if lost.any():
                agent, clock = int(access.agents[0]), int(access.clocks[0])
                first, count = int(np.argmax(lost)), int(lost.sum())
                conflict = Conflict(first, count, access.line, agent, clock, True, agent % self.units)
        self.initialise(access.at, access.size)
        return conflict

    def initialise(self, at: IntArray, size: int) -> None:
        self.initialised[at[:, None] + np.arange(size)] = True

    def _unordered_write(
        self, access: ShadowAccess, granules: IntArray, atomic: bool, changed: Array | None = None
    ) -> Conflict | None:
        writer = self.writer[granules]
        if access.known.shape[0] == 1:
            known = access.known[0][writer]
        else:
            known = np.take_along_axis(access.known, writer, axis=1)
        late = self.written[granules] > known
        if atomic:
            late &= ~self.atomic[granules]
        if changed is not None:
            late &= changed[:, None]
        if not late.any():
            return None
        row, column = np.argwhere(late)[0]
        granule = granules[row, column]
        rows = int(late.any(axis=1).sum())
        line, agent = int(self.write_line[granule]), int(self.writer[granule])
        return Conflict(int(row), rows, line, agent, int(self.written[granule]), True, agent % self.units)

    def _unordered_read(self, access: ShadowAccess, granules: IntArray) -> Conflict | None:
        late = self.reads[granules] > access.known[:, None, :]
        if not late.any():
            return None
        row, column, agent = np.argwhere(late)[0]
        rows = int(late.any(axis=(1, 2)).sum())
        line = int(self.read_line[granules[row, column]])
        clock = int(self.reads[granules[row, column], agent])
        return Conflict(int(row), rows, line, int(agent), clock, False, int(agent) % self.units)


def joined(known: Array | None, joint: Array) -> Array:
    """The later of two clocks of each agent."""
    return joint if known is None else np.maximum(known, joint)


class VectorClocks:
    """What each resident warp knows: `known` through ordinary synchronisation, `fenced` also across proxies."""

    def __init__(self, warps: int, warps_per_cluster: int, units: int = UNITS) -> None:
        agents, self.units = warps_per_cluster * units, units
        self.known = np.zeros((warps, agents), np.int64)
        self.fenced = np.zeros((warps, agents), np.int64)
        self.first_agent = (np.arange(warps) % warps_per_cluster) * units
        self.issued = np.zeros((warps, units), np.int64)
        self.generic = np.isin(np.arange(agents) % units, (WARP_AGENT, COPY_AGENT))
        self.products = np.arange(agents) % units == WGMMA_AGENT
        self.known[np.arange(warps), self.first_agent] = 1

    def clocks(self, warps: IntArray) -> IntArray:
        """Each warp's own clock."""
        own: IntArray = self.known[warps, self.first_agent[warps]]
        return own

    def now(self, warp: int) -> tuple[int, int]:
        """A warp's agent and its clock."""
        agent = int(self.first_agent[warp])
        return agent, int(self.known[warp, agent])

    def issue(self, warp: int, unit: int) -> tuple[int, int]:
        """A new operation of a warp's unit: its agent and clock."""
        self.issued[warp, unit] += 1
        return int(self.first_agent[warp]) + unit, int(self.issued[warp, unit])

    def step(self, warps: IntArray) -> None:
        """What these warps do from now on is later than what they did."""
        self.known[warps, self.first_agent[warps]] += 1

    def completion(self, warp: int, agent: int, clock: int) -> Array:
        """What the completion of an operation that a warp has issued makes known: (2, agents)."""
        joint = np.stack([self.known[warp], self.fenced[warp]])
        joint[:, agent] = np.maximum(joint[:, agent], clock)
        return joint

    def learn(self, warp: int, unit: int, clock: int) -> None:
        """A warp has waited for an operation of a unit of its own."""
        agent = int(self.first_agent[warp]) + unit
        self.known[warp, agent] = max(self.known[warp, agent], clock)

    def learn_product(self, warp: int, group: IntArray, clock: int, *, whole: bool) -> None:
        """A warp has waited for a wgmma: stores may follow its own reads, or the group's if `whole`, as copies may."""
        own = group if whole else np.array([warp])
        for side, warps in ((self.known, own), (self.fenced, group)):
            agents = self.first_agent[warps] + WGMMA_AGENT
            side[warp, agents] = np.maximum(side[warp, agents], clock)

    def through_async_proxy(self, warps: IntArray) -> IntArray:
        """What operations of the asynchronous proxy know: of generic writes, only those that were fenced."""
        rows: IntArray = np.where(self.generic, self.fenced[warps], self.known[warps])
        return rows

    def before_stores(self, warps: IntArray) -> IntArray:
        """What stores know: of the reads of a wgmma by another group, all that one of its warps waited for."""
        group = np.arange(len(self.products)) // self.units // WARPS_OF_PRODUCT
        others = group != group[self.first_agent[warps], None]
        rows: IntArray = np.where(self.products & others, self.fenced[warps], self.known[warps])
        return rows

    def before_copies(self, warps: IntArray) -> IntArray:
        """What asynchronous writes know: of the reads of a wgmma, those of the whole group that was waited for."""
        rows: IntArray = np.where(self.products, self.fenced[warps], self.known[warps])
        return rows

    def fence_proxy(self, warps: IntArray) -> None:
        """fence.proxy.async: what is known now, and no later access, is visible to the asynchronous proxy."""
        self.fenced[warps] = np.maximum(self.fenced[warps], self.known[warps])
        self.step(warps)

    def release(self, warps: IntArray) -> Array:
        """What these warps know together, (2, agents), and a new clock for each of them."""
        joint = np.stack([self.known[warps].max(axis=0), self.fenced[warps].max(axis=0)])
        self.step(warps)
        return joint

    def acquire(self, warps: IntArray, joint: Array) -> None:
        """The warps learn what was released."""
        self.known[warps] = np.maximum(self.known[warps], joint[0])
        self.fenced[warps] = np.maximum(self.fenced[warps], joint[1])
