"""Tiles of recorded runs, as their results name them: labels of warpgroups, and rows of `mma.sync`.

128x256 cluster 2x1 group 8 every 32      {"tile": [128, 256, 64], "warps": [2, 4], "stages": 3, "resident": 1}
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lego_mlir.choices.product_tile import BUFFERS, ProductTile
from lego_mlir.choices.warpgroup_tiles import Wanted, tile_of

LABEL: Final = re.compile(
    r"(\d+)x(\d+)(?: cluster (\d)x(\d))?(?: group (\d+)(?: every (\d+))?(?: in (\d) parts)?(?: by (\d+) clusters)?"
    r"( transposed)?( dependent)?(?: resident (\d))?(?: buffers (\d))?)?"
)


def of_label(size: tuple[int, int, int], text: str, stages: int) -> ProductTile:
    """The tile that a result names, or its sides alone, with the stages that a row has."""
    found = LABEL.fullmatch(text)
    if found is None:
        raise ValueError(f"not a tile of warpgroups: {text!r}")
    m, n, along_m, along_n, group, every, parts = (int(part or 0) for part in found.groups()[:7])
    divided = {"parts": parts or 1, "splits": int(found[8] or 1), "transposed": found[9] is not None}
    more = {"resident": int(found[11] or 1), "buffers": int(found[12] or BUFFERS), "dependent": found[10] is not None}
    tile = tile_of(
        Wanted(*size, layouts="NN"), (m, n), (along_m or 1, along_n or 1), group or None, every if group else None,
        **divided, **more,
    )  # fmt: skip
    return replace(tile, stages=stages)


def of_row(row: Mapping[str, Any]) -> ProductTile:
    """The tile of a row of `mma.sync`."""
    return ProductTile(*row["tile"], tuple(row["warps"]), row["stages"], order=row["order"], resident=row["resident"])


def as_row(tile: ProductTile) -> dict[str, Any]:
    """The row of a tile of `mma.sync`."""
    return {
        "tile": [tile.m, tile.n, tile.k], "warps": list(tile.warps), "stages": tile.stages, "order": tile.order,
        "resident": tile.resident,
    }  # fmt: skip
