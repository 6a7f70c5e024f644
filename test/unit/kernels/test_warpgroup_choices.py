"""How products are divided for warpgroups: every choice fits the units, and fills the device where it can."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.errors import UsageError
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.kernels import warpgroup_choices
from lego_mlir.transforms.warpgroups.plan import ProductPlan, StagedOperand

UNITS = {"f16": "f16", "f8e4m3fn": "e4m3", "i8": "s8", "f32": "tf32"}


def planned(m, n, k, layouts, tile, dtype="f16", result="f16"):
    """The plan of a choice; raises LayoutError where the units cannot multiply it."""
    a, b = (
        StagedOperand(dtype, size, k, extent, tile.step, "k" if layouts[i] == "NT"[i] else "mn", tile.cluster[1 - i])
        for i, (size, extent) in enumerate(((m, tile.m), (n, tile.n)))
    )
    rows, columns = tile.tiles(m, n)
    return ProductPlan(
        "p", a, b, result, rows * columns, tile.persistent(132) or rows * columns, tile.stages, lockstep=tile.lockstep,
        cluster=tile.cluster, dependent=tile.dependent, depth_parts=tile.parts,
        unit=UNITS[dtype], exact=tile.exact, buffers=tile.buffers,
    )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.integers(8, 1100), st.integers(8, 1100), st.integers(8, 1100), st.sampled_from(["NN", "NT", "TN", "TT"]))
def test_every_choice_can_be_planned(m, n, k, layouts):
    m, n, k = 8 * m, 8 * n, 8 * k
    tile = warpgroup_choices.choose(m, n, k, 132, layouts)
    plan = planned(m, n, k, layouts, tile)
    assert plan.shared_bytes <= LARGEST_SHARED_BYTES
    assert tile.order(m, n).dims() == tile.tiles(m, n)
    assert plan.cluster_blocks * plan.blocks <= 132


FUSED = [
    *((layouts, "f16", result) for layouts in ("NN", "NT", "TN", "TT") for result in ("f16", "f32")),
    *(("NT", dtype, result) for dtype in ("f8e4m3fn", "f32") for result in ("bf16", "f32")), ("NT", "i8", "i32"),
]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.sampled_from(FUSED), st.sampled_from([0, 4]))
def test_every_fused_choice_can_be_planned(m, n, k, types, exact):
    m, n, k, (layouts, dtype, result) = 16 * m, 16 * n, 16 * k, types
    exact = 0 if dtype == "i8" else exact
    size = ELEMENT_BYTES[dtype]
    tile = warpgroup_choices.choose(m, n, k, 132, layouts, size, exact, fused=True, operands=1)
    plan = planned(m, n, k, layouts, tile, dtype, result)
    assert plan.shared_bytes <= LARGEST_SHARED_BYTES


def test_whole_columns_of_128_bytes_count_in_shared_memory():
    """In rows of N, a tile of 72 columns of B takes the room of 128."""
    along_k, along_n = (warpgroup_choices.choose(1000, 1048, 1040, 132, name, fused=True) for name in ("TT", "TN"))
    for name, tile in (("TT", along_k), ("TN", along_n)):
        assert planned(1000, 1048, 1040, name, tile).shared_bytes <= LARGEST_SHARED_BYTES
    tile = warpgroup_choices.tile_of(1000, 1048, 1040, (128, 72), 132, layouts="TT")
    assert planned(1000, 1048, 1040, "TN", tile).shared_bytes > LARGEST_SHARED_BYTES
    assert warpgroup_choices.tile_of(1000, 1048, 1040, (128, 72), 132, layouts="TN").stages < tile.stages


def test_odd_sizes_fill_the_last_round():
    for n in (2216, 3704, 5000):
        tile = warpgroup_choices.choose(n, n, n, 132)
        rows, columns = tile.tiles(n, n)
        rounds = rows * columns / tile.clusters(132)
        assert rounds > 0.94 * -(-rows * columns // tile.clusters(132))


def test_rows_that_touch_two_lines_share_their_copies():
    assert warpgroup_choices.choose(5000, 5000, 5000, 132).cluster != (1, 1)


def test_short_products_begin_early():
    assert warpgroup_choices.choose(512, 512, 512, 132).dependent
    assert warpgroup_choices.choose(64, 4096, 4096, 132).parts == 2  # 0.95 of the time of 32 columns
    assert warpgroup_choices.choose(64, 5120, 5120, 132).n == 40  # 0.79 of the time of 64 columns
    assert warpgroup_choices.choose(64, 6144, 4096, 132).n == 48  # 0.84
    assert not warpgroup_choices.choose(8192, 8192, 8192, 132).dependent


def test_fused_products_get_the_tiles_of_plain_ones_where_registers_allow():
    plain = warpgroup_choices.choose(4096, 4096, 4096, 132)
    wide = warpgroup_choices.choose(4096, 4096, 4096, 132, fused=True)
    assert (wide.m, wide.n, wide.cluster) == (plain.m, plain.n, plain.cluster)
    tiles = [warpgroup_choices.choose(8192, 8192, 8192, 132, fused=True, operands=count) for count in range(5)]
    assert tiles[0].m == 256
    assert all((tile.m, tile.n, tile.cluster) == (128, 256, (2, 1)) for tile in tiles[1:])
    assert warpgroup_choices.choose(8192, 8192, 8192, 132, exact=4).m == 128


def test_8_bit_types_have_more_buffers_for_results():
    for n in (4096, 8192):
        tile = warpgroup_choices.choose(n, n, n, 132, bytes_=1, fused=True, operands=1)
        assert (tile.m, tile.n, tile.cluster, tile.stages, tile.buffers) == (128, 256, (1, 1), 3, 4)
    narrow = warpgroup_choices.choose(512, 512, 4096, 132, bytes_=1, fused=True)
    assert narrow.n <= 128 and narrow.buffers == 2
    assert warpgroup_choices.choose(8192, 8192, 8192, 132, bytes_=1, exact=2, fused=True).buffers == 2


def test_a_tile_reads_back_as_it_prints():
    for size in ((5000, 5000, 5000), (512, 512, 512), (64, 4096, 4096)):
        tile = warpgroup_choices.choose(*size, 132)
        assert warpgroup_choices.tile_from(size, str(tile), tile.stages, 132) == tile
    tile = replace(warpgroup_choices.choose(4096, 4096, 4096, 132), buffers=4)
    assert warpgroup_choices.tile_from((4096, 4096, 4096), str(tile), tile.stages, 132) == tile
    assert tile.parameters["buffers"] == 4
    assert warpgroup_choices.tile_from((4096, 4096, 4096), "128x256", 4, 132).lockstep == warpgroup_choices.MEETING
    with pytest.raises(UsageError, match="not a tile of warpgroups: 'large'"):
        warpgroup_choices.tile_from((512, 512, 512), "large", 4, 132)


def test_tiles_along_rows_of_n_begin_at_whole_sectors():
    """At 2560, tiles of 200 columns took 1.5 times as long as those of 208 in a cluster."""
    for n in (2560, 2576, 4096):
        assert all(tile.n * 2 % 32 == 0 for tile in warpgroup_choices.candidates(n, n, n, 132, "NN"))
