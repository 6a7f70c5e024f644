"""`lego.copy_async` against NumPy: shapes, widths, masks; the interpreter reports tiles that are read too early."""

import numpy as np
import pytest
from launching import launch

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, gallery, i8
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.trace import AsyncCopy


def copying(rows, columns, dtype=f16, tile=(32, 64), layout=None, waits=True, barrier=True, at=(0, 0)):
    @lego.kernel(grid=1, block=64)
    def k(a: lego.Tensor(dtype, Row(rows, columns)), b: lego.Tensor(dtype, Row(*tile))):
        shared = lego.shared(dtype, layout or Row(*tile), name="tile")
        lego.copy_async(a, shared, at=at)
        lego.commit_copies()
        if waits:
            lego.wait_copies()
        if barrier:
            lego.barrier()
        for row in lego.unroll(tile[0]):
            with lego.when(lego.thread_id.x < tile[1]):
                b[row, lego.thread_id.x] = shared[row, lego.thread_id.x]

    return k


@pytest.mark.parametrize(("dtype", "columns"), [(f16, 64), (f16, 72), (f32, 64), (i8, 64)], ids=str)
@pytest.mark.parametrize("rows", [32, 21])
def test_a_tile_arrives_with_zeros_past_the_end(dtype, columns, rows):
    kernel = copying(rows, columns, dtype)
    a = np.random.default_rng(0).integers(-100, 100, (rows, columns)).astype(dtype.numpy)
    _, b = launch(kernel, a, np.ones((32, 64), dtype.numpy))
    np.testing.assert_array_equal(b[:rows], a[:, :64])
    assert not b[rows:].any()
    assert {s.target.width * dtype.bytes for s in kernel.trace().body if isinstance(s, AsyncCopy)} == {16}


@pytest.mark.parametrize(("columns", "bytes_"), [(68, 8), (66, 4)])
def test_copies_are_as_wide_as_alignment_is_proved(columns, bytes_):
    kernel = copying(32, columns, layout=gallery.padded(32, 64, 4 if bytes_ == 8 else 2))
    assert {2 * s.origin.width for s in kernel.trace().body if isinstance(s, AsyncCopy)} == {bytes_}
    a = np.random.default_rng(0).normal(size=(32, columns)).astype("f2")
    np.testing.assert_array_equal(launch(kernel, a, np.zeros((32, 64), "f2"))[1], a[:, :64])


def test_a_swizzled_tile_has_no_bank_conflicts():
    kernel = copying(32, 64, layout=gallery.xor_swizzle(32, 64, vec=8))
    a = np.random.default_rng(0).normal(size=(32, 64)).astype("f2")
    np.testing.assert_array_equal(launch(kernel, a, np.zeros((32, 64), "f2"))[1], a)
    ptx = compile_kernel(kernel, target="sm_80").text
    assert "cp.async.cg.shared.global" in ptx
    assert "cp.async.wait_group" in ptx


@pytest.mark.parametrize(("missing", "fault"), [("waits", "async"), ("barrier", "no barrier between")])
def test_reading_too_early_is_reported(missing, fault):
    kernel = copying(32, 64, **{missing: False})
    with pytest.raises(AssertionError, match=fault):
        launch(kernel, np.ones((32, 64), "f2"), np.zeros((32, 64), "f2"))


def test_messages():
    for rows, columns, options, said in (
        (32, 65, {}, "no copies of 4, 8 or 16 bytes are proved"),
        (32, 64, {"at": (0,)}, "with an index for each"),
        (32, 64, {"layout": Col(32, 64)}, "let both be contiguous along rows"),
    ):
        with pytest.raises(LayoutError, match=said):
            copying(rows, columns, **options).trace()
    with pytest.raises(TraceError, match="the number of groups that may be in flight, got -1"):

        @lego.kernel(grid=1, block=32)
        def waiting(a: lego.Tensor(f32, Row(32))):
            lego.wait_copies(-1)

        waiting.trace()
