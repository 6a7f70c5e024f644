"""Work counts of a tiled product: instructions, lines of memory, rounds. No clock and no constant.

    of a step along K     matrix instructions, wavefronts of shared memory, lines of 128 bytes and where rows split them
    of a tile             steps, sectors of C
    of a launch           rounds of blocks over the SMs and the fullest SM of the last one, bytes that waves read

`product_time` turns counts into a time. Each count is a number, or an array of those of many candidates: the same lines
compute the time of one candidate and of all recorded runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from lego_mlir.choices.product_device import ProductDevice
from lego_mlir.choices.product_tile import BYTES, LEAST_STEPS, STEP, ProductTile, exchanged
from lego_mlir.hardware.limits import REGISTERS_PER_SM, RESERVED_SHARED_BYTES, SHARED_PER_SM, THREADS_PER_SM, WARP
from lego_mlir.hardware.memory import LINE_BYTES, SECTOR_BYTES
from lego_mlir.hardware.rounds import rounds_of

PRODUCTS: Final = 16 * 8 * 16
"""Products of one `mma.sync` m16n8k16, the unit of matrix work of both families. PTX ISA."""
DEPTH: Final = 16
"""The depth of one matrix instruction of 16-bit operands. PTX ISA."""
WARPGROUP_ROWS: Final = 64
"""Rows of C of one `wgmma`. PTX ISA."""
WORD: Final = 16
"""Bytes of the widest copy."""
BOX: Final = 128
"""Bytes of a row of the boxes that tensor maps copy, in 128-byte swizzles."""
SHARED_WAVEFRONT: Final = 128
"""Bytes of shared memory that an SM reads or writes in a clock. CUDA C++ Programming Guide."""
GROUP_ROWS: Final = 2048
"""Rows of C in a group of the tile order."""
SUMS: Final = 1024
"""Sums of a tile that count as one, where parts of K are added."""


@dataclass(frozen=True, slots=True)
class ProductSize:
    """A product to compute: its sizes, and the layouts of A and B, N for rows and T for columns.

    K counts elements of 16 bits: other types count by their bytes. `element` is the size of an element of
    C in shared memory, in bytes.
    """

    m: int
    n: int
    k: int
    layouts: str = "NN"
    element: int = 4

    def turned(self) -> ProductSize:
        """The product of B^T and A^T."""
        return ProductSize(self.n, self.m, self.k, exchanged(self.layouts), self.element)

    @property
    def moved(self) -> int:
        """Bytes of the three matrices."""
        return BYTES * (self.m * self.k + self.k * self.n + self.m * self.n)


class TileCounts(NamedTuple):
    """The counts of a product in tiles of one kind; each is a number, or an array of those of many candidates.

    Of a step: `matrix` instructions (m16n8k16), `shared` wavefronts, `copies` of warps, `rows` of 128 bytes that arrive
    in shared memory, further lines and sectors (`split_lines`, `split_sectors`) that unaligned rows touch in the
    slowest block, `lines` of L2 on average, and its depth in `chained` matrix instructions.
    Of a tile: `steps`, `stored` sectors. Of a launch: `units`, tiles times `parts`; `whole` rounds of `resident` blocks
    per SM, and the blocks of the fullest SM in the `last` one; `rounds` of any blocks, and `waves`, units over those in
    flight; `sums` in parts that a block adds, `peers` that it waits for, and `gathered` sums of other clusters' parts;
    `busy` SMs have a block.
    `read` are bytes of A and B if each wave reads its own once, `wave` those of one wave. `stages`, `persistent`,
    `clustered`, `lockstep` and `dependent` describe the kernel.
    """

    matrix: float
    shared: float
    copies: float
    rows: float
    split_lines: float
    split_sectors: float
    lines: float
    chained: float
    steps: float
    stored: float
    units: float
    parts: float
    whole: float
    last: float
    rounds: float
    resident: float
    waves: float
    sums: float
    peers: float
    gathered: float
    busy: float
    read: float
    wave: float
    bytes_a: float
    bytes_b: float
    bytes_c: float
    stages: float
    persistent: float
    clustered: float
    lockstep: float
    dependent: float


class TileFetch(NamedTuple):
    """What a tile fetches in a step, as in TileCounts."""

    rows: float
    split_lines: float
    split_sectors: float
    lines: float
    copies: float


def touched(size: float, pitch: int, unit: int) -> float:
    """Units of memory that a row of `size` bytes touches on average, for rows `pitch` bytes apart.

    >>> touched(128, 256, 128), touched(128, 144, 128), touched(128, 130, 32)
    (1.0, 1.875, 4.9375)
    """
    return size / unit + 1 - math.gcd(pitch, unit) / unit


def resident_blocks(tile: ProductTile, shared: int) -> int:
    """Blocks that an SM holds at once: by the bytes of `shared` memory, registers and threads."""
    if tile.resident:
        return tile.resident
    threads = tile.threads
    accumulators = tile.m * tile.n // threads
    registers = min(64 + accumulators * 5 // 4, 255)  # of a thread, close to what ptxas takes
    by_shared, by_registers = (
        SHARED_PER_SM // (shared + RESERVED_SHARED_BYTES),
        REGISTERS_PER_SM // (registers * threads),
    )
    return max(1, min(by_shared, by_registers, THREADS_PER_SM // threads))


def grid_of(product: ProductSize, tile: ProductTile) -> tuple[int, int]:
    """Tiles of C along M and N, in whole clusters."""
    along_m, along_n = tile.cluster
    return -(-product.m // (tile.m * along_m)) * along_m, -(-product.n // (tile.n * along_n)) * along_n


def reached_by(blocks: int, device: ProductDevice) -> int:
    """The SMs that clusters of that many blocks reach."""
    return int(device.sms * device.reached.get(blocks, 1.0))


def counts_of(product: ProductSize, tile: ProductTile, device: ProductDevice, shared: int = 0) -> TileCounts:
    """The counts of a product on a device; of a transposed one, those of B^T A^T.

    A block takes the bytes of `shared` memory of a kernel, if they are known.
    """
    p, t = (product.turned(), tile.turned()) if tile.transposed else (product, tile)
    grid, k = grid_of(p, t), STEP if t.family == "warpgroups" else t.k
    resident, blocks = resident_blocks(t, shared or t.shared_bytes(p.element)), t.clustered
    slots = reached_by(blocks, device) * resident // blocks * blocks  # blocks at the same time: whole clusters
    divided = t.parts * t.splits
    units = grid[0] * grid[1] * divided
    whole, last = rounds_of(units, slots, device.sms)
    rounds = whole + (last > 0)
    fetched, (read, wave) = fetched_by(p, t, k, grid, rounds), waves_of(p, t, grid, slots)
    by_warps = t.m * t.warps[1] + t.n * t.warps[0]
    if t.family == "warpgroups":  # each 64 rows are multiplied by all columns
        by_warps = t.m + t.n * (t.m // WARPGROUP_ROWS)
    added, peers = (1, t.parts - 1) if t.family == "warpgroups" else (t.parts, min(t.parts - 1, 1))
    return TileCounts(
        matrix=t.m * t.n * k / PRODUCTS, shared=(t.m + t.n + by_warps) * k * BYTES / SHARED_WAVEFRONT,
        **fetched._asdict(), chained=k / DEPTH, steps=max(LEAST_STEPS, -(-p.k // (k * divided))),
        stored=p.m / grid[0] * touched(p.n / grid[1] * BYTES, p.n * BYTES, SECTOR_BYTES),
        units=units, parts=t.parts, whole=whole, last=last, rounds=rounds, resident=resident,
        waves=units / slots, sums=added * t.m * t.n / SUMS * -(-grid[0] * grid[1] // slots), peers=peers,
        busy=min(units, reached_by(blocks, device)),
        gathered=(t.splits > 1) * t.splits * t.m * t.n / t.parts / SUMS, read=read,
        wave=wave, bytes_a=BYTES * p.m * p.k, bytes_b=BYTES * p.k * p.n, bytes_c=BYTES * p.m * p.n, stages=t.stages,
        persistent=t.resident > 0, clustered=blocks > 1, lockstep=t.lockstep > 0, dependent=t.dependent,
    )  # fmt: skip


def waves_of(p: ProductSize, t: ProductTile, grid: tuple[int, int], slots: int) -> tuple[float, float]:
    """Bytes of A and B if each wave of tiles reads its own once, and those of one wave.

    A wave is a group of rows of tiles, and as many of its columns as are in flight.
    """
    high = min(grid[0], max(1, GROUP_ROWS // t.m))
    along = min(grid[1], max(slots / (t.parts * t.splits) / high, 1.0))
    wave = BYTES * p.k * (min(p.m, high * t.m) + min(p.n, along * t.n))
    return max(grid[0] * grid[1] / (high * along), 1.0) * wave, wave


def fetched_by(p: ProductSize, t: ProductTile, k: int, grid: tuple[int, int], rounds: int) -> TileFetch:
    """What a step fetches of A and B; what is outside the matrices is not fetched.

    In the last of few rounds, all tiles of some blocks begin in the middle of a line or sector.
    """
    rows, columns = min(t.m, p.m), min(t.n, p.n)
    a = (rows, k, p.k, k) if p.layouts[0] == "N" else (k, rows, p.m, t.m)
    b = (k, columns, p.n, t.n) if p.layouts[1] == "N" else (columns, k, p.k, k)
    tensor = t.family == "warpgroups"
    found = [0.0] * 5
    for (count, width, stride, step), sharing, share in (
        (a, t.cluster[1], p.m / grid[0] / rows),  # blocks that fetch it together, and the mean tile over a full one
        (b, t.cluster[0], p.n / grid[1] / columns),
    ):
        size, pitch = width * BYTES, stride * BYTES
        aligned = math.gcd(pitch, step * BYTES, LINE_BYTES)
        arriving = count * math.ceil(size / BOX)
        requested = arriving / sharing if tensor else arriving
        sectors = _of_slowest(1 - math.gcd(aligned, SECTOR_BYTES) / SECTOR_BYTES, rounds)
        if tensor:
            lines, copies = requested * (2 - aligned / LINE_BYTES), 0.0
            split = requested * _of_slowest(1 - aligned / LINE_BYTES, rounds)
        else:
            lines, copies = count * touched(size, aligned, LINE_BYTES), count * size / math.gcd(pitch, WORD) / WARP
            split = max(lines - arriving, 0.0)
        for place, value in enumerate((arriving, split, requested * sectors, lines * share, copies)):
            found[place] += value
    return TileFetch(*found)


def _of_slowest(mean: float, rounds: int) -> float:
    """Of a block whose tiles are all unaligned, where some are, in its share of the rounds."""
    return mean + ((mean > 0) - mean) / rounds
