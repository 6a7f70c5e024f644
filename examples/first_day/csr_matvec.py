"""Product of a sparse matrix in CSR and a vector, a warp for each row; every access is proved from the index ranges.

lego-mlir run examples/first_day/csr_matvec.py --size M=300 --size K=77
"""

from itertools import pairwise

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32, i32

WARPS = 8
M, K, E = lego.size("M"), lego.size("K"), lego.size("E")  # rows, columns, elements


@lego.kernel(grid=lego.cdiv(M, WARPS), block=(32, WARPS))
def csr_matvec(
    rows: lego.Tensor(i32, Row(M + 1), range=(0, E + 1)), columns: lego.Tensor(i32, Row(E), range=(0, K)),
    values: lego.Tensor(f32, Row(E)), x: lego.Tensor(f32, Row(K)), y: lego.Tensor(f32, Row(M)),
):  # fmt: skip
    lane, warp = lego.thread_id
    row, total = lego.block_id[0] * WARPS + warp, lego.register(f32, 0.0)
    with lego.when(row < M):
        for e in lego.range(lego.index(rows[row]) + lane, rows[row + 1], 32):
            total += values[e] * x[columns[e]]
    product = lego.warp_reduce(total)
    with lego.when((row < M) & (lane == 0)):
        y[row] = product


@csr_matvec.inputs
def sparse(rng, M, E):
    return {"rows": np.sort(np.append(rng.integers(0, E + 1, M - 1), [0, E])).astype(np.int32)}


@csr_matvec.reference
def expected(rows, columns, values, x):
    return np.array([values[a:b] @ x[columns[a:b]] for a, b in pairwise(rows)])
