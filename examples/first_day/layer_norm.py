"""Layer norm: each row minus its mean, divided by its standard deviation, scaled and shifted; a block for each row.

lego-mlir run examples/first_day/layer_norm.py --size M=20 --size N=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

T = 128
M, N = lego.size("M"), lego.size("N")
MATRIX, VECTOR = lego.Tensor(f32, Row(M, N)), lego.Tensor(f32, Row(N))


@lego.kernel(grid=M, block=T)
def layer_norm(x: MATRIX, weight: VECTOR, bias: VECTOR, y: MATRIX):
    row, t = lego.block_id[0], lego.thread_id[0]
    total, squares = lego.register(f32, 0.0), lego.register(f32, 0.0)
    for j in lego.range(t, N, T):
        total += x[row, j]
    mean = lego.block_reduce(total) / f32(N)
    for j in lego.range(t, N, T):
        squares += (x[row, j] - mean) ** 2
    scale = lego.rsqrt(lego.block_reduce(squares) / f32(N) + 1e-5)
    for j in lego.range(t, N, T):
        y[row, j] = (x[row, j] - mean) * scale * weight[j] + bias[j]


@layer_norm.reference
def expected(x, weight, bias):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias
