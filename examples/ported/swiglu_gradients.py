"""Liger-Kernel's `_swiglu_backward_kernel` (Triton): gradients of silu(a) * b, from activations that are not kept.

lego-mlir run examples/ported/swiglu_gradients.py --size M=3 --size N=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f2, f32

BLOCK = 1024
M, N = lego.size("M"), lego.size("N", multiple_of=8)
MATRIX = lego.Tensor(bf16, Row(M, N))
LAYOUT = f2.Blocked((1, 8), (1, 32), (1, 4), order=(1, 0)).layout((1, BLOCK))


@lego.kernel(grid=(lego.cdiv(N, BLOCK), M), block=128)
def swiglu_gradients(gradient: MATRIX, a: MATRIX, b: MATRIX, of_a: MATRIX, of_b: MATRIX):
    at = (lego.block_id[1], lego.block_id[0] * BLOCK)
    dc, x, y = (lego.load(matrix, LAYOUT, at=at).to(f32) for matrix in (gradient, a, b))
    sigmoid = 1.0 / (1.0 + lego.exp(-x))
    silu = x * sigmoid
    (dc * (silu * (1.0 - sigmoid) + sigmoid) * y).to(bf16).store(of_a, at=at)
    (dc * silu).to(bf16).store(of_b, at=at)


@swiglu_gradients.reference(rtol=1e-2, atol=1e-3)
def expected(gradient, a, b):
    dc, x, y = (matrix.astype(np.float64) for matrix in (gradient, a, b))
    sigmoid = 1 / (1 + np.exp(-x))
    return dc * (x * sigmoid * (1 - sigmoid) + sigmoid) * y, dc * x * sigmoid
