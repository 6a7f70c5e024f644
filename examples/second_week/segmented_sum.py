"""Sums of neighbours with the same segment, as of the rows of a sparse matrix: segments are sorted numbers.

A scan of pairs adds within segments: (starts, a) then (begins, b) is (starts | begins, b if begins else a + b). The
last element of a segment in a block adds its sum to the result, since a segment may span several blocks.

lego-mlir run examples/second_week/segmented_sum.py --size N=3000 --size S=70
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32, i32

T = 1024
N, S = lego.size("N"), lego.size("S", max=2**20)


def together(left, right):
    return left[0] | right[0], lego.where(right[0] != 0, right[1], left[1] + right[1])


@lego.kernel(grid=lego.cdiv(N, T), block=128)
def segmented_sum(
    segment: lego.Tensor(i32, Row(N), range=(0, S)), x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(S))
):
    i = lego.block_id[0] * T + lego.arange((T,))
    mine, after = segment.load(i, mask=i < N), segment.load(i + 1, mask=i + 1 < N)
    before = segment.load(i - 1, mask=(i > 0) & (i < N))
    _, sums = lego.scan(((mine != before).to(i32), x.load(i, mask=i < N)), 0, together)
    ends = (mine != after) | (i + 1 >= N) | (lego.arange((T,)) == T - 1)
    y.atomic_add(sums, mine, mask=ends & (i < N))


@segmented_sum.inputs
def inputs(rng, N, S):
    return {"segment": np.sort(rng.integers(0, S, N)).astype(np.int32), "y": np.zeros(S, np.float32)}


@segmented_sum.reference(rtol=1e-4, atol=1e-4)
def expected(segment, x, y):
    sums = np.zeros(len(y))
    np.add.at(sums, segment, x)
    return sums
