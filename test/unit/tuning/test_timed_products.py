"""Products of `kernels.matmul` are pruned and ranked by the model of their time."""

from dataclasses import replace

import pytest

import lego_mlir as lego
from lego_mlir import f16
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import REFERENCE_DEVICE
from lego_mlir.choices.product_tile import warpgroup_tile
from lego_mlir.choices.product_time import product_time
from lego_mlir.choices.warp_tiles import CANDIDATES
from lego_mlir.choices.warpgroup_tiles import Wanted, tile_of
from lego_mlir.kernels import matmul
from lego_mlir.layout import Col
from lego_mlir.tuning.model import DEVICES, predict
from lego_mlir.tuning.pruning import timed_product

H200_DEVICE = DEVICES["h200"]


@pytest.mark.parametrize("choice", CANDIDATES, ids=str)
def test_a_kernel_has_the_tile_of_the_choice_that_it_was_built_from(choice):
    size = (512, 768, 1024)
    kernel = matmul.build(
        *size,
        f16,
        result=f16,
        tiling=choice,
        order=choice.order,
        blocks=choice.blocks(REFERENCE_DEVICE.sms),
        b=Col(1024, 768),
    )
    calls = kernel.transformed("matmul_sm80.mlir", stages=choice.stages)
    found = timed_product(calls, choice.shared_bytes(2))
    persistent = choice.resident if kernel.grid[0] == choice.blocks(REFERENCE_DEVICE.sms) else 0
    assert found.size == ProductSize(*size, "NT")
    assert found.tile == replace(choice, resident=persistent)
    assert found.shared == choice.shared_bytes(2)


def test_a_warpgroup_kernel_has_the_tile_of_a_block_and_its_cluster():
    tile = tile_of(Wanted(8192, 8192, 4096), (128, 256), (2, 1))
    tiling = matmul.ProductTile(128, 256, 64, (8, 1))
    kernel = matmul.build(8192, 8192, 4096, f16, result=f16, tiling=tiling)
    given = {"stages": tile.stages, "blocks": 132, "cluster": 2, "lockstep": tile.lockstep}
    found = timed_product(kernel.transformed("matmul_sm90.mlir", **given), 0)
    assert replace(found.tile, group=tile.group) == tile


def test_a_transposed_product():
    tile = warpgroup_tile(32, 64, 6, cluster=(2, 1), transposed=True, resident=2)
    tiling = matmul.ProductTile(32, 64, 64, (1, 4))
    kernel = matmul.build(64, 4096, 4096, f16, result=f16, b=Col(4096, 4096), tiling=tiling)
    given = {"stages": 6, "cluster": 2, "transposed": True, "resident": 2}
    found = timed_product(kernel.transformed("matmul_sm90.mlir", **given), 0)
    assert found.size.turned() == ProductSize(4096, 64, 4096, "NT")
    assert replace(found.tile, group=tile.group) == tile


def test_other_kernels_and_scripts_have_no_product():
    kernel = matmul.build(512, 512, 512, f16)
    assert timed_product(kernel.transformed("ldmatrix_mma.mlir"), 0) is None
    sizes = [lego.size(name, multiple_of=8) for name in "MNK"]
    assert timed_product(matmul.build(*sizes, f16).transformed("matmul_sm80.mlir", stages=3), 0) is None


def test_the_prediction_is_that_of_the_product_for_each_launch():
    choice = CANDIDATES[4]
    calls = matmul.build(1000, 1000, 1000, f16, result=f16, tiling=choice).transformed(
        "matmul_sm80.mlir", stages=choice.stages
    )
    product = timed_product(calls, choice.shared_bytes(2))
    counts = lego.LaunchCounts(blocks=64, threads=128, product=product, launches=3)
    time, one = predict(counts, H200_DEVICE), product_time(product.size, product.tile, shared=product.shared)
    assert time.microseconds == pytest.approx(3 * one.microseconds)
    assert 0 < time.tail < time.microseconds
    assert time.waves == one.waves
