"""K of a product by warpgroups in parts: the text of a tile's kernel, and the schedules that it goes through.

A product that fills no device in whole tiles has several blocks for a tile, each with a part of K: those of a cluster
(`cluster_k`), or any blocks, which leave their sums in a workspace (`split_k`). Both are properties of the kernel's
text, so that the schedules are those of whole tiles.

>>> from lego_mlir.kernels.warpgroup_choices import WarpgroupTile
>>> schedules(WarpgroupTile(16, 64, 16, parts=2, transposed=True, dependent=True))
'warpgroups(transposed=True), pipeline(stages=16), overlay, roles, dependent'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lego_mlir.aliases import Given
from lego_mlir.kernels import matmul
from lego_mlir.kernels.cluster_k import ClusterK
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.kernels.split_k import SplitK

if TYPE_CHECKING:
    from lego_mlir.kernels.warpgroup_choices import WarpgroupTile
    from lego_mlir.tracing.definition import Kernel
    from lego_mlir.tracing.dtypes import DType

GROUP_ROWS = 64
"""Rows of the unit for each 4 warps. PTX ISA, wgmma.mma_async."""


def takes(tile: WarpgroupTile) -> bool:
    """Whether a tile has its K in parts, among single blocks or those of a cluster."""
    return tile.cluster == (1, 1) and (tile.parts == 1) != (tile.splits == 1)


def in_parts(m: int, n: int, k: int, dtype: DType, tile: WarpgroupTile, **given: Given) -> Kernel:
    """The scheduled kernel of a product in such a tile; `given` are other arguments of `matmul`."""
    warps = 4 * max(1, (tile.n if tile.transposed else tile.m) // GROUP_ROWS)
    tiling = Tiling(tile.m, tile.n, tile.step, (1, warps) if tile.transposed else (warps, 1))
    split = ClusterK(tile.parts) if tile.parts > 1 else SplitK(tile.splits)
    kernel = matmul.build(m, n, k, dtype, tiling=tiling, split=split, order=tile.order(m, n), **given)
    return kernel.schedule(schedules(tile, clipped=m < tile.m))


def schedules(tile: WarpgroupTile, *, clipped: bool = False) -> str:
    """The composition of a tile's schedules; `clipped` where A has fewer rows than the tile."""
    words = ["warpgroups(transposed=True)" if tile.transposed else "warpgroups"]
    words += [f"exact(every={tile.exact})"] * (tile.exact > 0)
    words += [f"pipeline(stages={tile.stages}{', clipped=True' * clipped})", "overlay", "roles"]
    words += [f"resident(blocks={tile.resident})"] * (tile.resident > 1)
    return ", ".join([*words, *["dependent"] * tile.dependent])
