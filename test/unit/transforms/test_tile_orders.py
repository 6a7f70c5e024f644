"""Shared tiles whose layouts are not of straight lines: where the runs of 16 bytes lie, through the scripts."""

import re

import pytest
from gemm import LAYOUTS, build, check, composed, transformed

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, f16, gallery
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.layout.transposed import Transposed
from lego_mlir.toolchain import target_named
from lego_mlir.tracing.emit.emit_tiles import order_of
from lego_mlir.tracing.trace.shared_lines import lines_of
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import Buffer
from lego_mlir.transforms import apply as transforms
from lego_mlir.transforms import scripts
from lego_mlir.transforms.modules import ModuleError

SIZES, TILING = (64, 128, 192), ProductTile(64, 64, 64, (1, 2))
SWIZZLE = lego.as_layout(gallery.xor_swizzle(64, 64, vec=8))
BLOCKS = lego.as_layout(OrderBy(RegP([8, 8, 8, 8], [1, 3, 2, 4])).GroupBy([64, 64]))  # 8 x 8 of 128 bytes
TURNED = lego.as_layout(gallery.xor_swizzle(64, 64, vec=8, per_phase=2))  # two lines keep their runs in one place


def multiplied(a=Row, b=Row, **given):
    kernel = build(SIZES, a=a, b=b, tiling=TILING, result=f16, **given)
    return check(kernel, "matmul_sm80.mlir", *SIZES, stages=3).totals


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_swizzled_layout_is_as_good_as_the_script(kind):
    a, b = LAYOUTS[kind]
    tiles = tuple(SWIZZLE if matrix is Row else Transposed(SWIZZLE) for matrix in (a, b))
    assert multiplied(a, b, tiles=tiles) == multiplied(a, b)
    assert multiplied(a, b, tiles=tiles).conflicts == 0


def test_tiles_of_blocks_are_read_without_conflicts_and_written_with_many():
    """Eight lines of a block are 128 bytes, so ldmatrix meets all banks; copies along a row meet the same four."""
    kernel = build(SIZES, tiling=TILING, result=f16, tiles=(BLOCKS, BLOCKS))
    report = check(kernel, "matmul_sm80.mlir", *SIZES, stages=3)
    loads = [site for site in report.sites if site.operation == "nvgpu.ldmatrix"]
    copies = [site for site in report.sites if site.operation == "nvgpu.device_async_copy"]
    assert loads
    assert sum(site.conflicts for site in loads) == 0
    assert sum(site.conflicts for site in copies) == report.totals.conflicts > 0


def test_half_a_swizzle_halves_the_conflicts():
    assert 0 < multiplied(tiles=(TURNED, TURNED)).conflicts < multiplied(tiles=(BLOCKS, BLOCKS)).conflicts


def test_the_order_goes_along_as_an_attribute():
    kernel = build(SIZES, tiling=TILING, tiles=(SWIZZLE, Transposed(BLOCKS)))
    orders = re.findall(r'lego.order = "(.*?)"', kernel.mlir())
    assert orders[0] == "line, place ^ ((line & 7) * 8)"
    assert len(orders) == 2
    assert lines_of(Transposed(BLOCKS)).transposed
    kernel = build(SIZES, tiling=TILING, tiles=(SWIZZLE, BLOCKS))
    assert "lego.order" not in transformed(kernel, "matmul_sm80.mlir", stages=3)


def test_without_the_swizzle_script_a_tile_lies_in_straight_lines(tmp_path):
    """Nobody sees where the cells of a tile are, so the values are right; the conflicts tell."""
    script = composed(tmp_path, "async_copies.mlir", "ldmatrix_mma.mlir", "pipeline.mlir")
    kernel = build(SIZES, tiling=TILING, tiles=(SWIZZLE, SWIZZLE))
    assert check(kernel, script, *SIZES).totals.conflicts > 500


MESSAGES = {
    "line, place ^": "is not an expression",
    "line": r"names line and place, as in 'line, place \^ line % 8 \* 8', got 'line'",
    "line, place / 2": r"'place / 2' is not integer arithmetic; use names, integers and \+ - \* // % \^ & \| << >>$",
    "line, row": "uses the unknown name row; known: line, place",
    "line, minimum(place, 8)": r"'minimum\(place, 8\)' is not integer arithmetic",
}


@pytest.mark.parametrize("order", MESSAGES)
def test_an_order_that_is_none(order):
    kernel = build(SIZES, tiling=TILING, tiles=(SWIZZLE, SWIZZLE))
    text = re.sub(r'lego.order = ".*?"', f'lego.order = "{order}"', kernel.mlir())
    with pytest.raises(ModuleError, match=MESSAGES[order]):
        transforms.apply(text, scripts.read("matmul_sm80.mlir", {"stages": 3}), target_named("sm_80"))


def test_an_order_with_a_call_in_it_is_left_out():
    """The attribute has operators only; the script then chooses the tile's order."""
    halves = lego.GenP(
        [32, 64],
        lambda i, j: i * 64 + lego.where(i < 16, j, j ^ 8),
        lambda p: (p // 64, lego.where(p < 1024, p % 64, p % 64 ^ 8)),
    )
    layout = lego.as_layout(halves)
    assert "where(" in str(lines_of(layout).order)
    assert order_of(Buffer("tile", f16, layout, "shared", 2048, Source("", 0))) is None
