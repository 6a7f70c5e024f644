"""`pipeline` of loops that copy tiles and use them by elements, as tiles of values and in products; data as steps."""

from functools import cache

import numpy as np
import pytest
from launching import in_memory, launch, logical
from tiled_products import after

import lego_mlir as lego
from lego_mlir import Col, Row, f2, f16, f32, i32
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.verdict import Proved
from lego_mlir.f2.encodings import MmaSync
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.proofs.claims import kernel_claims

STEPS = 5
ROWS, BK = 64, 32
SPREAD = f2.Blocked((1, 4), (4, 8), (4, 1), order=(1, 0)).layout((ROWS, BK))
SUMS = MmaSync((4, 1)).layout((ROWS, ROWS))


def copied(word, source, tile, row, k):
    """Start to copy, by either word, the tile of a row of tiles."""
    if word == "stage":
        lego.stage(source, (row, k), tile)
        return
    lego.copy_async(source, tile, at=(row * ROWS, k * BK))
    lego.commit_copies()
    lego.wait_copies(0)


@cache
def sums(word, use, count):
    """The sums of rows of a matrix over as many steps as `count` says, by a use of a shared tile."""

    @lego.kernel(grid=2, block=128)
    def kernel(
        x: lego.Tensor(f32, Row(2 * ROWS, STEPS * BK)), steps: lego.Tensor(i32, Row(2), range=(0, STEPS + 1)),
        y: lego.Tensor(f32, Row(2, ROWS)),
    ):  # fmt: skip
        block = lego.block_id[0]
        tile = lego.shared(f32, Row(ROWS, BK), name="tile")
        begin, step, store = use(y, block)
        total = begin()
        for k in lego.range(count(steps, block)):
            copied(word, x, tile, block, k)
            lego.barrier()
            step(tile, total)
            lego.barrier()
        store(total)

    return kernel


def elements(y, block):
    t = lego.thread_id[0]

    def step(tile, total):
        with lego.when(t < ROWS):
            for j in lego.range(BK):
                total.set(total + tile[t, j])

    def store(total):
        with lego.when(t < ROWS):
            y[block, t] = total

    return lambda: lego.register(f32, 0.0), step, store


def vectors(y, block):
    t = lego.thread_id[0]

    def step(tile, total):
        with lego.when(t < ROWS):
            for j in lego.unroll(0, BK, 4):
                four = tile.load(t, j, width=4)
                total.set(total + (four[0] + four[1] + four[2] + four[3]))

    return lambda: lego.register(f32, 0.0), step, elements(y, block)[2]


def tiles(y, block):
    def step(tile, total):
        total.set(total + lego.load(tile, SPREAD).sum(axis=1))

    rows = lego.zeros(f32, SPREAD).sum(axis=1)
    return lambda: lego.register(rows), step, lambda total: total.get().store(y, at=(block, 0))


def loaded(steps, block):
    return lego.index(steps[block])


def run(kernel, machine, *arrays):
    """The result, of a run without faults."""
    if machine == "interpreter":
        return launch(kernel, *arrays)[-1]
    memories, placed = in_memory(kernel, arrays, {})
    by_name = {p.name: memory for p, memory in zip(kernel.params, memories, strict=True)}
    report = PtxRun(target=machine)(kernel, by_name, {})
    assert report.clean, report.faults
    return logical(memories, placed)[-1]


USES = {"elements": elements, "vectors": vectors, "tiles": tiles}
SCHEDULES = [("pipeline(stages=3)", "interpreter"), ("pipeline(stages=2), ahead", "interpreter"),
             ("pipeline(stages=3), ahead", "sm_80"), ("pipeline(stages=3), roles", "interpreter"),
             ("pipeline(stages=4), roles", "sm_90a")]  # fmt: skip


@pytest.mark.parametrize(("schedule", "machine"), SCHEDULES)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("word", ["stage", "copy_async"])
@pytest.mark.parametrize("steps", [(3, 5), (0, 1)])
def test_sums_over_as_many_tiles_as_memory_says(word, use, schedule, machine, steps):
    kernel = after(sums(word, USES[use], loaded), schedule)
    x = np.random.default_rng(0).integers(-9, 10, (2 * ROWS, STEPS * BK)).astype(np.float32)
    y = run(kernel, machine, x, np.array(steps, np.int32), np.full((2, ROWS), np.nan, np.float32))
    for block, n in enumerate(steps):
        np.testing.assert_array_equal(y[block], x[block * ROWS :][:ROWS, : n * BK].sum(axis=1))


@cache
def product(word, right=Col):
    """A product whose sums are a tile of values: `acc.set(lego.mma(ta, tb, acc))`."""
    a_of, b_of = lego.Tensor(f16, Row(ROWS, STEPS * BK)), lego.Tensor(f16, right(STEPS * BK, ROWS))

    @lego.kernel(grid=1, block=128)
    def kernel(a: a_of, b: b_of, steps: lego.Tensor(i32, Row(1), range=(0, 6)), c: lego.Tensor(f32, Row(ROWS, ROWS))):
        ta, tb = lego.shared(f16, Row(ROWS, BK), name="ta"), lego.shared(f16, right(BK, ROWS), name="tb")
        acc = lego.register(lego.zeros(f32, SUMS))
        for k in lego.range(lego.index(steps[0])):
            if word == "stage":
                lego.stage(a, (0, k), ta)
                lego.stage(b, (k, 0), tb)
            else:
                lego.copy_async(a, ta, at=(0, k * BK))
                across, turned = (b.T, tb.T) if right is Col else (b, tb)
                lego.copy_async(across, turned, at=(0, k * BK) if right is Col else (k * BK, 0))
                lego.commit_copies()
                lego.wait_copies()
            lego.barrier()
            acc.set(lego.mma(ta, tb, acc))
            lego.barrier()
        acc.store(c)

    return kernel


@pytest.mark.parametrize(("schedule", "machine"), SCHEDULES)
@pytest.mark.parametrize("word", ["stage", "copy_async"])
@pytest.mark.parametrize("right", [Col, Row])
def test_products_into_tiles_of_values(word, right, schedule, machine):
    kernel = after(product(word, right), schedule)
    rng, n = np.random.default_rng(1), 4
    a = rng.integers(-4, 5, (ROWS, STEPS * BK)).astype(np.float16)
    b = rng.integers(-4, 5, (STEPS * BK, ROWS)).astype(np.float16)
    c = run(kernel, machine, a, b, np.array([n], np.int32), np.zeros((ROWS, ROWS), np.float32))
    np.testing.assert_array_equal(c, a[:, : n * BK].astype(np.float32) @ b[: n * BK].astype(np.float32))


@pytest.mark.parametrize("made", [lambda: sums("copy_async", tiles, loaded), lambda: product("stage")])
def test_the_rings_are_proved_whatever_the_number_of_steps(made):
    kernel = after(made(), "pipeline(stages=3), roles")
    unproved = [(text, verdict) for text, verdict in kernel_claims(kernel) if not isinstance(verdict, Proved)]
    assert unproved == []


@pytest.mark.parametrize("schedule", ["pipeline(stages=2), ahead", "pipeline(stages=2), roles"])
def test_copies_that_need_an_element_of_their_tile(schedule):
    @lego.kernel(grid=1, block=128)
    def chased(x: lego.Tensor(i32, Row(4 * ROWS, BK), range=(0, 4)), y: lego.Tensor(i32, Row(128))):
        tile, at = lego.shared(i32, Row(ROWS, BK)), lego.register(i32, 0)
        for _ in lego.range(4):
            lego.copy_async(x, tile, at=(lego.index(at & 3) * ROWS, 0))
            lego.commit_copies()
            lego.wait_copies()
            lego.barrier()
            at.set(tile[0, 0])
            lego.barrier()
        y[lego.thread_id[0]] = at

    with pytest.raises(ScheduleError, match=r"\.py:\d+: the copies need an element of a tile that they fill"):
        chased.schedule(schedule).trace()


def test_copies_of_their_own_keep_their_groups():
    """A tile that is used after the loop is no ring: it is copied, and waited for, as it was."""

    @lego.kernel(grid=1, block=128)
    def last(x: lego.Tensor(f32, Row(ROWS, 4 * BK)), y: lego.Tensor(f32, Row(ROWS, BK))):
        tile, kept = lego.shared(f32, Row(ROWS, BK)), lego.shared(f32, Row(ROWS, BK), name="kept")
        t, total = lego.thread_id[0], lego.register(f32, 0.0)
        for k in lego.range(4):
            lego.copy_async(x, tile, at=(0, k * BK))
            lego.copy_async(x, kept, at=(0, k * BK))
            lego.commit_copies()
            lego.wait_copies()
            lego.barrier()
            total += tile[t // 2, t % 2]
            lego.barrier()
        for j in lego.range(t, ROWS * BK, 128):
            y[j // BK, j % BK] = kept[j // BK, j % BK] + total - total

    scheduled = last.schedule("pipeline(stages=2)")
    assert {b.name for b in scheduled.trace().shared} >= {"kept"}
    x = np.random.default_rng(2).integers(-9, 10, (ROWS, 4 * BK)).astype(np.float32)
    y = run(scheduled, "interpreter", x, np.zeros((ROWS, BK), np.float32))
    np.testing.assert_array_equal(y, x[:, 3 * BK :])
