"""Divisions of products of few tiles: schedules take every candidate, and its blocks run at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, RESERVED_SHARED_BYTES
from lego_mlir.hardware.targets import target_named
from lego_mlir.kernels import few_rows, product_classes, warpgroup_choices
from lego_mlir.kernels.few_rows import candidates
from lego_mlir.kernels.scheduled_products import ScheduledProduct
from lego_mlir.kernels.warpgroup_choices import WarpgroupTile, exchanged, microseconds, tile_from
from lego_mlir.toolchain import compile_kernel

SMS = 132


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 600), st.integers(8, 800), st.integers(8, 2000), st.sampled_from(["NN", "NT", "TN", "TT"]))
def test_every_candidate_has_schedules_and_runs_at_once(m, n, k, layouts):
    m, n, k = 8 * m if layouts[0] == "T" else m, 8 * n, 8 * k
    for tile in candidates((m, n, k), SMS, layouts):
        product = ScheduledProduct(tile, layouts)
        assert product.stages >= 2 and product.shared_bytes <= LARGEST_SHARED_BYTES
        rows, columns = tile.tiles(m, n)
        blocks = rows * columns * tile.cluster[0] * tile.cluster[1] * tile.parts * tile.splits
        assert blocks <= few_rows.fitting(tile, SMS)
        beside = few_rows.beside_another(tile, layouts)
        if beside is not None:
            room = target_named("sm_90a").shared_per_sm
            assert 2 * (ScheduledProduct(beside, layouts).shared_bytes + RESERVED_SHARED_BYTES) <= room


@pytest.mark.parametrize("sizes", [(64, 4096, 4096), (16, 4096, 4096), (512, 512, 65536), (200, 200, 8192)])
def test_candidates_of_all_kinds_are_considered(sizes):
    found = candidates(sizes, SMS)
    assert len(set(found)) == len(found) == 8
    assert any(tile.parts > 1 for tile in found)
    assert any(tile.parts == 1 for tile in found) or sizes == (200, 200, 8192)  # too few tiles
    assert any(tile.transposed for tile in found) == (sizes[0] <= 64)
    assert any(tile.cluster != (1, 1) for tile in found) or sizes[0] == 16
    assert all(tile.shares_rows(*sizes[:2]) for tile in found)  # boxes outside of A are slow


def test_the_estimate_of_a_transposed_product_is_that_of_the_exchanged_one():
    tile = WarpgroupTile(64, 128, 6, (1, 2), transposed=True)
    other = WarpgroupTile(128, 64, 6, (2, 1))
    for layouts in ("NN", "NT", "TN", "TT"):
        estimate = microseconds((64, 4096, 1000), tile, SMS, layouts)
        assert estimate == microseconds((4096, 64, 1000), other, SMS, exchanged(layouts))
        assert exchanged(exchanged(layouts)) == layouts


def test_a_division_says_what_it_is():
    tile = WarpgroupTile(16, 64, 5, group=1, dependent=True, parts=2, transposed=True, resident=2)
    assert str(tile) == "16x64 group 1 in 2 parts transposed dependent resident 2"
    assert tile_from((16, 4096, 4096), str(tile), 5, SMS) == tile
    assert (tile.clusters(SMS), WarpgroupTile(64, 64, 4).clusters(SMS)) == (132, 132)


def test_a_kernel_of_a_division():
    tile = WarpgroupTile(16, 64, 5, group=1, dependent=True, parts=2, transposed=True, resident=2)
    made = compile_kernel(ScheduledProduct(tile, "NT").kernel((16, 256, 1024), SMS), target="sm_90a")
    (entry,) = made.manifest["kernels"]
    assert (np.prod(entry["grid"]), entry["cluster"], entry["dependent"]) == (8, 2, True)
    assert ".minnctapersm 2" in made.text
    assert "setmaxnreg" not in made.text


def test_few_rows_are_transposed_where_blocks_fill_the_device():
    """16 x 4096 x 4096 took 0.91 of the time of 64x32 on an H200, 1 x 2560 x 8192 in 80 blocks 1.6 times 64x40."""
    for m in (1, 16, 48):
        tile = warpgroup_choices.choose(m, 4096, 4096, SMS)
        assert (tile.transposed, tile.n, tile.parts) == (True, 64, 2)
        assert product_classes.class_for((m, 4096, 4096), "NT", "f16", "f16", "sm_90a", SMS) is None
        assert not warpgroup_choices.choose(m, 2560, 8192, SMS).transposed
        assert not warpgroup_choices.choose(m, 4096, 4096, SMS, fused=True).transposed
