"""The time of a matrix product by its tile: one model for both families, `mma.sync` and warpgroups.

A block takes steps along K. Each step occupies four units of its SM: the matrix units, the issue slots, shared memory
and the path from L2; a part of the faster ones is not hidden. A block that is alone on its SM waits for its own chain
of copies, barriers and products in each step; several blocks hide each other's waits:

    busy  = matrix, issue, shared, L2 together                    clocks of a step
    alone = busy + wait                                           a step of a block that nothing overlaps
    round = max(resident * (steps busy + store), fill + steps alone + drain)
    time  = start + (rounds, bytes of DRAM, traffic of L2 together)

A round ends with the fullest SM, so one tile more than the SMs hold costs a round; a persistent block has all of its
tiles in one round and fills its pipeline once. "Together" is a p-norm: the sum for p = 1, the largest for large p.
Matrices whose rows are not whole lines move more sectors and lines than bytes, and rows that are not whole words of 16
bytes are copied by more instructions.

The constants of a device were fitted to the sizes that `bench/product_tuning.py` recorded, and the choices judged by
cross-validation (docs/results/product-choices.md). The model ranks kernels of a size; a predicted time is good to about
10 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import LINE_BYTES, SECTOR_BYTES
from lego_mlir.kernels.matmul import LEAST_STEPS

Family = Literal["mma.sync", "warpgroups"]
FAMILIES: Final[Mapping[str, Family]] = {"matmul_sm80.mlir": "mma.sync", "matmul_sm90.mlir": "warpgroups"}
"""The transform script of each family."""
BYTES: Final = 2  # of an element of A or B
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
SHARED_PER_SM: Final = 228 * 1024
SHARED_RESERVED: Final = 1024
"""Bytes of shared memory that the system takes for each block. CUDA C++ Programming Guide."""
REGISTERS_PER_SM: Final = 65536
THREADS_PER_SM: Final = 2048


@dataclass(frozen=True, slots=True)
class MatrixPath:
    """Constants of one family, in clocks of an SM.

    `matrix` of an m16n8k16, `issue` of a warp's copy, `shared` of a wavefront, `line` of one that comes from
    L2; `wait` of a step and `chain` of each 16 of its depth for a block that is alone; `fill` before its first
    step, `drain` after its last, `store` of a sector of C. `units` is the exponent that joins the units of a step.
    """

    matrix: float
    issue: float
    shared: float
    line: float
    wait: float
    chain: float
    fill: float
    drain: float
    store: float
    units: float


@dataclass(frozen=True, slots=True)
class ProductDevice:
    """A device: its SMs, clocks a microsecond, bytes a microsecond of DRAM, and lines of L2.

    `latency` is what a step waits for memory with a pipeline of one stage, `start` and `cluster` what a launch takes
    besides, and more with clusters, in microseconds. `rounds` is the exponent that joins resident blocks, `limits` the
    one of SMs, DRAM and L2.
    """

    sms: int
    frequency: float
    dram: float
    latency: float
    l2: float
    start: float
    cluster: float
    rounds: float
    limits: float
    paths: Mapping[Family, MatrixPath]


H200: Final = ProductDevice(
    sms=132, frequency=1900.0, dram=3.96e6, latency=0.585, l2=1.29e5, start=4.96, cluster=0.4, rounds=36.8, limits=3.66,
    paths={
        "mma.sync": MatrixPath(
            matrix=1.52, issue=4.67, shared=0.269, line=2.0, wait=52.7, chain=6.46, fill=1040.0, drain=10.0, store=2.23,
            units=2.09,
        ),
        "warpgroups": MatrixPath(
            matrix=1.12, issue=0.01, shared=0.804, line=1.61, wait=1.43, chain=0.338, fill=98.9, drain=60.3, store=1.1,
            units=97.5,
        ),
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProductSize:
    """A product to compute: its sizes, and the layouts of A and B, N for rows and T for columns."""

    m: int
    n: int
    k: int
    layouts: str = "NN"

    @property
    def moved(self) -> int:
        """Bytes of the three matrices."""
        return BYTES * (self.m * self.k + self.k * self.n + self.m * self.n)


@dataclass(frozen=True, slots=True)
class ProductTime:
    """The predicted time of a product and its parts, in microseconds; `waves` are the tiles over those in flight."""

    microseconds: float
    sm: float
    matrix: float
    shared: float
    dram: float
    l2: float
    waves: float


def joined(parts: tuple[float, ...], exponent: float) -> float:
    """The p-norm of times that overlap in part.

    >>> joined((3.0, 4.0), 1.0), joined((3.0, 4.0), 2.0)
    (7.0, 5.0)
    """
    most = max(parts)
    return most * math.fsum((part / most) ** exponent for part in parts) ** (1 / exponent) if most > 0 else 0.0


@dataclass(frozen=True, slots=True)
class BlockTile:
    """What a block computes: its tile of C, its step along K, its warps, and the shared memory that it takes.

    Blocks of a `cluster`, so many along M and N, fetch what they share once. A block is persistent with `resident` ones
    per SM; with 0, there is one block per tile.
    """

    family: Family
    m: int
    n: int
    k: int
    warps: tuple[int, int]
    shared: int
    stages: int
    resident: int = 0
    cluster: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True)
class TileFetch:
    """What a tile fetches in a step: the lines that its rows touch, and copies of warps.

    `worst` are the lines of the slowest block, where all tiles of some blocks begin in the middle of a line.
    """

    lines: float
    worst: float
    copies: float


@dataclass(frozen=True)
class TileWork:
    """What one tile does for a product on a device with this many SMs."""

    product: ProductSize
    tile: BlockTile
    sms: int

    @cached_property
    def grid(self) -> tuple[int, int]:
        """Tiles of C along M and N."""
        t, (along_m, along_n) = self.tile, self.tile.cluster
        rows, columns = -(-self.product.m // (t.m * along_m)), -(-self.product.n // (t.n * along_n))
        return rows * along_m, columns * along_n

    @property
    def tiles(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def slots(self) -> int:
        """Blocks that the device runs at the same time: whole clusters on each SM that has room."""
        blocks = self.tile.cluster[0] * self.tile.cluster[1]
        return self.sms * self.resident // blocks * blocks

    @property
    def steps(self) -> int:
        return max(LEAST_STEPS, -(-self.product.k // self.tile.k))

    @property
    def matrix(self) -> float:
        """Matrix instructions of a step, in m16n8k16."""
        t = self.tile
        return t.m * t.n * t.k / PRODUCTS

    @property
    def shared(self) -> float:
        """Wavefronts of shared memory of a step: the tiles are written once, and read by each warp or warpgroup."""
        t = self.tile
        if t.family == "warpgroups":
            read = t.m + t.n * (t.m // WARPGROUP_ROWS)
        else:
            read = t.m * t.warps[1] + t.n * t.warps[0]
        return (t.m + t.n + read) * t.k * BYTES / SHARED_WAVEFRONT

    @cached_property
    def fetched(self) -> TileFetch:
        """What a step fetches; what is outside the matrices is not fetched."""
        t, p = self.tile, self.product
        rows, columns = p.m / self.grid[0], p.n / self.grid[1]
        rows, columns = rows / t.cluster[1], columns / t.cluster[0]
        a = (rows, t.k, p.k, t.k) if p.layouts[0] == "N" else (t.k, rows, p.m, t.m)
        b = (t.k, columns, p.n, t.n) if p.layouts[1] == "N" else (columns, t.k, p.k, t.k)
        rounds = -(-self.tiles // self.slots)
        lines = worst = copies = 0.0
        for count, width, stride, step in (a, b):
            size, pitch = width * BYTES, stride * BYTES
            aligned = math.gcd(pitch, step * BYTES, LINE_BYTES)
            if t.family == "warpgroups":
                boxes = count * math.ceil(size / BOX)
                mean, most = 2 - aligned / LINE_BYTES, 1 if aligned == LINE_BYTES else 2
                lines += boxes * mean
                worst += boxes * (mean + (most - mean) / rounds)
            else:
                lines += count * touched(size, aligned, LINE_BYTES)
                copies += count * size / math.gcd(pitch, WORD) / WARP
        return TileFetch(lines, max(lines, worst), copies)

    @property
    def stored(self) -> float:
        """Sectors of a tile of C."""
        p = self.product
        return p.m / self.grid[0] * touched(p.n / self.grid[1] * BYTES, p.n * BYTES, SECTOR_BYTES)

    @property
    def resident(self) -> int:
        """Blocks that an SM holds at once: by shared memory, registers and threads."""
        t = self.tile
        if t.resident:
            return t.resident
        threads = WARP * t.warps[0] * t.warps[1]
        accumulators = t.m * t.n // threads
        registers = min(64 + accumulators * 5 // 4, 255)  # of a thread, close to what ptxas takes
        by_shared, by_registers = (
            SHARED_PER_SM // (t.shared + SHARED_RESERVED),
            REGISTERS_PER_SM // (registers * threads),
        )
        return max(1, min(by_shared, by_registers, THREADS_PER_SM // threads))


def touched(size: float, pitch: int, unit: int) -> float:
    """Units of memory that a row of `size` bytes touches on average, for rows `pitch` bytes apart.

    >>> touched(128, 256, 128), touched(128, 144, 128), touched(128, 130, 32)
    (1.0, 1.875, 4.9375)
    """
    return size / unit + 1 - math.gcd(pitch, unit) / unit


def product_time(product: ProductSize, tile: BlockTile, device: ProductDevice = H200) -> ProductTime:
    """The time of a product by tiles of this kind, and its parts."""
    work, path = TileWork(product, tile, device.sms), device.paths[tile.family]
    fetched = work.fetched
    matrix, shared = work.matrix * path.matrix, work.shared * path.shared
    busy = joined((matrix, shared + fetched.copies * path.issue, fetched.worst * path.line), path.units)
    alone = busy + path.wait + path.chain * tile.k / DEPTH
    store, steps, resident = work.stored * path.store, work.steps, work.resident

    def round_of(blocks: int) -> float:
        return joined((blocks * (steps * busy + store), path.fill + steps * alone + path.drain + store), device.rounds)

    if tile.resident:
        of_each = -(-work.tiles // work.slots)
        clocks = path.fill + of_each * (steps * alone + path.drain + store)
    else:
        whole, rest = divmod(work.tiles, work.slots)
        clocks = whole * round_of(resident) + (round_of(-(-rest // device.sms)) if rest else 0.0)
    sm = clocks / device.frequency
    depth = steps * work.tiles / min(work.tiles, work.slots)
    dram = product.moved / device.dram + device.latency * depth / tile.stages
    l2 = work.tiles * steps * fetched.lines / device.l2
    each = work.tiles * steps / device.sms / device.frequency
    launch = device.start + device.cluster * (tile.cluster != (1, 1))
    return ProductTime(
        launch + joined((sm, dram, l2), device.limits), sm, each * matrix, each * shared, dram, l2,
        work.tiles / work.slots,
    )  # fmt: skip
