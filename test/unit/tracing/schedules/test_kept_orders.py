"""Orders that schedules keep: of accesses to memory that barriers of a staged loop separate, and of registers."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel

THREADS, STEPS = 128, 2
SCHEDULES = ["pipeline(stages=2)", "pipeline(stages=2), ahead", "pipeline(stages=3), roles"]
X = (np.arange(32 * 256) % 23).astype(np.float32)


@lego.function(inline=False)
def put(memory, i, value):
    memory[i] = value


@lego.function(inline=False)
def fetch(memory, i):
    return memory[i]


def within_a_step(z, held, acc, t, place):
    if place == "early":
        z[t] = acc + 1
    if place == "late":
        acc += z[(t + 1) % THREADS]


def after_another_barrier(z, held, acc, t, place):
    if place == "late":
        z[t] = acc + 1
        lego.barrier()
        acc += z[(t + 1) % THREADS]


def read_in_the_loop_written_after_it(z, held, acc, t, place):
    if place == "late":
        acc += z[(t + 1) % THREADS]
    if place == "end":
        z[t] = acc


def written_before_the_loop_read_after_it(z, held, acc, t, place):
    if place == "begin":
        z[t] = f32(t)
    if place == "end":
        acc += z[(t + 1) % THREADS]


def written_in_each_step_by_another_thread(z, held, acc, t, place):
    if isinstance(place, tuple):
        z[(t + place[0]) % THREADS] = acc


def shared_by_functions(z, held, acc, t, place):
    if place == "late":
        put(held, t, acc.get())
        lego.barrier()
        acc += fetch(held, (t + 1) % THREADS)


def kernel_of(words):
    @lego.kernel(grid=1, block=THREADS)
    def kernel(x: lego.Tensor(f32, Row(32, 256)), z: lego.Tensor(f32, Row(THREADS)), y: lego.Tensor(f32, Row(THREADS))):
        t, acc = lego.thread_id.x, lego.register(f32, 0.0)
        tile, held = lego.shared(f32, Row(32, 32), "tile"), lego.shared(f32, Row(THREADS), "held")
        words(z, held, acc, t, "begin")
        for k in lego.range(STEPS):
            lego.copy_async(x, tile, at=(0, k * 32))
            lego.commit_copies()
            lego.wait_copies()
            words(z, held, acc, t, "early")
            lego.barrier()
            acc += tile[t % 32, t // 32]
            words(z, held, acc, t, "late")
            words(z, held, acc, t, (k,))
            lego.barrier()
        words(z, held, acc, t, "end")
        y[t] = acc

    return kernel


def results(kernel, machine=run_kernel):
    memories = {"x": X, "z": np.zeros(THREADS, np.float32), "y": np.zeros(THREADS, np.float32)}
    assert machine(kernel, memories).faults == []
    return memories


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "words",
    [
        within_a_step, after_another_barrier, read_in_the_loop_written_after_it, written_before_the_loop_read_after_it,
        written_in_each_step_by_another_thread, shared_by_functions,
    ],
)  # fmt: skip
def test_barriers_that_order_memory_stay(words, schedule):
    kernel = kernel_of(words)
    before, after = results(kernel), results(kernel.schedule(schedule))
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_copies_go_on_with_their_registers_in_the_next_loop(schedule, threads):
    """`row` is a register of the copies alone, which several turns of the loop advance; roles of any warps."""

    @lego.kernel(grid=1, block=threads)
    def kernel(
        x: lego.Tensor(f32, Row(32, 256)), rows: lego.Tensor(i32, Row(8), range=(0, 4)),
        y: lego.Tensor(f32, Row(threads)),
    ):  # fmt: skip
        t, acc, row = lego.thread_id.x, lego.register(f32, 0.0), lego.register(i32, 0)
        tile = lego.shared(f32, Row(8, 32), "tile")
        for _ in lego.range(3):
            for k in lego.range(2):
                lego.copy_async(x, tile, at=(lego.index(row.get(), range=(0, 4)) * 8, k * 32))
                lego.commit_copies()
                lego.wait_copies()
                row.set((row + rows[k]) & 3)
                lego.barrier()
                acc.set(acc * 2 + tile[t % 8, t % 32])
                lego.barrier()
        y[t] = acc

    rows, x = np.array([1, 2, 0, 0, 0, 0, 0, 0], np.int32), X.reshape(32, 256)
    wanted, row, t = np.zeros(threads), 0, np.arange(threads)
    for step in range(6):
        k = step % 2
        wanted, row = wanted * 2 + x[row * 8 + t % 8, k * 32 + t % 32], (row + rows[k]) & 3
    target = "sm_80" if "ahead" in schedule else "sm_90a"
    for machine in (run_kernel, lambda kernel, memories: PtxRun(target=target)(kernel, memories, {})):
        memories = {"x": X, "rows": rows, "y": np.zeros(threads, np.float32)}
        assert machine(kernel.schedule(schedule), memories).faults == []
        np.testing.assert_array_equal(memories["y"], wanted)


@pytest.mark.parametrize("schedule", ["pipeline(stages=2)", "pipeline(stages=3), roles"])
@pytest.mark.parametrize("place", ["late", "end"])
def test_a_wait_of_the_loop_for_copies_from_before_it_stays(place, schedule):
    @lego.kernel(grid=1, block=THREADS)
    def kernel(
        x: lego.Tensor(f32, Row(32, 256)), z: lego.Tensor(f32, Row(4, 32)), y: lego.Tensor(f32, Row(THREADS)),
    ):  # fmt: skip
        t, acc = lego.thread_id.x, lego.register(f32, 0.0)
        tile, held = lego.shared(f32, Row(32, 32), "tile"), lego.shared(f32, Row(4, 32), "held")
        lego.copy_async(z, held)
        lego.commit_copies()
        for k in lego.range(STEPS):
            lego.copy_async(x, tile, at=(0, k * 32))
            lego.commit_copies()
            lego.wait_copies()
            lego.barrier()
            acc += tile[t % 32, t // 32]
            if place == "late":
                acc += held[(t // 32 + 1) % 4, t % 32]
            lego.barrier()
        y[t] = acc + held[(t // 32 + 1) % 4, t % 32]

    before, after = results(kernel), results(kernel.schedule(schedule))
    assert np.array_equal(before["y"], after["y"])
