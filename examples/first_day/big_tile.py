"""Transpose through a tile of 64 KB, more than a block may declare: it becomes dynamic shared memory.

lego-mlir run examples/first_day/big_tile.py
"""

import lego_mlir as lego
from lego_mlir import Row, f32, gallery

T = 128
M, N = 2, 3  # tiles


@lego.kernel(grid=(N, M), block=(32, 16))
def transpose(x: lego.Tensor(f32, Row(M * T, N * T)), y: lego.Tensor(f32, Row(N * T, M * T))):
    (bx, by), (tx, ty) = lego.block_id, lego.thread_id
    tile = lego.shared(f32, gallery.xor_swizzle(T, T))
    source, target = x.tile_by([M, N], [T, T]), y.tile_by([N, M], [T, T])
    for i in lego.range(ty, T, 16):
        for j in lego.unroll(0, T, 32):
            tile[i, j + tx] = source[by, bx, i, j + tx]
    lego.barrier()
    for i in lego.range(ty, T, 16):
        for j in lego.unroll(0, T, 32):
            target[bx, by, i, j + tx] = tile[j + tx, i]


@transpose.reference
def expected(x):
    return x.T
