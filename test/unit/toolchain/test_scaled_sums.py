"""Sums with a product by a power of two, fused: the same number for every float, power and constant in range."""

import numpy as np
import pytest
from launching import launch_emulated

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.toolchain import scaled_sums

FMA = "declare float @llvm.fma.f32(float, float, float)\n"


def function(name, power="shl i32 %n, 23", constant="1.000000e+00", rest=""):
    return (
        f"define float @{name}(i32 %n, float %f) {{\n  %1 = {power}\n  %2 = bitcast i32 %1 to float\n"
        f"  %3 = fmul float %f, %2\n{rest}  %4 = fadd float %3, {constant}\n  ret float %4\n}}\n"
    )


def once_rounded(x, power, constant):
    """x * power + constant of f32, rounded once."""
    exact = x.astype(np.longdouble) * power.astype(np.longdouble) + np.longdouble(constant)
    return exact.astype(np.float32)


@pytest.mark.parametrize("constant", [1.0, -1.0, 0.5, 3.25, -7e8, 2.0**-90, 2.0**90])
def test_the_product_is_exact_or_does_not_count(constant):
    rng = np.random.default_rng(7)
    x = (1 + rng.random(1 << 16)).astype(np.float32) * rng.choice(np.float32([-1, 1]), 1 << 16)
    power = (rng.integers(0, 512, x.size).astype(np.uint32) << np.uint32(23)).view(np.float32)  # zero, infinity, signs
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(x * power + np.float32(constant), once_rounded(x, power, np.float32(constant)))


def test_what_is_fused_and_what_stays():
    text = FMA + function("k") + function("other", "add i32 %n, 23")
    made = scaled_sums.fused(text)
    assert made.count("@llvm.fma.f32(float %f") == 1
    assert "fmul float %f, %2" in made.partition("@other")[2]
    for other in (
        function("k", constant="0.000000e+00"), function("k", constant="0x3A00000000000000"),
        function("k", constant="%f"), function("k", rest="  %5 = fadd float %3, %3\n"),
    ):  # fmt: skip
        assert scaled_sums.fused(FMA + other) == FMA + other
    assert scaled_sums.fused(function("k")) == function("k")


def test_the_end_of_a_logistic_function():
    @lego.kernel(grid=1, block=64)
    def logistic(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        t = lego.thread_id[0]
        y[t] = 1.0 / (1.0 + lego.exp(-x[t]))

    x = np.linspace(-110, 110, 64, dtype=np.float32)
    found = launch_emulated(logistic, x, np.zeros_like(x))[1]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-x.astype(np.float64))), rtol=1e-6, atol=1e-38)
    assert "mul.rn.f32" not in logistic.ptx("sm_90a")
