"""The time of a kernel with one result a thread, from its addresses: issue, conflicts, sectors filled, the mapping.

A warp's load occupies its SM for a constant, and for each pass of its slowest stage: the banks of 4 bytes, the tags (4
sets of lines), the places of 32 bytes in a line. Each sector that L1 does not hold occupies the SM again, and so does
each instruction that computes which task a thread does. With few resident blocks the latency of a block shows too:

    clocks of a block = max(work, (latency + work) / resident blocks),  work = warps * (loads * pass + fills + mapping)
    seconds = start + blocks / SMs * clocks / frequency

The constants are those of `hardware.devices`, fitted to measurements of the 9 x 9 stencil of 4096 x 4096 and
16384 x 16384 elements with blocks of 256 threads; docs/reference/schedule-caches.md compares the model with everything
else that was measured, and shows what it cannot explain. It ranks orders; it knows nothing of arithmetic or of the
bandwidth of the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.caches import placement
from lego_mlir.caches.levels import CacheLevel, WritePolicy
from lego_mlir.caches.simulation import simulate, task_order
from lego_mlir.caches.workloads import Workload, addresses
from lego_mlir.errors import UsageError
from lego_mlir.hardware import devices
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import LINE_BYTES, SECTOR_BYTES

if TYPE_CHECKING:
    from lego_mlir.caches.simulation import OrderLike

    Array = np.ndarray[Any, Any]

BANKS: Final = 32
BANK_BYTES: Final = 4
TAG_SETS: Final = 4
SAMPLED_LANES: Final = 1 << 18
SAMPLED_BLOCKS: Final = 48
SIMULATED_WAVES: Final = 4
CLOSE: Final = 0.01
"""Predicted times within 1 % are equal: measured ranks among them are noise."""


@dataclass(frozen=True, slots=True)
class Chip:
    """A GPU, and the clocks of an SM that each event takes. `start` is in seconds, `frequency` in hertz.

    `loads` is for each load of a warp, `places` for each sector in the fullest place of a line, `passes` for each pass
    of banks or tags, `fills` for each sector filled, `stores` for each line stored, `instructions` for each instruction
    of the mapping and warp, `latency` for a block that waits alone. `l1_bytes` is what loads can use.
    """

    name: str
    sms: int
    frequency: float
    threads: int
    registers: int
    l1_bytes: int
    l2_bytes: int
    start: float
    loads: float
    places: float
    passes: float
    fills: float
    stores: float
    instructions: float
    latency: float

    @property
    def levels(self) -> tuple[CacheLevel, CacheLevel]:
        """Its caches: L1 of each SM, and an L2 that fetches 64 bytes on a miss and writes back."""
        l2 = CacheLevel("L2", self.l2_bytes, ways=16, write=WritePolicy.BACK, fetched_together=2, shared=True)
        return CacheLevel("L1", self.l1_bytes), l2

    def resident(self, threads: int, registers: int) -> int:
        """Blocks of an SM, by threads and by registers, which are allocated 256 at a time for each warp."""
        warps = -(-threads // WARP)
        of_warp = -(-registers * WARP // 256) * 256
        return max(min(self.threads // (warps * WARP), self.registers // (of_warp * warps), 32), 1)


CHIPS: Final = {file["alias"]: Chip(file["alias"], **file["caches"]["constants"]) for file in devices.having("caches")}
"""The devices to which the constants were fitted."""
REFERENCE_CHIP: Final = CHIPS[devices.file_of(devices.REFERENCE)["alias"]]
"""That of a prediction where no chip is given."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The predicted time and its parts, in clocks of an SM for each warp."""

    seconds: float
    loads: float
    conflicts: float
    fills: float
    stores: float
    mapping: float
    sectors: float
    """Sectors that L1 fetches for each block."""


def estimate(
    workload: Workload,
    order: OrderLike,
    threads: int,
    chip: Chip,
    *,
    mapping: float = 0.0,
    registers: int = 42,
    sectors: float | None = None,
) -> Estimate:
    """Predict the time of a workload under an order, `threads` threads in a block.

    `mapping` is the number of machine instructions that compute a task from a thread's number beyond x = i mod W;
    `sectors` is what L1 fetches for each block, default: what a block alone must fetch (`block_sectors`), which suits
    stencils; `simulated_sectors` suits products, whose blocks share data.
    """
    warps = -(-threads // WARP)
    loads = sum(not access.store for access in workload.accesses)
    places, passes, stores = conflicts(workload, order, threads)
    fetched = block_sectors(workload, order, threads) if sectors is None else sectors
    parts = (
        chip.loads * loads,
        (chip.places * places + chip.passes * passes) * loads,
        chip.fills * fetched / warps,
        chip.stores * stores,
        chip.instructions * mapping,
    )
    work = warps * sum(parts)
    clocks = max(work, (chip.latency + work) / chip.resident(threads, registers))
    blocks = -(-workload.tasks // threads)
    return Estimate(chip.start + blocks / chip.sms * clocks / chip.frequency, *parts, fetched)


def conflicts(workload: Workload, order: OrderLike, threads: int) -> tuple[float, float, float]:
    """Means over sampled warps: places and passes of a load, lines of the stores of a warp.

    >>> from lego_mlir.caches.simulation import rows
    >>> from lego_mlir.caches.workloads import stencil
    >>> places, passes, stores = conflicts(stencil(4096, 4096, 9), rows(4096), 256)
    >>> round(places, 2), passes, stores
    (1.88, 1.0, 1.0)
    """
    reads = [access for access in workload.accesses if not access.store]
    step = max(len(reads) // 256, 1)
    taken = reads[:: step | 1]  # an odd step: alternating accesses are all taken
    x, y = _sampled_warps(workload, order, threads, max(SAMPLED_LANES // (WARP * max(len(taken), 1)), 1))
    places, passes = 0.0, 0.0
    for access in taken:
        address, real = addresses(workload, access, x, y)
        word, sector, line = address // BANK_BYTES, address // SECTOR_BYTES, address // LINE_BYTES
        banks = most_distinct(word, word % BANKS, BANKS, real)
        tags = most_distinct(line, line % TAG_SETS, TAG_SETS, real)
        places += float(
            most_distinct(sector, sector % (LINE_BYTES // SECTOR_BYTES), LINE_BYTES // SECTOR_BYTES, real).mean()
        )
        passes += float(np.maximum(banks, tags).mean())
    stores = 0.0
    for access in workload.accesses:
        if access.store:
            address, real = addresses(workload, access, x, y)
            stores += float(most_distinct(address // LINE_BYTES, np.zeros_like(address), 1, real).mean())
    return places / max(len(taken), 1), passes / max(len(taken), 1), stores


def block_sectors(workload: Workload, order: OrderLike, threads: int) -> float:
    """The distinct sectors that the loads of a block touch: the mean over sampled blocks.

    >>> from lego_mlir.caches.simulation import rows
    >>> from lego_mlir.caches.workloads import stencil
    >>> block_sectors(stencil(4096, 4096, 9), rows(4096), 256)
    304.5
    """
    count, function = task_order(workload, order)
    blocks = -(-count // threads)
    chosen = _sample(blocks, SAMPLED_BLOCKS)
    reads = [access for access in workload.accesses if not access.store]
    total = 0
    for block in chosen:
        i = np.arange(block * threads, min((block + 1) * threads, count))
        x, y = function(i)
        touched = [
            np.unique(address[real] // SECTOR_BYTES)
            for address, real in (addresses(workload, access, x[x >= 0], y[x >= 0]) for access in reads)
        ]
        total += np.unique(np.concatenate(touched)).size if touched else 0
    return total / len(chosen)


def simulated_sectors(
    workload: Workload, order: OrderLike, threads: int, chip: Chip, *, registers: int = 42, sms: int = 2, seed: int = 0
) -> float:
    """The sectors that L1 fetches for each block: some SMs of the chip, a few waves of blocks from the middle.

    Blocks are placed at random (`placement.scattered`), as a chip places them.
    """
    count, function = task_order(workload, order)
    slots = chip.resident(threads, registers)
    every = -(-count // threads)
    blocks = min(every, SIMULATED_WAVES * chip.sms * slots)
    first = (every - blocks) // 2 * threads

    def middle(i: Array) -> tuple[Array, Array]:
        shifted = first + i
        x, y = function(np.minimum(shifted, count - 1))
        return np.where(shifted < count, x, -1), y

    part = replace(workload, width=blocks * threads, height=1)  # as many tasks; their addresses are those of `middle`
    placed = placement.scattered(blocks, sms=chip.sms, slots=slots, seed=seed)
    found = simulate(
        part, middle, threads, chip.levels[:1], placement=placed, sample=_sample(chip.sms, sms).tolist(), seed=seed
    )
    return found.levels[0].fetched / found.blocks


def ranked(estimates: Mapping[str, Estimate]) -> list[str]:
    """The names of the orders, fastest first; those within 1 % of each other keep the order of `estimates`."""
    names = list(estimates)
    return sorted(names, key=lambda name: (round(np.log(estimates[name].seconds) / CLOSE), names.index(name)))


def chip_named(name: str) -> Chip:
    """A chip with fitted constants. Raises UsageError for another name."""
    if name not in CHIPS:
        raise UsageError(f"no constants were fitted for chip {name!r}; there are {', '.join(CHIPS)}")
    return CHIPS[name]


def _sample(count: int, most: int) -> Array:
    """At most `most` of the numbers below `count`, ascending: always the same, and at no fixed distance."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.random.default_rng(0).integers(0, count, most))


def _sampled_warps(workload: Workload, order: OrderLike, threads: int, most: int) -> tuple[Array, Array]:
    """The tasks of evenly spaced warps, as (warps, 32); x is -1 for an idle lane."""
    count, function = task_order(workload, order)
    warps_of_block = -(-threads // WARP)
    warps = -(-count // threads) * warps_of_block
    chosen = _sample(warps, most)
    thread = (chosen % warps_of_block)[:, None] * WARP + np.arange(WARP)
    i = (chosen // warps_of_block)[:, None] * threads + thread
    inside = (thread < threads) & (i < count)
    x, y = function(np.where(inside, i, 0))
    return np.where(inside, x, -1), np.where(inside, y, -1)


def most_distinct(value: Array, group: Array, groups: int, real: Array) -> Array:
    """For each warp the most distinct values in one group."""
    rows = value.shape[0]
    key = np.where(real, value, -1)
    order = np.argsort(key, axis=1, kind="stable")
    sorted_, of = np.take_along_axis(key, order, 1), np.take_along_axis(group, order, 1)
    first = np.ones(sorted_.shape, bool)
    first[:, 1:] = sorted_[:, 1:] != sorted_[:, :-1]
    first &= sorted_ >= 0
    index = (np.arange(rows)[:, None] * groups + of)[first]
    return np.bincount(index, minlength=rows * groups).reshape(rows, groups).max(axis=1)
