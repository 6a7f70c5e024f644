"""Tiles of batched and grouped products, by warp roles: what they may be, and the choice by clocks of their steps.

Two groups of 4 warps divide a tile of 64 rows by columns, and others by rows. A third one copies. A block takes the
tiles of all matrices or groups in turn, and the fullest block is the last one.

>>> label(choose((16384, 8, 4096, 4096))), label(choose((4096, 64, 4096, 4096)))
('128x256x4', '64x256x4')
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import sqrt
from typing import Final

from lego_mlir.choices.product_device import REFERENCE_DEVICE, ProductDevice
from lego_mlir.choices.product_tile import BUFFERS, BYTES, STEP, WARPGROUP, ProductTile
from lego_mlir.errors import UsageError
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, WARP
from lego_mlir.hardware.tensor_maps import LINE

GROUPS: Final = 2
"""Groups of warps that multiply, besides the one that copies."""
ROWS: Final = 64
"""Rows of C that a group's instruction computes on sm_90a."""
UNIT: Final = 16
"""Columns of a tile are a multiple: those of each of two groups are then one of 8."""
BARRIER_BYTES: Final = 1024
"""Room for barriers, and for the alignment of tiles."""
SHAPES: Final = ((64, 128), (64, 256), (128, 64), (128, 128), (128, 256), (256, 128))
MORE: Final = ((64, 192), (128, 96), (128, 112), (128, 160), (128, 192), (128, 208), (128, 224))
"""Tiles between them, for results that leave by tile copies."""
PAIRED: Final = ((128, 256), (256, 128))
"""Tiles that a cluster of two blocks may have."""
MOST_STAGES: Final = 8
Rows = tuple[int, int, int, int]
"""All rows, the number of groups or matrices, N and K."""


def role_tile(rows: int = 128, columns: int = 256, stages: int = 4, cluster: int = 1) -> ProductTile:
    """The tile of a block and its stages; the tiles of a cluster's blocks are below each other, and share B's.

    Raises UsageError for one that two groups do not divide.
    """
    if rows not in (ROWS, 2 * ROWS, 4 * ROWS) or columns % UNIT or not 64 <= columns <= 256:
        raise UsageError(
            f"a tile of {rows} x {columns}: products by roles take 64, 128 or 256 rows, and a multiple of {UNIT} "
            "columns from 64 to 256"
        )
    by = (WARPGROUP, GROUPS) if rows == ROWS else (WARPGROUP * GROUPS, 1)
    tile = ProductTile(rows, columns, STEP, by, stages, "warpgroups", resident=1, cluster=(cluster, 1))
    (height, width) = part_of(tile)
    if height * width > ROWS * 256 or width < ROWS:
        raise UsageError(
            f"a tile of {rows} x {columns}: a group sums {height} x {width} numbers, at least {ROWS} columns and at "
            f"most {ROWS} x 256; take 64 x 128, 64 x 256, 128 x 64, .., 256 x 128"
        )
    if stages < 2:
        raise UsageError(f"a ring of {stages} stages: at least 2")
    if cluster not in (1, 2):
        raise UsageError(f"clusters of {cluster} blocks: 1 or 2")
    return tile


def label(tile: ProductTile) -> str:
    """The tile in the names of packed kernels."""
    sharing = f"x{tile.sharing}" if tile.sharing > 1 else ""
    return f"{tile.m}x{tile.n}x{tile.stages}{sharing}" + (f"-parts{tile.parts}" if tile.parts > 1 else "")


def part_of(tile: ProductTile) -> tuple[int, int]:
    """Rows and columns of a group."""
    return tile.m * WARPGROUP // tile.warps[0], tile.n // tile.warps[1]


def threads_of(tile: ProductTile) -> int:
    """Threads of a block, those of the group that copies among them."""
    return tile.threads + WARP * WARPGROUP


def height_of(tile: ProductTile) -> int:
    """Rows of a cluster's tiles."""
    return tile.m * tile.cluster[0]


def together(tile: ProductTile, blocks: int) -> int:
    """Tiles along M of a panel, whose tiles along N follow each other: those of all blocks are as high as wide."""
    return max(1, round(sqrt(blocks // tile.sharing * tile.n / height_of(tile))))


def stage_bytes(tile: ProductTile, element: int = BYTES) -> int:
    """Bytes of a stage of both rings, whose columns may take whole lines."""
    return (tile.m + in_lines(tile.n, element)) * STEP * element


def shared_bytes(tile: ProductTile) -> int:
    """Bytes of shared memory of a block."""
    return tile.stages * stage_bytes(tile) + GROUPS * BUFFERS * ROWS * LINE


def in_lines(columns: int, element: int = BYTES) -> int:
    """The columns of whole lines of 128 bytes."""
    line = LINE // element
    return -(-columns // line) * line


def shapes(room: int, clusters: bool = False, more: bool = False) -> list[ProductTile]:
    """Every tile with the most stages that fit `room` bytes of shared memory; those with less than 2 are left out.

    With `more`, those of MORE are among them.
    """
    found = []
    for rows, columns in (*SHAPES, *(MORE if more else ())):
        least = role_tile(rows, columns, 2)
        stages = min(MOST_STAGES, 2 + (room - BARRIER_BYTES - shared_bytes(least)) // stage_bytes(least))
        if stages >= 2:
            pairs = clusters and (rows, columns) in PAIRED
            found += [replace(least, stages=stages, cluster=(n, 1)) for n in (1, 2) if n == 1 or pairs]
    return found


@lru_cache(1024)
def choose(
    size: Rows, device: ProductDevice = REFERENCE_DEVICE, room: int = LARGEST_SHARED_BYTES, lines: int = 1,
    clusters: bool = False, more: bool = False, columns_of_b: bool = True,
) -> ProductTile:  # fmt: skip
    """The tile of the least time, for groups or matrices of as many rows each; `lines` of 128 bytes hold 64 elements.

    Rows that are not multiples of 128 bytes take two lines. With `clusters`, tiles of two blocks are among the choices,
    and with `more` those of any columns; without `columns_of_b`, those of B are copied in whole lines.
    """
    return min(shapes(room, clusters, more), key=lambda tile: clocks(size, tile, device, lines, columns_of_b))


def clocks(size: Rows, tile: ProductTile, device: ProductDevice, lines: int = 1, columns_of_b: bool = True) -> float:
    """The clocks of the block with the most tiles; of two equal tiles, the one without a cluster comes first."""
    (rows, groups, n, k), clusters, paths = size, device.sms // tile.sharing, device.roles
    tiles = groups * -(-rows // (groups * height_of(tile))) * -(-n // tile.n)
    copied = tile.n if columns_of_b else in_lines(tile.n)
    step = max(_products(tile.m, tile.n, device), (tile.m + copied / tile.sharing) * lines * paths.line)
    return float(-(-tiles // clusters) * (-(-k // STEP) * step + paths.wait))


def starts_early(
    size: Rows, tile: ProductTile, device: ProductDevice, lines: int = 1, columns_of_b: bool = True
) -> bool:  # fmt: skip
    """Whether a batch is so short that it begins while the kernel before it runs."""
    return clocks(size, tile, device, lines, columns_of_b) < device.roles.short


def _products(rows: int, columns: int, device: ProductDevice) -> float:
    """Clocks of the products of a step: those that were measured, and a line between two of as many rows."""
    paths = device.roles
    known = sorted(n for m, n in SHAPES if m == rows)
    low = max(n for n in known if n <= columns)
    high = min(n for n in known if n >= columns)
    of_low, of_high = (
        rows * n * STEP / paths.products * paths.slower.get(f"{rows}x{n}", 1.0) for n in (low, high)
    )  # fmt: skip
    return of_low if low == high else of_low + (of_high - of_low) * (columns - low) / (high - low)
