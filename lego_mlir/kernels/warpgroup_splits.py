"""K of a product by warpgroups in parts among clusters: the workspace that the kernel takes, and its kernel.

`matmul_sm90.mlir` lets `splits` clusters sum parts of K of one tile, and the last one to arrive adds them in a fixed
order (`transforms.warpgroups.grid_sums`). The kernel of `matmul` says nothing about that; it takes two more tensors,
`partial` with the sums of each part and `counters`, which begin as 0 and end as 0. A product reads neither: they are
the operands of an epilogue that returns each value as it is.

>>> from lego_mlir import f16
>>> from lego_mlir.kernels.matmul import Tiling
>>> made = workspace(Tiling(128, 128, 64, (8, 2)), 512, 512, splits=8)
>>> [operand.layout.dims() for operand in made.operands.values()]
[(8, 16, 16384), (256,)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row
from lego_mlir.aliases import Array, Given, Operand
from lego_mlir.errors import UsageError
from lego_mlir.kernels import matmul
from lego_mlir.kernels.epilogues import Epilogue
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.tracing.dtypes import DType, f32, i32

if TYPE_CHECKING:
    from lego_mlir.kernels.warpgroup_choices import WarpgroupTile
    from lego_mlir.tracing.definition import Kernel

COUNTERS: Final = 16
"""Warpgroups that add sums of a cluster's tile, at most: two of each of eight blocks."""


def workspace(tiling: Tiling, m: int, n: int, splits: int, counters: int = COUNTERS) -> Epilogue:
    """The workspace of `splits` clusters for each tile of an m x n product, as an epilogue that leaves values alone.

    `tiling` is the tile of a cluster, in which at most `counters` warpgroups add sums. Raises UsageError for less than
    2 clusters.
    """
    if splits < 2:
        raise UsageError(f"workspace: {splits=} must be at least 2; one cluster for each tile needs none")
    tiles = -(-m // tiling.m) * -(-n // tiling.n)

    def function(value: Operand, place: Operand, partial: Operand, counters: Operand) -> Operand:
        return value

    def reference(product: Array, partial: Array, counters: Array) -> Array:
        return product

    return Epilogue(
        function,
        reference,
        {
            "partial": lego.Tensor(f32, Row(splits, tiles, tiling.m * tiling.n)),
            "counters": lego.Tensor(i32, Row(tiles * counters)),
        },
    )


def in_tile(
    m: int, n: int, k: int, dtype: DType, tile: WarpgroupTile, blocks: int | None = None,
    epilogue: Epilogue | None = None, **given: Given,
) -> Kernel:  # fmt: skip
    """The kernel of a product in a tile of warpgroups, with its workspace; `given` are other arguments of `matmul`.

    `blocks` are the persistent clusters, where a tile has one cluster (`WarpgroupTile.persistent`).
    """
    if tile.splits > 1:
        work = workspace(tile.tiling, m, n, tile.splits)
        epilogue = work if epilogue is None else epilogue.then(work)
    kernel = matmul.build(
        m, n, k, dtype, tiling=tile.tiling, order=tile.order(m, n), blocks=blocks, epilogue=epilogue, **given
    )
    if tile.splits > 1:
        kernel.inputs(inputs(tile.tiling, m, n))
    return kernel


def inputs(tiling: Tiling, m: int, n: int, counters: int = COUNTERS) -> Callable[..., Given]:
    """The input of a run: counters of 0."""

    def made(rng: Given) -> dict[str, Array]:
        import numpy as np

        return {"counters": np.zeros(-(-m // tiling.m) * -(-n // tiling.n) * counters, np.int32)}

    return made
