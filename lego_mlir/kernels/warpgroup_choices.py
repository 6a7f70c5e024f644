"""The tile of a product by warpgroups, for sm_90a, chosen by a model of its time.

A step of 64 along K takes a tile of m x n the longer of two times: that of the matrix units at the clock that the
card's power allows, to which copied bytes contribute, and that of the copies, one line of L2 at a time: rows that are
not multiples of 128 bytes touch two lines each. In a cluster of two blocks, each copies half of the shared operand.
Blocks run ceil(tiles / multiprocessors) tiles in sequence: an odd size is best divided by a width that fills the last
round. The numbers fit times measured on an H200, at squares of 512 to 8192 and at 2216 and 5000.

>>> str(choose(4096, 4096, 4096, 132)), choose(512, 512, 512, 132).m
('128x256 group 16 every 32', 64)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.layout.base import Layout
from lego_mlir.schedule.orders import grouped

STEP: Final = 64
BYTES: Final = 2
MULTIPLIED_NS: Final = 1 / 32 / 1.3  # a product of 64 along K: cycles, at the clock of an H200 that its power limits
ROW_NS: Final = 0.07  # the energy of copying a row of 128 bytes, as time at the limit of power
LINE_NS: Final = 1.3  # for an SM to copy a line of 128 bytes from L2
TILE_NS: Final = 1000.0  # to fill and drain a tile's pipeline
LAUNCH_NS, CLUSTER_NS = 300.0, 700.0  # to begin and to end; more in clusters
LINE: Final = 128
TILES: Final = tuple((m, n) for m in (256, 64, 128) for n in range(256 if m < 256 else 192, 56, -8))
CLUSTERS: Final = ((1, 1), (1, 2), (2, 1))
MOST_STAGES: Final = 12
LEAST_STAGES: Final = 2
LEAST_WORK: Final = 2**27
"""M N K below which products are left to smaller tiles of mma.sync."""
LEAST_SIDE: Final = 64
GROUP: Final = 2048
"""Rows of C in a group of the tile order."""
MEETING: Final = 32
"""Steps between meetings of the producers: on an H200, 8 and 16 are no faster at squares from 4096 on."""
LEAST_ROUNDS: Final = 3
"""Tiles of a block from which producers meet."""
SHORT_NS: Final = 40_000
"""A product that takes no longer begins while the kernel before it runs."""
OUT_BUFFER: Final = 2 * 8192
"""Bytes of a consumer's buffers for C."""
BARRIERS: Final = 16


def applies(m: int, n: int, k: int, layouts: str, dtype: str = "f16", result: str = "f16") -> bool:
    """Whether warpgroups compute this product: rows of whole 16-byte words, K contiguous for all but 16-bit types.

    Products of 16-bit types need enough work besides; nothing else computes the others.
    """
    size, of_result = ELEMENT_BYTES[dtype], ELEMENT_BYTES[result]
    rows = ((k if layouts[0] == "N" else m, size), (n if layouts[1] == "N" else k, size), (n, of_result))
    aligned = all(row * bytes_ % CHUNK == 0 for row, bytes_ in rows)
    if size != BYTES:
        return aligned and layouts == "NT"
    return aligned and min(m, n, k) >= LEAST_SIDE and m * n * k >= LEAST_WORK


@dataclass(frozen=True, slots=True)
class WarpgroupTile:
    """How a product is divided: the tile of a block, the blocks of a cluster along M and N, and their schedule.

    `group` is the number of rows of tiles in a group of the tile order, `lockstep` the steps between meetings.
    """

    m: int
    n: int
    stages: int
    cluster: tuple[int, int] = (1, 1)
    group: int = 16
    lockstep: int = 0
    dependent: bool = False
    step: int = STEP

    @property
    def tiling(self) -> Tiling:
        """The tile of a cluster, which the kernel is traced with.

        Its warps only determine how that is written: threads must divide the copies in vectors.
        """
        height, width = self.m * self.cluster[0], self.n * self.cluster[1]
        many = height % 128 == 0 and width % 16 == 0
        return Tiling(height, width, self.step, (4, 1) if not many else (8, 1) if width % 32 else (8, 2))

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """The grid of clusters' tiles."""
        return -(-m // self.tiling.m), -(-n // self.tiling.n)

    def clusters(self, multiprocessors: int) -> int:
        """Clusters that run at the same time: one block on each multiprocessor."""
        return multiprocessors // (self.cluster[0] * self.cluster[1])

    def order(self, m: int, n: int) -> Layout:
        """The tile order: groups of rows, the last one as high as what remains: every position has a tile."""
        rows, columns = self.tiles(m, n)
        return grouped(rows, columns, rows=min(self.group, rows), snake=self.lockstep > 0)

    @property
    def parameters(self) -> dict[str, int]:
        """The parameters of `matmul_sm90.mlir`."""
        return {"stages": self.stages, "lockstep": self.lockstep, "cluster_m": self.cluster[0],
                "cluster_n": self.cluster[1], "dependent": int(self.dependent)}  # fmt: skip

    def __str__(self) -> str:
        beside = "" if self.cluster == (1, 1) else f" cluster {self.cluster[0]}x{self.cluster[1]}"
        meeting = f" every {self.lockstep}" if self.lockstep else ""
        return f"{self.m}x{self.n}{beside} group {self.group}{meeting}{' dependent' if self.dependent else ''}"


def choose(m: int, n: int, k: int, multiprocessors: int, layouts: str = "NT", bytes_: int = BYTES) -> WarpgroupTile:
    """The division of a product on a device with this many multiprocessors, the quickest by the model.

    Elements have `bytes_`: 128 bytes of K take the same time for all types, since the units multiply twice as many
    elements of half the size.
    """
    step, k = STEP * BYTES // bytes_, k * bytes_ // BYTES
    lines = lines_of(m, n, k, layouts)
    unit = 8 if bytes_ > 1 else 16  # of widths: some types of one byte have instructions for multiples of 16 only
    candidates = ((tile, cluster) for tile in TILES for cluster in CLUSTERS if tile[1] % (unit * cluster[0]) == 0)
    tile, cluster = min(candidates, key=lambda one: nanoseconds((m, n, k), multiprocessors, one[0], one[1], lines))
    found = tile_of(m, n, k, tile, multiprocessors, cluster)
    short = nanoseconds((m, n, k), multiprocessors, tile, cluster, lines) < SHORT_NS
    return replace(found, dependent=short and found.lockstep == 0, step=step)


def lines_of(m: int, n: int, k: int, layouts: str) -> tuple[int, int]:
    """The lines of L2 that 128 bytes of a row of A, and of B, touch."""
    rows = (k if layouts[0] == "N" else m, n if layouts[1] == "N" else k)
    return 1 + (rows[0] * BYTES % LINE > 0), 1 + (rows[1] * BYTES % LINE > 0)


def nanoseconds(
    sizes: tuple[int, int, int], multiprocessors: int, tile: tuple[int, int], cluster: tuple[int, int],
    lines: tuple[int, int],
) -> float:  # fmt: skip
    """The time of a product in tiles, by the model."""
    (m, n, k), (height, width) = sizes, tile
    rows = height / cluster[1], width / cluster[0]
    multiplied = height * width * MULTIPLIED_NS + sum(rows) * ROW_NS
    copied = (rows[0] * lines[0] + rows[1] * lines[1]) * LINE_NS
    tiles = -(-m // (height * cluster[0])) * -(-n // (width * cluster[1]))
    rounds = -(-tiles // (multiprocessors // (cluster[0] * cluster[1])))
    alone = cluster == (1, 1)
    return rounds * (-(-k // STEP) * max(multiplied, copied) + TILE_NS) + LAUNCH_NS + CLUSTER_NS * (not alone)


def tile_of(
    m: int, n: int, k: int, tile: tuple[int, int], multiprocessors: int, cluster: tuple[int, int] = (1, 1),
    group: int | None = None, lockstep: int | None = None, dependent: bool = False,
) -> WarpgroupTile:  # fmt: skip
    """The schedule of a tile for a product: as many stages as fit, and lockstep where there are several rounds."""
    found = WarpgroupTile(*tile, stages_of(*tile, k), cluster, group or GROUP // (tile[0] * cluster[0]))
    if lockstep is None:
        rows, columns = found.tiles(m, n)
        lockstep = MEETING if rows * columns >= LEAST_ROUNDS * found.clusters(multiprocessors) else 0
    return replace(found, lockstep=lockstep, dependent=dependent)


def stages_of(height: int, width: int, k: int) -> int:
    """The stages that shared memory has room for, not more than a tile's steps, and LEAST_STAGES at least."""
    columns = -(-width // STEP) * STEP  # a tile of B whose columns are contiguous is whole columns of 128 bytes
    room = LARGEST_SHARED_BYTES - min(height // STEP, 2) * OUT_BUFFER
    fitting = room // ((height + columns) * STEP * BYTES + BARRIERS)
    return max(LEAST_STAGES, min(fitting, MOST_STAGES, -(-k // STEP)))
