"""Spatial-temporal diagrams: which lines each task reads, from which level they come, and what the caches hold then.

Section 3.2 of N. Prasetya's thesis: one thread runs the tasks in order; the address is one axis, the task the other. A
different order shuffles the columns of the diagram, and so what is still in a cache when it is needed again.

>>> from lego_mlir.caches.levels import CacheLevel
>>> from lego_mlir.caches.simulation import rows
>>> from lego_mlir.caches.workloads import stencil
>>> found = space_time(stencil(16, 16, 7), rows(16), (CacheLevel("L1", 24 * 16, line=16, sector=16),))
>>> found.served.shape, found.fetched, found.compulsory
((256, 64), (316,), 64)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.caches.levels import CacheLevel, require_hierarchy
from lego_mlir.caches.simulation import task_order
from lego_mlir.caches.workloads import Workload, addresses
from lego_mlir.errors import UsageError
from lego_mlir.hardware.memory import LINE_BYTES, SECTOR_BYTES

if TYPE_CHECKING:
    from lego_mlir.caches.simulation import OrderLike

    Array = np.ndarray[Any, Any]
    Requests = list[tuple[int, int]]

MOST_CELLS: Final = 1 << 22
NOT: Final = -1


@dataclass(frozen=True, slots=True)
class SpaceTime:
    """The diagram's data, each (tasks, lines). Levels are numbered from the nearest, the memory comes after the last.

    `served` is the farthest level that a task had to read a line from, -1 if it does not read it; `held` the nearest
    level that holds the line after the task, -1 for none. `fetched` counts each level's misses in lines.
    """

    title: str
    levels: tuple[str, ...]
    served: Array
    held: Array
    fetched: tuple[int, ...]
    compulsory: int


def space_time(workload: Workload, order: OrderLike, levels: Sequence[CacheLevel]) -> SpaceTime:
    """Run the reads of all tasks on one thread; of a recorded launch the reads of all warps, block by block.

    Raises UsageError for unequal lines and large sizes.
    """
    from lego_mlir.caches import lookup

    levels = tuple(levels)
    require_hierarchy(levels)
    if len({level.line for level in levels}) > 1:
        shown = ", ".join(f"{level.name} {level.line}" for level in levels)
        raise UsageError(f"a spatial-temporal diagram needs lines of one size, got {shown} bytes")
    requests = _of_tasks(workload, order, levels[0]) if workload.recorded is None else _of_warps(workload, levels[0])
    tasks, height = len(requests), 1 + max((line for task in requests for line, _ in task), default=0)
    if tasks * height > MOST_CELLS:
        raise UsageError(
            f"a spatial-temporal diagram of {tasks} tasks and {height} lines has more than {MOST_CELLS} cells; take a "
            f"smaller size"
        )
    words, work = lookup.empty(levels, 1), np.zeros((64, 3), np.int64)
    served, held = (np.full((tasks, height), NOT, np.int8) for _ in range(2))
    for task, reads in enumerate(requests):
        for line, mask in reads:
            served[task, line] = max(served[task, line], _read(words, len(levels), line, mask, work))
        for k in reversed(range(len(levels))):
            held[task, lookup.contents(words, k)] = k
    fetched = tuple(int(lookup.counters(words, k, 1)[0, lookup.FETCHES]) for k in range(len(levels)))
    compulsory = len({line for task in requests for line, _ in task})
    return SpaceTime(workload.name, tuple(level.name for level in levels), served, held, fetched, compulsory)


def _of_tasks(workload: Workload, order: OrderLike, level: CacheLevel) -> list[Requests]:
    """The lines that each task reads, whole, in the order of its loads."""
    count, function = task_order(workload, order)
    x, y = function(np.arange(count))
    x, y = x[x >= 0], y[x >= 0]
    found = (addresses(workload, read, x, y) for read in workload.accesses if not read.store)
    lines = np.stack([np.where(real, address // level.line, NOT) for address, real in found])
    whole = (1 << level.sectors) - 1
    return [[(int(line), whole) for line in task if line != NOT] for task in lines.T]


def _of_warps(workload: Workload, level: CacheLevel) -> list[Requests]:
    """The lines and sectors that each warp of a recorded launch reads; a warp is a task."""
    recorded = workload.recorded
    assert recorded is not None
    if (level.line, level.sector) != (LINE_BYTES, SECTOR_BYTES):
        raise UsageError(
            f"requests are recorded in lines of {LINE_BYTES} bytes; {level.name} has lines of {level.line}"
        )
    rows, starts = recorded.rows, recorded.starts
    return [
        [(int(line), int(mask)) for line, mask, store, _ in rows[begin:end] if not store]
        for begin, end in itertools.pairwise(starts)
    ]


def _read(words: Array, levels: int, line: int, mask: int, work: Array) -> int:
    """Read a line: the number of the level that had it, `levels` for the memory."""
    from lego_mlir.caches import lookup

    for level in range(levels):
        if lookup.access(words, level, 0, line, mask, lookup.READ, work, 0) == 0:
            return level
    return levels
