"""The data of a kernel, run: operators, conversions, functions, registers, loops and branches against NumPy."""

import math

import ml_dtypes
import numpy as np
import pytest
from launching import elementwise, launch

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, f64, i1, i8, i16, i32, i64

N = 64


def apply(function, *columns, dtypes, out):
    return launch(elementwise(function, *dtypes, out=out), *columns, np.zeros(N))[-1]


A = np.linspace(-3, 3, N)
B = np.linspace(0.5, 9, N)
INTS = np.arange(N) - 30
DIVISORS = np.where(np.arange(N) % 2, 7, -5)

FLOAT_OPERATORS = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: 2 - (a - b), lambda a, b: 2 - (a - b)),
    "mul": (lambda a, b: 3 * a * b, lambda a, b: 3 * a * b),
    "div": (lambda a, b: a / b, lambda a, b: a / b),
    "neg": (lambda a, b: -a, lambda a, b: -a),
    "abs": (lambda a, b: abs(a), lambda a, b: np.abs(a)),
    "minimum": (lego.minimum, np.minimum),
    "maximum": (lego.maximum, np.maximum),
    "where lt": (lambda a, b: lego.where(a < b, a, b), lambda a, b: np.where(a < b, a, b)),
    "where number": (lambda a, b: lego.where(a >= 0, a, 0), lambda a, b: np.where(a >= 0, a, 0)),
    "where two numbers of two": (
        lambda a, b: lego.where((a > 0) & ~(b > 5) | (a == b), b, -1.5),
        lambda a, b: np.where((a > 0) & ~(b > 5) | (a == b), b, -1.5),
    ),
}


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("name", FLOAT_OPERATORS)
def test_float_operators(name, dtype):
    ours, numpys = FLOAT_OPERATORS[name]
    a, b = A.astype(dtype.numpy), B.astype(dtype.numpy)
    want = np.asarray(numpys(a, b)).astype(dtype.numpy)
    np.testing.assert_array_equal(apply(ours, a, b, dtypes=[dtype, dtype], out=dtype), want)


INTEGER_OPERATORS = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "invert": lambda a, b: ~a,
    "lshift": lambda a, b: a << 1,
    "rshift": lambda a, b: a >> 2,
    "polynomial": lambda a, b: a * 3 - b + 1,
    "neg": lambda a, b: -a + abs(b),
}


@pytest.mark.parametrize("dtype", [i8, i16, i32, i64], ids=str)
@pytest.mark.parametrize("name", INTEGER_OPERATORS)
def test_integer_operators(name, dtype):
    function = INTEGER_OPERATORS[name]
    a, b = INTS.astype(dtype.numpy), DIVISORS.astype(dtype.numpy)
    np.testing.assert_array_equal(apply(function, a, b, dtypes=[dtype, dtype], out=dtype), function(a, b))


COMPARISONS = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


@pytest.mark.parametrize("dtype", [f32, i32], ids=str)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_nans_among_the_floats(name, dtype):
    compare = COMPARISONS[name]
    a = np.resize([1, 2, 3, -4], N).astype(dtype.numpy)
    b = np.resize([1, 3, 2, -4, 0], N).astype(dtype.numpy)
    if dtype.is_float:
        a[5] = b[7] = a[9] = b[9] = np.nan
    got = apply(lambda x, y: i32(compare(x, y)), a, b, dtypes=[dtype, dtype], out=i32)
    np.testing.assert_array_equal(got, compare(a, b).astype(np.int32))


@pytest.mark.parametrize("source", [f16, bf16, f32, f64, i8, i16, i32, i64], ids=str)
@pytest.mark.parametrize("target", [f16, bf16, f32, f64, i8, i16, i32, i64], ids=str)
def test_conversions(source, target):
    given = (np.arange(N) * 1.5 - 40).astype(source.numpy)
    want = given.astype(np.float64).astype(target.numpy) if target.is_float else given.astype(target.numpy)
    np.testing.assert_array_equal(apply(lambda x: x.to(target), given, dtypes=[source], out=target), want)


def test_truth_values_and_indices_convert():
    def body(x):
        i = lego.thread_id[0]
        return f32(x > 0) + f32(i) + f32((i % 2) < 1) + i8(i // 32).to(f32)

    i = np.arange(N)
    want = (A > 0).astype(np.float32) + i + (i % 2 < 1) + i // 32
    np.testing.assert_array_equal(apply(body, A, dtypes=[f32], out=f32), want.astype(np.float32))


def test_numbers_become_truth_values():
    x = np.where(np.arange(N) % 3, A, 0).astype(np.float32)
    np.testing.assert_array_equal(apply(lambda x: f32(x.to(i1)), x, dtypes=[f32], out=f32), (x != 0))


FUNCTIONS = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "erf": np.vectorize(math.erf),
}


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype):
    x = B.astype(dtype.numpy)
    got = apply(getattr(lego, name), x, dtypes=[dtype], out=dtype).astype(np.float64)
    precision = float(ml_dtypes.finfo(dtype.numpy).eps)
    np.testing.assert_allclose(got, FUNCTIONS[name](x.astype(np.float64)), rtol=2 * precision, atol=2 * precision)


def test_fma_rounds_once():
    x = np.full(N, 1 + 2.0**-12, np.float32)
    got = apply(lambda a, c: lego.fma(a, a, c), x, np.full(N, -1.0), dtypes=[f32, f32], out=f32)
    assert got[0] == np.float32(np.float64(x[0]) ** 2 - 1) != np.float32(x[0] * x[0]) - 1


def test_functions_are_those_of_numbers_outside_a_kernel():
    assert (lego.where(True, 1, 2), lego.minimum(3, 4), lego.maximum(3, 4)) == (1, 3, 4)
    np.testing.assert_array_equal(lego.where(np.array([True, False]), 1, 2), [1, 2])


def test_a_register_carries_a_sum_through_a_loop_and_a_branch():
    M, K = 16, 24

    @lego.kernel(grid=1, block=M)
    def row_sums(x: lego.Tensor(f32, Row(M, K)), y: lego.Tensor(f32, Row(M)), z: lego.Tensor(f32, Row(M))):
        i = lego.thread_id[0]
        total, positive = lego.register(f32, 0.0), lego.register(f32, 0.0)
        largest = lego.register(f32, x[i, 0])
        for k in lego.range(K):
            value = x[i, k]
            total += value
            with lego.when(value > 0):
                positive += value
            with lego.otherwise():
                positive -= 0.5
            largest.set(lego.maximum(largest, value))
        y[i] = total
        z[i] = positive * largest

    x = np.random.default_rng(0).integers(-8, 9, (M, K)).astype(np.float32)
    _, y, z = launch(row_sums, x, np.zeros(M), np.zeros(M))
    np.testing.assert_array_equal(y, x.sum(1))
    np.testing.assert_array_equal(z, (np.where(x > 0, x, -0.5)).sum(1) * x.max(1))
    assert row_sums.mlir().count("iter_args") == 1


def test_a_register_read_before_a_change_keeps_its_value():
    def body(x):
        r = lego.register(f32, x)
        before = r.get()
        r *= 2.0
        r -= 1
        return before * 100 + r

    np.testing.assert_array_equal(
        apply(body, A.round(), dtypes=[f32], out=f32), (A.round() * 100 + A.round() * 2 - 1).astype(np.float32)
    )


def test_a_loop_from_a_threads_own_index_in_steps_of_the_block():
    n = lego.size("n")

    @lego.kernel(grid=1, block=32)
    def double(x: lego.Tensor(f32, Row(n))):
        for i in lego.range(lego.thread_id[0], n, 32):
            x[i] = x[i] + x[i]

    for size in (5, 32, 100):
        (got,) = launch(double, np.arange(size), sizes={"n": size})
        np.testing.assert_array_equal(got, 2 * np.arange(size))
    assert not any(a.is_masked for _, a in double.trace().accesses())


def test_nested_loops_with_bounds_of_outer_variables():
    @lego.kernel(grid=1, block=8)
    def triangle(y: lego.Tensor(i32, Row(8))):
        i = lego.thread_id[0]
        count = lego.register(i32, 0)
        for j in lego.range(i + 1):
            for k in lego.range(j, i + 1):
                count += i32(j + k)
        y[i] = count

    (got,) = launch(triangle, np.zeros(8))
    assert got.tolist() == [sum(j + k for j in range(i + 1) for k in range(j, i + 1)) for i in range(8)]


def test_an_index_from_memory_gathers_and_scatters():
    @lego.kernel(grid=1, block=N)
    def gather(order: lego.Tensor(i32, Row(N)), x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        i = lego.thread_id[0]
        j = order[i]
        y[(j + i) % N] = x[j]

    order = np.arange(N) * 2 % N  # j + i runs over multiples of 3: each position once
    _, x, y = launch(gather, order, A, np.zeros(N))
    want = np.zeros(N, np.float32)
    want[(order + np.arange(N)) % N] = x[order]
    np.testing.assert_array_equal(y, want)


def test_conditions_of_indices_and_of_data_combine():
    def body(x):
        i = lego.thread_id[0]
        y = lego.register(f32, 0)
        with lego.when((i < 40) & (x > 0) | (i == 3)):
            y.set(x)
        return y

    i = np.arange(N)
    want = np.where((i < 40) & (A > 0) | (i == 3), A, 0).astype(np.float32)
    np.testing.assert_array_equal(apply(body, A.astype(np.float32), dtypes=[f32], out=f32), want)


def test_a_number_parameter_and_masked_loads_with_another_value():
    n = lego.size("n", max=64)

    @lego.kernel(grid=1, block=N)
    def shift(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(N)), alpha: f32, k: i32):
        i = lego.thread_id[0]
        tiled = x.tile_by([1], [N])
        y[i] = tiled.load(0, i, other=-1) * alpha + f32(k)

    _, y, *_ = launch(shift, np.arange(50), np.zeros(N), 2.0, 7, sizes={"n": 50})
    np.testing.assert_array_equal(y, np.where(np.arange(N) < 50, np.arange(N), -1) * 2 + 7)


@pytest.mark.parametrize("form", ["affine", "index", "arith"])
def test_every_form_of_index_arithmetic_computes_the_same(form):
    layout = lego.gallery.antidiagonal(16)

    @lego.kernel(grid=(2, 2), block=(8, 8))
    def pack(x: lego.Tensor(f32, Row(16, 16)), y: lego.Tensor(f32, layout)):
        bx, by, tx, ty = *lego.block_id, *lego.thread_id
        y[by * 8 + ty, bx * 8 + tx] = x[by * 8 + ty, bx * 8 + tx]

    x = np.arange(256).reshape(16, 16)
    np.testing.assert_array_equal(launch(pack, x, np.zeros((16, 16)), form=form)[1], x)


def test_constant_tables_and_run_time_tables():
    order = np.random.default_rng(3).permutation(64)

    def build(**options):
        @lego.kernel(grid=1, block=64)
        def place(
            x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, lego.gallery.table([64], order, "order", **options))
        ):
            y[lego.thread_id[0]] = x[lego.thread_id[0]]

        return place

    fixed = build()
    assert "memref.global" in fixed.mlir()
    x = np.arange(64)
    np.testing.assert_array_equal(launch(fixed, x, np.zeros(64))[1], x)

    late = build(runtime=True)
    assert [p.name for p in late.params] == ["x", "y", "order"]
    np.testing.assert_array_equal(launch(late, x, np.zeros(64), order)[1], x)


def test_three_dimensions_of_ids_and_the_sizes_of_grid_and_block():
    seen = {}

    @lego.kernel(grid=(2, 3, 4), block=(4, 2, 3))
    def number(y: lego.Tensor(i32, Row(4, 3, 2, 3, 2, 4))):
        seen["sizes"] = (*lego.block_dim[:], *lego.grid_dim[:], len(lego.block_dim), len(lego.thread_id))
        seen["named"] = (lego.block_dim.x, lego.block_dim.y, lego.grid_dim.z, *lego.grid_dim)
        t, b = lego.thread_id, lego.block_id
        y[b.z, b.y, b.x, t[2], t[1], t[0]] = i32(b.z * 1000 + b.y * 100 + b.x * 10 + t.z + t.y * t.x)

    (y,) = launch(number, np.zeros((4, 3, 2, 3, 2, 4)))
    bz, by, bx, tz, ty, tx = np.indices((4, 3, 2, 3, 2, 4))
    np.testing.assert_array_equal(y, bz * 1000 + by * 100 + bx * 10 + tz + ty * tx)
    assert seen["sizes"] == (4, 2, 3, 2, 3, 4, 3, 3)
    assert seen["named"] == (4, 2, 4, 2, 3, 4)


def test_numbers_of_numpy_are_numbers():
    got = apply(lambda x: np.float32(2) * x + np.int64(3) - np.float64(0.5), A.round(), dtypes=[f32], out=f32)
    np.testing.assert_array_equal(got, A.round() * 2 + 2.5)
