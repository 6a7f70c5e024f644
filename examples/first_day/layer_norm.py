"""Layer norm: each row minus its mean, divided by its standard deviation, scaled and shifted.

A block computes a row, which its threads keep in registers.

lego-mlir run examples/first_day/layer_norm.py --size M=20 --size N=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

T, KEPT = 128, 8  # threads of a block, elements of a thread
M, N = lego.size("M"), lego.size("N", max=T * KEPT)
MATRIX, VECTOR = lego.Tensor(f32, Row(M, N)), lego.Tensor(f32, Row(N))


@lego.kernel(grid=M, block=T)
def layer_norm(x: MATRIX, weight: VECTOR, bias: VECTOR, y: MATRIX):
    row, columns = lego.block_id[0], [lego.thread_id[0] + k * T for k in range(KEPT)]
    kept = [x.halo()[row, j] for j in columns]
    mean = lego.block_reduce(sum(kept)) / f32(N)
    kept = [lego.where(j < N, value - mean, 0) for j, value in zip(columns, kept, strict=True)]
    scale = lego.rsqrt(lego.block_reduce(sum(value**2 for value in kept)) / f32(N) + 1e-5)
    kept = [value * scale * weight.halo()[j] + bias.halo()[j] for j, value in zip(columns, kept, strict=True)]
    for j, value in zip(columns, kept, strict=True):
        y.halo()[row, j] = value


@layer_norm.reference
def expected(x, weight, bias):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias
