"""Sums of neighbours with the same segment, as of the rows of a sparse matrix: segments are sorted numbers.

A scan of pairs adds within segments: (starts, a) then (begins, b) is (starts | begins, b if begins else a + b). The
last element of a segment in a block adds its sum to the result, since a segment may span several blocks.

lego-mlir run examples/second_week/segmented_sum.py --size N=3000 --size S=70
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f2, f32, i32

T = 1024
N, S = lego.size("N", max=2**30), lego.size("S", max=2**20)
EIGHT = f2.Blocked((8,), (32,), (4,), order=(0,)).layout((T,))  # a thread has 8 neighbours
ONE = f2.Blocked((1,), (32,), (4,), order=(0,)).layout((T // 8,))


def together(left, right):
    return left[0] | right[0], lego.where(right[0] != 0, right[1], left[1] + right[1])


@lego.kernel(grid=lego.cdiv(N, T), block=128, max_registers=40)
def segmented_sum(
    segment: lego.Tensor(i32, Row(N), range=(0, S)), x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(S))
):
    k, first = lego.arange(EIGHT, 0), lego.block_id[0] * T
    own, edge = lego.load(segment, EIGHT, at=(first,)), first + 8 * lego.arange(ONE, 0)
    (left,) = segment.load(edge - 1, mask=(edge > 0) & (edge - 1 < N)).registers
    (right,) = segment.load(edge + 8, mask=edge + 8 < N).registers
    before, after = (
        lego.Spread(EIGHT, i32, found) for found in ([left, *own.registers[:-1]], [*own.registers[1:], right])
    )
    _, sums = lego.scan(((own != before).to(i32), lego.load(x, EIGHT, at=(first,))), 0, together)
    ends = (own != after) | (k == T - 1) | (first + k == N - 1)
    y.atomic_add(sums, own, mask=ends & (first + k < N))


@segmented_sum.inputs
def inputs(rng, N, S):
    return {"segment": np.sort(rng.integers(0, S, N)).astype(np.int32), "y": np.zeros(S, np.float32)}


@segmented_sum.reference(rtol=1e-4, atol=1e-4)
def expected(segment, x, y):
    sums = np.zeros(len(y))
    np.add.at(sums, segment, x)
    return sums
