"""Tiles that tile copies add to global memory: by threads on sm_80, by the copy unit on sm_90a."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f32, gallery
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel

ROWS = 70
M = lego.size("M", min=1, max=1000)
MATRIX = lego.Tensor(f32, Row(M, 32))


@lego.kernel(grid=3, block=128)
def overlapping(x: MATRIX, y: MATRIX):
    """Adds rows 32 b .. of x to rows 16 b .. of y, for each block b."""
    tile = lego.shared(f32, gallery.xor_swizzle(32, 32, 4))
    full = lego.barriers(1, arrivals=4)
    with lego.warps(0, 4):
        lego.copy_async(x, tile, at=(lego.block_id[0] * 32, 0), barrier=full[0])
        full[0].arrive()
        full[0].wait()
        lego.copy_async(tile, y, at=(lego.block_id[0] * 16, 0), add=True)
        lego.commit_copies()
        lego.wait_copies()


@pytest.mark.parametrize("on", ["interp", "sm_80", "sm_90a"])
def test_tiles_are_added_where_they_overlap(on):
    x = np.random.default_rng(0).integers(-4, 5, (ROWS, 32)).astype(np.float32)
    found, wanted = np.ones_like(x), np.ones_like(x)
    for block in range(3):
        tile = x[32 * block : 32 * block + 32]
        wanted[16 * block : 16 * block + len(tile)] += tile
    given = {"x": x.reshape(-1), "y": found.reshape(-1)}
    report = (run_kernel if on == "interp" else PtxRun(target=on))(overlapping, given, {"M": ROWS})
    assert report.clean
    assert np.array_equal(found, wanted)


def test_the_copy_unit_adds():
    text = overlapping.compile(target="sm_90a", emit="ptx").text
    assert "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group" in text
    assert "red.global" in overlapping.compile(target="sm_80", emit="ptx").text
