"""Which kernel for which size: the candidates that fit a target, and the choice by the time model."""

from dataclasses import replace

import pytest

from lego_mlir.choices import warp_tiles
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import device_with
from lego_mlir.choices.product_tile import ProductTile
from lego_mlir.errors import UsageError
from lego_mlir.kernels.matmul import GROUPED_ROWS
from lego_mlir.schedule import tile_order
from lego_mlir.toolchain import TARGETS

ROOM = {name: target.shared_per_block for name, target in TARGETS.items() if target.compute_capability >= (8, 0)}
BIG, SMALL = ProductTile(128, 256, 64, (2, 4), 4), ProductTile(64, 64, 64, (2, 2), 4)


@pytest.mark.parametrize("target", ROOM)
@pytest.mark.parametrize("layouts", warp_tiles.LAYOUTS)
def test_every_size_gets_a_kernel_that_fits(target, layouts):
    for m, n, k in ((1, 1, 1), (32, 4096, 4096), (512, 512, 512), (4096, 4096, 4096), (8192, 28672, 16)):
        chosen = warp_tiles.choose(ProductSize(m, n, k, layouts), ROOM[target])
        assert chosen.shared_bytes() <= ROOM[target]
        assert 2 <= chosen.stages <= max(2, -(-k // chosen.k)) + 1


def test_large_products_get_large_tiles_and_small_ones_fill_the_device():
    tiles = [warp_tiles.choose(ProductSize(n, n, n, element=2), ROOM["sm_90"]) for n in (256, 768, 4096)]
    areas = [tile.m * tile.n for tile in tiles]
    assert areas == sorted(areas)
    assert len(set(areas)) == 3


def test_a_device_with_fewer_multiprocessors_takes_larger_tiles_at_the_same_size():
    small, large = (
        warp_tiles.choose(ProductSize(1280, 1280, 1280, element=2), ROOM["sm_80"], device_with(n)) for n in (400, 40)
    )
    assert small.m * small.n < large.m * large.n


def test_less_shared_memory_means_fewer_stages_then_smaller_tiles():
    stages = [warp_tiles.fitting(BIG, 4096, room).stages for room in (200 * 1024, 150 * 1024, 141 * 1024)]
    assert stages == [4, 3, 2]
    assert warp_tiles.fitting(BIG, 4096, 100 * 1024).n < 256


def test_blocks_that_stay_keep_the_tile_of_c_beside_the_others():
    stay = replace(BIG, stages=3, resident=1)
    staged, result = 3 * (128 + 256) * 64 * 2, 136 * 264
    assert stay.shared_bytes(2) == staged + result * 2
    assert BIG.shared_bytes() == 4 * (128 + 256) * 64 * 2
    assert warp_tiles.fitting(stay, 4096, ROOM["sm_90"], 2) == stay
    assert warp_tiles.fitting(stay, 4096, ROOM["sm_90"]) == BIG  # a result of f32 leaves no room
    assert (stay.blocks(132), BIG.blocks(132)) == (132, None)
    assert str(stay).endswith("3 stages, grouped, 1 resident")


@pytest.mark.parametrize("size", [(1536, 1536), (2048, 3072), (2304, 1152), (2560, 2560), (3000, 2000), (5120, 5000)])
@pytest.mark.parametrize("choice", [c for c in warp_tiles.CANDIDATES if c.resident], ids=str)
def test_persistent_blocks_get_equal_shares(choice, size):
    """No position of the order is without a tile, so the most loaded of 132 blocks has ceil(tiles / 132)."""
    t = choice
    rows, columns = -(-size[0] // t.m), -(-size[1] // t.n)
    order = tile_order("matmul", choice.order, (rows, columns), group=GROUPED_ROWS // t.m)
    assert order.physical_size() == rows * columns
    assert sorted(order.apply(i, j) for i in range(rows) for j in range(columns)) == list(range(rows * columns))


def test_messages():
    with pytest.raises(UsageError, match=r"one of NN, NT, TN, TT .*, got NC"):
        warp_tiles.choose(ProductSize(1, 1, 1, "NC"), ROOM["sm_90"])
    with pytest.raises(UsageError, match="no kernel of the family fits 1024 bytes"):
        warp_tiles.fitting(SMALL, 64, 1024)
