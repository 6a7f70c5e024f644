"""The tiles of a class: few of them, and each number of rows has one that is close to the best of all."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.choices import warpgroup_tiles
from lego_mlir.choices.class_tiles import MOST, covering, few_tiles, octave
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import REFERENCE_DEVICE
from lego_mlir.choices.product_time import product_time
from lego_mlir.choices.warpgroup_tiles import Wanted
from lego_mlir.kernels import product_classes
from lego_mlir.kernels.product_classes import class_for, class_of
from lego_mlir.toolchain import compile_kernel

SMS = 132
TIMES = st.integers(1, 6).flatmap(
    lambda count: st.dictionaries(
        st.integers(0, 30), st.lists(st.floats(1, 100), min_size=count, max_size=count), min_size=1
    )
)


@given(TIMES, st.integers(1, 5))
def test_a_cover_begins_with_the_best_and_each_further_one_saves(times, most):
    found = covering(times, most)
    assert 1 <= len(found) <= most
    assert len(set(found)) == len(found)
    means = [
        math.fsum(math.log(min(times[one][i] for one in found[:count])) for i in range(len(times[found[0]])))
        for count in range(1, len(found) + 1)
    ]
    assert means[0] == pytest.approx(min(math.fsum(map(math.log, of_one)) for of_one in times.values()))
    assert all(after < before for before, after in pairwise(means))


@given(st.integers(1, 1 << 20))
def test_an_octave_ends_at_a_power_of_two(m):
    top = octave(m)
    assert top & (top - 1) == 0
    assert m <= top and (top // 2 < m or top == 4)


def test_candidates_are_ranked_at_some_rows_and_compared_at_more():
    tiles = few_tiles([64, 96, 128], lambda tile, m: -(-m // tile) * tile, 512)
    assert tiles[0] == 64
    asked = set()
    few_tiles(range(50), lambda tile, m: asked.add((tile, m)) or 1.0 + tile, 512)
    assert len({m for tile, m in asked if tile == 49}) < len({m for tile, m in asked if tile == 0})


def microseconds(size, layouts, tile):
    return product_time(ProductSize(*size, layouts), tile, launches="steady").microseconds


@pytest.mark.parametrize(("n", "k", "layouts"), [(4096, 4096, "NT"), (4104, 4104, "NN")])
def test_a_class_has_a_tile_close_to_the_best_for_all_rows(n, k, layouts):
    classes = set()
    for m in (264, 300, 352, 417, 512):
        tile = class_of((m, n, k), layouts, "f16", "f16").tile
        classes.add(tile)
        best = warpgroup_tiles.choose(m, n, k, REFERENCE_DEVICE, layouts)
        assert microseconds((m, n, k), layouts, tile) <= 1.08 * microseconds((m, n, k), layouts, best)
    assert len(classes) <= MOST


@pytest.mark.parametrize(
    ("layouts", "tile", "cluster"),
    [("NT", (128, 232), (1, 1)), ("NN", (128, 232), (1, 2)), ("TT", (64, 40), (1, 1)), ("TN", (256, 104), (1, 2))],
)
def test_a_class_of_any_width_is_scheduled(layouts, tile, cluster):
    chosen = warpgroup_tiles.tile_of(Wanted(4104, 4104, 4104, layouts=layouts), tile, cluster, lockstep=0)
    made = product_classes.ProductClass("f16", "f16", layouts, chosen, chosen.clusters(SMS))
    assert "wgmma.mma_async" in compile_kernel(made.kernel(), target="sm_90a").text


def test_a_batch_meets_few_classes():
    found = {class_for((m, 1024, 768), "NN", "f16", "f16", "sm_90a") for m in range(65, 2049, 64)}
    assert len(found - {None}) <= 5 * MOST
