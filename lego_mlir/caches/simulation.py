"""Simulate the caches of a GPU under an order of execution: hits of each level, sectors fetched, clocks.

Blocks are loaded in batches in the order in which they start. Each SM runs until it needs a block of a later batch;
SMs share nothing above the shared levels, so two halves run on two threads. What they request from the shared levels is
merged by clock. Memory is bounded by the batch, the caches, and eight bytes for each line of the footprint and thread.

>>> from lego_mlir.caches.levels import CacheLevel
>>> from lego_mlir.caches.workloads import stencil
>>> tiny = (CacheLevel("L1", 24 * 16, line=16, sector=16),)
>>> found = simulate(stencil(16, 16, 7), rows(16), 1, tiny, interleaving=Interleaving.SEQUENTIAL)
>>> found.levels[0].fetched, found.compulsory
(316, 64)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lego_mlir.caches import placement as places
from lego_mlir.caches.levels import CacheLevel, require_hierarchy
from lego_mlir.errors import UsageError
from lego_mlir.hardware.limits import WARP

if TYPE_CHECKING:
    from lego_mlir.caches.lookup import Words
    from lego_mlir.caches.placement import Placement
    from lego_mlir.caches.residents import Residents, TaskProgram
    from lego_mlir.caches.workloads import Workload
    from lego_mlir.layout.base import Layout

    Array = np.ndarray[Any, Any]
    Order = Callable[[Array], tuple[Array, Array]]
    OrderLike = Order | Layout
    Progress = Callable[[int, int], None]

BATCH_TASKS: Final = 1 << 20
BATCH_REQUESTS: Final = 1 << 23
OUT_ROWS: Final = 1 << 19
THREADS: Final = 2


class Interleaving(IntEnum):
    """Which warp of an SM issues next; see `residents`."""

    FIFO = 0
    GREEDY = 1
    SEQUENTIAL = 2
    RANDOM = 3


@dataclass(frozen=True, slots=True)
class LevelCounts:
    """What one level did, over its instances. Reads, hits, fetched, writes and write-backs are sectors.

    `fetches` are the requests to the next level, `evicted` lines.
    """

    name: str
    requests: int
    reads: int
    hits: int
    fetched: int
    fetches: int
    writes: int
    write_hits: int
    evicted: int
    written_back: int

    @property
    def misses(self) -> int:
        return self.reads - self.hits

    @property
    def hit_rate(self) -> float:
        """Hits among the sectors read, 1.0 if none was read."""
        return self.hits / self.reads if self.reads else 1.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """The result: counts of each level, nearest first; `compulsory` distinct sectors read, `written` distinct written.

    `clocks` is the clock of each simulated SM at its end, `instructions` the warp instructions with an access.
    """

    levels: tuple[LevelCounts, ...]
    compulsory: int
    written: int
    clocks: tuple[int, ...]
    instructions: int
    blocks: int


def rows(width: int) -> Order:
    """The naive order: task i is (i mod width, i // width)."""
    return lambda i: (i % width, i // width)


def task_order(workload: Workload, order: OrderLike) -> tuple[int, Order]:
    """The number of task numbers, and their tasks: x is -1 for a number without a task.

    A layout of the tasks is an order: its `inv` maps a task number to (y, x), as in `lego_mlir.schedule`. Raises
    UsageError for a layout of another shape.
    """
    from lego_mlir.layout.base import Layout

    if not isinstance(order, Layout):
        return workload.tasks, order
    layout = order
    if tuple(layout.dims()) != (workload.height, workload.width):
        raise UsageError(
            f"an order of {workload.name} is a layout of its {workload.height} x {workload.width} tasks, "
            f"got {layout!r} of {layout.dims()}"
        )
    count = int(layout.physical_size())

    def function(i: Array) -> tuple[Array, Array]:
        y, x = layout.inv(i)
        if count == workload.tasks:
            return x, y
        holds = np.asarray(layout.holds(i))
        return np.where(holds, x, -1), np.where(holds, y, -1)

    return count, function


def simulate(
    workload: Workload,
    order: OrderLike,
    threads: int,
    levels: Sequence[CacheLevel],
    *,
    placement: Placement | None = None,
    interleaving: Interleaving = Interleaving.FIFO,
    hit: int = 30,
    miss: int = 300,
    sample: Sequence[int] | None = None,
    seed: int = 0,
    workers: int = THREADS,
    progress: Progress | None = None,
) -> Simulated:
    """Run a workload whose task i is `order(i)`, `threads` tasks in each block, and count what the caches do.

    `order` is a layout of the tasks (`lego_mlir.schedule`), or a function from task numbers to (x, y).
    Without a `placement`, one SM runs one block at a time. `sample` names the SMs to simulate, default all: caches of
    one SM are exact, shared ones then see only the sample. `hit` and `miss` are the clocks until a warp issues again.
    `progress` is called with finished and total blocks. Raises UsageError for an impossible block or hierarchy.
    """
    _require(workload, threads, levels)
    count, function = task_order(workload, order)
    blocks = -(-count // threads)
    placed = places.round_robin(blocks, sms=1, slots=1) if placement is None else placement
    if placed.sm.size != blocks:
        raise UsageError(
            f"the placement is of {placed.sm.size} blocks, {workload.name} has {blocks} of {threads} tasks"
        )
    run = _Run(workload, (count, function), threads, tuple(levels), placed, sample, seed)
    run.configure(interleaving, hit, miss)
    return run.finish(workers, progress)


def _require(workload: Workload, threads: int, levels: Sequence[CacheLevel]) -> None:
    require_hierarchy(tuple(levels))
    if not 1 <= threads <= 1024:
        raise UsageError(f"a block has 1 to 1024 threads, got {threads}")
    if workload.recorded is not None and workload.recorded.warps != -(-threads // WARP):
        raise UsageError(
            f"{workload.name} was recorded with {workload.recorded.warps} warps in a block, not with {threads} threads"
        )


class _Batch(NamedTuple):
    """Loaded blocks and their tasks."""

    begin: int
    end: int
    x: Array
    y: Array


class _Run:
    """One simulation: the loaded blocks, the machine and its caches."""

    def __init__(
        self, workload: Workload, order: tuple[int, Order], threads: int, levels: tuple[CacheLevel, ...],
        placed: Placement, sample: Sequence[int] | None, seed: int,
    ) -> None:  # fmt: skip
        self.workload, self.threads, self.levels, self.placed = workload, threads, levels, placed
        self.count, self.order = order
        chosen = np.arange(placed.sms) if sample is None else np.unique(np.asarray(sample, np.int64))
        if chosen.size == 0 or chosen[0] < 0 or chosen[-1] >= placed.sms:
            raise UsageError(f"the sample needs SMs within 0..{placed.sms - 1}, got {list(sample or ())}")
        self.chosen, self.seed = chosen, seed
        wanted = np.isin(placed.sm, chosen)
        self.loaded = placed.start[wanted[placed.start]]  # the blocks to run, in the order of their starts
        self.sm = np.searchsorted(chosen, placed.sm[self.loaded])

    def configure(self, interleaving: Interleaving, hit: int, miss: int) -> None:
        """Build the machine and its caches. Loads Numba."""
        from lego_mlir.caches import lookup, residents

        sms, slots, w = self.chosen.size, self.placed.slots, self.workload
        warps = -(-self.threads // WARP)
        recorded = w.recorded
        private = sum(not level.shared for level in self.levels)
        rows_of_blocks = np.argsort(self.sm, kind="stable")
        first = np.searchsorted(self.sm[rows_of_blocks], np.arange(sms + 1))
        settings = [
            *(int(interleaving), hit, miss, w.together, len(w.accesses), self.threads, warps, slots, private),
            *(self.levels[0].sector.bit_length() - 1, self.levels[0].sectors.bit_length() - 1, recorded is not None),
        ]  # fmt: skip
        self.words: Words = lookup.empty(self.levels, sms, self.seed)
        entered, clock, current, issued, random = (np.zeros(sms, np.int64) for _ in range(5))
        current[:] = -1
        random[:] = [lookup.seed_of(self.seed, -1, int(sm)) for sm in self.chosen]
        x, y = (np.full((sms, slots * self.threads if recorded is None else 1), -1, np.int32) for _ in range(2))
        left, queue = (np.zeros((sms, *shape), np.int64) for shape in ((slots,), (2, slots * warps, 2)))
        whole, pc = (np.zeros((sms, slots * warps), np.int64) for _ in range(2))
        head, size = (np.zeros((sms, 2), np.int64) for _ in range(2))
        self.machine: Residents = residents.Residents(
            np.array(settings, np.int64), rows_of_blocks, first, entered, clock, np.full((sms, slots), -1), left, x, y,
            whole, pc, queue, head, size, current, issued, random,
        )  # fmt: skip
        self.program: TaskProgram = residents.TaskProgram(*_program(w, self.loaded))
        self.private, self.work_rows = private, _work_rows(self.levels)
        self.seen_lines = -(-w.bytes // self.levels[0].line) + 1

    def finish(self, workers: int, progress: Progress | None) -> Simulated:
        """Load batch after batch, run it, and count."""
        workers = max(1, min(workers, self.chosen.size))
        parts = [np.arange(k, self.chosen.size, workers) for k in range(workers)]
        seen = [np.zeros((self.seen_lines, 2), np.uint32) for _ in parts]
        waiting: Array = np.zeros((0, 5), np.int64)
        total, size = self.loaded.size, self._batch()
        with ThreadPoolExecutor(workers) as pool:
            for begin in range(0, total, size):
                end = min(begin + size, total)
                tasks = _Batch(begin, end, *self._tasks(begin, end))
                found = pool.map(self._run_part, parts, [tasks] * workers, seen)
                waiting = self._share([waiting, *(rows for part in found for rows in part)], end == total)
                if progress is not None:
                    progress(end, total)
        return self._counted(seen)

    def _batch(self) -> int:
        if self.workload.recorded is not None:
            return int(self.loaded.size)
        requests = self.threads * max(len(self.workload.accesses), 1) // 8  # two lines for each warp instruction
        return max(1, min(BATCH_TASKS // self.threads, BATCH_REQUESTS // max(requests, 1)))

    def _tasks(self, begin: int, end: int) -> tuple[Array, Array]:
        if self.workload.recorded is not None:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        i = (self.loaded[begin:end, None] * self.threads + np.arange(self.threads)).ravel()
        inside = i < self.count
        x, y = self.order(np.where(inside, i, 0))
        return np.where(inside, x, -1).astype(np.int32), np.where(inside, y, -1).astype(np.int32)

    def _run_part(self, sms: Array, batch: _Batch, seen: Array) -> list[Array]:
        from lego_mlir.caches import residents

        work, spare = np.zeros((2, self.work_rows, 3), np.int64)
        out = np.zeros((OUT_ROWS + self.work_rows * self.workload.together, 5), np.int64)
        at, parts = 0, []
        while at < sms.size:
            at, n = residents.run_some(self.words, self.machine, self.program, sms, at, *batch, seen, work, spare, out)
            parts.append(out[:n].copy())
        return parts

    def _share(self, rows_: list[Array], last: bool) -> Array:
        """Send what the SMs requested through the shared levels, as far as every SM has come; the rest is returned."""
        from lego_mlir.caches import residents

        if self.private == len(self.levels):
            return rows_[0][:0]
        rows = np.concatenate(rows_)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        running = self.machine.first[:-1] + self.machine.entered < self.machine.first[1:]
        reached = self.machine.clock[running].min() if running.any() and not last else None
        ready = len(rows) if reached is None else int(np.searchsorted(rows[:, 0], reached, side="right"))
        work, spare = np.zeros((2, self.work_rows, 3), np.int64)
        spl = self.levels[max(self.private - 1, 0)].sectors
        residents.run_shared(self.words, self.private, len(self.levels), spl, rows[:ready], work, spare)
        return rows[ready:].copy()

    def _counted(self, seen: list[Array]) -> Simulated:
        from lego_mlir.caches import lookup

        union = np.bitwise_or.reduce(seen)
        read, written = (int(np.bitwise_count(union[:, kind]).sum()) for kind in range(2))
        counts = [lookup.counters(self.words, k, self.chosen.size).sum(axis=0) for k in range(len(self.levels))]
        return Simulated(
            tuple(LevelCounts(level.name, *map(int, row)) for level, row in zip(self.levels, counts, strict=True)),
            read,
            written,
            tuple(map(int, self.machine.clock)),
            int(self.machine.issued.sum()),
            int(self.loaded.size),
        )


def _program(w: Workload, loaded: Array) -> tuple[Array, Array, Array, Array]:
    """The arrays of `residents.TaskProgram`: of the accesses, or of the recorded rows of the loaded blocks."""
    accesses = np.array(
        [[a.base, a.across, a.down, a.dx, a.dy, a.width, a.height, a.boundary, a.table, a.store] for a in w.accesses],
        np.int64,
    ).reshape(-1, 10)
    if w.recorded is None:
        return accesses, w.positions, np.zeros(1, np.int64), np.zeros((0, 4), np.int64)
    played = w.recorded.in_order(loaded)
    return accesses, w.positions, played.starts, played.rows


def _work_rows(levels: Sequence[CacheLevel]) -> int:
    """Rows that the requests of one instruction can become on their way down: splits, fetches and write-backs."""
    rows_, before = WARP, levels[0].sectors
    for level in levels:
        rows_ *= max(before // level.sectors, 1) * (1 + level.evicted_together)
        before = level.sectors
    return rows_
