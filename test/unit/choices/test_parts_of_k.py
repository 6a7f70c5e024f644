"""The parts that the model chooses: few tiles take several, many take one, and every choice is a kernel that fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.choices import warp_tiles
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import device_with
from lego_mlir.choices.product_time import product_time
from lego_mlir.choices.warp_tiles import MOST_PARTS
from lego_mlir.kernels.matmul import steps_of

SMS = 132
RECORDED = {  # microseconds on an H200 by parts, 2026-11-22, the bench of small products
    (16, 4096, 4096): {1: 12.7, 2: 11.8, 4: 12.4},
    (16, 1024, 8192): {1: 21.0, 3: 10.9, 4: 9.4, 6: 8.8, 8: 8.2, 16: 9.6},
    (16, 11008, 4096): {1: 26.5, 3: 27.6},
    (32, 4096, 11008): {1: 34.0, 2: 27.0, 4: 27.8},
    (32, 8192, 28672): {1: 117.4, 2: 120.0},
}


def predicted(size, parts):
    """Microseconds by the model, with the tile of the size's choice and other parts."""
    product = ProductSize(*size, "NT")
    tile = next(tile for tile in warp_tiles.PARTED if tile.m >= size[0])
    block = warp_tiles.with_parts(product, tile, parts, SMS)
    return product_time(product, block, launches="rotated").microseconds


@given(st.integers(1, 64), st.integers(1, 60000), st.integers(512, 60000), st.sampled_from([20, 108, 132]))
def test_every_choice_is_a_kernel(m, n, k, multiprocessors):
    found = warp_tiles.choose_parts(ProductSize(m, n, k, "NT"), device_with(multiprocessors))
    assert 1 <= found.parts <= MOST_PARTS
    assert found.m >= m
    assert found.parts > 1 or found.blocks(multiprocessors) is None
    assert 2 <= found.stages <= steps_of(k, found.k, found.parts) + 1
    assert found.shared_bytes() * 2 <= 227 * 1024


@pytest.mark.parametrize("size", RECORDED)
def test_the_model_ranks_recorded_times(size):
    """The fewest parts that the model takes for as good as the best are the fastest recorded, or within 3 % of it."""
    times = RECORDED[size]
    least = min(predicted(size, parts) for parts in times)
    best = min(parts for parts in times if predicted(size, parts) <= warp_tiles.CLOSE * least)
    assert times[best] <= 1.03 * min(times.values())


def test_the_model_fits_recorded_times():
    for size, times in RECORDED.items():
        for parts, microseconds in times.items():
            assert predicted(size, parts) == pytest.approx(microseconds, rel=0.2)


def test_persistent_blocks_where_parts_do_not_fit_at_once():
    tile, wide, narrow = warp_tiles.PARTED[0], ProductSize(16, 11008, 4096), ProductSize(16, 4096, 4096)
    assert warp_tiles.with_parts(wide, tile, 3, SMS).blocks(SMS) == 264
    assert warp_tiles.with_parts(narrow, tile, 4, SMS).blocks(SMS) is None


def test_it_applies_to_few_rows_with_long_sums():
    assert warp_tiles.is_parted(64, 4096)
    assert not warp_tiles.is_parted(65, 4096)
    assert not warp_tiles.is_parted(16, 256)
