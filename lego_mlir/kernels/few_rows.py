"""How products of few tiles are divided for warpgroups: candidates, and an estimate of their time that ranks them.

A product of few rows, or of few tiles and long sums, leaves most of a device idle unless many blocks copy at once. Four
means give it blocks, and each has a price:

    narrow tiles      64 x 24, ..       every block copies all rows of A
    clusters          1 x 2, 1 x 4      .. a part of them, for all: fewer bytes from L2, and blocks that wait
    parts of K        2, 4, 8           whole tiles for several blocks; sums are added through distributed shared memory
    transposed        8, 16, .. x 64    rows of B fill the 64 rows of the unit, and A has its true height

Rings are deep: shared memory has room for 16 stages of such tiles. Or they leave room for a second block, which may
be that of the next kernel: it begins while this one ends. All blocks run at once: a cluster of 4 fits a device 30
times, not 33, since its blocks are neighbours. The estimate is that of `product_time`. `bench/few_rows.py` measures the
candidates; `warpgroup_choices` takes narrow tiles and parts of K where an H200 was quicker with them. Two resident
blocks were mostly slower than one with a deep ring. Tiles of the same columns of B are next to each other in the order:
row by row, 128 x 4096 x 4096 took 1.14 times as long.

>>> [str(tile) for tile in candidates((64, 4096, 4096), 132)][0]
'64x64 group 32 in 2 parts dependent'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, RESERVED_SHARED_BYTES
from lego_mlir.hardware.stage_rings import BARRIERS, BUFFERS, ENOUGH_STAGES
from lego_mlir.kernels.product_counts import reached_by
from lego_mlir.kernels.warpgroup_choices import (
    GROUP,
    LEAST_STAGES,
    MOST_BLOCKS,
    STEP,
    TRANSPOSED_ROWS,
    Sizes,
    WarpgroupTile,
    deep_stages,
    exchanged,
    microseconds,
    ring_of,
)  # fmt: skip

LEAST_STEPS: Final = 4
"""Steps along K of a part, at least."""
LEAST_FILLED: Final = 0.6
"""The share of multiprocessors that a candidate uses, at least."""
SIDES: Final = (1, 2, 4)
PARTS: Final = (1, 2, 4, 8)
WIDTHS: Final = {64: range(24, 257, 8), 128: range(32, 257, 8), 192: range(96, 257, 16), 256: range(64, 193, 8)}
"""Columns of tiles by their rows."""
TRANSPOSED_COLUMNS: Final = (64, 128, 256)


def candidates(sizes: Sizes, multiprocessors: int, layouts: str = "NT", count: int = 8) -> tuple[WarpgroupTile, ...]:
    """Divisions of a product in one round of blocks, the quickest by the estimate of each kind, then the next ones."""
    timed = sorted(
        ((microseconds(sizes, tile, multiprocessors, layouts), number, tile)
         for number, tile in enumerate(_all(sizes, multiprocessors, layouts))),
        key=lambda entry: entry[:2],
    )  # fmt: skip
    first: dict[tuple[int, bool, int], WarpgroupTile] = {}
    for _, _, tile in timed:
        first.setdefault((tile.parts, tile.transposed, tile.cluster[0] * tile.cluster[1]), tile)
    kinds = list(first.values())
    others = [tile for _, _, tile in timed if tile not in kinds]
    return tuple((kinds + others)[:count])


def fitting(tile: WarpgroupTile, multiprocessors: int) -> int:
    """The multiprocessors that blocks of such clusters reach."""
    return reached_by(tile.cluster[0] * tile.cluster[1] * tile.parts, multiprocessors)


def _all(sizes: Sizes, multiprocessors: int, layouts: str) -> Iterator[WarpgroupTile]:
    """Tiles, clusters and parts whose blocks fill most of the device, and run at once."""
    m, n, k = sizes
    shapes = [(height, width, False) for height, widths in WIDTHS.items() for width in widths]
    if m <= TRANSPOSED_ROWS[-1]:
        height = next(rows for rows in TRANSPOSED_ROWS if rows >= m)
        shapes += [(height, width, True) for width in TRANSPOSED_COLUMNS]
    for height, width, transposed in shapes:
        for along_m in SIDES:
            for along_n in SIDES:
                for parts in PARTS:
                    tile = WarpgroupTile(
                        height, width, LEAST_STAGES, (along_m, along_n), GROUP // (height * along_m),
                        dependent=True, parts=parts, transposed=transposed,
                    )  # fmt: skip
                    tile = replace(tile, stages=deep_stages(tile, k, layouts))
                    if _divides(tile, sizes, layouts) and _fills(tile, (m, n), multiprocessors):
                        yield tile


def _divides(tile: WarpgroupTile, sizes: Sizes, layouts: str) -> bool:
    """Whether the units take the tile and its shares, and no block of a cluster is outside of C."""
    (m, n, k), (along_m, along_n) = sizes, tile.cluster
    shares = tile.m % (8 * along_n) == 0 and tile.n % (8 * along_m) == 0
    inside = tile.m * (along_m - 1) < m and tile.n * (along_n - 1) < n and tile.shares_rows(m, n)
    deep = -(-k // STEP) >= LEAST_STEPS * tile.parts
    high = tile.m <= 64 or tile.m * (along_m - 1) + tile.m // 2 < m
    halves = tile.m != 3 * STEP or layouts[1] == "T" or tile.n % (2 * STEP) == 0  # columns of 64 where N is contiguous
    return (
        shares
        and inside
        and deep
        and high
        and tile.keeps_sums(m, k, layouts)
        and halves
        and along_m * along_n * tile.parts <= MOST_BLOCKS
    )


def _fills(tile: WarpgroupTile, rows: tuple[int, int], multiprocessors: int) -> bool:
    """Whether all blocks run at once, on most of the device."""
    down, across = tile.tiles(*rows)
    blocks = down * across * tile.cluster[0] * tile.cluster[1] * tile.parts
    return LEAST_FILLED * multiprocessors <= blocks <= fitting(tile, multiprocessors)


def beside_another(tile: WarpgroupTile, layouts: str = "NT") -> WarpgroupTile | None:
    """The same with a ring that leaves room for a second block on the multiprocessor; None for other tiles."""
    height, width = (tile.n, tile.m) if tile.transposed else (tile.m, tile.n)
    given = exchanged(layouts) if tile.transposed else layouts
    ring = ring_of(height, width, given)
    room = LARGEST_SHARED_BYTES // 2 - RESERVED_SHARED_BYTES - BUFFERS * ring.buffer_bytes
    stages = min(room // (ring.stage_bytes + BARRIERS), tile.stages)
    narrow = width <= (128 if height == STEP else 64)
    if height > 2 * STEP or not narrow or stages < ENOUGH_STAGES:
        return None
    return replace(tile, stages=stages, resident=2)
