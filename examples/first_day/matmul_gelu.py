"""GELU(A B + bias) in tensor-core products: the epilogue reads the tile of the result in shared memory.

lego-mlir run examples/first_day/matmul_gelu.py --transform matmul_sm80.mlir
"""

from math import erf, sqrt

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery

M, N, K, T, DEPTH = 128, 128, 128, 64, 32  # sizes; side and depth of a tile
W = T // 2  # each of 2 x 2 warps computes W x W of a tile


@lego.kernel(grid=(N // T, M // T), block=128)
def matmul(
    a: lego.Tensor(f16, Row(M, K)), b: lego.Tensor(f16, Row(K, N)), bias: lego.Tensor(f32, Row(N)),
    c: lego.Tensor(f16, Row(M, N)),
):  # fmt: skip
    bx, by, t, warp = *lego.block_id[:2], lego.thread_id[0], lego.thread_id[0] // 32
    left, right = lego.shared(f16, Row(T, DEPTH), name="left"), lego.shared(f16, Row(DEPTH, T), name="right")
    out, total = lego.shared(f32, gallery.padded(T, T, 8), name="out"), lego.accumulator(f32, W, W)
    for k in lego.range(K // DEPTH):
        lego.barrier()
        lego.stage(a, (by, k), left)
        lego.stage(b, (k, bx), right)
        lego.barrier()
        lego.mma(left.part((warp // 2 * W, 0), (W, DEPTH)), right.part((0, warp % 2 * W), (DEPTH, W)), total)
    total.store(out, (warp // 2 * W, warp % 2 * W))
    lego.barrier()
    tiles, at = c.tile_by([M // T, N // T], [T, T]), t % 16 * 4
    shift = bias.load(bx * T + at, width=4)
    for row in lego.range(t // 16, T, 8):
        x = out.load(row, at, width=4) + shift
        tiles.store((x * 0.5 * (1.0 + lego.erf(x * sqrt(0.5)))).to(f16), by, bx, row, at)


@matmul.reference(rtol=1e-3, atol=1e-3)
def expected(a, b, bias):
    x = a.astype(np.float64) @ b + bias
    return x / 2 * (1 + np.vectorize(erf)(x * sqrt(0.5)))
