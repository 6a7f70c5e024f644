"""Tiles of products of f8 with scales of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lego_mlir.choices.product_tile import STEP, WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import GROUPS, ROWS
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES

BLOCK: Final = 128
"""Elements along K, and rows of b, that share a scale."""
MOST_STAGES: Final = 12


def scaled_tile(rows: int, columns: int, stages: int = 0, *, cluster: int = 1, parts: int = 1) -> ProductTile:
    """A tile of two groups of warps; a cluster's blocks share the tiles of b, or have `parts` of K of one tile."""
    out = rows * (columns + 8) * 4 if parts > 1 else 32768
    stages = stages or min(MOST_STAGES, (LARGEST_SHARED_BYTES - 2048 - out) // ((rows + columns) * 128))
    by = (WARPGROUP, GROUPS) if rows == ROWS else (WARPGROUP * GROUPS, 1)
    return ProductTile(
        rows, columns, STEP, by, stages, "warpgroups", resident=1, cluster=(cluster, 1), parts=parts
    )  # fmt: skip


def shapes(form: str = "dense") -> Iterator[ProductTile]:
    """Every tile of a form."""
    for n in (96, 112, 128, 144, 160, 176):
        yield scaled_tile(128, n)
        if n >= 112 and form == "dense":
            yield scaled_tile(128, n, cluster=2)
    if form == "dense":
        yield scaled_tile(256, 64)
    for n in (64, 96, 112, 128, 160, 192, 256):
        yield scaled_tile(64, n)
    if form != "dense":
        return
    for n in (32, 64, 96, 112, 128):
        for parts in (2, 4, 8):
            yield scaled_tile(64, n, parts=parts)
    for n in (64, 128):
        for parts in (2, 4):
            yield scaled_tile(128, n, parts=parts)
