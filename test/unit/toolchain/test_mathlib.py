"""The math functions that kernels get: accurate to the bound that `device_math.ll` states, and complete or refused.

They are run on the host: PTX's two approximate instructions are replaced by exact ones, and everything else in the file
is plain LLVM IR. (`ex2.approx` and `rsqrt.approx` add at most 2 units of the last place: PTX ISA.)
"""

import ctypes
import math

import llvmlite.binding as llvm
import numpy as np
import pytest

from lego_mlir.errors import DependencyError
from lego_mlir.hardware.targets import target_named
from lego_mlir.toolchain import mathlib
from lego_mlir.toolchain.llvm import parse, to_ptx

SATURATED = """(float %a, float %b, float %c) {
  %r = call float @llvm.fma.f32(float %a, float %b, float %c)
  %low = call float @llvm.maxnum.f32(float %r, float 0.0)
  %both = call float @llvm.minnum.f32(float %low, float 1.0)
  ret float %both
}"""
ROUNDED_DOWN = """(float %a, float %b, float %c) {
  %x = fpext float %a to double
  %y = fpext float %b to double
  %z = fpext float %c to double
  %r = call double @llvm.fma.f64(double %x, double %y, double %z)
  %whole = call double @llvm.floor.f64(double %r)
  %n = fptrunc double %whole to float
  ret float %n
}"""  # where a float has no digits behind the point
EXACTLY = {"llvm.nvvm.fma.rn.sat.f": SATURATED, "llvm.nvvm.fma.rm.f": ROUNDED_DOWN}


@pytest.fixture(scope="module")
def host():
    """Each math function as a Python function on float32 arrays, by JIT."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = mathlib.own_text().replace("linkonce_odr", "").replace("alwaysinline", "")
    text = text.replace("declare float @llvm.nvvm.ex2.approx.f(float)\n", "declare float @llvm.exp2.f32(float)\n")
    text = text.replace("@llvm.nvvm.ex2.approx.f", "@llvm.exp2.f32")
    text = text.replace("declare float @llvm.nvvm.rsqrt.approx.f(float)\n", "")
    text = text.replace("call float @llvm.nvvm.rsqrt.approx.f(float %x)", "fdiv float 1.0, %x")
    for name, body in EXACTLY.items():
        own = name.removeprefix("llvm.")
        text = text.replace(f"declare float @{name}(float, float, float)\n", f"define float @{own}{body}\n")
        text = text.replace(f"@{name}(", f"@{own}(")
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(parse(text), machine)
    engine.finalize_object()

    def function(name):
        arity = 2 if name in ("pow", "atan2") else 1
        call = ctypes.CFUNCTYPE(*[ctypes.c_float] * (arity + 1))(engine.get_function_address(f"__nv_{name}f"))
        return lambda *values: np.array([call(*v) for v in zip(*values, strict=True)], np.float32)

    yield function
    engine.close()


def ulps(found, exact):
    """Errors in units of the last place of the exact value's float32."""
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return np.abs(found.astype(np.float64) - exact) / unit


RANDOM = np.random.default_rng(1)
NORMAL = RANDOM.normal(size=20_000).astype(np.float32)
POSITIVE = np.exp2(RANDOM.uniform(-149, 127, 20_000)).astype(np.float32)
CASES = {
    "exp": (np.exp, RANDOM.uniform(-104, 88.7, 20_000), 2),
    "exp2": (np.exp2, RANDOM.uniform(-149, 127.9, 20_000), 2),
    "log": (np.log, np.concatenate([POSITIVE, 1 + NORMAL[:10_000] * 0.05]), 1),
    "log2": (np.log2, np.concatenate([POSITIVE, 1 + NORMAL[:10_000] * 0.05]), 2),
    "log10": (np.log10, np.concatenate([POSITIVE, 1 + NORMAL[:10_000] * 0.05]), 2),
    "tanh": (np.tanh, np.concatenate([NORMAL, NORMAL * 10]), 2),
    "erf": (np.vectorize(math.erf), np.concatenate([NORMAL, NORMAL * 3]), 3),
    "sin": (np.sin, np.concatenate([NORMAL * 4, NORMAL * 1e4, NORMAL * 1e9]), 2),
    "cos": (np.cos, np.concatenate([NORMAL * 4, NORMAL * 1e4, NORMAL * 1e9]), 2),
    "expm1": (np.expm1, np.concatenate([RANDOM.uniform(-20, 88.7, 20_000), NORMAL, NORMAL * 0.01]), 2),
    "log1p": (np.log1p, np.concatenate([POSITIVE, NORMAL[np.abs(NORMAL) < 1], np.exp2(-np.abs(NORMAL) * 5) - 1]), 1),
    "sinh": (np.sinh, np.concatenate([RANDOM.uniform(-89, 89, 20_000), NORMAL, NORMAL * 1e-3]), 2),
    "cosh": (np.cosh, np.concatenate([RANDOM.uniform(-89, 89, 20_000), NORMAL]), 2),
    "tan": (np.tan, np.concatenate([NORMAL * 4, NORMAL * 1e4, NORMAL * 1e9]), 3),
    "asin": (np.arcsin, np.concatenate([RANDOM.uniform(-1, 1, 20_000), 1 - np.exp2(-np.abs(NORMAL) * 8)]), 2),
    "acos": (np.arccos, np.concatenate([RANDOM.uniform(-1, 1, 20_000), np.exp2(-np.abs(NORMAL) * 8) - 1]), 2),
    "atan": (np.arctan, np.concatenate([NORMAL, POSITIVE]), 2),
}
OTHER = RANDOM.permutation(POSITIVE)
PAIRS = {
    "pow": (np.power, [
        (POSITIVE, NORMAL), (np.exp2(NORMAL * 0.1), NORMAL[::-1] * 300), (1 + NORMAL * 1e-6, NORMAL[::-1] * 1e7),
        (NORMAL * 5, np.rint(NORMAL[::-1] * 20)),
    ], 2),
    "atan2": (np.arctan2, [(NORMAL, NORMAL[::-1]), (POSITIVE, -OTHER), (-POSITIVE, OTHER)], 2),
}  # fmt: skip
SPECIAL = np.float32([0, -0.0, 1, -1, 1e-45, -1e-40, 0.5, -2.5, 3, -3, 16777217, 3e38, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("name", CASES)
def test_accurate_to_the_stated_bound(host, name):
    exact, values, bound = CASES[name]
    values = values.astype(np.float32)
    with np.errstate(over="ignore", divide="ignore"):
        error = ulps(host(name)(values), exact(values.astype(np.float64)))
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{name}({values[worst]!r}) is off by {error[worst]:.2f} ulp"


@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two_numbers_are_as_accurate(host, name):
    exact, columns, bound = PAIRS[name]
    for x, y in columns:
        x, y = x.astype(np.float32), y.astype(np.float32)
        expected = exact(x.astype(np.float64), y.astype(np.float64))
        found = host(name)(x, y)
        with np.errstate(over="ignore"):
            is_finite = np.isfinite(expected.astype(np.float32))
        np.testing.assert_array_equal(np.isfinite(found), is_finite)
        error = ulps(found[is_finite], expected[is_finite])
        worst = int(np.argmax(error))
        assert error[worst] <= bound, f"{name}({x[worst]!r}, {y[worst]!r}) is off by {error[worst]:.2f} ulp"


@pytest.mark.parametrize("name", [*PAIRS, "expm1", "log1p", "sinh", "cosh", "asin", "acos", "atan", "tan"])
def test_zeros_infinities_and_nan_as_numpy_has_them(host, name):
    values = SPECIAL[np.abs(SPECIAL) < 1e30] if name == "tan" else SPECIAL
    columns = [c.ravel() for c in np.meshgrid(values, values)] if name in PAIRS else [values]
    exact = (PAIRS[name] if name in PAIRS else CASES[name])[0]
    with np.errstate(all="ignore"):
        expected = exact(*(c.astype(np.float64) for c in columns)).astype(np.float32)
    found = host(name)(*columns)
    edge = ~np.isfinite(expected) | (expected == 0)
    np.testing.assert_array_equal(found[edge], expected[edge])
    np.testing.assert_array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("exp", 89.0, math.inf),
        ("exp", -200.0, 0.0),
        ("exp", math.inf, math.inf),
        ("exp", -math.inf, 0.0),
        ("exp", 0.0, 1.0),
        ("exp2", 10.0, 1024.0),
        ("log", 0.0, -math.inf),
        ("log", math.inf, math.inf),
        ("log2", 2.0**-149, -149.0),
        ("tanh", 100.0, 1.0),
        ("erf", -9.0, -1.0),
        ("erf", 0.0, 0.0),
        ("erf", math.inf, 1.0),
        ("sin", 0.0, 0.0),
        ("cos", 0.0, 1.0),
    ],
)
def test_exact_values(host, name, value, expected):
    assert host(name)([value])[0] == np.float32(expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, math.nan) for name in CASES), ("log", -1.0), ("sin", math.inf), ("cos", 1e30), ("log2", -math.inf)],
)
def test_nan(host, name, value):
    assert np.isnan(host(name)([value])[0])


CALL = """
declare float @{name}(float)
define ptx_kernel void @k(ptr %p) {{
  %x = load float, ptr %p
  %y = call float @{name}(float %x)
  store float %y, ptr %p
  ret void
}}
"""


def test_a_kernel_that_calls_none_is_left_as_it_is():
    text = "define ptx_kernel void @k() { ret void }"
    assert mathlib.link_math(text) is text


@pytest.mark.parametrize(
    "name", ["__nv_expf", "__nv_sinf", "__nv_erff", "__nv_sqrtf", "__nv_tanf", "__nv_log1pf", "__nv_coshf"]
)
def test_own_functions_leave_no_call_and_no_other_entry(name):
    ptx = to_ptx(mathlib.link_math(CALL.format(name=name)), target_named("sm_75"))
    assert "call" not in ptx
    assert ".extern" not in ptx
    assert ptx.count(".visible") == 1


def test_a_function_that_is_nowhere_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(mathlib, "libdevice", lambda: None)
    with pytest.raises(DependencyError, match=r"__nv_acoshf.*pip install nvidia-nvvm"):
        mathlib.link_math(CALL.format(name="__nv_acoshf"))


@pytest.mark.tools
@pytest.mark.skipif(mathlib.libdevice() is None, reason="needs NVIDIA's libdevice (pip install nvidia-nvvm)")
def test_the_rest_comes_from_libdevice():
    ptx = to_ptx(mathlib.link_math(CALL.format(name="__nv_acoshf")), target_named("sm_80"))
    assert ".extern" not in ptx
    assert "reflect" not in ptx
    assert ptx.count(".visible") == 1
