"""Which tile products with warp roles take: the time of each by the clocks of its steps, and of the fullest block.

>>> str(choose((16384, 8, 4096, 4096), blocks=132)), str(choose((4096, 64, 4096, 4096), blocks=132))
('128x256x4', '64x256x4')
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.kernels.role_tiles import BARRIER_BYTES, DEPTH, RoleTile, in_lines

SHAPES: Final = ((64, 128), (64, 256), (128, 64), (128, 128), (128, 256), (256, 128))
MORE: Final = ((64, 192), (128, 96), (128, 112), (128, 160), (128, 192), (128, 208), (128, 224))
"""Tiles between them, for results that leave by tile copies."""
MOST_STAGES: Final = 8
PRODUCTS: Final = 2048
"""Products of 16-bit numbers of an SM in a clock (NVIDIA H100 architecture paper: 989 TFLOP/s of 132 SMs)."""
SLOWER: Final = {(64, 128): 1.32, (64, 256): 1.07, (128, 64): 1.66, (128, 128): 1.09, (256, 128): 1.02}
"""Times of a tile's products beside those of 128 x 256, on an H200: 16 products of 2048 x 2048 x 2048, in bf16. Those
between take what lies between."""
LINE: Final = 1.64
"""Clocks of an SM for a line of 128 bytes from the L2 cache: 12 products of 1000 x 1000 x 1000 in six tiles, H200."""
WAIT: Final = 1500.0
"""Clocks of a tile before its first products and after its last, while none runs; not fitted."""
PAIRED: Final = ((128, 256), (256, 128))
"""Tiles that a cluster of two blocks may have."""
Rows = tuple[int, int, int, int]
"""All rows, the number of groups or matrices, N and K."""


def shapes(room: int, clusters: bool = False, more: bool = False) -> list[RoleTile]:
    """Every tile with the most stages that fit `room` bytes of shared memory; those with less than 2 are left out.

    With `more`, those of MORE are among them.
    """
    found = []
    for rows, columns in (*SHAPES, *(MORE if more else ())):
        least = RoleTile(rows, columns, 2)
        stages = min(MOST_STAGES, 2 + (room - BARRIER_BYTES - least.shared_bytes()) // least.stage_bytes())
        if stages >= 2:
            found += [RoleTile(rows, columns, stages, n) for n in (1, 2) if n == 1 or clusters]
    return [tile for tile in found if tile.cluster == 1 or (tile.rows, tile.columns) in PAIRED]


@lru_cache(1024)
def choose(
    size: Rows, blocks: int, room: int = LARGEST_SHARED_BYTES, lines: int = 1, clusters: bool = False,
    more: bool = False, columns_of_b: bool = True,
) -> RoleTile:  # fmt: skip
    """The tile of the least time, for groups or matrices of as many rows each; `lines` of 128 bytes hold 64 elements.

    Rows that are not multiples of 128 bytes take two lines. With `clusters`, tiles of two blocks are among the choices,
    and with `more` those of any columns; without `columns_of_b`, those of B are copied in whole lines.
    """
    return min(shapes(room, clusters, more), key=lambda tile: clocks(size, tile, blocks, lines, columns_of_b))


def clocks(size: Rows, tile: RoleTile, blocks: int, lines: int = 1, columns_of_b: bool = True) -> float:
    """The clocks of the block with the most tiles; of two equal tiles, the one without a cluster comes first."""
    rows, groups, n, k = size
    tiles = groups * -(-rows // (groups * tile.height)) * -(-n // tile.columns)
    copied = tile.columns if columns_of_b else in_lines(tile.columns)
    step = max(_products(tile.rows, tile.columns), (tile.rows + copied / tile.cluster) * lines * LINE)
    return float(-(-tiles // (blocks // tile.cluster)) * (-(-k // DEPTH) * step + WAIT))


def _products(rows: int, columns: int) -> float:
    """Clocks of the products of a step: those that were measured, and a line between two of as many rows."""
    known = sorted(n for m, n in SHAPES if m == rows)
    low = max(n for n in known if n <= columns)
    high = min(n for n in known if n >= columns)
    of_low, of_high = (rows * n * DEPTH / PRODUCTS * SLOWER.get((rows, n), 1.0) for n in (low, high))
    return of_low if low == high else of_low + (of_high - of_low) * (columns - low) / (high - low)
