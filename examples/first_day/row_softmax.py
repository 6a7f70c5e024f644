"""Softmax of each row of a matrix, a block for each row, which its threads keep in registers.

lego-mlir run examples/first_day/row_softmax.py --size M=20 --size N=1000
"""

from functools import reduce

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

T, KEPT = 128, 8  # threads of a block, elements of a thread
M, N = lego.size("M"), lego.size("N", max=T * KEPT)


@lego.kernel(grid=M, block=T)
def softmax(x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Row(M, N))):
    row, t = lego.block_id[0], lego.thread_id[0]
    source, result = (v.tile_by([M, KEPT], [1, T]) for v in (x, y))
    kept = [source.load(row, k, 0, t, other=float("-inf")) for k in range(KEPT)]
    shift = lego.block_reduce(reduce(lego.maximum, kept), "max")
    powers = [lego.exp(value - shift) for value in kept]
    scale = 1 / lego.block_reduce(sum(powers))
    for k, power in enumerate(powers):
        result[row, k, 0, t] = power * scale


@softmax.reference
def expected(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
