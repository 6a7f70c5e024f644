"""Sums of neighbours with the same segment, as of the rows of a sparse matrix: segments are sorted numbers.

A scan of pairs adds within segments: (starts, a) then (begins, b) is (starts | begins, b if begins else a + b). The
last element of a segment in a block adds its sum to the result, since a segment may span several blocks.

lego-mlir run examples/second_week/segmented_sum.py --size N=3000 --size S=70
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32, i32

T, EACH = 1024, 8  # elements of a block, neighbours of a thread
N, S = lego.size("N", max=2**30), lego.size("S", max=2**20)


def together(left, right):
    return left[0] | right[0], lego.where(right[0] != 0, right[1], left[1] + right[1])


def columns(x):
    """The columns of a tile of rows, whose number of columns is a power of two given as axes of size 2."""
    if len(x.shape) == 1:
        return [x]
    return [column for pair in zip(*map(columns, x.split()), strict=True) for column in pair]


def joined(parts):
    """The tile of rows of such columns."""
    return parts[0] if len(parts) == 1 else joined(parts[::2]).join(joined(parts[1::2]))


@lego.kernel(grid=lego.cdiv(N, T), block=128, max_registers=40)
def segmented_sum(
    segment: lego.Tensor(i32, Row(N), range=(0, S)), x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(S))
):
    k, first = lego.arange((T,)), lego.block_id[0] * T
    own, edge = lego.load(segment, (T,), at=(first,)), first + EACH * lego.arange((T // EACH,))
    left = segment.load(edge - 1, mask=(edge > 0) & (edge - 1 < N))
    right = segment.load(edge + EACH, mask=edge + EACH < N)
    each = columns(own.reshape(T // EACH, 2, 2, 2))
    before, after = joined([left, *each[:-1]]).reshape(T), joined([*each[1:], right]).reshape(T)
    _, sums = lego.scan(((own != before).to(i32), lego.load(x, (T,), at=(first,))), 0, together)
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
