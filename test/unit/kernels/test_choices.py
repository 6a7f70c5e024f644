"""Which kernel for which size: the candidates that fit a target, and the choice by the time model."""

import pytest

from lego_mlir.errors import UsageError
from lego_mlir.kernels import choices
from lego_mlir.kernels.choices import Choice
from lego_mlir.kernels.matmul import GROUPED_ROWS, Tiling
from lego_mlir.schedule import tile_order
from lego_mlir.toolchain import TARGETS

ROOM = {name: target.shared_per_block for name, target in TARGETS.items() if target.compute_capability >= (8, 0)}
BIG, SMALL = Choice(Tiling(128, 256, 64, (2, 4)), 4), Choice(Tiling(64, 64, 64, (2, 2)), 4)


@pytest.mark.parametrize("target", ROOM)
@pytest.mark.parametrize("layouts", choices.LAYOUTS)
def test_every_size_gets_a_kernel_that_fits(target, layouts):
    for m, n, k in ((1, 1, 1), (32, 4096, 4096), (512, 512, 512), (4096, 4096, 4096), (8192, 28672, 16)):
        chosen = choices.choose(m, n, k, layouts, ROOM[target])
        assert chosen.shared_bytes() <= ROOM[target]
        assert 2 <= chosen.stages <= max(2, -(-k // chosen.tiling.k)) + 1


def test_large_products_get_large_tiles_and_small_ones_fill_the_device():
    tiles = [choices.choose(n, n, n, "NN", ROOM["sm_90"], 2).tiling for n in (256, 768, 4096)]
    areas = [tile.m * tile.n for tile in tiles]
    assert areas == sorted(areas)
    assert len(set(areas)) == 3


def test_a_device_with_fewer_multiprocessors_takes_larger_tiles_at_the_same_size():
    small, large = (choices.choose(1280, 1280, 1280, "NN", ROOM["sm_80"], 2, multiprocessors=n) for n in (400, 40))
    assert small.tiling.m * small.tiling.n < large.tiling.m * large.tiling.n


def test_less_shared_memory_means_fewer_stages_then_smaller_tiles():
    stages = [choices.fitting(BIG, 4096, room).stages for room in (200 * 1024, 150 * 1024, 141 * 1024)]
    assert stages == [4, 3, 2]
    assert choices.fitting(BIG, 4096, 100 * 1024).tiling.n < 256


def test_blocks_that_stay_keep_the_tile_of_c_beside_the_others():
    stay = Choice(BIG.tiling, 3, resident=1)
    staged, result = 3 * (128 + 256) * 64 * 2, 136 * 264
    assert stay.shared_bytes(2) == staged + result * 2
    assert BIG.shared_bytes() == 4 * (128 + 256) * 64 * 2
    assert choices.fitting(stay, 4096, ROOM["sm_90"], 2) == stay
    assert choices.fitting(stay, 4096, ROOM["sm_90"]) == BIG  # a result of f32 leaves no room
    assert (stay.blocks(132), BIG.blocks(132)) == (132, None)
    assert str(stay).endswith("3 stages, grouped, 1 resident")


def test_a_choice_is_read_as_it_is_written():
    for choice in choices.CANDIDATES:
        assert choices.choice_from(choice.to_data()) == choice


@pytest.mark.parametrize("size", [(1536, 1536), (2048, 3072), (2304, 1152), (2560, 2560), (3000, 2000), (5120, 5000)])
@pytest.mark.parametrize("choice", [c for c in choices.CANDIDATES if c.resident], ids=str)
def test_persistent_blocks_get_equal_shares(choice, size):
    """No position of the order is without a tile, so the most loaded of 132 blocks has ceil(tiles / 132)."""
    t = choice.tiling
    rows, columns = -(-size[0] // t.m), -(-size[1] // t.n)
    order = tile_order("matmul", choice.order, (rows, columns), group=GROUPED_ROWS // t.m)
    assert order.physical_size() == rows * columns
    assert sorted(order.apply(i, j) for i in range(rows) for j in range(columns)) == list(range(rows * columns))


def test_messages():
    with pytest.raises(UsageError, match=r"one of NN, NT, TN, TT .*, got NC"):
        choices.choose(1, 1, 1, "NC", ROOM["sm_90"])
    with pytest.raises(UsageError, match="no kernel of the family fits 1024 bytes"):
        choices.fitting(SMALL, 64, 1024)
