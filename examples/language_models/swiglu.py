"""SwiGLU, silu(gate) * up, and its gradients, in which the activations are computed again.

lego-mlir run examples/language_models/swiglu.py --size M=5
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f32

STEP = 2048  # elements of a block, which may be of several rows
M = lego.size("M", max=2**31)


def sigmoid(x):
    return 1.0 / (1.0 + lego.exp(-x))


@lego.generic
def swiglu(T, N):
    """silu(gate) * up of rows of N elements of T."""
    rows = lego.Tensor(T, Row(M, N))

    @lego.kernel(grid=lego.cdiv(M * N, STEP), block=128, fast=True)
    def kernel(gate: rows, up: rows, y: rows):
        at = (lego.block_id[0] * STEP,)
        a, b = (lego.load(array.flat(), (STEP,), at=at).to(f32) for array in (gate, up))
        (a * sigmoid(a) * b).to(T).store(y.flat(), at=at)

    @kernel.reference(rtol=1e-5 if T is f32 else 2**-8 + 1e-5, atol=1e-6)
    def expected(gate, up):
        a = gate.astype(np.float64)
        return a / (1 + np.exp(-a)) * up.astype(np.float64)

    return kernel


@lego.generic
def swiglu_gradient(T, N):
    """The gradients of gate and up by that of the product."""
    rows = lego.Tensor(T, Row(M, N))

    @lego.kernel(grid=lego.cdiv(M * N, STEP), block=128, fast=True)
    def kernel(gradient: rows, gate: rows, up: rows, of_gate: rows, of_up: rows):
        at = (lego.block_id[0] * STEP,)
        g, a, b = (lego.load(array.flat(), (STEP,), at=at).to(f32) for array in (gradient, gate, up))
        share = sigmoid(a)
        silu = a * share
        (g * b * (share + silu * (1.0 - share))).to(T).store(of_gate.flat(), at=at)
        (g * silu).to(T).store(of_up.flat(), at=at)

    @kernel.reference(rtol=1e-5 if T is f32 else 2**-8 + 1e-5, atol=1e-5)
    def expected(gradient, gate, up):
        g, a, b = (array.astype(np.float64) for array in (gradient, gate, up))
        share = 1 / (1 + np.exp(-a))
        return g * b * share * (1 + a * (1 - share)), g * a * share

    return kernel


forward, backward = swiglu[bf16, 1000], swiglu_gradient[f32, 1001]
