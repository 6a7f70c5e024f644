"""Cholesky factors of many matrices of 8 x 8: a thread keeps a row, and 8 lanes of a warp a matrix.

lego-mlir run examples/second_week/cholesky.py --size B=37
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

N, THREADS = 8, 128
TOGETHER = THREADS // N
B = lego.size("B")
MATRICES = lego.Tensor(f32, Row(B, N, N))


@lego.kernel(grid=lego.cdiv(B, TOGETHER), block=THREADS)
def cholesky(a: MATRICES, factors: MATRICES):
    t = lego.thread_id[0]
    matrix, row, first = lego.block_id[0] * TOGETHER + t // N, t % N, lego.lane_id // N * N
    entries = [a.halo()[matrix, row, j] for j in range(N)]
    for k in range(N):
        diagonal = lego.sqrt(lego.shuffle(entries[k], first + k))
        entries[k] = lego.where(row == k, diagonal, entries[k] / diagonal)
        for j in range(k + 1, N):
            entries[j] = entries[j] - entries[k] * lego.shuffle(entries[k], first + j)
    for j in range(N):
        factors.halo()[matrix, row, j] = lego.where(row >= j, entries[j], 0.0)


@cholesky.inputs
def definite(B, rng):
    made = rng.standard_normal((B, N, N)).astype(np.float32)
    return {"a": made @ made.transpose(0, 2, 1) + 8 * np.eye(N, dtype=np.float32)}


@cholesky.reference(rtol=1e-4, atol=1e-4)
def expected(a):
    return np.linalg.cholesky(a.astype(np.float64))
