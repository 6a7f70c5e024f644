"""One cost model for every candidate: counts of a launch become microseconds on a device.

A block occupies its SM for the slowest of four units: issue, L1 with global memory, shared memory, the matrix unit; a
part of the others does not overlap. An SM with several resident blocks hides the latency of their loads:

    work of a block = max(issue, L1, shared, matrix) + a part of the rest          clocks
    a wave of blocks = max(resident * work, rounds * latency + work)
    time = start + max(whole waves + the last one, L2 sectors, bytes of DRAM)

The last wave is charged by the blocks of its fullest SM, so a grid of one block more than fits costs a wave. The model
ranks candidates of one kernel; constants are those of `hardware.devices` (docs/how-to/tuning.md).
Products of `kernels.matmul` have a model that knows their steps, stages and lines (`choices.product_time`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.caches.time_model import Chip, chip_named
from lego_mlir.errors import UsageError
from lego_mlir.hardware import devices
from lego_mlir.hardware.limits import RESERVED_SHARED_BYTES
from lego_mlir.hardware.memory import SECTOR_BYTES
from lego_mlir.hardware.rounds import rounds_of
from lego_mlir.tuning.candidates import PredictedTime

if TYPE_CHECKING:
    from lego_mlir.tuning.launch_counts import LaunchCounts, TimedProduct

RESIDENT: Final = 32
"""Blocks that an SM holds at most; CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A device: the `chip` with its L1 constants, and the rest of the memory system.

    `dram` and `l2` are bytes a second, `l2_partial` of sectors stored in part; `mma` clocks of an SM for a product
    m16n8k16, `wavefront` and `instruction` for one of these; `latency` clocks of a round of loads; `start` seconds of a
    launch, `again` of each that follows it; `overlap` the part of the faster units that the slowest one hides.
    """

    name: str
    target: str
    chip: Chip
    shared: int
    dram: float
    l2: float
    l2_partial: float
    mma: float
    wavefront: float
    instruction: float
    latency: float
    start: float
    again: float
    overlap: float


DEVICES: Final = {
    file["alias"]: DeviceModel(
        file["alias"], file["target"], chip_named(file["alias"]), **file["tuning"]["constants"]
    )
    for file in devices.having("tuning")
}  # fmt: skip
"""The devices to which the constants were fitted."""


def device_named(name: str) -> DeviceModel:
    """The device with this name. Raises UsageError, which lists the known ones."""
    if name not in DEVICES:
        raise UsageError(f"no constants were fitted for device {name!r}; there are {', '.join(DEVICES)}")
    return DEVICES[name]


def resident_blocks(counts: LaunchCounts, device: DeviceModel) -> int:
    """Blocks that an SM holds at once, by threads, registers and shared memory; 0 if not even one fits."""
    shared = device.shared // (counts.shared_bytes + RESERVED_SHARED_BYTES)
    return min(device.chip.resident(counts.threads, counts.registers), shared, RESIDENT)


def predict(counts: LaunchCounts, device: DeviceModel) -> PredictedTime:
    """The time of the launches, and its parts."""
    if counts.product is not None:
        return _predicted_product(counts, counts.product, device)
    chip, resident = device.chip, max(resident_blocks(counts, device), 1)
    microseconds = 1e6 / chip.frequency
    fills = _fills(counts, device, resident)
    parts = (
        counts.instructions * device.instruction,
        chip.loads * counts.loads + chip.places * counts.places + chip.passes * counts.passes + chip.fills * fills
        + chip.stores * counts.stores / 4,
        counts.wavefronts * device.wavefront,
        counts.mma * device.mma,
    )  # fmt: skip
    work = max(parts) + (1 - device.overlap) * (sum(parts) - max(parts))
    latency = counts.rounds * device.latency
    slots = chip.sms * resident
    whole, here = rounds_of(counts.blocks, slots, chip.sms)
    rest = counts.blocks - whole * slots
    wave = max(resident * work, latency + work)
    last = max(here * work, latency + work) if rest else 0.0
    if counts.blocks <= slots:  # of several waves, an SM that is done takes the next block
        whole, last = 0, max(wave if whole else 0.0, last) * counts.imbalance
    sm = (whole * wave + last) * microseconds
    tail = max(last - wave * rest / slots, 0.0) * microseconds
    dram = counts.touched / device.dram * 1e6
    whole_sectors, partial = fills + counts.packed, counts.stores - counts.packed
    l2 = counts.blocks * SECTOR_BYTES * (whole_sectors / device.l2 + partial / device.l2_partial) * 1e6
    slowest = max(sm, dram, l2)
    once = slowest + (1 - device.overlap) * (max(dram, l2) if sm is slowest else sm) / 2
    launches = counts.launches
    each = launches * microseconds * counts.blocks / chip.sms
    return PredictedTime(
        microseconds=1e6 * (device.start + (launches - 1) * device.again) + launches * once,
        dram=launches * dram,
        l2=launches * l2,
        shared=each * parts[2],
        instructions=each * max(parts[0], parts[3]),
        waves=counts.blocks / slots,
        tail=launches * tail,
    )


def _predicted_product(counts: LaunchCounts, product: TimedProduct, device: DeviceModel) -> PredictedTime:
    """The time of a product by its own model, which has the constants of the reference."""
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.choices.product_time import product_time

    on, launches = device_with(device.chip.sms), counts.launches
    time = product_time(product.size, product.tile, on, shared=product.shared)
    return PredictedTime(
        microseconds=launches * time.microseconds,
        dram=launches * time.dram,
        l2=launches * time.l2,
        shared=launches * time.shared,
        instructions=launches * time.matrix,
        waves=time.waves,
        tail=launches * time.sm * (1 - time.waves / math.ceil(time.waves)),
    )


def _fills(counts: LaunchCounts, device: DeviceModel, resident: int) -> float:
    """Sectors that L1 fetches for a block: each once while those of all resident blocks fit, else a part again."""
    loaded = counts.sectors - counts.stores
    room = max(device.chip.l1_bytes - resident * counts.shared_bytes, 0)
    held = counts.fills * SECTOR_BYTES * resident
    if held <= room or loaded <= counts.fills:
        return counts.fills
    return counts.fills + (loaded - counts.fills) * (1 - room / held)
