"""Products of tiles without a layout by a matrix unit: staged operands, the words that schedules read, what is left."""

import itertools
from functools import cache

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f8e4m3fn, f16, f32, i4, i8, i32, interp
from lego_mlir.engine.choice_reasons import reasons
from lego_mlir.engine.operand_places import staged_place
from lego_mlir.engine.pinned_source import pinned_source
from lego_mlir.engine.shared_placements import is_shared, swizzled
from lego_mlir.engine.tile_graph import LoadTile
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.schedules.scheduled import words_in
from lego_mlir.tracing.trace.marks import RingCopy, StagedTile, TileProduct
from lego_mlir.tracing.trace.shared_lines import ring_layout

M, N = 128, 64
SUMS = {i8: i32}
SCHEDULES = ("warpgroups", "warpgroups, pipeline(stages=2), roles", "warps, pipeline(stages=2), ahead")


@cache
def multiplying(dtype=f16, layouts="NT", k=128, step=64, m=M, n=N):
    """C = A B, A and B in rows (N) or columns (T), with no layout of a tile."""
    sums = SUMS.get(dtype, f32)
    a_layout, b_layout = (
        (Row if letter == "N" else Col)(*dims) for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
    )

    @lego.kernel(grid=1, block=128)
    def product(a: lego.Tensor(dtype, a_layout), b: lego.Tensor(dtype, b_layout), c: lego.Tensor(sums, Row(m, n))):
        acc = lego.register(lego.zeros(sums, (m, n)))
        for first in lego.range(0, k, step):
            x = lego.load(a, (m, step), at=(0, first))
            y = lego.load(b, (step, n), at=(first, 0))
            acc.set(lego.mma(x, y, acc))
        acc.get().store(c)

    return product


def drawn(dtype, layouts, k, m=M, n=N, seed=0):
    """A, B and C in memory order, of numbers that all types have, and the exact product."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-4, 5, dims).astype(np.float32) for dims in ((m, k), (k, n)))
    given = [
        (x if letter == "N" else x.T).astype(dtype.numpy).ravel() for x, letter in zip((a, b), layouts, strict=True)
    ]
    return [*given, np.zeros(m * n, SUMS.get(dtype, f32).numpy)], a @ b


def marks(kernel, kind):
    return [mark for _, mark in words_in(kernel.trace().body, kind)]


@pytest.mark.parametrize("schedules", SCHEDULES)
@pytest.mark.parametrize(
    ("dtype", "layouts"), [(f16, "NT"), (bf16, "NN"), (f16, "TN"), (f8e4m3fn, "NT"), (i8, "NT"), (f32, "NT")]
)
def test_values(dtype, layouts, schedules):
    step = 128 // dtype.bytes
    kernel = multiplying(dtype, layouts, 2 * step, step).schedule(schedules)
    arrays, expected = drawn(dtype, layouts, 2 * step)
    report = interp.launch(kernel.mlir(), grid=1, block=kernel.block, args=arrays)
    assert report.clean, report
    np.testing.assert_array_equal(arrays[2].reshape(M, N), expected)
    assert len(marks(kernel, TileProduct)) == 1
    assert len(kernel.trace().products) == ("warpgroups" in schedules)


@pytest.mark.parametrize("dtype", [f16, f8e4m3fn])
def test_the_code_of_a_scheduled_product(dtype):
    step = 128 // dtype.bytes
    kernel = multiplying(dtype, "NT", 3 * step, step).schedule("warpgroups, pipeline(stages=2), roles")
    arrays, expected = drawn(dtype, "NT", 3 * step)
    report = PtxRun(target="sm_90a", seed=1)(kernel, dict(zip("abc", arrays, strict=True)), {})
    assert report.clean, report.faults
    np.testing.assert_array_equal(arrays[2].reshape(M, N), expected)
    text = compile_kernel(kernel, target="sm_90a").text
    assert "wgmma.mma_async" in text and "mma.sync" not in text and "ldmatrix" not in text


@pytest.mark.parametrize("schedules", [SCHEDULES[1], "warpgroups, pipeline(stages=3)", SCHEDULES[2]])
def test_a_left_operand_that_is_computed_stays_in_registers(schedules):
    """Of numbers of 4 bits in a ring of their own, by `wgmma` from registers where the schedule names that unit."""
    m, n, k, step = 64, 64, 256, 64

    @lego.kernel(grid=1, block=128)
    def product(a: lego.Tensor(i4, Row(m, k)), b: lego.Tensor(f16, Row(n, k)), c: lego.Tensor(f32, Row(m, n))):
        held = lego.shared(i4, Row(m, step), name="held")
        acc = lego.register(lego.zeros(f32, (m, n)))
        for first in lego.range(0, k, step):
            x = lego.load(b, (n, step), at=(0, first))
            lego.copy_async(a.bytes, held.bytes, at=(0, first // 2))
            lego.commit_copies()
            lego.wait_copies()
            lego.barrier()
            acc.set(lego.mma(lego.load(held, (m, step)).to(f16), x.T, acc))
            lego.barrier()
        acc.get().store(c)

    kernel, rng = product.schedule(schedules), np.random.default_rng(0)
    codes = rng.integers(0, 256, (m, k // 2)).astype(np.uint8)
    b, c = rng.integers(-4, 5, (n, k)).astype(np.float16), np.zeros((m, n), np.float32)
    numbers = (np.stack([codes & 15, codes >> 4], -1).reshape(m, k).astype(int) + 8) % 16 - 8
    report = PtxRun(target="sm_90a", seed=1)(kernel, {"a": codes.ravel(), "b": b.ravel(), "c": c.ravel()}, {})
    assert report.clean, report.faults
    np.testing.assert_array_equal(c, numbers @ b.astype(int).T)
    np.testing.assert_array_equal(kernel(codes, b, c * 0, check=True), c)
    text, by_groups = compile_kernel(kernel, target="sm_90a").text, "warpgroups" in schedules
    assert (text.count("wgmma.mma_async") > 0, "mma.sync" in text) == (by_groups, not by_groups)
    assert len(marks(kernel, RingCopy)) == 2 * by_groups  # `ahead` has copies of threads


def test_what_is_staged_is_found_by_cost():
    kernel = multiplying().schedule("warpgroups")
    places = {
        node.word: state
        for node, value in kernel.layout_choice.values.items()
        if isinstance(node.operation, LoadTile)
        for state, _ in value.computed
    }
    assert all(map(is_shared, places.values())) and len(places) == 2
    assert not any(is_shared(s) for v in multiplying().layout_choice.values.values() for s, _ in v.computed)
    assert len(marks(kernel, StagedTile)) == 2
    text = "\n".join(reasons(kernel.layout_choice))
    assert "by wgmma" in text and "staged by copies" in text
    assert pinned_source(kernel.function, kernel.layout_choice).count("pin=") == 1  # the store


def test_a_computed_operand_stays_in_registers():
    @lego.kernel(grid=1, block=128)
    def scaled(a: lego.Tensor(f16, Row(M, 64)), b: lego.Tensor(f16, Row(64, N)), c: lego.Tensor(f32, Row(M, N))):
        x = lego.load(a, (M, 64)) * 2.0
        lego.mma(x, lego.load(b, (64, N)), lego.zeros(f32, (M, N))).store(c)

    kernel = scaled.schedule("warpgroups")
    arrays, expected = drawn(f16, "NN", 64)
    assert interp.launch(kernel.mlir(), grid=1, block=128, args=arrays).clean
    np.testing.assert_array_equal(arrays[2].reshape(M, N), 2 * expected)
    assert len(marks(kernel, StagedTile)) == 1 and len(kernel.trace().products) == 1  # a from registers
    assert not marks(kernel, TileProduct)


@pytest.mark.parametrize("how", ["read between", "in a branch", "two variables"])
def test_a_sum_that_others_see_is_not_changed_in_place(how):
    @lego.kernel(grid=1, block=128)
    def kept(a: lego.Tensor(f16, Row(M, 64)), b: lego.Tensor(f16, Row(64, N)), c: lego.Tensor(f32, Row(M, N))):
        acc = lego.register(lego.full(f32, (M, N), 1.0))
        other = lego.register(lego.zeros(f32, (M, N)))
        found = lego.mma(lego.load(a, (M, 64)), lego.load(b, (64, N)), acc)
        if how == "read between":
            other.set(acc.get())
            acc.set(found)
        elif how == "in a branch":
            with lego.when(lego.block_id.x < 0):
                acc.set(found)
        else:
            other.set(found)
        (acc.get() - other.get()).store(c)

    kernel = kept.schedule("warpgroups")
    arrays, product = drawn(f16, "NN", 64)
    assert interp.launch(kernel.mlir(), grid=1, block=128, args=arrays).clean
    expected = {"read between": product, "in a branch": np.ones((M, N)), "two variables": -product}[how]
    np.testing.assert_array_equal(arrays[2].reshape(M, N), expected)
    assert not marks(kernel, TileProduct)


@pytest.mark.parametrize("schedule", ["warps", "warpgroups"])
def test_a_left_operand_is_the_value_that_was_read(schedule):
    @lego.kernel(grid=1, block=128)
    def advancing(a: lego.Tensor(f16, Row(M, 64)), b: lego.Tensor(f16, Row(64, N)), c: lego.Tensor(f32, Row(M, N))):
        left, acc = lego.register(lego.load(a, (M, 64))), lego.register(lego.zeros(f32, (M, N)))
        for _ in lego.range(2):
            before = left.get()
            left.set(before * 2.0)
            acc.set(lego.mma(before, lego.load(b, (64, N)), acc))
        acc.get().store(c)

    arrays, product = drawn(f16, "NN", 64)
    assert interp.launch(advancing.schedule(schedule).mlir(), grid=1, block=128, args=arrays).clean
    np.testing.assert_array_equal(arrays[2].reshape(M, N), 3 * product)


def test_the_placement_is_that_of_the_tile():
    for rows, columns, bytes_ in itertools.product((16, 64), (16, 64, 256), (1, 2, 4)):
        tile, place = ring_layout(1, rows, columns, bytes_), swizzled((rows, columns), 8 * bytes_, 1)
        found = place.apply(offset=tile.apply(*np.indices((rows, columns))))
        np.testing.assert_array_equal(found["dim0"], np.indices((rows, columns))[0])
        np.testing.assert_array_equal(found["dim1"], np.indices((rows, columns))[1])


def test_a_kernel_without_products_takes_no_unit():
    @lego.kernel(grid=1, block=128)
    def copied(a: lego.Tensor(f16, Row(M, 64)), b: lego.Tensor(f16, Row(M, 64))):
        lego.load(a, (M, 64)).store(b)

    assert copied.for_unit("wgmma", "warpgroups") is None
    loads = [n for n in copied.layout_choice.values if isinstance(n.operation, LoadTile)]
    assert [staged_place(n) is None for n in loads] == [False]


@pytest.mark.parametrize("schedules", ["warpgroups", "warpgroups, pipeline(stages=2), roles"])
def test_tiles_that_reach_past_the_ends(schedules):
    m, n, k = 100, 72, 104

    @lego.kernel(grid=1, block=128)
    def product(a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Row(n, k)), c: lego.Tensor(f32, Row(m, n))):
        acc = lego.register(lego.zeros(f32, (128, 128)))
        for first in lego.range(0, k, 64):
            x, y = lego.load(a, (128, 64), at=(0, first)), lego.load(b, (128, 64), at=(0, first))
            acc.set(lego.mma(x, y.T, acc))
        acc.get().store(c, at=(0, 0))

    kernel = product.schedule(schedules)
    arrays, expected = drawn(f16, "NT", k, m, n)
    report = PtxRun(target="sm_90a", seed=1)(kernel, dict(zip("abc", arrays, strict=True)), {})
    assert report.clean, report.faults
    np.testing.assert_array_equal(arrays[2].reshape(m, n), expected)
    assert len(kernel.trace().products) == 1
