"""Blocks that take one tile of C after another, and send for the next one's first copies before they store."""

import re

import numpy as np
import pytest
from gemm import LAYOUTS, SMALL, build, check, composed, launch, operands, transformed

from lego_mlir import f16, f32
from lego_mlir.interp import Kind
from lego_mlir.kernels.matmul import ProductTile

SIZES, SCRIPT = (64, 320, 128), "matmul_sm80.mlir"


def shared(blocks=3, **given):
    return build(SIZES, result=f16, blocks=blocks, **given)


def faults(text):
    m, n, k = SIZES
    a, b = operands(m, n, k)
    report, _ = launch(shared(), text, a, b, np.zeros((m, n)))
    return report.kinds()


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize(("sizes", "blocks", "stages"), [(SIZES, 3, 3), ((64, 256, 96), 2, 2), ((100, 200, 72), 3, 3)])
def test_every_layout_without_a_race_or_a_conflict(kind, sizes, blocks, stages):
    """Ten tiles for three blocks, one has more than the others; and sizes that no tile divides."""
    a, b = LAYOUTS[kind]
    kernel = build(sizes, a=a, b=b, result=f16, blocks=blocks)
    report = check(kernel, SCRIPT, *sizes, stages=stages)
    assert report.totals.conflicts == 0
    assert report.blocks_run == blocks


def test_a_depth_of_four_steps_and_a_result_of_f32():
    sizes = (64, 192, 256)
    kernel = build(sizes, tiling=ProductTile(64, 64, 64, (2, 2)), blocks=2, result=f32)
    check(kernel, SCRIPT, *sizes, stages=3)


def test_a_padded_order_has_places_without_a_tile():
    check(shared(order="morton"), SCRIPT, *SIZES, stages=2)


@pytest.mark.parametrize("steps", [["pipeline.mlir"], ["pipeline.mlir", "lego-rotate-fragments"], []])
def test_every_step_of_the_script(tmp_path, steps):
    script = composed(tmp_path, "async_copies.mlir", "ldmatrix_mma.mlir", *steps)
    check(shared(), script, *SIZES)


def test_only_the_staged_tiles_become_rings():
    text = transformed(shared(), SCRIPT, stages=3)
    assert set(re.findall(r"memref<3x\w+", text)) == {"memref<3x32x32xf16", "memref<3x32x64xf16"}
    assert "memref<32x72xf16" in text


def test_the_next_tiles_copies_are_ahead_of_the_store():
    text = transformed(shared(), SCRIPT, stages=3)
    outer = text.index("scf.for %")
    inner = text.index("scf.for %", outer + 1)
    assert "nvgpu.device_async_copy" not in text[outer:inner]
    after = text[text.index("scf.yield", inner) :]
    assert after.index("gpu.barrier") < after.index("scf.if") < after.index("device_async_copy") < after.index("truncf")


def test_a_block_for_each_tile_has_nothing_ahead(tmp_path):
    script = composed(tmp_path, "async_copies.mlir", "ldmatrix_mma.mlir", "pipeline.mlir", "lego-next-tile-ahead")
    assert "scf.if" not in transformed(build(SIZES, tiling=SMALL), script)


# -- planted faults


def after_the_loop(text):
    """Where the inner loop ends."""
    return text.index("scf.yield", text.index("scf.for %", text.index("scf.for %") + 1))


def test_copies_of_the_next_tile_over_one_that_is_read_race():
    text = transformed(shared(), SCRIPT, stages=3)
    at = after_the_loop(text)
    assert Kind.RACE in faults(text[:at] + text[at:].replace("gpu.barrier", "", 1))


def test_copies_that_nobody_waits_for_are_found():
    text = transformed(shared(), SCRIPT, stages=3)
    at = text.index("nvgpu.device_async_wait", text.index("scf.for %"))
    waits = text[at:].replace("numGroups = 1", "numGroups = 2", 1)
    assert Kind.PENDING in faults(text[:at] + waits)


def test_a_loop_that_is_run_again_ends_with_nothing_on_its_way(tmp_path):
    script = composed(tmp_path, "async_copies.mlir", "ldmatrix_mma.mlir", "pipeline.mlir")
    text = transformed(shared(), script)
    at = after_the_loop(text)
    assert text.index("numGroups = 0", at) < text.index("gpu.barrier", at) < text.index("truncf", at)
    found = faults(text[:at] + re.sub(r"nvgpu.device_async_wait .*", "", text[at:], count=1))
    assert Kind.PENDING in found
