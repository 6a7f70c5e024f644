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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.caches.levels import CacheLevel, require_hierarchy
from lego_mlir.caches.simulation import task_order
from lego_mlir.caches.workloads import addresses
from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.caches.simulation import OrderLike
    from lego_mlir.caches.workloads import Workload

    Array = np.ndarray[Any, Any]

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
    """Run the reads of all tasks on one thread. Raises UsageError for unequal lines and large sizes."""
    from lego_mlir.caches import lookup

    levels = tuple(levels)
    require_hierarchy(levels)
    if len({level.line for level in levels}) > 1:
        shown = ", ".join(f"{level.name} {level.line}" for level in levels)
        raise UsageError(f"a spatial-temporal diagram needs lines of one size, got {shown} bytes")
    count, function = task_order(workload, order)
    reads = [access for access in workload.accesses if not access.store]
    x, y = function(np.arange(count))
    x, y = x[x >= 0], y[x >= 0]
    lines = np.stack(
        [np.where(real, a // levels[0].line, NOT) for a, real in (addresses(workload, r, x, y) for r in reads)]
    )
    height = int(lines.max()) + 1
    if x.size * height > MOST_CELLS:
        raise UsageError(
            f"a spatial-temporal diagram of {x.size} tasks and {height} lines has more than {MOST_CELLS} cells; take a "
            f"smaller size"
        )
    words, whole = lookup.empty(levels, 1), (1 << levels[0].sectors) - 1
    work = np.zeros((64, 3), np.int64)
    served, held = (np.full((x.size, height), NOT, np.int8) for _ in range(2))
    for task in range(x.size):
        for line in lines[:, task]:
            if line != NOT:
                served[task, line] = max(served[task, line], _read(words, len(levels), int(line), whole, work))
        for k in reversed(range(len(levels))):
            held[task, lookup.contents(words, k)] = k
    fetched = tuple(int(lookup.counters(words, k, 1)[0, lookup.FETCHES]) for k in range(len(levels)))
    compulsory = int(np.unique(lines[lines != NOT]).size)
    return SpaceTime(workload.name, tuple(level.name for level in levels), served, held, fetched, compulsory)


def _read(words: Array, levels: int, line: int, mask: int, work: Array) -> int:
    """Read a line: the number of the level that had it, `levels` for the memory."""
    from lego_mlir.caches import lookup

    for level in range(levels):
        if lookup.access(words, level, 0, line, mask, lookup.READ, work, 0) == 0:
            return level
    return levels
