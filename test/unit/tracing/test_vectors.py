"""Vectors in a kernel, run: wide loads and stores, lanes, arithmetic on all elements at once, masks."""

import numpy as np
import pytest
from launching import launch

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i8, i32
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.tracing.trace.trace import For

X = np.arange(64) - 20


def test_lanes_are_taken_apart_and_put_together():
    @lego.kernel(grid=1, block=16)
    def reverse(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        i = lego.thread_id[0]
        _, b, c, d = x.load(4 * i, width=4)
        y.store(lego.vector(d, c, b, 7), 4 * i)

    _, y = launch(reverse, X, np.zeros(64))
    want = X.reshape(16, 4)[:, ::-1].copy()
    want[:, 3] = 7
    np.testing.assert_array_equal(y, want.reshape(-1))


@pytest.mark.parametrize(("dtype", "width"), [(f32, 4), (f32, 2), (f16, 8), (i8, 16), (i32, 4)], ids=str)
def test_arithmetic_on_all_elements_at_once(dtype, width):
    @lego.kernel(grid=1, block=64 // width)
    def compute(x: lego.Tensor(dtype, Row(64)), y: lego.Tensor(dtype, Row(64)), z: lego.Tensor(i32, Row(64))):
        i = lego.thread_id[0] * width
        v = x.load(i, width=width)
        y.store(lego.where(v > 3, v * 2 + v[0], -v), i)
        for k in lego.unroll(width):
            z[i + k] = (abs(v) < 5)[k].to(i32)

    _, y, z = launch(compute, X, np.zeros(64), np.zeros(64))
    first = X.reshape(-1, width)[:, :1].repeat(width, axis=1).reshape(-1)
    np.testing.assert_array_equal(y.astype(int), np.where(X > 3, X * 2 + first, -X).astype(dtype.numpy).astype(int))
    np.testing.assert_array_equal(z, (abs(X) < 5).astype(int))


def test_conversions_and_functions_of_vectors():
    @lego.kernel(grid=1, block=8)
    def compute(x: lego.Tensor(f16, Row(64)), y: lego.Tensor(f16, Row(64))):
        i = lego.thread_id[0] * 8
        v = x.load(i, width=None)
        y.store(lego.sqrt(abs(v.to(f32)) + 1).to(f16) + lego.sqrt(abs(v)), i)

    x = X.astype(np.float16)
    _, y = launch(compute, x, np.zeros(64))
    want = np.sqrt(np.abs(x).astype(np.float32) + 1).astype(np.float16) + np.sqrt(np.abs(x))
    np.testing.assert_array_equal(y, want)


def test_a_register_of_a_vector_goes_through_a_loop():
    @lego.kernel(grid=1, block=4)
    def columns(x: lego.Tensor(f32, Row(10, 16)), y: lego.Tensor(f32, Row(16))):
        j = lego.thread_id[0] * 4
        total = lego.register(f32, 0.0, width=4)
        for i in lego.range(10):
            total += x.load(i, j, width=4)
        y.store(total, j)

    x = np.random.default_rng(0).integers(0, 9, (10, 16))
    np.testing.assert_array_equal(launch(columns, x, np.zeros(16))[1], x.sum(0))
    assert "-> (vector<4xf32>)" in columns.mlir()


def test_masked_vectors_leave_the_rest_alone():
    n = lego.size("n", min=4, max=64, multiple_of=4)

    @lego.kernel(grid=1, block=16)
    def copy(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(n)), z: lego.Tensor(f32, Row(64))):
        i = lego.thread_id[0] * 4
        v = x.tile_by([1], [64]).load(0, i, width=4, other=-5)
        y.tile_by([1], [64]).store(v, 0, i)
        z.store(v, i)

    _, y, z = launch(copy, np.arange(40), np.zeros(40), np.zeros(64), sizes={"n": 40})
    np.testing.assert_array_equal(y, np.arange(40))
    np.testing.assert_array_equal(z, np.where(np.arange(64) < 40, np.arange(64), -5))


def test_one_number_stored_over_a_width():
    @lego.kernel(grid=1, block=16)
    def fill(y: lego.Tensor(f32, Row(64))):
        y.store(2.5, lego.thread_id[0] * 4, width=4)

    np.testing.assert_array_equal(launch(fill, np.zeros(64))[0], np.full(64, 2.5))
    assert "vector.store" in fill.mlir()


def refused(body, pattern):
    def run(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f16, Row(64))):
        body(x, y)

    with pytest.raises(TraceError, match=pattern):
        lego.kernel(grid=1, block=4)(run).trace()


def test_what_vectors_cannot():
    refused(lambda x, y: x.load(0, width=4)[4], r"<vector<4xf32> %\d+> has no element 4")
    refused(lambda x, y: x[0][0], r"<f32 %\d+> has no element 0")
    refused(lambda x, y: x.load(0, width=4) + x.load(0, width=2), r"add of vectors of different widths: \[2, 4\]")
    refused(lambda x, y: lego.vector(x[0], x[1], x[2]), "takes 2, 4, 8 or 16 elements")
    refused(lambda x, y: lego.vector(x[0], y[1]), "a value of type f32 is needed here")
    refused(lambda x, y: x[x.load(0, width=4).to(i32)], "cannot be used as an index")


def test_a_loop_that_begins_at_a_thread_s_own_vector_keeps_its_vectors_aligned():
    columns = lego.size("C", multiple_of=8)

    @lego.kernel(grid=2, block=4)
    def copy(x: lego.Tensor(f16, Row(2, columns)), y: lego.Tensor(f16, Row(2, columns))):
        i, t = lego.block_id.x, lego.thread_id.x
        for k in lego.range(t * 8, columns, 32):
            y.store(x.load(i, k, width=8), i, k)

    (loop,) = [s for s in copy.trace().statements() if isinstance(s, For)]
    assert copy.trace().ranges[loop.symbol].step == 8


@pytest.mark.parametrize(
    ("begin", "step", "common"),
    [(lambda t: 8 * t + 3, 32, 8), (lambda t: 6 * t, 32, 2), (lambda t: t, 32, 1), (lambda t: 3, 32, 32)],
)
def test_the_step_of_a_loop_is_what_its_values_have_in_common(begin, step, common):
    @lego.kernel(grid=1, block=4)
    def count(y: lego.Tensor(f32, Row(64))):
        t = lego.thread_id.x
        for k in lego.range(begin(t), 64, step):
            y[k] = 1.0

    (loop,) = [s for s in count.trace().statements() if isinstance(s, For)]
    values = {k for t in range(4) for k in range(begin(t), 64, step)}
    known = count.trace().ranges[loop.symbol]
    assert known.step == common
    assert all((value - known.lo) % known.step == 0 for value in values)


def test_a_vector_across_the_lines_of_a_layout_is_told_of_the_other_direction():
    @lego.kernel(grid=1, block=8)
    def columns(x: lego.Tensor(f32, lego.Col(32, 8)), y: lego.Tensor(f32, Row(8, 32))):
        i = lego.thread_id[0]
        y.store(x.load(i, 0, width=4), i, 0)

    with pytest.raises(LayoutError, match=r"memory is contiguous along dimension 0: .*, or load from x\.T\)"):
        columns.trace()

    @lego.kernel(grid=1, block=8)
    def turned(x: lego.Tensor(f32, lego.Col(32, 8)), y: lego.Tensor(f32, Row(8, 32))):
        i = lego.thread_id[0]
        y.store(x.T.load(i, 0, width=4), i, 0)

    turned.trace()


def test_two_sizes_of_one_name_are_told_before_anything_is_proved_of_them():
    @lego.kernel(grid=1, block=8)
    def twins(
        x: lego.Tensor(f32, Row(8, lego.size("N", multiple_of=4))), y: lego.Tensor(f32, Row(8, lego.size("N", min=8)))
    ):
        y.store(x.load(lego.thread_id[0], 0, width=4), lego.thread_id[0], 0)

    with pytest.raises(
        TraceError, match=r"the size N of twins needs another name: .* or another size with different facts"
    ):
        twins.trace()
