"""Which tile products with warp roles take: the time of each by the clocks of its steps, and of the fullest block.

>>> str(choose((16384, 8, 4096, 4096), blocks=132)), str(choose((4096, 64, 4096, 4096), blocks=132))
('128x256x4', '64x256x4')
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.memory import LINE_BYTES
from lego_mlir.kernels.role_products import BARRIER_BYTES, DEPTH, ROWS, RoleTile

SHAPES: Final = ((64, 128), (64, 256), (128, 64), (128, 128), (128, 256), (256, 64), (256, 128))
MOST_STAGES: Final = 8
PRODUCTS: Final = 2048
"""Products of 16-bit numbers of an SM in a clock (NVIDIA H100 architecture paper: 989 TFLOP/s of 132 SMs)."""
LINE: Final = 1.61
"""Clocks of an SM for a line from L2, as `product_time` found."""
WAIT: Final = 60.0
"""Clocks of a step that nothing hides."""
STORE: Final = 0.08
"""Clocks of an element of C that is stored while no product runs, not measured."""
Rows = tuple[int, int, int, int]
"""All rows, the number of groups or matrices, N and K."""


def shapes(room: int) -> list[RoleTile]:
    """Every tile with the most stages that fit `room` bytes of shared memory; those with less than 2 are left out."""
    found = []
    for rows, columns in SHAPES:
        fixed = RoleTile(rows, columns, 2).shared_bytes()
        stage = (rows + columns) * DEPTH * 2
        stages = min(MOST_STAGES, 2 + (room - BARRIER_BYTES - fixed) // stage)
        if stages >= 2:
            found.append(RoleTile(rows, columns, stages))
    return found


@lru_cache(1024)
def choose(size: Rows, blocks: int, room: int = LARGEST_SHARED_BYTES, *, whole: bool = False) -> RoleTile:
    """The tile of the least time, for `whole` matrices of as many rows each, or for groups of unknown sizes."""
    return min(shapes(room), key=lambda tile: clocks(size, tile, blocks, whole=whole))


def clocks(size: Rows, tile: RoleTile, blocks: int, *, whole: bool = False) -> float:
    """The clocks of the block with the most tiles; half of a group's last tile is expected to be empty."""
    rows, groups, n, k = size
    if whole:
        down: float = groups * -(-rows // (groups * tile.rows))
    else:
        down = rows / tile.rows + (groups - 1) / 2 if rows > tile.rows * groups else groups
    tiles = -(-down // 1) * -(-n // tile.columns)
    matrix = tile.rows * tile.columns * DEPTH / PRODUCTS
    if tile.rows == ROWS and tile.columns == 2 * ROWS:
        matrix *= 1.5  # an instruction of 64 columns reads as much of A as of B
    lines = (tile.rows + tile.columns) * DEPTH * 2 / LINE_BYTES * LINE
    step = max(matrix, lines) + WAIT
    return float(-(-tiles // blocks) * (-(-k // DEPTH) * step + tile.rows * tile.columns * STORE))
