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


def together(left, right):
    return left[0] | right[0], lego.where(right[0] != 0, right[1], left[1] + right[1])


@lego.kernel(grid=lego.cdiv(N, T), block=128, max_registers=40)
def segmented_sum(
    segment: lego.Tensor(i32, Row(N), range=(0, S)), x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(S))
):
    k = lego.arange(EIGHT, 0)
    i = lego.block_id[0] * T + k
    mine, after = segment.load(i, mask=i < N), segment.load(i + 1, mask=i + 1 < N, other=-1)
    before = segment.load(i - 1, mask=(i > 0) & (i - 1 < N))
    _, sums = lego.scan(((mine != before).to(i32), x.load(i, mask=i < N)), 0, together)
    y.atomic_add(sums, mine, mask=((mine != after) | (k == T - 1)) & (i < N))


@segmented_sum.inputs
def inputs(rng, N, S):
    return {"segment": np.sort(rng.integers(0, S, N)).astype(np.int32), "y": np.zeros(S, np.float32)}


@segmented_sum.reference(rtol=1e-4, atol=1e-4)
def expected(segment, x, y):
    sums = np.zeros(len(y))
    np.add.at(sums, segment, x)
    return sums
