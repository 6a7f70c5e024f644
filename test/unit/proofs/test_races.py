"""Races and barriers are proved absent for all sizes, or refuted by a run: kernels with famous faults, and repaired."""

from pathlib import Path

import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery, i32, spec
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.proofs.claims import kernel_claims

EXAMPLES = Path(__file__).parents[3] / "examples"
T = 32
M, N = lego.size("M"), lego.size("N")
ROWS, COLUMNS = lego.cdiv(M, T), lego.cdiv(N, T)


def verdicts(kernel):
    return dict(kernel_claims(kernel))


def race(kernel, buffer, across=False):
    who = "two blocks" if across else "two threads of a block"
    return verdicts(kernel)[f"no race for {buffer} between {who}"]


def transpose(rows_of_threads, barrier=True, tile_layout=None):
    @lego.kernel(grid=(COLUMNS, ROWS), block=(T, rows_of_threads))
    def kernel(src: lego.Tensor(f32, Row(M, N)), dst: lego.Tensor(f32, Row(N, M))):
        (bx, by), (tx, ty) = lego.block_id, lego.thread_id
        tile = lego.shared(f32, tile_layout or gallery.xor_swizzle(T, T), name="tile")
        a, b = src.tile_by([ROWS, COLUMNS], [T, T]), dst.tile_by([COLUMNS, ROWS], [T, T])
        for r in lego.unroll(0, T, rows_of_threads):
            tile[ty + r, tx] = a[by, bx, ty + r, tx]
        if barrier:
            lego.barrier()
        for r in lego.unroll(0, T, rows_of_threads):
            b[bx, by, ty + r, tx] = tile[tx, ty + r]

    return kernel


def test_a_transpose_of_ragged_matrices_has_no_race():
    found = verdicts(transpose(8))
    assert all(isinstance(verdict, Proved) for verdict in found.values()), found
    assert len(found) == 7


@pytest.mark.parametrize("rows", [1, 8])
def test_a_transpose_without_its_barrier_races_within_one_warp_too(rows):
    verdict = race(transpose(rows, barrier=False), "tile")
    assert isinstance(verdict, Refuted)
    assert verdict.counter_example["M"] == 200
    assert "written by thread" in verdict.explanation


def reduction(last_barrier):
    @lego.kernel(grid=lego.cdiv(N, 64), block=64)
    def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(lego.cdiv(N, 64)))):
        b, t = lego.block_id[0], lego.thread_id[0]
        part = lego.shared(f32, Row(64), name="part")
        part[t] = x.tile_by([lego.cdiv(N, 64)], [64])[b, t]
        for distance in (32, 16, 8, 4, 2, 1):
            if distance > 1 or last_barrier:
                lego.barrier()
            with lego.when(t < distance):
                part[t] = part[t] + part[t + distance]
        with lego.when(t == 0):
            y[b] = part[0]

    return kernel


def test_a_reduction_needs_its_last_barrier():
    assert isinstance(race(reduction(True), "part"), Proved)
    assert isinstance(race(reduction(False), "part"), Refuted)


def pipeline(buffers):
    """Each round copies a tile ahead into the next buffer while the block reads the present one."""

    @lego.kernel(grid=COLUMNS, block=T)
    def kernel(x: lego.Tensor(f32, Row(M, COLUMNS * T)), y: lego.Tensor(f32, Row(COLUMNS * T))):
        b, t = lego.block_id[0], lego.thread_id[0]
        stages, total = lego.shared(f32, Row(buffers, T), name="stages"), lego.register(f32, 0.0)
        stages[0, t] = x[0, b * T + t]
        for k in lego.range(M - 1):
            lego.barrier()
            stages[(k + 1) % buffers, t] = x[k + 1, b * T + t]
            total += stages[k % buffers, T - 1 - t]
        lego.barrier()
        y[b * T + t] = total + stages[(M - 1) % buffers, t]

    return kernel


def test_a_double_buffer_one_stage_short_races():
    assert isinstance(race(pipeline(2), "stages"), Proved)
    assert isinstance(race(pipeline(3), "stages"), Proved)
    assert isinstance(race(pipeline(1), "stages"), Refuted)


def warp_scan(threads, sync):
    """Kogge and Stone's scan, whose steps are ordered within a warp only."""

    @lego.kernel(grid=1, block=threads)
    def kernel(x: lego.Tensor(i32, Row(threads)), y: lego.Tensor(i32, Row(threads))):
        t = lego.thread_id[0]
        tile = lego.shared(i32, Row(threads), name="tile")
        tile[t] = x[t]
        for distance in (1, 2, 4):
            sync()
            value = lego.register(i32, tile[t])
            with lego.when(t >= distance):
                value += tile[t - distance]
            sync()
            tile[t] = value
        y[t] = tile[t]

    return kernel


def test_a_scan_ordered_by_warps_is_right_for_one_warp_only():
    assert isinstance(race(warp_scan(32, lego.warp_sync), "tile"), Proved)
    assert isinstance(race(warp_scan(32, lambda: None), "tile"), Refuted)
    assert isinstance(race(warp_scan(64, lego.warp_sync), "tile"), Refuted)
    assert isinstance(race(warp_scan(64, lego.barrier), "tile"), Proved)


def overlapping(halo):
    @lego.kernel(grid=COLUMNS, block=T + halo)
    def kernel(y: lego.Tensor(f32, Row(N))):
        i = lego.block_id[0] * T + lego.thread_id[0]
        with lego.when(i < N):
            y[i] = 1.0

    return kernel


def test_blocks_that_write_their_halo_race_across_blocks_alone():
    assert isinstance(race(overlapping(0), "y", across=True), Proved)
    assert isinstance(race(overlapping(2), "y"), Proved)
    verdict = race(overlapping(2), "y", across=True)
    assert isinstance(verdict, Refuted)
    assert "of block" in verdict.explanation


@lego.kernel(grid=COLUMNS, block=T)
def divergent(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    i, tile = lego.block_id[0] * T + lego.thread_id[0], lego.shared(f32, Row(T), name="tile")
    with lego.when(i < N):
        tile[lego.thread_id[0]] = x[i]
        lego.barrier()
        y[i] = tile[lego.thread_id[0]]


def test_a_barrier_that_some_threads_skip_is_refuted_and_proves_nothing():
    found = verdicts(divergent)
    barrier = next(verdict for text, verdict in found.items() if "reaches the barrier" in text)
    assert isinstance(barrier, Refuted)
    assert "reach this barrier" in barrier.explanation
    assert isinstance(found["no race for tile between two threads of a block"], Unknown)


def looped(first):
    @lego.kernel(grid=1, block=64)
    def kernel(y: lego.Tensor(f32, Row(64))):
        t = lego.thread_id[0]
        for _ in lego.range(first(t), 256, 64):
            lego.barrier()
        y[t] = 1.0

    return kernel


def test_a_loop_whose_bounds_depend_on_the_thread_may_have_as_many_rounds_for_all():
    def barrier(kernel):
        return next(verdict for text, verdict in kernel_claims(kernel) if "reaches the barrier" in text)

    assert isinstance(barrier(looped(lambda t: t)), Proved)
    assert isinstance(barrier(looped(lambda t: 2 * t)), Refuted)


def test_a_loop_by_a_stride_of_the_grid_touches_each_element_in_one_thread():
    @lego.kernel(grid=7, block=64)
    def kernel(y: lego.Tensor(f32, Row(N))):
        for i in lego.range(lego.block_id[0] * 64 + lego.thread_id[0], N, 7 * 64):
            y[i] = 1.0

    assert all(isinstance(verdict, Proved) for verdict in verdicts(kernel).values())


def test_an_index_from_memory_is_unknown_or_refuted_by_the_drawn_data():
    @lego.kernel(grid=1, block=64)
    def scatter(at: lego.Tensor(i32, Row(64), range=(0, 64)), y: lego.Tensor(f32, Row(64))):
        y[lego.index(at[lego.thread_id[0]])] = 1.0

    assert not isinstance(race(scatter, "y"), Proved)


def test_atomic_updates_of_one_element_are_no_race_but_a_read_beside_them_is():
    def kernel(read):
        @lego.kernel(grid=1, block=64)
        def counted(y: lego.Tensor(i32, Row(64))):
            t, count = lego.thread_id[0], lego.shared(i32, Row(1), name="count")
            with lego.when(t == 0):
                count[0] = 0
            lego.barrier()
            count.atomic_add(1, 0)
            if not read:
                lego.barrier()
            y[t] = count[0]

        return counted

    assert isinstance(race(kernel(False), "count"), Proved)
    assert isinstance(race(kernel(True), "count"), Refuted)


def matrices(barrier, copied=False):
    """A product whose operand b is stored to, or copied to, a shared tile that all warps load matrices from."""
    parent = f2.MmaSync((4, 1))

    @lego.kernel(grid=1, block=128)
    def k(a: lego.Tensor(f16, Row(64, 32)), b: lego.Tensor(f16, Row(32, 32)), c: lego.Tensor(f32, Row(64, 32))):
        tile = lego.shared(f16, gallery.xor_swizzle(32, 32, vec=8), name="tile")
        if copied:
            lego.copy_async(b, tile)
            lego.commit_copies()
            lego.wait_copies()
        else:
            lego.load(b, f2.Blocked((1, 8), (8, 4), (4, 1), order=(1, 0)).layout((32, 32))).store(tile)
        if barrier:
            lego.barrier()
        left = lego.load(a, f2.MmaOperand(0, parent).layout((64, 32)))
        lego.mma(left, tile, lego.zeros(f32, parent.layout((64, 32)))).store(c)

    return k


def test_loads_of_matrices_are_reads():
    assert isinstance(race(matrices(barrier=True), "tile"), Proved)
    assert isinstance(race(matrices(barrier=False), "tile"), Refuted)


def test_asynchronous_copies_are_writes_at_their_wait():
    assert isinstance(race(matrices(barrier=True, copied=True), "tile"), Proved)
    assert isinstance(race(matrices(barrier=False, copied=True), "tile"), Refuted)


def ring(slots, in_flight, ahead=1, barrier=True, late=0):
    """Copies run `ahead` rounds in front of the reads, around a ring of tiles; the first copies are `late`."""

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f32, Row(M, 32)), y: lego.Tensor(f32, Row(32))):
        t, total = lego.thread_id[0], lego.register(f32, 0.0)
        tile = lego.shared(f32, Row(4 * slots, 32), name="tile")

        def fetch(j):
            lego.copy_async(x, tile.part((j % slots * 4, 0), (4, 32)), at=(4 * j, 0))
            lego.commit_copies()

        for j in range(late, ahead):
            fetch(j)
        for j in lego.range(lego.cdiv(M, 4)):
            lego.wait_copies(in_flight)
            if barrier:
                lego.barrier()
            fetch(j + ahead)
            total += tile[j % slots * 4 + t % 4, t // 4]
        y[t] = total

    return kernel


@pytest.mark.parametrize(
    ("slots", "in_flight", "ahead", "verdict"),
    [
        (2, 0, 1, Proved),
        (3, 1, 2, Proved),
        (4, 2, 3, Proved),
        (1, 0, 1, Refuted),  # one stage too few
        (2, 1, 2, Refuted),
        (3, 2, 2, Refuted),  # one group too many in flight
    ],
)
def test_a_ring_of_copies_needs_its_stages_and_its_waits(slots, in_flight, ahead, verdict):
    assert isinstance(race(ring(slots, in_flight, ahead), "tile"), verdict)


@pytest.mark.parametrize(("slots", "ahead"), [(2, 1), (3, 2), (4, 3)])
@pytest.mark.parametrize("late", [0, 1])
def test_a_ring_of_copies_is_filled_before_it_is_read(slots, ahead, late):
    found = verdicts(ring(slots, ahead - 1, ahead, late=late))["every read of tile comes after a write of that element"]
    assert isinstance(found, Refuted if late else Proved)


def test_a_ring_is_filled_through_loops_that_may_have_no_round():
    """The second loop reads what the last round of the first one has copied, or the copy before both."""

    def kernel_of(guard):
        @lego.kernel(grid=lego.cdiv(N, T), block=32)
        def kernel(x: lego.Tensor(f32, Row(M, 32)), y: lego.Tensor(f32, Row(N))):
            b, t, total = lego.block_id[0], lego.thread_id[0], lego.register(f32, 0.0)
            tile, end = lego.shared(f32, Row(8, 32), name="tile"), lego.cdiv(M, 4)
            middle = end // 2
            lego.copy_async(x, tile.part((0, 0), (4, 32)), at=(0, 0))
            lego.commit_copies()
            for start, stop in ((0, middle), (middle, end)):
                for j in lego.range(start, stop):
                    lego.wait_copies()
                    lego.barrier()
                    with lego.when(guard(j, end)):
                        lego.copy_async(x, tile.part(((j + 1) % 2 * 4, 0), (4, 32)), at=(4 * (j + 1), 0))
                        lego.commit_copies()
                    total += tile[j % 2 * 4 + t % 4, t // 4]
            y.halo()[b * 32 + t] = total

        return verdicts(kernel)["every read of tile comes after a write of that element"]

    assert isinstance(kernel_of(lambda j, end: j + 1 < end), Proved)
    assert isinstance(kernel_of(lambda j, end: j + 2 < end), Refuted)


def test_what_only_some_threads_copy_is_not_all_written():
    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f32, Row(8, 32)), y: lego.Tensor(f32, Row(32))):
        t, tile = lego.thread_id[0], lego.shared(f32, Row(4, 32), name="tile")
        with lego.when(t < 16):
            lego.copy_async(x, tile, at=(0, 0))
            lego.commit_copies()
            lego.wait_copies()
            y[t] = tile[3, t]

    assert isinstance(verdicts(kernel)["every read of tile comes after a write of that element"], Refuted)


@pytest.mark.parametrize("name", ["attention_spread", "attention_pipelined"])
def test_attention_with_copies_in_flight_is_proved(name):
    (kernel,) = spec.load(EXAMPLES / f"{name}.py").kernels.values()
    found = dict(kernel_claims(kernel, tried=False))
    assert all(isinstance(verdict, Proved) for verdict in found.values()), found
    assert len(found) >= 12


def test_a_copy_is_in_flight_through_barriers():
    assert isinstance(race(ring(2, 0, barrier=False), "tile"), Refuted)
    found = race(ring(2, 1), "tile")
    assert isinstance(found, Refuted)
    assert "while an asynchronous copy to it is in flight" in found.explanation


def test_threads_that_take_different_branches_with_copies_race():
    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f32, Row(8, 32)), y: lego.Tensor(f32, Row(32))):
        t, tile = lego.thread_id[0], lego.shared(f32, Row(4, 32), name="tile")
        with lego.when(t < 16):
            lego.copy_async(x, tile, at=(0, 0))
            lego.commit_copies()
        with lego.otherwise():
            tile[0, t - 16] = 1.0
        lego.wait_copies()
        lego.barrier()
        y[t] = tile[0, t]

    assert isinstance(race(kernel, "tile"), Refuted)


def test_reads_at_an_edge_touch_the_element_that_the_boundary_names():
    """Unrolled reads whose indices leave the tile are clamped to an element that another thread writes."""

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(32))):
        t, tile, total = lego.thread_id[0], lego.shared(f32, Row(96), name="tile"), lego.register(f32, 0.0)
        tile[3 * t], tile[3 * t + 1], tile[3 * t + 2] = x[t], 0.0, 0.0
        lego.barrier()
        for k in range(3):
            total += tile.halo("clamp")[97 + 3 * t + k]
        tile[3 * t + 2] = 1.0
        y[t] = total

    assert isinstance(race(kernel, "tile"), Refuted)


PAIRS = f2.LinearLayout.of(
    (("register", 1), ("lane", 5), ("warp", 0)), (("dim0", 1), ("dim1", 5)), [1 << k for k in range(6)]
)


@pytest.mark.parametrize("column", [0, 1])
def test_a_vector_of_a_transposed_tile_reads_along_the_axis_that_is_contiguous(column):
    """Each lane reads both columns of its row, one after the other in memory: a store to either races."""

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(2, 32))):
        tile = lego.shared(f32, Row(64, 2), name="tile")
        t = lego.thread_id.x
        tile[t, 0] = tile[t, 1] = 0.0
        lego.barrier()
        tile[(t + 1) % 32, column] = x[t]
        lego.load(tile.T, PAIRS, at=(0, 0)).store(y)

    loads = [access for s, access in kernel.trace().accesses() if access.width == 2]
    assert [access.axis for access in loads] == [-2]
    assert isinstance(race(kernel, "tile"), Refuted)
