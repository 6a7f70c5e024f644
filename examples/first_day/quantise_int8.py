"""Quantise each row of a matrix to int8: its largest size becomes 127, and the scale is kept.

lego-mlir run examples/first_day/quantise_int8.py --size M=20 --size N=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32, i8

T = 128
M, N = lego.size("M"), lego.size("N")


@lego.kernel(grid=M, block=T)
def quantise(x: lego.Tensor(f32, Row(M, N)), q: lego.Tensor(i8, Row(M, N)), scale: lego.Tensor(f32, Row(M))):
    row, t, largest = lego.block_id[0], lego.thread_id[0], lego.register(f32, 1e-30)
    for j in lego.range(t, N, T):
        largest.set(lego.maximum(largest, abs(x[row, j])))
    step = lego.block_reduce(largest, "max") / 127
    for j in lego.range(t, N, T):
        q[row, j] = lego.round(x[row, j] / step).to(i8)
    with lego.when(t == 0):
        scale[row] = step


@quantise.reference
def expected(x):
    step = (np.maximum(np.abs(x).max(axis=1), 1e-30).astype(np.float32) / np.float32(127)).astype(np.float32)
    return np.rint(x.astype(np.float32) / step[:, None]).astype(np.int8), step
