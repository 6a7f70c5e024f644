"""Laws of warp roles: a ring of any depth between one producer and any consumers passes every tile on, once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, f16, gallery
from lego_mlir.interp.report import Kind
from lego_mlir.interp.traced_kernels import run_kernel


def pipeline(stages, producers, consumers, tiles, lag=0):
    """Producers copy tiles into a ring; consumers add 1. With a `lag` the wait is for an earlier use."""

    @lego.kernel(grid=(2,), block=32 * (producers + consumers))
    def passed(x: lego.Tensor(f16, Row(2, tiles * 16, 64)), y: lego.Tensor(f16, Row(2, tiles * 16, 64))):
        ring = lego.shared(f16, gallery.xor_swizzle(stages * 16, 64, 8))
        full = lego.barriers(stages, arrivals=producers)
        empty = lego.barriers(stages, arrivals=consumers)
        b = lego.block_id[0]
        with lego.warps(0, producers):
            for k in lego.range(tiles):
                empty[k - stages].wait()
                tile = ring.part((k % stages * 16, 0), (16, 64))
                lego.copy_async(x, tile, at=(b, k * 16, 0), barrier=full[k])
                full[k].arrive()
        with lego.warps(producers, producers + consumers):
            for k in lego.range(tiles):
                full[k - lag].wait()
                for row in lego.range(lego.warp_id, 16, consumers):
                    for half in lego.unroll(0, 64, 32):
                        column = half + lego.lane_id
                        y[b, k * 16 + row, column] = ring[k % stages * 16 + row, column] + 1
                empty[k].arrive()

    x = np.random.default_rng(stages).integers(-50, 50, (2, tiles * 16, 64)).astype(np.float16)
    y = np.zeros_like(x)
    report = run_kernel(passed, {"x": x.reshape(-1), "y": y.reshape(-1)}, counts=False)
    return report, np.array_equal(y, x + 1)


shapes = st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 4]), st.integers(1, 3), st.integers(1, 6))


@settings(max_examples=8, deadline=None)
@given(shapes)
def test_every_tile_is_passed_on(shape):
    report, right = pipeline(*shape)
    assert right and report.faults == [], shape


@settings(max_examples=4, deadline=None)
@given(shapes, st.integers(1, 4))
def test_a_wait_for_an_earlier_use_is_a_fault(shape, lag):
    stages, producers, consumers, tiles = shape
    report, _ = pipeline(stages, producers, consumers, tiles, lag=min(lag, stages))
    kinds = {fault.kind for fault in report.faults}
    assert kinds & {Kind.RACE, Kind.PENDING, Kind.UNINITIALISED}, (shape, lag)
