"""The bound of each element: right kernels are right in whatever order they add, and one wrong element is wrong."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, f64, i32
from lego_mlir.errors import TraceError
from lego_mlir.kernels import copy, matmul, transpose
from lego_mlir.runtime import data, tolerance
from lego_mlir.runtime.comparing import compare
from lego_mlir.tracing.checks.roundings import Roundings, roundings


def judged(kernel, found_of, sizes=None, seed=0):
    """What `found_of` computes from the drawn input, in the kernel's types, against reference and bound."""
    sizes = sizes or {}
    drawn = data.draw(kernel, sizes, seed)
    results = data.expected(kernel, drawn, sizes)
    allowed = tolerance.allowed(kernel, drawn, sizes, results)
    (name,) = results
    dtype = next(p.dtype for p in kernel.params if p.name == name)
    inputs = [drawn[p.name] for p in kernel.params if p.read]
    found = np.asarray(found_of(*inputs)).astype(dtype.numpy)

    def verdict(changed):
        stored = changed.astype(np.float64) if dtype.is_float else changed
        return compare(stored, results[name], dtype.mlir, allowed[name])

    return found, verdict


def sum_of_rows(rows, n, dtype=f32, chunk=1):
    """The sum of each row; one thread a row, `chunk` terms in one turn of its loop."""

    @lego.kernel(grid=1, block=rows)
    def row_sum(x: lego.Tensor(dtype, Row(rows, n)), y: lego.Tensor(dtype, Row(rows))):
        t = lego.thread_id[0]
        total = lego.register(dtype, 0.0)
        for k in lego.range(0, n, chunk):
            for j in lego.unroll(0, chunk):
                total += x[t, k + j]
        y[t] = total.get()

    row_sum.reference(lambda x: x.sum(axis=1))
    return row_sum


def tree_sum(n):
    """The sum of n numbers in shared memory, halved again and again."""

    @lego.kernel(grid=1, block=n // 2)
    def tree(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(1))):
        t = lego.thread_id[0]
        tile = lego.shared(f32, Row(n))
        tile[t], tile[t + n // 2] = x[t], x[t + n // 2]
        half = n // 2
        while half:
            lego.barrier()
            with lego.when(t < half):
                tile[t] = tile[t] + tile[t + half]
            half //= 2
        with lego.when(t < 1):
            y[t] = tile[t]

    tree.reference(lambda x: x.sum(keepdims=True))
    return tree


def pointwise(function, reference, dtype=f32, n=4096):
    @lego.kernel(grid=n // 64, block=64)
    def point(x: lego.Tensor(dtype, Row(n)), y: lego.Tensor(dtype, Row(n))):
        i = lego.block_id[0] * 64 + lego.thread_id[0]
        y[i] = function(x[i])

    point.reference(lambda x: reference(x))
    return point


def softmax(rows, n):
    @lego.kernel(grid=1, block=rows)
    def soft(x: lego.Tensor(f32, Row(rows, n)), y: lego.Tensor(f32, Row(rows, n))):
        t = lego.thread_id[0]
        largest = lego.register(f32, -1e30)
        for k in lego.range(n):
            largest.set(lego.maximum(largest.get(), x[t, k]))
        total = lego.register(f32, 0.0)
        for k in lego.range(n):
            total += lego.exp(x[t, k] - largest.get())
        for k in lego.range(n):
            y[t, k] = lego.exp(x[t, k] - largest.get()) / total.get()

    def reference(x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    soft.reference(reference)
    return soft


def there_and_back(x):
    return (x + 1e4) - 1e4


def with_constants(x):
    return x * 0.1 + 0.7


def serial(x):
    return np.add.accumulate(x, axis=1, dtype=x.dtype)[:, -1]


def product(a, b):
    """f32 accumulation, one term after another."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total += a[:, k, None] * b[k]
    return total


def numpy_softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / serial(e)[:, None]


RIGHT = {
    "serial f32 sum of 16,384": (lambda: sum_of_rows(64, 16384), serial),
    "pairwise f32 sum of 16,384": (lambda: sum_of_rows(64, 16384, chunk=4), lambda x: x.sum(axis=1)),
    "serial f64 sum": (lambda: sum_of_rows(64, 4096, f64), serial),
    "serial f16 sum": (lambda: sum_of_rows(64, 512, f16), serial),
    "serial bf16 sum": (lambda: sum_of_rows(64, 256, bf16), serial),
    "tree": (lambda: tree_sum(1024), lambda x: x.sum(keepdims=True)),
    "matmul f16 to f32": (lambda: matmul.build(64, 128, 4096, f16, result=f32), product),
    "matmul f16 to f16": (lambda: matmul.build(64, 128, 4096, f16, result=f16), product),
    "matmul bf16 to bf16": (lambda: matmul.build(64, 128, 4096, bf16, result=bf16), product),
    "softmax": (lambda: softmax(64, 1024), numpy_softmax),
    "exp f32": (lambda: pointwise(lego.exp, np.exp), np.exp),
    "exp f16": (lambda: pointwise(lego.exp, np.exp, f16), np.exp),
    "exp bf16": (lambda: pointwise(lego.exp, np.exp, bf16), lambda x: np.exp(x.astype(np.float32))),
    "cancelling inside": (lambda: pointwise(there_and_back, there_and_back), there_and_back),
    "constants": (lambda: pointwise(with_constants, with_constants), with_constants),
    "copy f16": (lambda: copy.build(128, 96, f16), lambda x: x),
    "transpose i32": (lambda: transpose.build("swizzled", 64, 96, i32), lambda x: x.T),
}  # fmt: skip


@cache
def right(name):
    """The kernel of this name, traced once."""
    return RIGHT[name][0](), RIGHT[name][1]


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_right_kernel_is_right(name, seed):
    kernel, compute = right(name)
    found, verdict = judged(kernel, compute, seed=seed)
    result = verdict(found)
    assert result, str(result)


def negated(values, k):
    values[k] = -values[k]


def zeroed(values, k):
    values[k] = 0


def neighbour(values, k):
    values[k] = values[k - 1]


def a_little_off(values, k):
    """By 1 %; in bf16, whose neighbours may be that far apart, by 2 %."""
    values[k] = float(values[k]) * (1.02 if values.dtype == ml_dtypes.bfloat16 else 1.01)


def as_nan(values, k):
    values[k] = np.nan


def as_infinity(values, k):
    values[k] = np.inf


CHANGES = (negated, zeroed, neighbour, a_little_off, as_nan, as_infinity)


@pytest.mark.parametrize("name", ["matmul f16 to f32", "matmul f16 to f16", "matmul bf16 to bf16", "softmax", "exp f32",
                                  "copy f16", "serial f32 sum of 16,384"])  # fmt: skip
def test_one_wrong_element_is_wrong(name):
    """Elements of at least the typical size, for a cancelled one may be as small as the rounding of its terms."""
    kernel, compute = right(name)
    found, verdict = judged(kernel, compute)
    flat = found.astype(np.float64).reshape(-1)
    large = np.flatnonzero(np.abs(flat) >= np.median(np.abs(flat)))
    for k in (large[0], large[len(large) // 2], large[-1]):
        for change in CHANGES:
            mutant = found.reshape(-1).copy()
            change(mutant, k)
            if abs(float(mutant[k]) - flat[k]) < 0.005 * abs(flat[k]):
                continue  # the neighbour has the same value by chance
            result = verdict(mutant.reshape(found.shape))
            assert not result, (change.__name__, k, flat[k], mutant[k])
            assert (result.wrong, result.first_wrong.position) == (1, k)


@pytest.mark.parametrize("n", [1, 2, 31, 1000, 100_000])
@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64])
def test_a_copy_is_exact(n, dtype):
    """One norm over the array hides one element of many."""
    kernel = copy.build(1, n, dtype)
    found, verdict = judged(kernel, lambda x: x)
    assert verdict(found)
    for k in {0, n // 2, n - 1}:
        mutant = found.copy()
        mutant[0, k] = -mutant[0, k]
        assert verdict(mutant).wrong == 1
        words = found.copy().view(f"u{dtype.bytes}")
        words[0, k] += 1
        result = verdict(words.view(found.dtype))
        assert (result.wrong, result.first_wrong.allowed) == (1, 0)


def test_roundings_are_counted_through_loops_tiles_and_types():
    def counts(kernel, name="y"):
        chain = roundings(kernel.trace(), {s.name: 1000 for s in kernel.sizes})[name]
        return {dtype: chain.count(dtype) for dtype in ("f16", "bf16", "f32", "f64")}

    assert counts(sum_of_rows(64, 16384)) == {"f16": 0, "bf16": 0, "f32": 16384, "f64": 0}
    assert counts(tree_sum(1024)) == {"f16": 0, "bf16": 0, "f32": 10, "f64": 0}
    assert counts(copy.build(64, 64, f16), "dst") == {"f16": 0, "bf16": 0, "f32": 0, "f64": 0}
    assert counts(pointwise(lego.exp, np.exp, f16)) == {"f16": 1, "bf16": 0, "f32": 8, "f64": 0}
    product = counts(matmul.build(64, 64, 4096, f16, result=f16), "c")
    assert product["f16"] == 1
    assert 4096 <= product["f32"] <= 4096 + 64


def test_roundings_of_a_loop_that_data_or_sizes_end():
    n = lego.size("n")

    @lego.kernel(grid=1, block=1)
    def by_size(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(1))):
        total = lego.register(f32, 0.0)
        for k in lego.range(n):
            total += x[k]
        y[0] = total.get()

    assert roundings(by_size.trace(), {"n": 777})["y"].count("f32") == 777

    @lego.kernel(grid=1, block=8)
    def triangle(x: lego.Tensor(f32, Row(8)), y: lego.Tensor(f32, Row(8))):
        t = lego.thread_id[0]
        total = lego.register(f32, 0.0)
        for k in lego.range(t + 1):
            total += x[k]
        y[t] = total.get()

    assert roundings(triangle.trace(), {})["y"].count("f32") == 8


def test_a_loop_whose_turns_are_not_known_may_take_as_many_as_there_are_elements():
    @lego.kernel(grid=1, block=1)
    def by_data(counts: lego.Tensor(i32, Row(1)), x: lego.Tensor(f32, Row(500)), y: lego.Tensor(f32, Row(1))):
        total = lego.register(f32, 0.0)
        for k in lego.range(counts[0]):
            total += x[k]
        y[0] = total.get()

    assert roundings(by_data.trace(), {})["y"].count("f32") >= 499


def test_no_number_of_roundings_excuses_everything():
    assert Roundings((10**6, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0)).share == 2.0**-4
    assert Roundings((0, 0, 2, 0, 0, 0), (0, 1, 0, 0, 0, 0)).share == 2.0**-23


def test_a_spec_may_set_the_tolerance():
    kernel = pointwise(lego.exp, np.exp)
    kernel.reference(rtol=0.25)(lambda x: np.exp(x))
    found, verdict = judged(kernel, np.exp)
    assert verdict(found * np.float32(1.2))
    assert not verdict(found * np.float32(1.3))

    @kernel.reference(atol=0.5)
    def expected(x):
        return np.exp(x)

    found, verdict = judged(kernel, np.exp)
    assert verdict(found + np.float32(0.4))
    assert not verdict(found + np.float32(0.6))
    assert kernel.expected is expected


@pytest.mark.parametrize("given", [{"rtol": -1}, {"atol": float("nan")}, {"rtol": "1e-3"}, {"atol": True}])
def test_a_tolerance_is_a_number(given):
    kernel = sum_of_rows(4, 4)
    with pytest.raises(TraceError, match=r"of the reference of row_sum must be a number of at least 0, such as 1e-3"):
        kernel.reference(**given)
    with pytest.raises(TraceError, match=r"the reference of row_sum must be a function, got 0.1; write a tolerance as"):
        kernel.reference(0.1)


def test_a_reference_that_rounds_its_inputs_has_a_bound_all_the_same():
    kernel = sum_of_rows(64, 256)
    kernel.reference(lambda x: x.astype(np.float16).astype(np.float64).sum(axis=1))
    drawn = data.draw(kernel, {}, 0)
    results = data.expected(kernel, drawn, {})
    (allowed,) = tolerance.allowed(kernel, drawn, {}, results).values()
    assert (allowed > 0).all()
    assert (allowed < 0.1).all()


def test_a_reference_that_fails_on_other_inputs_still_has_a_bound():
    kernel = pointwise(lambda x: x * x, np.square)

    def only_these(x):
        if not np.array_equal(x, x.astype(np.float32)) or x.dtype != np.float64:
            raise ValueError("not these")
        return x * x

    kernel.reference(only_these)
    found, verdict = judged(kernel, np.square)
    assert verdict(found)
    found[7] *= 1.01
    assert not verdict(found)


def test_indices_without_an_element_do_not_loosen_or_tighten_a_bound():
    """27 of the 32 indices are past the end; their values in the reference must not reach the bounds of the others."""
    tiled = Row(5).tile_by([1], [32])

    @lego.kernel(grid=1, block=5)
    def exponential(x: lego.Tensor(f32, tiled), y: lego.Tensor(f32, tiled)):
        t = lego.thread_id[0]
        y[0, t] = lego.exp(x[0, t]) + 1

    drawn = data.draw(exponential, {}, 0)

    def bounds(past_the_end):
        def expected(x):
            result = np.exp(x) + 1
            result[0, 5:] = past_the_end(x[0, :1])
            return result

        exponential.reference(expected)
        results = data.expected(exponential, drawn, {})
        return tolerance.allowed(exponential, drawn, {}, results)["y"][0, :5]

    assert np.array_equal(bounds(lambda x: 0 * x), bounds(lambda x: 1e6 * np.sin(x)))


def test_bf16_words_are_judged_by_their_ulps():
    exact = np.float64([1.0, 1.0 + 2.0**-8])
    words = exact.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert compare(words, exact, "bf16", np.full(2, 2.0**-8))
    words[0] += 2
    result = compare(words, exact, "bf16", np.full(2, 2.0**-8))
    assert str(result.first_wrong) == "found 1.015625, expected 1.0, off by 2 ulps, allowed 0.5 ulps"
