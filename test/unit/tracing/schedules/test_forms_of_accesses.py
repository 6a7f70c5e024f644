"""Accesses of other forms than an element inside a tile: boundaries, masks, views, updates, called functions."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, i32
from lego_mlir.errors import ScheduleError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel

THREADS = 128
PIPELINE = "warpgroups, pipeline(stages=2)"
SCHEDULES = [PIPELINE, "warpgroups, pipeline(stages=3), roles", "warps, pipeline(stages=2), ahead"]


def memories(kernel):
    draw = np.random.default_rng(0)
    made = {
        "a": draw.integers(-2, 3, 64 * 256).astype(np.float16),
        "b": draw.integers(-2, 3, 64 * 256).astype(np.float16),
        "x": draw.integers(0, 9, 16 * 128).astype(np.float32),
        "rows": draw.integers(-3, 20, THREADS).astype(np.int32),
        "c": np.zeros(64 * 64, np.float16),
        "y": np.zeros(THREADS, np.float32),
    }
    return {parameter.name: made[parameter.name] for parameter in kernel.params}


def results(kernel, machine=run_kernel):
    found = memories(kernel)
    assert machine(kernel, found).faults == []
    return found


def require_the_same(kernel, schedule):
    before, after = results(kernel), results(kernel.schedule(schedule))
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("boundary", ["zero", "clamp", "wrap", "mirror"])
@pytest.mark.parametrize("rest", ["", ", ahead", ", roles"])
@pytest.mark.parametrize("loaded", [False, True])
def test_boundaries_of_a_staged_tile(boundary, rest, loaded):
    @lego.kernel(grid=1, block=THREADS)
    def stencil(
        x: lego.Tensor(f32, Row(16, 128)), rows: lego.Tensor(i32, Row(THREADS)), y: lego.Tensor(f32, Row(THREADS))
    ):
        t, acc, tile = lego.thread_id.x, lego.register(f32, 0.0), lego.shared(f32, Row(16, 32), "tile")
        row = lego.index(rows[t]) if loaded else t % 18 - 1
        for k in lego.range(4):
            lego.copy_async(x, tile, at=(0, k * 32))
            lego.commit_copies()
            lego.wait_copies()
            lego.barrier()
            acc += tile.halo(boundary)[row, t % 32]
            lego.barrier()
        y[t] = acc

    require_the_same(stencil, f"pipeline(stages=2){rest}")


def product(fill, in_step=lambda ta, t: None):
    """A product whose left tile threads fill: `fill(a, ta, position, k)` stores one element."""

    @lego.kernel(grid=1, block=THREADS)
    def kernel(
        a: lego.Tensor(f16, Row(64, 256)), rows: lego.Tensor(i32, Row(THREADS)), b: lego.Tensor(f16, Col(256, 64)),
        c: lego.Tensor(f16, Row(64, 64)),
    ):  # fmt: skip
        t, column = lego.thread_id.x, lego.warp_id * 16
        ta, tb = lego.shared(f16, Row(64, 64), "ta"), lego.shared(f16, Col(64, 64), "tb")
        out, acc = lego.shared(f16, Row(64, 64), "out"), lego.accumulator(f32, 64, 16)
        for k in lego.range(4):
            lego.stage(b, (k, 0), tb)
            for chunk in lego.unroll(34):
                if isinstance(fill, str) and chunk == 32:
                    lego.barrier()
                fill_one(a, rows, ta, chunk * THREADS + t, k)
            lego.barrier()
            in_step(ta, t)
            lego.mma(ta.part((0, 0), (64, 64)), tb.part((0, column), (64, 16)), acc)
            lego.barrier()
        acc.store(out, at=(0, column))
        lego.barrier()
        lego.store_tile(out, c, (0, 0))

    def fill_one(a, rows, ta, position, k):
        i, j = position // 64 - 2, position % 64
        value = fill(a, rows, i, k * 64 + j) if callable(fill) else a.halo("zero")[i, k * 64 + j]
        ta.halo("zero")[i, j] = value

    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("boundary", ["zero", "clamp", "wrap"])
@pytest.mark.parametrize("loaded", [False, True])
def test_what_threads_load_and_store_through_boundaries(boundary, loaded, schedule):
    def fill(a, rows, i, j):
        return a.halo(boundary)[lego.index(rows[lego.maximum(i, 0)]) if loaded else i - 3, j] + 1.0

    require_the_same(product(fill), schedule)


def test_stores_that_a_barrier_orders_are_refused():
    with pytest.raises(ScheduleError, match=r"py:\d+: a barrier is between stores into ta"):
        product("in two turns").schedule(PIPELINE)


def test_updates_of_a_staged_tile_are_refused():
    def update(ta, t):
        ta.atomic_add(f16(1.0), t % 64, t // 64)
        lego.barrier()

    with pytest.raises(ScheduleError, match=r"py:\d+: this Atomic uses ta"):
        product(lambda a, rows, i, j: a.halo("zero")[i, j], update).schedule(PIPELINE)


def test_stores_through_another_view_are_refused():
    @lego.kernel(grid=1, block=THREADS)
    def tiled(a: lego.Tensor(f16, Row(64, 64)), b: lego.Tensor(f16, Col(64, 64)), c: lego.Tensor(f16, Row(64, 64))):
        t, column = lego.thread_id.x, lego.warp_id * 16
        ta, tb = lego.shared(f16, Row(64, 64), "ta"), lego.shared(f16, Col(64, 64), "tb")
        out, acc = lego.shared(f16, Row(64, 64), "out"), lego.accumulator(f32, 64, 16)
        for k in lego.range(1):
            lego.stage(b, (k, 0), tb)
            for chunk in lego.unroll(32):
                i, j = (chunk * THREADS + t) // 64, t % 64
                ta.tile_by([4, 4], [16, 16])[i // 16, j // 16, i % 16, j % 16] = a[i, j] * 2.0
            lego.barrier()
            lego.mma(ta.part((0, 0), (64, 64)), tb.part((0, column), (64, 16)), acc)
            lego.barrier()
        acc.store(out, at=(0, column))
        lego.barrier()
        lego.store_tile(out, c, (0, 0))

    with pytest.raises(ScheduleError, match=r"py:\d+: threads store into ta through another view"):
        tiled.schedule(PIPELINE)


@lego.function(inline=False)
def fetch(tile, i, j):
    return tile[i, j]


def test_copies_of_a_thread_and_of_a_ring_are_waited_for_apart():
    """A called function takes the elements of one tile, which so is no ring; its copies are a group of their own."""

    @lego.kernel(grid=1, block=THREADS)
    def kernel(x: lego.Tensor(f32, Row(16, 128)), y: lego.Tensor(f32, Row(THREADS))):
        t, acc = lego.thread_id.x, lego.register(f32, 0.0)
        own, tile = lego.shared(f32, Row(16, 32), "own"), lego.shared(f32, Row(16, 32), "tile")
        for k in lego.range(3):
            lego.copy_async(x, own, at=(0, k * 32))
            lego.copy_async(x, tile, at=(0, 96 - k * 32))
            lego.commit_copies()
            lego.wait_copies()
            lego.barrier()
            acc.set(acc * 2 + fetch(own, t % 16, t % 32) + tile[t % 16, t % 32])
            lego.barrier()
        y[t] = acc

    scheduled = kernel.schedule("pipeline(stages=2)")
    before = results(kernel)
    for machine in (run_kernel, lambda kernel, found: PtxRun(target="sm_80")(kernel, found, {})):
        assert np.array_equal(results(scheduled, machine)["y"], before["y"])


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("filled", ["staged", "stored", "gathered"])
def test_each_warp_releases_a_stage_of_which_it_loads_elements(stages, filled):
    """The matrix unit reads for four warps at once, and one of them releases the stage; threads read for themselves."""

    @lego.kernel(grid=1, block=THREADS)
    def product(
        a: lego.Tensor(f16, Row(64, 256)), b: lego.Tensor(f16, Col(256, 64)), c: lego.Tensor(f16, Row(64, 64)),
        y: lego.Tensor(f32, Row(THREADS)),
    ):  # fmt: skip
        t, column = lego.thread_id.x, lego.warp_id * 16
        ta, tb = lego.shared(f16, Row(64, 64), "ta"), lego.shared(f16, Col(64, 64), "tb")
        out, acc, total = lego.shared(f16, Row(64, 64), "out"), lego.accumulator(f32, 64, 16), lego.register(f32, 0.0)
        for k in lego.range(4):
            if filled == "stored":
                for chunk in lego.unroll(32):
                    i, j = (chunk * THREADS + t) // 64, t % 64
                    ta[i, j] = a[i, k * 64 + j] * 2.0
            elif filled == "gathered":
                lego.copy_async(a, ta, at=lambda r, k=k: (63 - r, k * 64))
                lego.commit_copies()
                lego.wait_copies()
            else:
                lego.stage(a, (0, k), ta)
            lego.stage(b, (k, 0), tb)
            lego.barrier()
            lego.mma(ta.part((0, 0), (64, 64)), tb.part((0, column), (64, 16)), acc)
            total += ta[t % 64, t // 2].to(f32)
            lego.barrier()
        acc.store(out, at=(0, column))
        lego.barrier()
        lego.store_tile(out, c, (0, 0))
        y[t] = total

    scheduled = product.schedule(f"warpgroups, pipeline(stages={stages}), roles")
    before = results(product)
    for machine in (run_kernel, lambda kernel, found: PtxRun(target="sm_90a")(kernel, found, {})):
        after = results(scheduled, machine)
        assert all(np.array_equal(before[name], after[name]) for name in before)


@lego.function(inline=False)
def element(memory, i):
    return memory[i]


@lego.function(inline=False)
def own_element(memory):
    return memory[lego.thread_id.x]


def scaled(value, written=False):
    """A product whose left tile threads fill with a value that a called function loads, by `value(w, t)`."""

    @lego.kernel(grid=1, block=THREADS)
    def kernel(
        a: lego.Tensor(f16, Row(64, 256)), b: lego.Tensor(f16, Col(256, 64)), y: lego.Tensor(f32, Row(THREADS)),
        x: lego.Tensor(f32, Row(16, 128)), c: lego.Tensor(f16, Row(64, 64)),
    ):  # fmt: skip
        t, column, w = lego.thread_id.x, lego.warp_id * 16, y if written else x.flat()
        ta, tb = lego.shared(f16, Row(64, 64), "ta"), lego.shared(f16, Col(64, 64), "tb")
        out, acc = lego.shared(f16, Row(64, 64), "out"), lego.accumulator(f32, 64, 16)
        for k in lego.range(4):
            lego.stage(b, (k, 0), tb)
            for chunk in lego.unroll(32):
                i, j = (chunk * THREADS + t) // 64, t % 64
                ta[i, j] = a[i, k * 64 + j] + value(w, t).to(f16)
            lego.barrier()
            lego.mma(ta.part((0, 0), (64, 64)), tb.part((0, column), (64, 16)), acc)
            y[t] = y[t] + 1.0
            lego.barrier()
        acc.store(out, at=(0, column))
        lego.barrier()
        lego.store_tile(out, c, (0, 0))

    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_copies_take_from_a_called_function(schedule):
    require_the_same(scaled(element), schedule)


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
def test_what_a_called_function_loads_is_not_written(schedule):
    with pytest.raises(ScheduleError, match=r"py:\d+: the copies need this element of y, which the kernel writes"):
        scaled(element, written=True).schedule(schedule).mlir()


def test_a_called_function_of_copies_reads_no_id():
    kernel = scaled(lambda w, t: own_element(w))
    require_the_same(kernel, SCHEDULES[2])
    with pytest.raises(ScheduleError, match=r"py:\d+: the copies call a function that reads the id of its thread"):
        kernel.schedule(SCHEDULES[1]).mlir()


@pytest.mark.parametrize("rest", ["ahead", "roles"])
@pytest.mark.parametrize("gathered", [False, True])
def test_copies_that_need_an_element_of_their_tile_are_refused(gathered, rest):
    @lego.kernel(grid=1, block=THREADS)
    def kernel(x: lego.Tensor(i32, Row(20, 128), range=(0, 4)), y: lego.Tensor(i32, Row(THREADS))):
        t, acc, row = lego.thread_id.x, lego.register(i32, 0), lego.register(i32, 0)
        tile = lego.shared(i32, Row(16, 32), "tile")
        for k in lego.range(3):
            first = lego.index(row.get(), range=(0, 4))
            lego.copy_async(
                x, tile, at=(lambda r, k=k, first=first: (r + first, k * 32)) if gathered else (first, k * 32)
            )
            lego.commit_copies()
            lego.wait_copies()
            lego.barrier()
            row.set(tile[0, 0] & 3)
            acc += tile[t % 16, t % 32]
            lego.barrier()
        y[t] = acc

    with pytest.raises(ScheduleError, match="the copies need an element of a tile that they fill"):
        kernel.schedule(f"pipeline(stages=2), {rest}")
