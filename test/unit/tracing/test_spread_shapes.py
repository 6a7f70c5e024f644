"""Reductions, broadcasts, shapes and variables of spread values against NumPy, over random layouts."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from launching import launch
from spread_strategies import layouts

import lego_mlir as lego
from lego_mlir import Row, f2, f32, i32, i64
from lego_mlir.tracing.trace.trace import Barrier, MlirOperation

MMA = f2.MmaSync((2, 2)).layout((32, 64))
BLOCKED = f2.Blocked((1, 4), (4, 8), (2, 2), order=(1, 0)).layout((32, 64))
NARROW = f2.Blocked((1, 1), (1, 32), (1, 4), order=(1, 0)).layout((2, 8))  # most threads hold copies


def run(layout, dtype, function, a, shape, out=None):
    """The tile that a function of a tile gives."""

    @lego.kernel(grid=1, block=32 * layout.in_sizes.get("warp", 1))
    def k(x: lego.Tensor(dtype, Row(*layout.out_sizes.values())), y: lego.Tensor(out or dtype, Row(*shape))):
        result = function(lego.load(x, layout))
        if isinstance(result, lego.Spread):
            result.store(y)
        else:
            with lego.when(lego.thread_id[0] < 1):
                y[0] = result

    return k, launch(k, a, np.zeros(shape))[1]


REDUCTIONS = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max}


@settings(max_examples=40, deadline=None)
@given(layouts(), st.sampled_from(sorted(REDUCTIONS)), st.integers(0, 1), st.sampled_from([f32, i32, i64]))
@example(NARROW, "sum", 1, f32)
@example(NARROW, "sum", 0, f32)
@example(MMA, "sum", 1, f32)
@example(MMA, "sum", 0, f32)
def test_reductions_along_an_axis(layout, name, axis, dtype):
    shape = tuple(layout.out_sizes.values())
    a = np.random.default_rng(0).integers(-3 if name != "prod" else 1, 3, shape)
    _, y = run(layout, dtype, lambda x: getattr(x, name)(axis=axis), a, (shape[1 - axis],))
    np.testing.assert_array_equal(y, REDUCTIONS[name](a.astype(dtype.numpy), axis=axis))


@pytest.mark.examples(3)
@settings(max_examples=15, deadline=None)
@given(layouts())
@example(NARROW)
def test_reductions_of_the_whole_tile_and_the_greatest_s_index(layout):
    shape = tuple(layout.out_sizes.values())
    a = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    assert run(layout, f32, lambda x: x.sum(), a, (1,))[1] == a.sum()
    assert run(layout, f32, lambda x: (x > 100).any().to(i32), a, (1,), i32)[1] == 0
    assert run(layout, f32, lambda x: (x > -100).all().to(i32), a, (1,), i32)[1] == 1
    np.testing.assert_array_equal(run(layout, f32, lambda x: x.argmax(1), a, shape[:1], i32)[1], a.argmax(1))
    a[0, -1] = np.nan
    np.testing.assert_array_equal(run(layout, f32, lambda x: x.argmin(0), a, shape[1:], i32)[1], a.argmin(0))


def test_a_reduction_in_a_warp_needs_no_barrier_and_two_need_one_each():
    def count(layout, function, kind):
        k, _ = run(layout, f32, function, np.ones((32, 64)), (32,))
        return sum(isinstance(s, kind) for s in k.trace().body)

    one = f2.Blocked((1, 4), (4, 8), (4, 1), order=(1, 0)).layout((32, 64))
    assert count(one, lambda x: x.sum(1), Barrier) == 0
    assert count(one, lambda x: x.sum(1), MlirOperation) == 2 * 3  # 2 rows of a thread, 8 lanes of a row
    assert count(BLOCKED, lambda x: x.sum(1) + x.max(1), Barrier) == 2


def test_many_reductions_take_two_tiles_and_one_barrier_each():
    def function(x):
        for _ in range(6):
            x = x - x.max(1)[:, None]
        return x.sum(1) + x.argmax(1).to(f32)

    a = np.random.default_rng(0).integers(-9, 9, (32, 64))
    k, y = run(BLOCKED, f32, function, a, (32,))
    np.testing.assert_array_equal(y, (a - a.max(1)[:, None]).sum(1) + a.argmax(1))
    assert sum(isinstance(s, Barrier) for s in k.trace().body) == 8
    assert len(k.trace().shared) == 3  # one for the indices


def test_reductions_in_branches_and_loops_do_not_race():
    @lego.kernel(grid=2, block=128)
    def k(a: lego.Tensor(f32, Row(32, 64)), y: lego.Tensor(f32, Row(2, 32))):
        total = lego.register(lego.load(a, BLOCKED).sum(1))
        for j in lego.range(3):
            total += lego.load(a, BLOCKED).max(1)
            with lego.when(lego.block_id[0] < 1):
                total += lego.load(a, BLOCKED).min(1)
            total += (lego.load(a, BLOCKED) * lego.f32(j)).sum(1)
            for _ in lego.range(2):
                total += lego.load(a, BLOCKED).max(1)
        total.expand_dims(0).store(y, at=(lego.block_id[0], 0))

    a = np.random.default_rng(0).integers(-9, 9, (32, 64)).astype(np.float32)
    _, y = launch(k, a, np.zeros((2, 32)))
    expected = a.sum(1) * 4 + 9 * a.max(1)
    np.testing.assert_array_equal(y, np.stack([expected + 3 * a.min(1), expected]))


def test_a_softmax_of_rows():
    def softmax(x):
        e = lego.exp(x - x.max(1)[:, None])
        return e / e.sum(1)[:, None]

    a = np.random.default_rng(0).normal(size=(32, 64)).astype(np.float32)
    for layout in (MMA, BLOCKED):
        y = run(layout, f32, softmax, a, (32, 64))[1]
        e = np.exp(a - a.max(1, keepdims=True))
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 1), (1, 8), (1, 1)])
def test_reductions_along_one_element_combine_with_registers_that_hold_copies(shape):
    places = [(1, 0), (2, 0)] if shape[0] == 4 else [(0, 1), (0, 2), (0, 4)] if shape[1] == 8 else []
    bases = {"register": [(0, 0), *places], "lane": [(0, 0)] * 5, "warp": []}
    layout = f2.LinearLayout(bases, {"dim0": shape[0], "dim1": shape[1]})

    @lego.kernel(grid=1, block=32)
    def k(a: lego.Tensor(f32, Row(*shape)), b: lego.Tensor(f32, Row(*shape))):
        x = lego.load(a, layout)
        (x - x.max(axis=1)[:, None] + x.sum(axis=0)[None, :]).store(b)

    a = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
    expected = a - a.max(axis=1, keepdims=True) + a.sum(axis=0, keepdims=True)
    np.testing.assert_array_equal(launch(k, a, 0 * a)[1], expected)


def test_a_broadcast_that_moves_is_a_conversion_first():
    rows, columns = (f2.Blocked((1, 4), (4, 8), (4, 1), order).layout((32, 64)) for order in ((1, 0), (0, 1)))

    @lego.kernel(grid=1, block=128)
    def k(a: lego.Tensor(f32, Row(32, 64)), b: lego.Tensor(f32, Row(32, 64))):
        total = lego.load(a, columns).sum(axis=1)[:, None]
        total = lego.convert(total, to=f2.shape_ops.broadcast_backward(rows, (32, 1)))  # what the message writes
        (lego.load(a, rows) + total).store(b)

    a = np.arange(32.0 * 64).reshape(32, 64)
    np.testing.assert_array_equal(launch(k, a, 0 * a)[1], a + a.sum(axis=1, keepdims=True))


VIEWS = {
    "T": lambda x: x.T.T,
    "reshape": lambda x: x.reshape(64, 32).reshape(32, 64),
    "expand_dims": lambda x: x[:, None, :].reshape(32, 64),
    "broadcast_to": lambda x: x.broadcast_to(BLOCKED),
    "join": lambda x: x.join(x).split()[0],
    "convert": lambda x: lego.convert(x, to=BLOCKED),
    "to": lambda x: x.to(f32),
    "map": lambda x: x.map(lambda v: v, x),
    "plus": lambda x: +x,
    "max": lambda x: x.reshape(1, 2048).max(axis=0).reshape(32, 64),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_variable_is_read_where_its_shape_changes(view):
    def function(x):
        variable = lego.register(x)
        seen = view(variable)
        variable.set(0.0)
        return seen + variable

    a = np.arange(32.0 * 64).reshape(32, 64)
    np.testing.assert_array_equal(run(BLOCKED, f32, function, a, (32, 64))[1], a)


def test_variables_in_loops_and_branches():
    @lego.kernel(grid=1, block=128)
    def k(a: lego.Tensor(f32, Row(32, 256)), total: lego.Tensor(f32, Row(32, 64)), most: lego.Tensor(f32, Row(32))):
        acc, best = lego.register(lego.zeros(f32, BLOCKED)), lego.register(lego.full(f32, BLOCKED, -9e9).max(1))
        for j in lego.range(4):
            x = lego.load(a, BLOCKED, at=(0, 64 * j))
            acc += x
            best.set(lego.maximum(best, x.max(1)))
        with lego.when(lego.block_id[0] > 5):
            acc.set(0.0)
        acc.store(total)
        best.store(most)

    a = np.random.default_rng(0).integers(-99, 99, (32, 256))
    _, total, most = launch(k, a, np.zeros((32, 64)), np.zeros(32))
    np.testing.assert_array_equal(total, a.reshape(32, 4, 64).sum(1))
    np.testing.assert_array_equal(most, a.max(1))


def test_reductions_over_warps_in_a_loop_wait_for_the_previous_reads():
    @lego.kernel(grid=1, block=128)
    def k(a: lego.Tensor(f32, Row(32, 256)), y: lego.Tensor(f32, Row(4, 32))):
        for j in lego.range(4):
            lego.load(a, BLOCKED, at=(0, 64 * j)).sum(1).expand_dims(0).store(y, at=(j, 0))

    a = np.random.default_rng(0).integers(-99, 99, (32, 256))
    np.testing.assert_array_equal(launch(k, a, np.zeros((4, 32)))[1], a.reshape(32, 4, 64).sum(2).T)


@pytest.mark.examples(3)
@settings(max_examples=20, deadline=None)
@given(layouts())
def test_shapes_move_no_data(layout):
    rows, columns = shape = tuple(layout.out_sizes.values())
    a = np.arange(rows * columns).reshape(shape)
    np.testing.assert_array_equal(run(layout, i32, lambda x: x.T, a, (columns, rows))[1], a.T)
    wide = (columns // 2, 2 * rows)
    np.testing.assert_array_equal(run(layout, i32, lambda x: x.reshape(*wide), a, wide)[1], a.reshape(wide))
    joined = run(layout, i32, lambda x: x.join(-x), a, (*shape, 2))[1]
    np.testing.assert_array_equal(joined, np.stack([a, -a], axis=-1))
    back = run(layout, i32, lambda x: (lambda b, c: b * 3 + c)(*x.join(-x).split()), a, shape)[1]
    np.testing.assert_array_equal(back, 2 * a)


@pytest.mark.examples(3)
@settings(max_examples=20, deadline=None)
@given(layouts(), st.integers(-9, 40), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_comparisons_of_indices(layout, bound, operator):
    shape = tuple(layout.out_sizes.values())
    n = lego.size("n")

    @lego.kernel(grid=1, block=32 * layout.in_sizes.get("warp", 1))
    def k(y: lego.Tensor(i32, Row(*shape)), z: lego.Tensor(i32, Row(*shape)), w: lego.Tensor(i32, Row(n))):
        i, j = lego.arange(layout, 0), lego.arange(layout, -1)
        where = eval(f"i + {bound} {operator} 2 * j", {"i": i, "j": j})
        lego.where(where, i.to(i32), -1).store(y)
        lego.where(eval(f"n {operator} i + j - {bound}", {"i": i, "j": j, "n": n}), 1, lego.full(i32, layout, 0)).store(
            z
        )

    names = dict(zip("ij", np.indices(shape), strict=True))
    y, z, _ = launch(k, np.zeros(shape), np.zeros(shape), np.zeros(7), sizes={"n": 7})
    np.testing.assert_array_equal(y, np.where(eval(f"i + {bound} {operator} 2 * j", names), names["i"], -1))
    np.testing.assert_array_equal(z, eval(f"7 {operator} i + j - {bound}", names))
