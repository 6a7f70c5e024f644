"""A linear recurrence along rows, y[t] = a[t] * y[t - 1] + x[t]: a warp scans the pairs (a, x) of a row.

The pairs compose: (a, x) then (b, y) is (a * b, b * x + y), an associative function.

lego-mlir run examples/second_week/linear_recurrence.py --size M=5 --size N=100
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

WARPS = 4
M, N = lego.size("M"), lego.size("N")
MATRIX = lego.Tensor(f32, Row(M, N))


@lego.kernel(grid=lego.cdiv(M, WARPS), block=32 * WARPS)
def linear_recurrence(a: MATRIX, x: MATRIX, y: MATRIX):
    row, lane, carried = lego.block_id[0] * WARPS + lego.warp_id, lego.lane_id, lego.register(f32, 0.0)
    for first in lego.range(0, N, 32):
        factor, value = a.halo()[row, first + lane], x.halo()[row, first + lane]
        for distance in (1, 2, 4, 8, 16):
            before, earlier = lego.shuffle_up(factor, distance), lego.shuffle_up(value, distance)
            value = lego.where(lane >= distance, factor * earlier + value, value)
            factor = lego.where(lane >= distance, factor * before, factor)
        value = factor * carried + value
        y.halo()[row, first + lane] = value
        carried.set(lego.shuffle(value, 31))


@linear_recurrence.reference(rtol=1e-4, atol=1e-4)
def expected(a, x):
    y, last = np.zeros_like(x), np.zeros(len(x), np.float32)
    for t in range(x.shape[1]):
        last = y[:, t] = a[:, t] * last + x[:, t]
    return y
