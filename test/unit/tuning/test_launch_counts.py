"""Counts from a trace equal those of the interpreter, block for block."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, f32, interp
from lego_mlir.errors import UsageError
from lego_mlir.kernels import box_stencil, matmul, transpose
from lego_mlir.tracing.trace.trace import If
from lego_mlir.tuning.launch_counts import counts_of, with_interpreted

ALL = 10**6
KERNELS = {
    **{f"{v} 64x96": (lambda v=v: transpose.build(v, 64, 96, f32)) for v in transpose.VARIANTS},
    **{f"{v} 50x33, masked": (lambda v=v: transpose.build(v, 50, 33, f32)) for v in transpose.VARIANTS},
    "vectorised f16": lambda: transpose.build("vectorised", 64, 128, f16),
    "stencil": lambda: box_stencil.build(20, 64, f32, size=3),
    "stencil in shared memory, masked": lambda: box_stencil.build_shared(40, 64, f32, size=3),
}


@pytest.mark.parametrize("name", KERNELS)
def test_requests_sectors_and_wavefronts_are_those_of_the_interpreter(name):
    kernel = KERNELS[name]()
    counts = counts_of(kernel, {}, ALL)
    memories = {p.name: np.zeros(int(p.size), p.dtype.numpy) for p in kernel.params}
    report = interp.run_kernel(kernel, memories, {})
    sites = [site for site in report.sites if site.space == "global"]
    assert counts.blocks == report.blocks_run
    assert counts.requests * counts.blocks == pytest.approx(sum(site.requests for site in sites))
    assert counts.sectors * counts.blocks == pytest.approx(sum(site.sectors for site in sites))
    assert counts.stores * counts.blocks == pytest.approx(sum(s.sectors for s in sites if s.kind != "read"))
    wavefronts = counts.wavefronts * counts.blocks
    if "masked" in name or any(isinstance(s, If) for s in kernel.trace().statements()):
        # what feeds a masked store counts only for its lanes in the interpreter, as a compiler sinks it
        assert wavefronts >= report.totals.wavefronts
    else:
        assert wavefronts == pytest.approx(report.totals.wavefronts)


def test_loops_are_sampled_and_scaled():
    """The sum of a row by one warp: a loop of 100 iterations, of which 12 are evaluated."""

    @lego.kernel(grid=4, block=32)
    def row_sum(x: lego.Tensor(f32, Row(4, 3200)), y: lego.Tensor(f32, Row(4))):
        total = lego.register(f32, 0.0)
        for k in lego.range(100):
            total += x[lego.block_id.x, k * 32 + lego.thread_id.x]
        with lego.when(lego.thread_id.x == 0):
            y[lego.block_id.x] = total

    counts = counts_of(row_sum, {})
    assert (counts.requests, counts.sectors, counts.fills) == pytest.approx((101, 401, 400))
    assert counts.rounds == 100
    assert counts.held >= 1


def test_persistent_blocks_that_do_unequal_shares():
    """Six rows by four blocks: two of them do two rows, the average is one and a half."""

    @lego.kernel(grid=4, block=32)
    def rows(x: lego.Tensor(f32, Row(6, 32))):
        for i in lego.range(lego.block_id.x, 6, 4):
            x[i, lego.thread_id.x] = 1.0

    assert counts_of(rows, {}).imbalance == pytest.approx(2 / 1.5)
    assert counts_of(transpose.build("padded", 64, 64, f32), {}).imbalance == 1


def test_products_are_counted_by_matrix_instructions():
    kernel = matmul.build(256, 256, 128, f16, result=f16, tiling=matmul.ProductTile(64, 64, 32, (2, 2)))
    counts = counts_of(kernel, {})
    assert counts.blocks == 16
    assert counts.mma * counts.blocks == 256 * 256 * 128 / (16 * 8 * 16)
    assert counts.held >= 64 * 64 / 128
    assert counts.touched == 2 * (256 * 128 * 2 + 256 * 256)


def test_addresses_that_depend_on_data_are_counted_by_the_interpreter():
    @lego.kernel(grid=2, block=32)
    def gather(
        at: lego.Tensor(lego.i32, Row(64), range=(0, 64)), x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))
    ):
        i = lego.block_id.x * 32 + lego.thread_id.x
        y[i] = x[at[i]]

    counts = counts_of(gather, {})
    assert any("depends on data" in note for note in counts.notes)
    ran = with_interpreted(counts, gather, {})
    assert ran.sectors <= 4 + 4 + 8
    assert "2 blocks that the interpreter ran" in ran.notes[-1]


def test_a_size_without_a_value_is_refused():
    N = lego.size("N", min=1)

    @lego.kernel(grid=lego.cdiv(N, 32), block=32)
    def copy(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        i = lego.block_id.x * 32 + lego.thread_id.x
        with lego.when(i < N):
            y[i] = x[i]

    with pytest.raises(UsageError, match="kernel copy needs a value for N"):
        counts_of(copy, {})
    assert counts_of(copy, {"N": 100}).blocks == 4
