"""The time of a matrix product by its tile: one model for all kernels, `mma.sync` and warpgroups, K whole or in parts.

A block takes steps along K. Each step occupies the matrix units, shared memory with the issue slots, and the path from
L2; the longest of them hides most of the others. A block that is alone on its SM also waits, for its own chain of
barriers and products, and for memory as far as its stages do not cover the latency; several blocks hide that:

    busy  = matrix, shared + copies, rows and lines of L2 together            clocks of a step
    alone = busy + wait, or latency / stages                                  a step of a block that nothing overlaps
    round = max(resident * (steps busy + store), fill + steps alone + drain)
    time  = start + (rounds, power, bytes of DRAM, lines of L2 together) + sums of parts

A round ends with the fullest SM: one tile more than the SMs hold costs a round. A persistent block has all of its tiles
in one round and fills its pipeline once. "Together" is a p-norm: the sum for p = 1, the largest for large p.

Power: each matrix instruction, line and byte costs energy, and at the limit of power energy is time. DRAM: a wave of
tiles reads its rows and columns once if its blocks stay within reach of each other in L2, which lockstep ensures. How
much of the matrices L2 holds from before depends on the kind of launches: one after a `flushed` L2, `steady` ones of
the same matrices, or `rotated` ones, with B from memory each time as in the layers of a model.

`bench/product_fit.py` fits the constants to recorded runs, writes them to the device's file (`hardware.devices`), and
judges the choices by cross-validation (docs/results/product-choices.md). A predicted time is good to about 8 %.

A new kind of kernel takes part by describing itself as a ProductTile. What no field expresses is a further term: add
the count to `product_counts.TileCounts`, its constant to MatrixPath, both to the equations of `time_of`, and recorded
runs to the fit. `warp_tiles` and `warpgroup_tiles` list the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lego_mlir.choices.product_counts import ProductSize, TileCounts, counts_of
from lego_mlir.choices.product_device import REFERENCE_DEVICE, Launches, LaunchKind, MatrixPath, ProductDevice
from lego_mlir.choices.product_tile import Family, ProductTile
from lego_mlir.hardware.memory import LINE_BYTES

FAMILIES: Final[Mapping[str, Family]] = {"matmul_sm80.mlir": "mma.sync", "matmul_sm90.mlir": "warpgroups"}
"""The transform script of each family."""


@dataclass(frozen=True, slots=True)
class ProductTime:
    """The predicted time of a product and its parts, in microseconds; `waves` are the tiles over those in flight."""

    microseconds: float
    sm: float
    matrix: float
    shared: float
    power: float
    dram: float
    l2: float
    waves: float


def joined(parts: tuple[float, ...], exponent: float) -> float:
    """The p-norm of times that overlap in part.

    >>> joined((3.0, 4.0), 1.0), joined((3.0, 4.0), 2.0)
    (7.0, 5.0)
    """
    return sum(part**exponent for part in parts) ** (1 / exponent)


def at_least(value: float, least: float) -> float:
    """The larger of two numbers, or of each element of arrays."""
    return (value + least + abs(value - least)) / 2


def at_most(value: float, most: float) -> float:
    """The smaller of two numbers, or of each element of arrays."""
    return (value + most - abs(value - most)) / 2


def share(value: float) -> float:
    """A number limited to 0 to 1."""
    return at_most(at_least(value, 0.0), 1.0)


def dram_bytes(counts: TileCounts, device: ProductDevice, kind: LaunchKind) -> float:
    """Bytes of the matrices that come from DRAM: what L2 does not hold from before, and what waves read again.

    L2 keeps matrices of half its size; larger ones displace each other.
    """
    c, held = counts, device.l2_bytes / 2
    moved = c.bytes_a + c.bytes_b + c.bytes_c
    lost = share(moved / held - 1)
    once = at_least(lost, kind.cold_a) * (c.bytes_a + c.bytes_c) + at_least(lost, kind.cold_b) * c.bytes_b
    operands, smaller = c.bytes_a + c.bytes_b, at_most(c.bytes_a, c.bytes_b)
    outside = at_least(1 - device.l2_bytes / c.wave, 0.0) * share(smaller / held - 1)
    read = c.read * (1 + device.drift * outside * (1 - c.lockstep) * share(c.waves - 1))
    return once + at_least(read - operands, 0.0) * share(operands / held - 1)


def clocks_of(
    counts: TileCounts, path: MatrixPath, device: ProductDevice, from_dram: float
) -> tuple[float, float, float]:
    """Clocks of the SM with the most work, of the matrix units in a step, and of shared memory in a step."""
    c, lines = counts, counts.units * counts.steps * counts.lines
    matrix, shared = c.matrix * path.matrix, c.shared * path.shared
    cold = share(from_dram / (lines * LINE_BYTES))
    fetch = c.rows * path.row + c.split_lines * path.line + c.split_sectors * path.sector
    busy = joined((matrix, shared + c.copies * path.issue, fetch), path.units)
    latency = (device.latency + device.cold * cold) * device.frequency / at_least(c.stages - path.held, 0.5)
    alone = joined((busy + path.wait + path.chain * c.chained, latency), path.waits)
    store = c.stored * path.store

    def round_of(blocks: float) -> float:
        once = path.fill + c.steps * alone + path.drain + store
        return joined((blocks * (c.steps * busy + store), once), device.rounds)

    each = c.steps * joined((c.resident * busy, alone), device.rounds) + path.drain + store * c.resident
    persistent = path.fill + c.rounds * each
    several = c.whole * round_of(c.resident) + (c.last > 0) * round_of(c.last)
    return c.persistent * persistent + (1 - c.persistent) * several, matrix, shared


def time_of(counts: TileCounts, path: MatrixPath, device: ProductDevice, kind: LaunchKind) -> ProductTime:
    """The time of counted work; arrays of counts, and of constants, give arrays of times."""
    c = counts
    read = dram_bytes(c, device, kind)
    clocks, matrix, shared = clocks_of(c, path, device, read)
    moved = read + at_most(read, kind.dirty)  # what is written back first, up to all dirty lines
    steps = c.units * c.steps
    energy = c.matrix * path.matrix_power + c.lines * path.line_power + c.shared * path.shared_power
    each = steps / device.sms / device.frequency
    sm, power = clocks / device.frequency, kind.power * (each * energy + moved * device.dram_power)
    dram, l2 = moved / at_most(c.busy * path.reach, device.dram), steps * c.lines / device.l2
    start = kind.start + (kind.early - kind.start) * c.dependent + device.cluster * c.clustered
    parts = path.arrival * c.peers * c.rounds + (c.parts > 1) * path.sum * c.sums
    parts += (c.gathered > 0) * path.publish + path.gather * c.gathered
    total = start + joined((sm, power, dram, l2), path.limits) + parts
    return ProductTime(total, sm, each * matrix, each * shared, power, dram, l2, c.waves)


def product_time(
    product: ProductSize, tile: ProductTile, device: ProductDevice = REFERENCE_DEVICE, launches: Launches = "flushed",
    shared: int = 0,
) -> ProductTime:  # fmt: skip
    """The time of a product by tiles of this kind, and its parts; a block takes `shared` bytes, if they are known."""
    counts = counts_of(product, tile, device, shared)
    return time_of(counts, device.paths[tile.family], device, device.launches[launches])
