"""Races on global memory: for each granule, the last write, and a read since.

An access is that of a *block*, an *agent* (`shared_shadow`: a warp of it), and the agent's clock. Two accesses of one
granule, one of them a write, conflict where

- their clusters differ, and nothing orders them (`device_order`); or
- their warps differ, and the later warp does not know of the earlier one's clock: no barrier of the block, or of the
  cluster, is between.

A granule remembers one read for each rank in a cluster. Reads by several blocks of a rank are kept as such where
nothing in the kernel orders clusters; among the warps of a block, the last is kept, so a write that races with an
earlier read only is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray

BLOCK, AGENT, CLOCK, LINE = range(4)
SEVERAL: Final = np.int32(2**31 - 1)
"""In place of a block: more than one has read the granule."""
Knows = Callable[[int, int, int, int], bool]
"""Whether the warp of a row knows of an access by a block's agent at a clock."""


@dataclass(frozen=True, slots=True)
class GlobalRequest:
    """One access a row: the warps, their blocks' numbers, agents and clocks; `known` has a row of clocks a warp."""

    warps: IntArray
    blocks: Array
    agents: IntArray
    clocks: IntArray
    known: Array
    line: int


@dataclass(frozen=True, slots=True)
class GlobalConflict:
    """The first row that conflicts, how many do, the earlier access, and whether it is of another block."""

    row: int
    rows: int
    line: int
    written: bool
    across_blocks: bool


class GlobalShadow:
    """The accesses to a launch's global memory of `nbytes`, in granules of 1, 2 or 4 bytes.

    `clusters` has a row of block numbers, by rank, for each cluster of more than one block. The reads of one rank
    follow those of the rank before.
    """

    def __init__(self, nbytes: int, granule: int, clusters: IntArray | None = None) -> None:
        self.count = nbytes // granule + 1
        self.granule = granule
        self.replicated = False
        self.first_of_cluster: IntArray | None = None
        self.ranks = 1
        if clusters is not None:
            self.ranks = clusters.shape[1]
            self.first_of_cluster, self.rank_of_block = np.empty((2, clusters.size), np.int64)
            self.first_of_cluster[clusters], self.rank_of_block[clusters] = clusters[:, :1], np.arange(self.ranks)
        self.writes = np.zeros((4, self.count), np.int32)  # pages that nothing touches take no memory
        self.reads = np.zeros((4, self.count * self.ranks), np.int32)

    def are_near(self, blocks: Array, own: Array) -> Array:
        """Where accesses of `blocks`, numbered from 1, are of the same clusters as `own`."""
        same = np.asarray(blocks == own)
        if self.first_of_cluster is None:
            return same
        one = (blocks > 0) & (blocks != SEVERAL)
        first = self.first_of_cluster[np.where(one, blocks - 1, 0)]
        return same | one & (first == self.first_of_cluster[own - 1])

    def access(
        self,
        granules: IntArray,
        access: GlobalRequest,
        *,
        written: bool,
        record: bool = True,
        knows: Knows | None = None, changed: Array | None = None,
    ) -> GlobalConflict | None:  # fmt: skip
        """Record an access of one granule a row; its conflict with an earlier one, if any.

        `record=False` compares only: strong accesses leave no trace. `changed`: the rows that write another value than
        was there; the others agree with an earlier write.
        """
        found = self._conflict(self.writes, granules, access, knows, changed, written=True)
        for rank in range(self.ranks if written else 0):
            if found is None:
                found = self._conflict(self.reads, granules + rank * self.count, access, knows, None, written=False)
        if not record:
            return found
        if not written:
            self._record_read(granules, access, several=knows is None)
            return found
        self._put(self.writes, granules, access, access.blocks + 1)
        return found

    def _conflict(
        self, side: Array, granules: IntArray, access: GlobalRequest, knows: Knows | None, changed: Array | None, *,
        written: bool,
    ) -> GlobalConflict | None:  # fmt: skip
        block, agent, clock, line = side[:, granules]
        own = access.blocks + 1
        near = self.are_near(block, own)
        other = (block > 0) & ~near
        if changed is not None:
            other &= changed
        if knows is not None:
            for row in map(int, np.flatnonzero(other)):
                other[row] = not knows(row, int(block[row]) - 1, int(agent[row]), int(clock[row]))
        unordered = near & (agent != access.agents)
        if unordered.any():
            unordered &= clock > access.known[access.warps, agent]
        if changed is not None:
            unordered &= changed
        clash = other | unordered
        if not clash.any():
            return None
        first = int(np.argmax(clash))
        return GlobalConflict(
            first, int(np.count_nonzero(clash)), int(line[first]), written, bool(block[first] != own[first])
        )

    def _record_read(self, granules: IntArray, access: GlobalRequest, *, several: bool) -> None:
        blocks = access.blocks + 1
        if self.first_of_cluster is not None:
            granules = granules + self.rank_of_block[access.blocks] * self.count
        before = self.reads[BLOCK, granules]
        self._put(self.reads, granules, access, blocks)
        if several:
            shared = ((before > 0) & (before != blocks)) | (self.reads[BLOCK, granules] != blocks)
            self.reads[BLOCK, granules[shared]] = SEVERAL
        if self.replicated:
            again = (self.reads[BLOCK, granules] == blocks) & (self.reads[AGENT, granules] != access.agents)
            self.reads[BLOCK, granules[again]] = -blocks[again]

    def _put(self, side: Array, granules: IntArray, access: GlobalRequest, blocks: Array) -> None:
        for field, value in zip(
            (BLOCK, AGENT, CLOCK, LINE), (blocks, access.agents, access.clocks, access.line), strict=True
        ):
            side[field, granules] = value
