"""Product of a matrix and a vector, a warp for each row.

lego-mlir run examples/first_day/matvec.py --size M=100 --size K=333
"""

import lego_mlir as lego
from lego_mlir import Row, f32

WARPS = 8
M, K = lego.size("M"), lego.size("K")


@lego.kernel(grid=lego.cdiv(M, WARPS), block=(32, WARPS))
def matvec(a: lego.Tensor(f32, Row(M, K)), x: lego.Tensor(f32, Row(K)), y: lego.Tensor(f32, Row(M))):
    lane, warp = lego.thread_id
    row, total = lego.block_id[0] * WARPS + warp, lego.register(f32, 0.0)
    with lego.when(row < M):
        for k in lego.range(lane, K, 32):
            total += a[row, k] * x[k]
        product = lego.warp_reduce(total)
        with lego.when(lane == 0):
            y[row] = product


@matvec.reference
def expected(a, x):
    return a @ x
