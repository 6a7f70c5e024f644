"""Softmax of each row of a matrix, a block for each row.

lego-mlir run examples/first_day/row_softmax.py --size M=20 --size N=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

T = 128
M, N = lego.size("M"), lego.size("N")


@lego.kernel(grid=M, block=T)
def softmax(x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Row(M, N))):
    row, t = lego.block_id[0], lego.thread_id[0]
    largest, total = lego.register(f32, float("-inf")), lego.register(f32, 0.0)
    for j in lego.range(t, N, T):
        largest.set(lego.maximum(largest, x[row, j]))
    shift = lego.block_reduce(largest, "max")
    for j in lego.range(t, N, T):
        total += lego.exp(x[row, j] - shift)
    scale = 1 / lego.block_reduce(total)
    for j in lego.range(t, N, T):
        y[row, j] = lego.exp(x[row, j] - shift) * scale


@softmax.reference
def expected(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
