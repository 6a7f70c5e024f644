"""A long launch on several processes: each runs some blocks on a copy of global memory, and the copies are merged.

Blocks that nothing orders are independent, or race. So after a wave of blocks that took long, the process forks: each
worker runs a share of the blocks that are left on its own copy of memory, and says which granules it wrote and read
since. Where one process changed a granule that another one wrote with another value, or read, the two accesses race, as
they would in one process. Otherwise the values of the one that wrote it are those of the launch.

Not divided are kernels in which blocks may see each other without a race (atomics, fences, strong stores), and those
whose writes leave no record (bulk copies).
"""

from __future__ import annotations

import mmap
import os
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx.device_order import is_strong, orders_blocks
from lego_mlir.interp.ptx.global_shadow import BLOCK, LINE, SEVERAL

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.address_spaces import GlobalBuffer, GlobalMemory
    from lego_mlir.interp.ptx.checks import Checks
    from lego_mlir.interp.ptx.ptx_program import PtxInstruction
    from lego_mlir.interp.report import Fault

LONG_S: Final = 1.5
"""Seconds that the blocks must be expected to take still: a fork and a merge take some hundredths."""
SEEN: Final = frozenset({"atom", "red", "multimem", "call", "suld", "sust", "griddepcontrol"})
"""Opcodes of kernels that are not divided, unless they are of shared memory."""


def is_divisible(instructions: Sequence[PtxInstruction], checks: Checks) -> bool:
    """Whether the blocks of a kernel may run in several processes."""
    if not checks.global_races or checks.counts or not hasattr(os, "fork"):
        return False
    return not any(_sees_others(i) for i in instructions)


def _sees_others(instruction: PtxInstruction) -> bool:
    modifiers = set(instruction.modifiers)
    if instruction.opcode in SEEN:
        return not modifiers & {"shared", "shared::cta"}
    if instruction.opcode == "st" and is_strong(instruction):
        return True
    return orders_blocks(instruction) or bool(modifiers & {"bulk", "async"})


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class BufferAccesses:
    """What a process did to one buffer: granules written, their bytes, lines and blocks; granules read, and lines."""

    written: Array
    values: Array
    write_lines: Array
    write_blocks: Array
    read: Array
    read_lines: Array

    @classmethod
    def of(cls, memory: GlobalMemory, buffer: GlobalBuffer, blocks: Array) -> BufferAccesses:
        """Those of some blocks; `blocks` has a truth value for each block of the grid."""
        shadow = memory.shadow
        assert shadow is not None
        first, end = _granules(buffer, shadow.granule)
        owner = shadow.writes[BLOCK, first:end]
        reader, lines = (shadow.reads[field].reshape(shadow.ranks, -1)[:, first:end] for field in (BLOCK, LINE))
        written = np.flatnonzero((owner > 0) & blocks[owner - 1])
        one = (reader > 0) & (reader != SEVERAL)
        reads = (one & blocks[np.where(one, reader - 1, 0)]) | (reader == SEVERAL)
        read = np.flatnonzero(reads.any(axis=0))
        words = memory.arena[first * shadow.granule : end * shadow.granule].reshape(-1, shadow.granule)
        return cls(
            written, words[written], shadow.writes[LINE, first + written], owner[written] - 1, read,
            lines[reads.argmax(axis=0)[read], read],
        )  # fmt: skip


def _granules(buffer: GlobalBuffer, granule: int) -> tuple[int, int]:
    return buffer.start // granule, -(-(buffer.start + buffer.nbytes) // granule)


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """What a worker sends: its accesses to each buffer, its faults, how much it ran, and whether it ran to the end."""

    accesses: list[BufferAccesses]
    faults: list[Fault]
    blocks: int
    executed: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class DividedWorker:
    """A forked process: where it writes its result, and its blocks."""

    process: int
    pipe: int
    blocks: Array


class DividedLaunch:
    """The workers of a launch, of which this process is none; `before` is the memory when they began."""

    def __init__(
        self, memory: GlobalMemory, shares: Sequence[Array], run: Callable[[Array, int], WorkerResult]
    ) -> None:
        self.memory = memory
        self.before = [memory.arena[b.start : b.start + b.nbytes].copy() for b in memory.buffers]
        self.done = mmap.mmap(-1, 8 * len(shares))
        self.workers = [self._forked(number, share, run) for number, share in enumerate(shares)]

    def _forked(self, number: int, share: Array, run: Callable[[Array, int], WorkerResult]) -> DividedWorker:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads: the worker uses none of their locks
            process = os.fork()
        if process:
            os.close(writing)
            return DividedWorker(process, reading, share)
        code = 1
        try:
            os.close(reading)
            result = run(share, number + 1)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(result, pipe, protocol=5)
            code = 0
        finally:
            os._exit(code)

    def note(self, number: int, blocks: int) -> None:
        """In a worker: record how many of its blocks are done."""
        self.done[8 * number : 8 * number + 8] = blocks.to_bytes(8, "little")

    def blocks_done(self) -> int:
        """The blocks that the workers have done."""
        return int(np.frombuffer(self.done, np.int64).sum())

    def results(self) -> Iterator[tuple[DividedWorker, WorkerResult | None]]:
        """Each worker's result in order; None for one that ended without."""
        for worker in self.workers:
            with os.fdopen(worker.pipe, "rb") as pipe:
                body = pipe.read()
            os.waitpid(worker.process, 0)
            yield worker, pickle.loads(body) if body else None  # by a child of this process

    def merge(self, result: WorkerResult, own: Array, report: Report) -> None:
        """Take a worker's writes; report races with those of `own`, the blocks that ran here since the fork."""
        shadow = self.memory.shadow
        assert shadow is not None
        for buffer, before, theirs in zip(self.memory.buffers, self.before, result.accesses, strict=True):
            mine = BufferAccesses.of(self.memory, buffer, own)
            first, end = _granules(buffer, shadow.granule)
            words = self.memory.arena[first * shadow.granule : end * shadow.granule].reshape(-1, shadow.granule)
            old = before[: len(before) // shadow.granule * shadow.granule].reshape(-1, shadow.granule)
            found = [*_write_conflicts(mine, theirs), *_read_conflicts(mine, theirs, old)]
            for conflict in (*found, *_read_conflicts(theirs, mine, old)):
                report(buffer.element(conflict.granule * shadow.granule), conflict)
            words[theirs.written] = theirs.values
            shadow.writes[LINE, first + theirs.written] = theirs.write_lines
            shadow.writes[BLOCK, first + theirs.written] = theirs.write_blocks + 1
            shadow.reads[BLOCK, first + theirs.read] = SEVERAL
            shadow.reads[LINE, first + theirs.read] = theirs.read_lines


@dataclass(frozen=True, slots=True)
class ProcessConflict:
    """`count` writes at a line, and accesses at the line `other` elsewhere; granule and block are the first write's."""

    granule: int
    line: int
    block: int
    other: int
    written: bool
    count: int


Report = Callable[[str, ProcessConflict], None]
"""Is told the element and the conflict."""


def _write_conflicts(mine: BufferAccesses, theirs: BufferAccesses) -> Iterator[ProcessConflict]:
    """Granules that both wrote, with different values."""
    _, at, other = np.intersect1d(mine.written, theirs.written, return_indices=True)
    differ = (mine.values[at] != theirs.values[other]).any(axis=1)
    yield from _by_lines(theirs, other[differ], mine.write_lines[at[differ]], written=True)


def _read_conflicts(readers: BufferAccesses, writers: BufferAccesses, before: Array) -> Iterator[ProcessConflict]:
    """Granules that one read and the other changed."""
    _, at, other = np.intersect1d(readers.read, writers.written, return_indices=True)
    inside = writers.written[other] < len(before)
    at, other = at[inside], other[inside]
    changed = (writers.values[other] != before[writers.written[other]]).any(axis=1)
    yield from _by_lines(writers, other[changed], readers.read_lines[at[changed]], written=False)


def _by_lines(writers: BufferAccesses, rows: Array, others: Array, *, written: bool) -> Iterator[ProcessConflict]:
    """One conflict for each pair of lines."""
    pairs = np.stack([writers.write_lines[rows], others], axis=1)
    found, first, counts = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    for (line, other), at, count in zip(found, first, counts, strict=True):
        row = rows[at]
        granule, block = int(writers.written[row]), int(writers.write_blocks[row])
        yield ProcessConflict(granule, int(line), block, int(other), written, int(count))
