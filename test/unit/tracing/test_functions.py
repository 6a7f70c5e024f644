"""The functions of data against NumPy in f64: their errors in ulps, their special values, and their way to PTX.

The interpreter and the CPU path are run here; the functions that a GPU gets are measured in test_mathlib.py.
"""

import math

import numpy as np
import pytest
from launching import elementwise, launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, f64, i1, i32, u8
from lego_mlir.errors import DependencyError, ToolchainError, TraceError
from lego_mlir.runtime.comparing import ulp
from lego_mlir.toolchain import compile_kernel, mathlib

N = 1024
FLOATS = (f16, bf16, f32, f64)
SPECIAL = [0.0, -0.0, 1, -1, 0.5, 1.5, 2.5, -0.5, -2.5, 1e-42, -1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan]
RANDOM = np.random.default_rng(5)
NORMAL, WIDE = RANDOM.standard_normal(N), RANDOM.uniform(-90, 90, N)
POSITIVE = np.exp2(RANDOM.uniform(-40, 40, N))

EXACT = {
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sign": np.sign,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip
ROUNDED = {
    "expm1": (np.expm1, (NORMAL * 0.01, NORMAL, WIDE / 10)),
    "log1p": (np.log1p, (NORMAL * 0.01, POSITIVE)),
    "sinh": (np.sinh, (NORMAL, WIDE / 10)),
    "cosh": (np.cosh, (NORMAL, WIDE / 10)),
    "tan": (np.tan, (NORMAL, WIDE)),
    "asin": (np.arcsin, (WIDE / 90,)),
    "acos": (np.arccos, (WIDE / 90,)),
    "atan": (np.arctan, (NORMAL, WIDE)),
}
OF_TWO = {
    "pow": (np.power, ((POSITIVE, NORMAL), (NORMAL, np.rint(WIDE / 20)))),
    "atan2": (np.arctan2, ((NORMAL, WIDE), (POSITIVE, NORMAL))),
}
BOUNDS = {"interpreter": 0.51, "CPU": 1.5}  # in ulps; f16 and bf16 are rounded from f32 once more


def runs(name, *columns, dtype, out=None):
    """The results of the interpreter and of the CPU."""
    kernel = elementwise(getattr(lego, name), *[dtype] * len(columns), out=out or dtype, n=N)
    columns = [np.resize(c, N).astype(dtype.numpy) for c in columns]
    for where, run in {"interpreter": launch, "CPU": launch_on_cpu}.items():
        yield where, run(kernel, *columns, np.zeros(N))[-1], [c.astype(np.float64) for c in columns]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(name, dtype):
    with np.errstate(over="ignore"):
        column = np.concatenate([SPECIAL, np.arange(-8, 8) / 2 + 0.25, NORMAL * 100])[:N].astype(dtype.numpy)
    out = i1 if name.startswith("is") else dtype
    for where, found, (exact,) in runs(name, column, dtype=dtype, out=out):
        expected = EXACT[name](exact)
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64), err_msg=where)
        if out is not i1:
            number = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(expected)[number], err_msg=where)


def check(name, exact_function, columns, dtype):
    for where, found, given in runs(name, *columns, dtype=dtype):
        with np.errstate(all="ignore"):
            expected = exact_function(*given)
            rounded = expected.astype(dtype.numpy).astype(np.float64)
        found = found.astype(np.float64)
        finite = np.isfinite(rounded)
        np.testing.assert_array_equal(found[~finite], rounded[~finite], err_msg=f"{name} {where}")
        error = np.abs(found[finite] - expected[finite]) / ulp(expected[finite], dtype.name)
        bound = BOUNDS[where] + (1.0 if dtype is f64 else 0.0)  # NumPy's own error
        assert error.max(initial=0) <= bound, (name, where, [g[finite][error.argmax()] for g in given], error.max())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rounded_functions(dtype):
    with np.errstate(over="ignore", invalid="ignore"):
        for name, (exact, columns) in ROUNDED.items():
            check(
                name, exact, [np.concatenate([np.float64(SPECIAL), *(c[: N // len(columns)] for c in columns)])], dtype
            )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_two_numbers(dtype):
    a, b = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(over="ignore", invalid="ignore"):
        for name, (exact, pairs) in OF_TWO.items():
            for x, y in (*pairs, (a, b)):
                check(name, exact, (x, y), dtype)
        for where, found, (x, y) in runs("copysign", a, b, dtype=dtype):
            expected = np.copysign(x, y)
            number = ~np.isnan(expected)  # conversions lose the sign of a NaN
            np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(expected)[number], err_msg=where)
            np.testing.assert_array_equal(found.astype(np.float64), expected, err_msg=where)


def test_a_power_is_also_an_operator():
    x = np.abs(NORMAL).astype(np.float32)
    kernel = elementwise(lambda x: x**2 + 2**x, f32, out=f32, n=N)
    np.testing.assert_allclose(
        launch(kernel, x, np.zeros(N))[-1], x.astype(float) ** 2 + 2 ** x.astype(float), rtol=3e-7
    )


def test_functions_of_vectors():
    @lego.kernel(grid=1, block=16)
    def kernel(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        t = lego.thread_id[0]
        v = x.load(4 * t, width=4)
        y.store(
            lego.expm1(lego.where(lego.isfinite(v), v, 0)) + lego.floor(v) * lego.sign(v) + lego.log1p(abs(v)), 4 * t
        )

    x = NORMAL[:64].astype(np.float32)
    expected = np.expm1(x.astype(float)) + np.floor(x) * np.sign(x) + np.log1p(abs(x.astype(float)))
    for run in (launch, launch_on_cpu):
        np.testing.assert_allclose(run(kernel, x, np.zeros(64))[1], expected, rtol=1e-6, atol=1e-6)


FUNCTIONS = [*(n for n in EXACT if not n.startswith("is")), *ROUNDED]


def everything(a, b):
    total = a
    for name in FUNCTIONS:
        total = total + getattr(lego, name)(a)
    for name in ("pow", "atan2", "copysign"):
        total = total + getattr(lego, name)(total, b)
    return lego.where(lego.isnan(a) | lego.isinf(b) | lego.isfinite(total), total, a)


@pytest.mark.tools
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [f16, bf16, f32], ids=str)
def test_ptxas_takes_every_function_without_libdevice(monkeypatch, dtype, target):
    monkeypatch.setattr(mathlib, "libdevice", lambda: None)
    assert compile_kernel((elementwise(everything, dtype, dtype, out=dtype),), emit="cubin", target=target).bytes


@pytest.mark.tools
def test_exact_functions_of_f64_need_no_libdevice(monkeypatch):
    monkeypatch.setattr(mathlib, "libdevice", lambda: None)

    def body(a, b):
        return lego.floor(a) + lego.ceil(a) + lego.round(a) + lego.trunc(a) + lego.copysign(a, b) + lego.sign(b)

    assert compile_kernel((elementwise(body, f64, f64, out=f64),), emit="cubin", target="sm_80").bytes
    with pytest.raises((DependencyError, ToolchainError), match=r"__nv_tan.*pip install nvidia-nvvm"):
        compile_kernel((elementwise(lego.tan, f64, out=f64, n=32),), emit="ptx", target="sm_80", cache=None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: lego.floor(lego.thread_id[0]), r"floor takes data of a kernel, got tx; convert the index"),
        (lambda x: lego.isnan(i32(3)), r"isnan is not defined for i32; convert it, for example with \.to\(lego\.f32\)"),
        (lambda x: lego.atan2(x[0], u8(1)), r"atan2 of different element types \(f32, u8\)"),
        (lambda x: lego.clz(x[0]), "clz is not defined for f32; convert it to an integer type"),
        (lambda x: round(x[0], 2), r"round\(x, 2\) of data: round\(x\) has no digits; scale x before and after"),
        (lambda x: x[0] % 2, r"mod is not defined for f32; a float remainder is x - y\*lego\.floor\(x/y\)"),
    ],
)
def test_what_is_refused(body, message):
    def run(x: lego.Tensor(f32, Row(8))):
        body(x)

    with pytest.raises(TraceError, match=message):
        lego.kernel(grid=1, block=8)(run).trace()


def test_python_s_own_rounding_functions_and_squares():
    def body(x):
        return round(x) + math.floor(x) * 2 + math.ceil(x) * 4 + math.trunc(x) * 8 + x**2

    x = (NORMAL * 3).astype(np.float32)
    kernel = elementwise(body, f32, out=f32, n=N)
    whole = np.rint(x) + np.floor(x) * 2 + np.ceil(x) * 4 + np.trunc(x) * 8
    expected = (whole + x.astype(np.float64) ** 2).astype(np.float32)  # one rounding: x**2 is contracted
    np.testing.assert_array_equal(launch(kernel, x, np.zeros(N))[-1], expected)
    assert "math.powf" not in kernel.mlir()
