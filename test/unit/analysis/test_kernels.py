"""From a kernel's trace to its tiles' uses: every warp, loop variables, masks; and repairs that the run confirms."""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery, interp
from lego_mlir.analysis.kernels import tile_repairs, use_of
from lego_mlir.runtime.data import concrete


def stencil(tile):
    """A block of 16 x 8 threads fills a tile row by row and reads it column by column, in a loop."""

    @lego.kernel(grid=2, block=(16, 8))
    def kernel(src: lego.Tensor(f32, Row(2, 32, 32)), dst: lego.Tensor(f32, Row(2, 32, 32))):
        block, tx, ty = lego.block_id[0], *lego.thread_id[:2]
        cells = lego.shared(f32, tile)
        for r in lego.range(0, 32, 8):
            for half in lego.unroll(0, 32, 16):
                cells[ty + r, tx + half] = src[block, ty + r, tx + half]
        lego.barrier()
        for r in lego.range(0, 32, 8):
            for half in lego.unroll(0, 32, 16):
                dst[block, ty + r, tx + half] = cells[tx + half, ty + r]

    return kernel


def measured(kernel, sizes=None):
    sizes = sizes or {}
    memories = {p.name: np.zeros(concrete(p.size, sizes), p.dtype.numpy) for p in kernel.params}
    return interp.run_kernel(kernel, memories, sizes)


def test_the_uses_count_what_the_run_counts():
    kernel = stencil(Row(32, 32))
    report = measured(kernel)
    reads = [s for s in report.by_line() if s.space == "shared" and s.kind == "read"]
    (found,) = tile_repairs(kernel, {}).values()
    plain_uses = [use_of(kernel, a, {}) for _, a in kernel.trace().accesses() if a.buffer.name == "shared0"]
    assert sum(use.warps for use in plain_uses) * 2 == sum(s.requests for s in report.sites if s.space == "shared")
    assert reads[0].ways == 16
    for repair in found:
        again = measured(stencil(repair.layout))
        assert again.clean
        assert again.totals.wavefronts == 2 * repair.wavefronts
        assert (again.totals.conflicts == 0) == repair.is_free_of_conflicts
    assert found[0].wavefronts < report.totals.wavefronts // 2


def test_a_tile_without_conflicts_needs_no_repair():
    assert (
        tile_repairs(stencil(gallery.padded(32, 32, 2)), {}) == {}
        or measured(stencil(gallery.padded(32, 32, 2))).totals.conflicts
    )


def test_lanes_that_are_masked_off_do_not_conflict():
    @lego.kernel(grid=1, block=32)
    def kernel(dst: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        cells = lego.shared(f32, Row(33, 8))
        rows = cells.tile_by([3, 1], [16, 8])  # the last tile has one row that exists
        rows[2, 0, t // 2, t % 2 * 4] = 1.0
        lego.barrier()
        dst[t] = rows[2, 0, 0, 0]

    (_, access), _ = [x for x in kernel.trace().accesses() if x[1].buffer.name == "shared0"]
    assert access.is_masked
    use = use_of(kernel, access, {})
    assert use.active is not None
    assert use.active.sum() == 2
    assert tile_repairs(kernel, {}) == {}
    assert measured(kernel).clean


def test_symbolic_sizes_and_half_precision_vectors():
    M = lego.size("M", multiple_of=64)

    @lego.kernel(grid=M // 64, block=64)
    def kernel(src: lego.Tensor(f16, Row(M, 64)), dst: lego.Tensor(f16, Row(M, 64))):
        t, block = lego.thread_id[0], lego.block_id[0]
        cells = lego.shared(f16, Row(64, 64))
        for i in lego.unroll(8):
            cells.store(src.load(block * 64 + t // 8 + 8 * i, t % 8 * 8, width=8), t // 8 + 8 * i, t % 8 * 8)
        lego.barrier()
        for i in lego.unroll(8):
            dst.store(cells.load(t, i * 8, width=8), block * 64 + t, i * 8)

    sizes = {"M": 128}
    report = measured(kernel, sizes)
    assert report.clean
    assert max(s.ways for s in report.sites) == 8
    best = tile_repairs(kernel, sizes)["shared0"][0]
    assert best.layout == gallery.xor_swizzle(64, 64, vec=8)
    assert best.is_free_of_conflicts
