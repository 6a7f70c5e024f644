"""A transpose whose tile is plain and whose barrier was forgotten: right values, a race and a conflict."""

import lego_mlir as lego
from lego_mlir import Row, f32

T = 32


@lego.kernel(grid=(2, 2), block=(T, 8))
def transpose(src: lego.Tensor(f32, Row(64, 64)), dst: lego.Tensor(f32, Row(64, 64))):
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    tile = lego.shared(f32, Row(T, T))
    a, b = src.tile_by([2, 2], [T, T]), dst.tile_by([2, 2], [T, T])
    for r in lego.unroll(0, T, 8):
        tile[ty + r, tx] = a[by, bx, ty + r, tx]
    for r in lego.unroll(0, T, 8):
        b[bx, by, ty + r, tx] = tile[tx, ty + r]


@transpose.reference
def expected(src):
    return src.T
