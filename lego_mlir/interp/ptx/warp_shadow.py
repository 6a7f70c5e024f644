"""Races between the lanes of one warp on shared memory, which only bar.warp.sync and barriers of the block order.

Since Volta, the lanes of a warp need not run in step. For each granule, the last write and a read since: by which warp,
lane, at which clock of the warp, in which access. An access races with an earlier one of another lane of its warp at
the same clock, if one of them writes; a barrier, of the block or of the warp, moves the clock on. Accesses of one
instruction are compared elsewhere. CUDA C++ Programming Guide, "Independent Thread Scheduling".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray

WARP_FIELD, LANE, CLOCK, ACCESS, LINE = range(5)
MANY: Final = 32
"""In place of a lane: several have read."""


@dataclass(frozen=True, slots=True)
class LaneConflict:
    """The first row that conflicts, how many do, and the earlier access."""

    row: int
    rows: int
    line: int
    written: bool


class WarpShadow:
    """The last write and a read of each granule of the shared memory of all resident blocks."""

    def __init__(self, nbytes: int, granule: int) -> None:
        self.granule, self.accesses = granule, 0
        count = -(-nbytes // granule)
        self.writes, self.reads = (np.full((5, count), -1, np.int64) for _ in range(2))

    def access(
        self, at: IntArray, size: int, warps: IntArray, lanes: IntArray, clocks: IntArray, line: int, *, written: bool,
        changed: Array | None = None,
    ) -> LaneConflict | None:  # fmt: skip
        """Record an access of `size` bytes a row at `at`; its conflict with an earlier one, if any.

        `changed`: the rows that write another value than was there.
        """
        self.accesses += 1
        found: LaneConflict | None = None
        for step in range(max(size // self.granule, 1)):
            granules = at // self.granule + step
            now = self._conflict(self.writes, granules, (warps, lanes, clocks), changed, written=True)
            if written and now is None:
                now = self._conflict(self.reads, granules, (warps, lanes, clocks), None, written=False)
            found = found or now
            side = self.writes if written else self.reads
            others = lanes
            if not written:
                before = side[:, granules]
                again = (before[WARP_FIELD] == warps) & (before[CLOCK] == clocks) & (before[LANE] != lanes)
                others = np.where(again, MANY, lanes)
            side[WARP_FIELD, granules], side[LANE, granules], side[CLOCK, granules] = warps, others, clocks
            side[ACCESS, granules], side[LINE, granules] = self.accesses, line
        return found

    def _conflict(
        self, side: Array, granules: IntArray, who: tuple[IntArray, IntArray, IntArray], changed: Array | None, *,
        written: bool,
    ) -> LaneConflict | None:  # fmt: skip
        warps, lanes, clocks = who
        before = side[:, granules]
        clash = (before[WARP_FIELD] == warps) & (before[CLOCK] == clocks) & (before[LANE] != lanes)
        if changed is not None:
            clash &= changed
        clash &= before[ACCESS] != self.accesses
        if not clash.any():
            return None
        row = int(np.argmax(clash))
        return LaneConflict(row, int(np.count_nonzero(clash)), int(before[LINE, row]), written)
