"""Divisions of products of few tiles: the script takes every candidate, and its blocks run at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir import Col, Row, f16
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, RESERVED_SHARED_BYTES
from lego_mlir.hardware.targets import target_named
from lego_mlir.kernels import few_rows, matmul, product_classes, warpgroup_choices
from lego_mlir.kernels.few_rows import candidates
from lego_mlir.kernels.warpgroup_choices import WarpgroupTile, exchanged, microseconds, tile_from
from lego_mlir.toolchain import compile_kernel
from lego_mlir.transforms.passes.warpgroup_products import narrowed
from lego_mlir.transforms.warpgroups.plan import ProductPlan, StagedOperand

SMS = 132


def planned(sizes, layouts, tile):
    """The plan of a candidate; raises LayoutError where the units cannot multiply it."""
    (m, n, k), (down, across) = sizes, tile.tiles(*sizes[:2])
    left, right = (
        StagedOperand("f16", size, k, extent, 64, "k" if layouts[i] == "NT"[i] else "mn", tile.cluster[1 - i])
        for i, (size, extent) in enumerate(((m, tile.m), (n, tile.n)))
    )
    cluster = tile.cluster
    if tile.transposed:
        left, right, cluster = right, narrowed(left, 8), cluster[::-1]
    blocks = down * across if tile.parts > 1 else min(down * across, tile.clusters(SMS))
    return ProductPlan(
        "p", left, right, "f16", down * across, blocks, tile.stages, cluster=cluster, dependent=tile.dependent,
        depth_parts=tile.parts, transposed=tile.transposed, resident=tile.resident,
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 600), st.integers(8, 800), st.integers(8, 2000), st.sampled_from(["NN", "NT", "TN", "TT"]))
def test_every_candidate_can_be_planned_and_runs_at_once(m, n, k, layouts):
    m, n, k = 8 * m if layouts[0] == "T" else m, 8 * n, 8 * k
    for tile in candidates((m, n, k), SMS, layouts):
        assert tile.m != 192 or layouts[1] == "T" or tile.n % 128 == 0
        plan = planned((m, n, k), layouts, tile)
        assert plan.shared_bytes <= LARGEST_SHARED_BYTES
        assert plan.positions * plan.cluster_blocks <= few_rows.fitting(tile, SMS)
        beside = few_rows.beside_another(tile, layouts)
        if beside is not None:
            room = target_named("sm_90a").shared_per_sm
            assert 2 * (planned((m, n, k), layouts, beside).shared_bytes + RESERVED_SHARED_BYTES) <= room


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
    assert tile.parameters == {
        "stages": 5, "lockstep": 0, "cluster_m": 1, "cluster_n": 1, "dependent": 1, "cluster_k": 2, "transposed": 1,
        "resident": 2,
    }  # fmt: skip
    assert tile_from((16, 4096, 4096), str(tile), 5, SMS) == tile
    assert (tile.clusters(SMS), tile.persistent(SMS), WarpgroupTile(64, 64, 4).persistent(SMS)) == (132, None, 132)


def test_a_kernel_of_a_division():
    tile = WarpgroupTile(16, 64, 5, group=1, dependent=True, parts=2, transposed=True, resident=2)
    kernel = matmul.build(
        16, 256, 1024, f16, a=Row(16, 1024), b=Col(1024, 256), result=f16, tiling=tile.tiling,
        order=tile.order(16, 256), blocks=tile.persistent(SMS),
    )  # fmt: skip
    made = compile_kernel(kernel, target="sm_90a", transform="matmul_sm90.mlir", parameters=tile.parameters)
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
