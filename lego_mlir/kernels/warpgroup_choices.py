"""The tile of a product by warpgroups, for sm_90a, chosen by a model of its time.

A tile of m x n takes `m n 64 2 / 4096` cycles of the matrix units for a step of 64 along K, and `(m + n) 128 / 48`
cycles of L2; persistent blocks run ceil(tiles / multiprocessors) of them in sequence. The model ranks tiles and
predicts no times: large tiles where they fill the device, smaller ones where they would leave it idle.

>>> choose(4096, 4096, 4096, 132).tiling, choose(512, 512, 512, 132).tiling.m
(Tiling(m=128, n=256, k=64, warps=(8, 1)), 64)
"""

from __future__ import annotations

from typing import Final

from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.kernels.choices import Choice
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.layout.base import Layout
from lego_mlir.schedule.orders import grouped

STEP: Final = 64
BYTES: Final = 2
FLOPS_PER_CYCLE: Final = 4096  # of an SM's matrix units, 16-bit operands; NVIDIA's data sheet of the H100
L2_BYTES_PER_CYCLE: Final = 48  # of an SM, from L2; ranks tiles
STORE_CYCLES: Final = 1500  # to fill and drain a tile's pipeline; ranks tiles
TILES: Final = tuple((m, n) for m in (128, 64) for n in (256, 224, 192, 160, 128, 96, 64))
MOST_STAGES: Final = 12
LEAST_STAGES: Final = 2
ALIGNED: Final = 8
"""Elements of 16 bytes, of which rows must be multiples for tensor maps."""
LEAST_WORK: Final = 2**27
"""M N K below which products are left to smaller tiles of mma.sync."""
LEAST_SIDE: Final = 64
GROUP: Final = 16
"""Rows of tiles in a group of the tile order."""
MEETING: Final = 32
"""Steps between meetings of the producers: on an H200, 8 and 16 are no faster at squares from 4096 on."""
LEAST_ROUNDS: Final = 3
"""Tiles of a block from which producers meet."""
OUT_BUFFER: Final = 2 * 8192
"""Bytes of a consumer's buffers for C."""
BARRIERS: Final = 16


def applies(m: int, n: int, k: int, layouts: str, result: str) -> bool:
    """Whether warpgroups compute this product: 16-bit results, rows of whole 16-byte words, and enough work."""
    rows = (k if layouts[0] == "N" else m, n if layouts[1] == "N" else k, n)
    aligned = all(row % ALIGNED == 0 for row in rows)
    return result in ("f16", "bf16") and aligned and min(m, n, k) >= LEAST_SIDE and m * n * k >= LEAST_WORK


def choose(m: int, n: int, k: int, multiprocessors: int) -> Choice:
    """The tile and stages for a product on a device with this many multiprocessors."""

    def cycles(tile: tuple[int, int]) -> float:
        height, width = tile
        step = max(height * width * STEP * 2 / FLOPS_PER_CYCLE, (height + width) * STEP * BYTES / L2_BYTES_PER_CYCLE)
        waves = -(-(-(-m // height) * -(-n // width)) // multiprocessors)
        return waves * (-(-k // STEP) * step + STORE_CYCLES)

    height, width = min(TILES, key=cycles)
    return Choice(Tiling(height, width, STEP, (height // 16, 1)), stages_of(height, width, k), resident=1)


def stages_of(height: int, width: int, k: int) -> int:
    """The stages that shared memory has room for, not more than a tile's steps, and LEAST_STAGES at least."""
    columns = -(-width // STEP) * STEP  # a tile of B whose columns are contiguous is whole columns of 128 bytes
    room = LARGEST_SHARED_BYTES - height // STEP * OUT_BUFFER
    fitting = room // ((height + columns) * STEP * BYTES + BARRIERS)
    return max(LEAST_STAGES, min(fitting, MOST_STAGES, -(-k // STEP)))


def order(m: int, n: int, tiling: Tiling, blocks: int | None) -> Layout:
    """The tile order: groups of rows, the last one as high as what remains, so that no position is without a tile."""
    rows, columns = -(-m // tiling.m), -(-n // tiling.n)
    return grouped(rows, columns, rows=min(GROUP, rows), snake=lockstep(m, n, tiling, blocks) > 0)


def lockstep(m: int, n: int, tiling: Tiling, blocks: int | None) -> int:
    """Steps between meetings of the producers: none unless blocks have several whole rounds of tiles."""
    tiles = -(-m // tiling.m) * -(-n // tiling.n)
    return MEETING if blocks is not None and tiles >= LEAST_ROUNDS * blocks else 0
