"""Arithmetic on vectors of f16 and bf16: two elements an instruction, and a fused multiply-add that rounds once."""

import numpy as np
import pytest
from launching import elementwise, launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, bf16, f16
from lego_mlir.toolchain import compile_kernel

# Rounded to f32 first, each sum is a tie between two numbers, and would round up: a * b + c is just below the tie.
TIES = {
    f16: (2.0**-5 * (1 + 2.0**-10), 2.0**-6 * (1 - 2.0**-10), 1 + 2.0**-10, 1 + 2.0**-10),
    bf16: (1.5, 1 + 2.0**-7, -(2.0**-40), 1.5 + 2.0**-7),
}


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_a_fused_multiply_add_rounds_once(dtype):
    *given, expected = TIES[dtype]
    kernel = elementwise(lego.fma, dtype, dtype, dtype, out=dtype)
    for run in (launch, launch_on_cpu):
        assert float(run(kernel, *given, np.zeros(64))[-1][0]) == expected


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_the_cpu_computes_what_the_interpreter_computes(dtype):
    random = np.random.default_rng(0)
    a, b, c = (
        (random.standard_normal(1024) * np.exp2(random.integers(low, high, 1024))).astype(dtype.numpy)
        for low, high in ((-14, 10), (-14, 5), (-24, 10))
    )
    a[:9], b[:9] = np.repeat([np.inf, np.nan, -0.0], 3), np.tile([0.0, -np.inf, 1.0], 3)
    kernel = elementwise(lego.fma, dtype, dtype, dtype, out=dtype, n=1024)
    found = [run(kernel, a, b, c, np.zeros(1024))[-1].astype(np.float64) for run in (launch, launch_on_cpu)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_ptx_computes_two_elements_an_instruction(dtype, target):
    @lego.kernel(grid=1, block=8)
    def kernel(x: lego.Tensor(dtype, Row(64)), y: lego.Tensor(dtype, Row(64)), a: dtype):
        t = lego.thread_id[0]
        v, w = x.load(8 * t, width=8), y.load(8 * t, width=8)
        y.store(lego.fma(v, lego.vector(*[a] * 8), w) - lego.maximum(v, w) * w + v, 8 * t)

    ptx = compile_kernel((kernel,), emit="ptx", target=target).text
    assert ptx.count(f"fma.rn.{dtype}x2") >= 4
    packed = [line for line in ptx.splitlines() if f".{dtype}x2" in line]
    assert len(packed) == 20  # five operations on four pairs
    assert "cvt." not in ptx
