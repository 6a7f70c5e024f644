"""Products with K in parts: what is refused."""

import pytest

from lego_mlir import f16, f32
from lego_mlir.errors import UsageError
from lego_mlir.kernels import matmul
from lego_mlir.kernels.cluster_k import ClusterK
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.kernels.split_k import SplitK

SMALL = ProductTile(16, 32, 32, (1, 2))


def build(m, n, k, **given):
    return matmul.build(m, n, k, f16, tiling=SMALL, split=SplitK(3), **given)


@pytest.mark.parametrize("parts", [0, 1, 65, 2.0])
def test_other_numbers_of_parts_are_refused(parts):
    with pytest.raises(UsageError, match=f"parts of K must be an int from 2 to 64, got {parts}; for 1 leave out split"):
        SplitK(parts)


def test_no_blocks_are_refused():
    with pytest.raises(UsageError, match="blocks that share the parts of K must be at least 1, got 0"):
        SplitK(2, 0)


@pytest.mark.parametrize("parts", [0, 1, 9, 2.0])
def test_other_numbers_of_parts_in_a_cluster_are_refused(parts):
    with pytest.raises(UsageError, match=f"in a cluster must be an int from 2 to 8, got {parts}; for more use SplitK"):
        ClusterK(parts)


def test_an_order_with_positions_without_a_tile_is_refused_in_a_cluster():
    with pytest.raises(
        UsageError, match="has positions without a tile, and all blocks of a cluster meet with ClusterK"
    ):
        matmul.build(48, 96, 128, f16, tiling=SMALL, split=ClusterK(2), order="morton").mlir()


def test_persistent_blocks_are_refused():
    with pytest.raises(UsageError, match="persistent blocks=2 compute whole tiles; leave them out with split=SplitK"):
        build(16, 64, 256, blocks=2)


def test_an_epilogue_may_not_use_the_names_of_the_workspace():
    taken = matmul.Epilogue(
        lambda value, place, partial: value * partial, lambda p, partial: p * partial, {"partial": f32}
    )
    with pytest.raises(UsageError, match="names other than a, b, c, partial, counters, got partial"):
        build(16, 64, 256, epilogue=taken)
