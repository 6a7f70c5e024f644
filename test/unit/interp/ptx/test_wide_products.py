"""Tiles of 128 rows and more than 256 columns, and large transposed products, emulated."""

from __future__ import annotations

import pytest
from warpgroup_runs import check

from lego_mlir import bf16, f16, f32
from lego_mlir.kernels.matmul import Tiling

WIDE = [
    ("NT", (136, 392, 136), f16, Tiling(128, 320, 64, (8, 1)), {}, 2),  # 320 rows of B in two boxes
    ("TT", (264, 280, 72), bf16, Tiling(256, 272, 64, (8, 1)), {"cluster_m": 2, "lockstep": 2}, 1),
    ("NN", (40, 520, 136), bf16, Tiling(128, 384, 64, (8, 1)), {}, 2),
    ("TN", (136, 392, 72), f16, Tiling(256, 384, 64, (8, 1)), {"cluster_m": 2}, 1),
    ("NT", (40, 616, 72), bf16, Tiling(128, 608, 64, (8, 1)), {"cluster_n": 2}, None),
    ("NT", (264, 160, 72), f16, Tiling(256, 152, 64, (8, 1)), {"cluster_m": 2}, None),  # 80 columns of each block
    ("NT", (72, 136, 72), f16, Tiling(128, 304, 64, (8, 1)), {}, None),  # fewer columns than a consumer's
]
TRANSPOSED = [
    ("NN", (328, 136, 72), f16, Tiling(320, 128, 64, (4, 1)), {}, 2),
    ("NN", (616, 136, 72), bf16, Tiling(304, 256, 64, (1, 4)), {"cluster_n": 2, "lockstep": 2}, 1),
    ("TN", (392, 136, 72), f16, Tiling(384, 256, 64, (8, 1)), {"cluster_n": 2}, None),
    ("NN", (136, 200, 136), f16, Tiling(208, 192, 64, (1, 4)), {"dependent": 1}, None),
    ("NT", (136, 136, 72), f16, Tiling(288, 128, 64, (1, 4)), {"cluster_m": 2, "lockstep": 2}, 1),
    ("NN", (360, 72, 72), f16, Tiling(352, 64, 64, (1, 4)), {"cluster_m": 4}, None),
    ("NN", (96, 264, 72), bf16, Tiling(80, 256, 64, (1, 4)), {"cluster_n": 4}, None),  # 24 rows of each block
    ("TT", (72, 264, 72), bf16, Tiling(128, 256, 64, (8, 1)), {}, 2),
    ("NN", (24, 264, 72), bf16, Tiling(320, 128, 64, (4, 1)), {}, 2),  # narrowed to the rows of C
]  # fmt: skip


@pytest.mark.parametrize(("layouts", "sizes", "dtype", "tiling", "parameters", "blocks"), WIDE)
def test_consumers_divide_the_columns_of_wide_tiles(layouts, sizes, dtype, tiling, parameters, blocks):
    check(layouts, sizes, dtype, tiling, parameters, blocks)


@pytest.mark.parametrize(("layouts", "sizes", "dtype", "tiling", "parameters", "blocks"), TRANSPOSED)
def test_large_products_are_computed_transposed(layouts, sizes, dtype, tiling, parameters, blocks):
    check(layouts, sizes, dtype, tiling, {"transposed": 1, **parameters}, blocks)


def test_wide_tiles_store_results_of_32_bits():
    check("NT", (40, 328, 72), f16, Tiling(128, 320, 64, (8, 1)), {"stages": 2}, result=f32)
