"""`lego.value_and_derivative` against differences of NumPy's functions in f64."""

import math

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32
from lego_mlir.errors import LegoError
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.tracing.spread.derivatives import RULES

SHAPE = (8, 32)
LAYOUT = f2.Blocked((1, 2), (2, 16), (4, 1), (1, 0)).layout(SHAPE)
erf = np.vectorize(math.erf)
FUNCTIONS = {
    "add sub mul": (lambda x: (x + 2.0) * (3.0 - x) + x, lambda x: (x + 2) * (3 - x) + x),
    "truediv neg": (lambda x: -x / (x + 2.0) + 1.0 / x, lambda x: -x / (x + 2) + 1 / x),
    "fma": (lambda x: lego.fma(x, x, x), lambda x: x * x + x),
    "abs": (lambda x: abs(x - 1.0) * x, lambda x: abs(x - 1) * x),
    "exp exp2 expm1": (lambda x: lego.exp(x) + lego.exp2(x) * lego.expm1(x), lambda x: np.exp(x) + 2**x * np.expm1(x)),
    "log log2 log1p": (
        lambda x: lego.log(x) * lego.log1p(x) - lego.log2(x), lambda x: np.log(x) * np.log1p(x) - np.log2(x)
    ),
    "sqrt rsqrt pow": (
        lambda x: lego.sqrt(x) * lego.rsqrt(x + 1.0) + lego.pow(x, x),
        lambda x: np.sqrt(x) / np.sqrt(x + 1) + x**x,
    ),
    "tanh sinh cosh": (
        lambda x: lego.tanh(x) + lego.sinh(x) * lego.cosh(x), lambda x: np.tanh(x) + np.sinh(x) * np.cosh(x)
    ),
    "sin cos tan": (
        lambda x: lego.sin(x) * lego.cos(x) + lego.tan(x / 2.0), lambda x: np.sin(x) * np.cos(x) + np.tan(x / 2)
    ),
    "asin acos atan": (
        lambda x: lego.asin(x / 3.0) + x * lego.acos(x / 3.0) + lego.atan(x),
        lambda x: np.arcsin(x / 3) + x * np.arccos(x / 3) + np.arctan(x),
    ),
    "atan2 erf": (lambda x: lego.atan2(x, x + 1.0) + lego.erf(x), lambda x: np.arctan2(x, x + 1) + erf(x)),
    "fast": (lambda x: lego.exp(x, fast=True) * lego.divide(x, x + 1.0, fast=True), lambda x: np.exp(x) * x / (x + 1)),
    "choices": (
        lambda x: lego.maximum(x, 0.7) + lego.minimum(x * x, 1.3) + lego.where(x > 1.1, x * 3.0, 0.5),
        lambda x: np.maximum(x, 0.7) + np.minimum(x * x, 1.3) + np.where(x > 1.1, x * 3, 0.5),
    ),
    "steps": (lambda x: lego.floor(x) * x + lego.sign(x), lambda x: np.floor(x) * x + np.sign(x)),
    "itself": (lambda x: x, lambda x: x),
    "nothing of x": (lambda x: lego.zeros(f32, LAYOUT) + 2.0, lambda x: 0 * x + 2),
    "rounded": (lambda x: x.to(f16).to(f32) * 2.0, lambda x: 2 * x),
}  # fmt: skip


def run(function, x):
    @lego.kernel(grid=1, block=128)
    def both(
        x: lego.Tensor(f32, Row(*SHAPE)), value: lego.Tensor(f32, Row(*SHAPE)), slope: lego.Tensor(f32, Row(*SHAPE))
    ):
        found = lego.value_and_derivative(function, lego.load(x, LAYOUT))
        for one, out in zip(found, (value, slope), strict=True):
            one.store(out)

    value, slope = np.zeros_like(x), np.zeros_like(x)
    assert run_kernel(both, {"x": x.ravel(), "value": value.ravel(), "slope": slope.ravel()}, {}).clean
    return value, slope


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name):
    function, oracle = FUNCTIONS[name]
    x = np.random.default_rng(0).uniform(0.2, 1.9, SHAPE).astype(np.float32)
    value, slope = run(function, x)
    exact, step = x.astype(np.float64), 2.0**-20
    difference = (oracle(exact + step) - oracle(exact - step)) / (2 * step)
    smooth = np.abs((oracle(exact + 4 * step) - oracle(exact - 4 * step)) / (8 * step) - difference) < 1e-3
    assert smooth.mean() > 0.9
    np.testing.assert_allclose(value, oracle(exact), rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(slope[smooth], difference[smooth], rtol=2e-4, atol=2e-4)


def test_each_rule_is_compared():
    assert {word for name in FUNCTIONS for word in name.split()} >= set(RULES)


def test_a_number_of_a_thread():
    @lego.kernel(grid=1, block=32)
    def squares(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(2, 32))):
        t = lego.thread_id[0]
        y[0, t], y[1, t] = lego.value_and_derivative(lambda v: v * v, x[t])

    x, y = np.arange(32, dtype=np.float32), np.zeros(64, np.float32)
    assert run_kernel(squares, {"x": x, "y": y}, {}).clean
    np.testing.assert_array_equal(y.reshape(2, 32), [x * x, 2 * x])


@pytest.mark.parametrize(("function", "slopes_of_x"), [
    (lambda v: v, [1, 1, 1, 1]), (lambda v: v + 1.0, [1, 1, 1, 1]), (lambda v: lego.maximum(v, 1.0), [0, 1, 1, 0]),
])  # fmt: skip
def test_a_derivative_of_a_vector_is_one(function, slopes_of_x):
    @lego.kernel(grid=1, block=1)
    def slopes(x: lego.Tensor(f32, Row(4)), y: lego.Tensor(f32, Row(4))):
        _, slope = lego.value_and_derivative(function, x.load(0, width=4))
        for k in range(4):
            y[k] = slope[k]

    x, y = np.array([0.5, 1.5, 2.5, -1.0], np.float32), np.zeros(4, np.float32)
    assert run_kernel(slopes, {"x": x, "y": y}, {}).clean
    np.testing.assert_array_equal(y, slopes_of_x)


@pytest.mark.parametrize(("function", "words"), [
    (lambda x: x.sum(axis=1)[:, None] + x, "depends on its argument by .*, which has no derivative here"),
    (lambda x: x > 0.0, "gives a value like its argument"),
    (lambda x: lego.copysign(x, x), "by copysign, which has no derivative here; compute each element by arithmetic"),
])  # fmt: skip
def test_what_is_refused(function, words):
    with pytest.raises(LegoError, match=words):
        run(function, np.zeros(SHAPE, np.float32))


def test_arguments_that_are_refused():
    @lego.kernel(grid=1, block=32)
    def wrong(y: lego.Tensor(f32, Row(32))):
        y[0] = lego.value_and_derivative(lambda v: v, 1.0)[0]

    with pytest.raises(LegoError, match=r"the argument is a float, or a tile of floats with a layout, got 1\.0"):
        wrong.trace()
