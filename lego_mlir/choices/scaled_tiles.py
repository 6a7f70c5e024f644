"""Tiles of products of f8 with scales of blocks, by warp roles, and the choice by the model of time.

Two groups of 4 warps multiply; they divide a tile of 64 rows by columns, and others by rows. Totals of f32 are beside
the sums of the unit, so that a group has at most 64 x 176 of each, or 128 x 128 totals beside 64 x 128 sums. Where a
product has few tiles, the blocks of a cluster have parts of K (`parts`).

>>> from lego_mlir.choices.role_tiles import label
>>> label(choose("dense", (4096, 1, 4096, 7168)))
'256x128x3'
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import gcd
from typing import Final

from lego_mlir.choices.product_device import REFERENCE_DEVICE, ProductDevice
from lego_mlir.choices.product_tile import BUFFERS, STEP, WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import BARRIER_BYTES, GROUPS, ROWS, Rows, height_of, part_of
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, WARP
from lego_mlir.hardware.tensor_maps import LINE

BLOCK: Final = 128
"""Elements along K, and rows of b, that share a scale: bytes of a step."""
MOST_STAGES: Final = 12
SCALES: Final = 4
"""Scales of f32 in 16 bytes, which the copy unit moves: more than the blocks of b that a tile meets."""
PAD: Final = 8
"""Floats after each row of sums: rows of a piece begin in different banks, two by two."""
TALL: Final = (96, 112, 128, 144, 160, 176)
"""Columns of tiles of 128 rows."""
TALLER: Final = (96, 112, 128)
"""Columns of tiles of 256 rows."""
FLAT: Final = (64, 96, 112, 128, 160, 192, 256)
"""Columns of tiles of 64 rows."""
PARTED: Final = {64: (32, 64, 80, 96, 112, 128, 144), 128: (64, 96, 112, 128)}
"""Columns of tiles whose cluster divides K, by their rows."""


MOST_PARTS: Final = 4
"""Blocks for each multiprocessor of a product whose K is divided: more have not been timed."""
SUMS: Final = 1024
"""Sums of parts that the model counts as one."""


def scaled_tile(rows: int, columns: int, stages: int = 0, *, cluster: int = 1, parts: int = 1) -> ProductTile:
    """A tile with as many stages as fit, if not given; a cluster's blocks share tiles of b, or divide K of one tile."""
    kept = rows * (columns + PAD) * 4 if parts > 1 else GROUPS * BUFFERS * ROWS * LINE
    room = LARGEST_SHARED_BYTES - 2 * BARRIER_BYTES - kept
    stages = stages or min(MOST_STAGES, room // ((rows + columns) * BLOCK + (rows + SCALES) * 4))
    by = (WARPGROUP, GROUPS) if rows == ROWS else (WARPGROUP * GROUPS, 1)
    return ProductTile(
        rows, columns, STEP, by, stages, "warpgroups", resident=1, cluster=(cluster, 1), parts=parts
    )  # fmt: skip


def shapes(form: str = "dense") -> Iterator[ProductTile]:
    """Every tile of a form, those without a cluster first."""
    yield from (scaled_tile(ROWS, n) for n in FLAT)
    yield from (scaled_tile(2 * ROWS, n) for n in TALL)
    yield from (scaled_tile(4 * ROWS, n) for n in TALLER if form != "tiles")
    if form != "dense":
        return
    yield from (scaled_tile(2 * ROWS, n, cluster=2) for n in TALL[1:])
    yield from (scaled_tile(4 * ROWS, n, cluster=2) for n in TALLER)
    yield from (scaled_tile(m, n, parts=parts) for m, known in PARTED.items() for n in known for parts in (2, 4, 8))


def most_blocks(columns: int) -> int:
    """The most blocks of b that a part of this width meets; parts begin at multiples of their width.

    >>> [most_blocks(n) for n in (64, 96, 128, 144, 160)]
    [1, 2, 1, 2, 2]
    """
    return 1 + -(-(columns - gcd(columns, BLOCK)) // BLOCK)


@lru_cache(1024)
def choose(form: str, size: Rows, device: ProductDevice = REFERENCE_DEVICE, *, whole: bool = True) -> ProductTile:
    """The tile of the least time for all rows, groups, N and K; if not `whole`, threads store parts of whole lines."""
    found = [t for t in shapes(form) if whole or t.parts > 1 or part_of(t)[1] % LINE == 0 or part_of(t)[1] == ROWS]
    rows, _, n, _ = size
    few = [t for t in found if t.parts == 1 or -(-rows // t.m) * -(-n // t.n) * t.parts <= MOST_PARTS * device.sms]
    return min(few, key=lambda tile: microseconds(size, tile, device))


def microseconds(size: Rows, tile: ProductTile, device: ProductDevice) -> float:
    """The time of a product: of its products or copies joined with that of DRAM, and what comes around them."""
    (rows, groups, n, k), roles, scaled, path = size, device.roles, device.scaled, device.paths["warpgroups"]
    tiles = groups * -(-rows // (groups * height_of(tile))) * -(-n // tile.n)
    blocks, (height, width) = tile.clustered, part_of(tile)
    clusters = int(device.sms * device.reached.get(blocks, 1.0)) // blocks
    rounds, steps = -(-tiles // clusters), -(-k // (BLOCK * tile.parts))
    totals = height * width / (WARPGROUP * WARP)
    products = scaled.products * tile.m * tile.n * BLOCK / (2 * roles.products) + scaled.step + scaled.total * totals
    products += scaled.select * totals * (most_blocks(width) > 1)
    lines = scaled.line * (tile.m + tile.n / tile.sharing) * roles.line
    computed = rounds * (steps * max(products, lines) + scaled.wait * roles.wait) / device.frequency
    read = rows * k + groups * n * k + 2 * rows * n
    memory = read / min(device.dram, blocks * min(tiles, clusters) * path.reach)
    parts = path.arrival * (tile.parts - 1) + path.sum * tile.m * tile.n / SUMS
    joined = (computed**path.limits + memory**path.limits) ** (1 / path.limits)
    return float(joined + scaled.parts * parts * (tile.parts > 1))
