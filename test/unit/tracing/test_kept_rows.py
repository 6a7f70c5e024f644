"""Which copies fill a ring with the same rows step after step, and that rows outside stay zeros then."""

import numpy as np
import pytest
from role_kernels import COLUMNS, ROWS, STAGES, TILE, staged

import lego_mlir as lego
from lego_mlir import Row, f16, gallery
from lego_mlir.interp.ptx.traced_ptx import PtxRun
from lego_mlir.tracing.emit.kept_rows import kept_steps


def copied(place, slot, again=False):
    """A kernel that copies tiles from `place(k)` on into the stages `slot(k)`."""

    @lego.kernel(grid=2, block=32)
    def copies(x: lego.Tensor(f16, Row(1000, 512)), y: lego.Tensor(f16, Row(64))):
        ring = lego.shared(f16, gallery.xor_swizzle(4 * TILE, TILE, 8), "ring")
        full = lego.barriers(4)
        for k in lego.range(8):
            for _ in lego.unroll(1 + again):
                tile = ring.part((slot(k) * TILE, 0), (TILE, TILE))
                lego.copy_async(x, tile, at=place(k), barrier=full[k])
            full[k].arrive()
        y[lego.thread_id.x + 32 * lego.block_id.x] = 0

    return copies


def fixed(k):
    return lego.block_id.x * TILE, k * TILE


@pytest.mark.parametrize(("place", "slot", "again"), [
    (lambda k: (k * TILE, 0), lambda k: k % 4, False),  # other rows in each step
    (fixed, lambda k: k // 2 % 4, False),  # a stage twice in turn
    (fixed, lambda k: 3 * k % 4, False),
    (fixed, lambda k: 0, False),
    (fixed, lambda k: k % 4, True),  # two copies
])  # fmt: skip
def test_other_copies_keep_no_rows(place, slot, again):
    assert not kept_steps(copied(place, slot, again).trace())


@pytest.mark.parametrize("before", [0, 3])
def test_a_ring_is_full_after_its_stages(before):
    (since,) = kept_steps(copied(fixed, lambda k: (k + before) % 4).trace()).values()
    (k,) = since.free_symbols
    assert since == k - 4


@pytest.mark.parametrize("rows", [1, 63, 64, 100, ROWS])
def test_rows_outside_are_zeros_in_every_step(rows):
    assert COLUMNS // TILE > STAGES
    x = (np.arange(rows * COLUMNS) % 1000).reshape(rows, COLUMNS).astype(np.float16)
    arrays = {"x": x, "y": np.full((ROWS, COLUMNS), np.nan, np.float16)}
    report = PtxRun("sm_90")(staged(rows=rows), arrays, {})
    assert report.clean, str(report.faults[0])
    np.testing.assert_array_equal(arrays["y"][:rows], x * np.float16(2))
    assert not arrays["y"][rows:].any()
