"""Accesses of tiles derived from a kernel's trace: warps, loop variables, masks; and repairs confirmed by a run."""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery, i32, interp
from lego_mlir.analysis.kernel_repairs import guarded_accesses, tile_access, tile_repairs
from lego_mlir.analysis.recorded_requests import RecordedRequests
from lego_mlir.analysis.repair import wavefronts_of
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
    (tile,) = tile_repairs(kernel, {}).values()
    found = tile.repairs
    plain_uses = [tile_access(kernel, a, {}) for _, a in kernel.trace().accesses() if a.buffer.name == "shared0"]
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
    use = tile_access(kernel, access, {})
    assert use.active is not None
    assert use.active.sum() == 2
    assert tile_repairs(kernel, {}) == {}
    assert measured(kernel).clean


def uses_of(kernel):
    return [
        tile_access(kernel, access, {}, guards)
        for access, guards in guarded_accesses(kernel.trace().body)
        if access.buffer.name == "shared0"
    ]


def test_branches_and_loops_say_which_lanes_take_part():
    @lego.kernel(grid=1, block=64)
    def kernel(dst: lego.Tensor(f32, Row(2))):
        t = lego.thread_id[0]
        cells = lego.shared(f32, Row(8, 33))
        for k in lego.range(t, 100, 64):
            cells[k % 8, k // 8] = 1.0
        lego.barrier()
        with lego.when(t < 2):
            dst[t] = cells[t, 12 - t]

    store, load = uses_of(kernel)
    assert store.warps == 4
    assert store.active.sum() == 100
    assert store.index[0][0].tolist() == [lane % 8 for lane in range(32)]  # the first round differs from lane to lane
    assert load.active.sum() == 2
    report = measured(kernel)
    shared = [site for site in report.sites if site.space == "shared"]
    total, _ = wavefronts_of(Row(8, 33), uses_of(kernel), 4)
    assert total == sum(site.wavefronts for site in shared)


def test_a_position_from_data_has_no_repair_by_the_trace_alone():
    @lego.kernel(grid=1, block=32)
    def kernel(src: lego.Tensor(i32, Row(32)), dst: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        cells = lego.shared(f32, Row(32, 32))
        for k in lego.range(32):
            cells[t, k] = 1.0
        lego.barrier()
        with lego.when(src[t] > 0):
            dst[t] = cells[lego.index(src[t]) % 32, t]

    (tile,) = tile_repairs(kernel, {}).values()
    assert tile.repairs == ()
    line = kernel.source.line + 8
    assert tile.note == f"no remedy tried: the position at line {line} depends on data, read at line {line}"


def observed(kernel, **arrays):
    memories = {p.name: np.zeros(p.size, p.dtype.numpy) for p in kernel.params} | arrays
    seen = RecordedRequests()
    return seen, interp.run_kernel(kernel, memories, {}, observe=seen)


def histogram(tile):
    """Each thread counts in a separate row; the bins are data."""

    @lego.kernel(grid=1, block=32)
    def kernel(src: lego.Tensor(i32, Row(32, 8)), dst: lego.Tensor(i32, Row(32))):
        t = lego.thread_id[0]
        counts = lego.shared(i32, tile)
        for b in lego.range(32):
            counts[b, t] = 0
        lego.barrier()
        for k in lego.range(8):
            counts[t, lego.index(src[t, k]) % 32] += 1
        lego.barrier()
        dst[t] = counts[t, 0]

    return kernel


def test_a_place_that_comes_from_data_is_repaired_on_the_run_s_data():
    kernel = histogram(Row(32, 32))
    src = np.full(32 * 8, 5, np.int32)  # every thread the same bin: one bank, 32 words
    seen, report = observed(kernel, src=src)
    (tile,) = tile_repairs(kernel, {}, seen).values()
    assert tile.note.startswith("on this run's data, since the position at line ")
    assert tile.source.line == kernel.source.line + 3
    _, again = observed(histogram(tile.repairs[0].layout), src=src)
    assert again.clean
    assert report.totals.wavefronts > again.totals.wavefronts == tile.repairs[0].wavefronts
    assert again.totals.conflicts == 0


def test_a_loop_whose_bounds_are_data_is_repaired():
    @lego.kernel(grid=1, block=32)
    def kernel(src: lego.Tensor(i32, Row(1)), dst: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        cells = lego.shared(f32, Row(32, 32))
        for j in lego.range(lego.index(src[0]) % 32):
            with lego.when(t != j):
                cells[t, j] = 1.0
        dst[t] = 0.0

    (tile,) = tile_repairs(kernel, {}).values()
    line = kernel.source.line
    assert tile.note == f"no remedy tried: the position at line {line + 6} depends on data, read at line {line + 4}"
    seen, _ = observed(kernel, src=np.full(1, 7, np.int32))
    (tile,) = tile_repairs(kernel, {}, seen).values()
    assert tile.repairs[0].is_free_of_conflicts
    seen, _ = observed(kernel)  # no round at all: nothing is known, and nothing collides
    assert tile_repairs(kernel, {}, seen) == {}


def test_a_place_that_divides_by_zero_for_a_thread_that_is_kept_away_is_skipped():
    @lego.kernel(grid=1, block=32)
    def kernel(dst: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        cells = lego.shared(f32, Row(32, 32))
        with lego.when(t != 3):
            cells[t, (t // (t - 3)) % 32] = 1.0
        dst[t] = 0.0

    (tile,) = tile_repairs(kernel, {}).values()
    assert "no remedy tried: the position at line" in tile.note
    assert "is not defined for every thread" in tile.note
    seen, report = observed(kernel)
    (tile,) = tile_repairs(kernel, {}, seen).values()
    assert report.clean
    assert tile.repairs[0].wavefronts < report.totals.wavefronts


def test_a_tile_of_one_dimension_has_a_reason_for_no_remedy():
    @lego.kernel(grid=1, block=32)
    def kernel(dst: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        cells = lego.shared(f32, Row(1024))
        cells[t * 32] = 1.0
        dst[t] = 0.0

    (tile,) = tile_repairs(kernel, {}).values()
    assert tile.repairs == ()
    assert "a tile of one dimension has no rows to pad or swizzle; give it rows and columns" in tile.note


def test_a_tile_that_is_taken_whole_keeps_its_order():
    """Another layout of such a tile would have to keep the rows that a warp's tile loads take."""

    @lego.kernel(grid=1, block=32)
    def kernel(a: lego.Tensor(f16, Row(32, 64)), c: lego.Tensor(f32, Row(32, 32))):
        tile, out = lego.shared(f16, Row(32, 64)), lego.shared(f32, Row(32, 32))
        lego.stage(a, (0, 0), tile)
        lego.barrier()
        total = lego.accumulator(f32, 32, 32)
        lego.mma(tile.part((0, 0), (32, 64)), tile.T.part((0, 0), (64, 32)), total)
        total.store(out, (0, 0))
        lego.barrier()
        c[lego.thread_id.x, 0] = out[lego.thread_id.x, 0]

    for found, line in zip(tile_repairs(kernel, {}).values(), (6, 7), strict=True):
        assert found.repairs == ()
        assert found.note.startswith(f"no remedy tried: line {kernel.source.line + line} accesses whole tiles of it")


def test_a_condition_on_data_excludes_no_lane():
    @lego.kernel(grid=1, block=32)
    def kernel(src: lego.Tensor(f32, Row(32)), dst: lego.Tensor(f32, Row(32))):
        t = lego.thread_id[0]
        cells = lego.shared(f32, Row(32, 32))
        for k in lego.range(32):
            with lego.when(src[t] > 0):
                cells[t, k] = 1.0
        dst[t] = 0.0

    (use,) = uses_of(kernel)
    assert use.active is None
    assert list(tile_repairs(kernel, {})) == ["shared0"]


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
    best = tile_repairs(kernel, sizes)["shared0"].repairs[0]
    assert best.layout == gallery.xor_swizzle(64, 64, vec=8)
    assert best.is_free_of_conflicts
