"""3. Transpose through shared memory: a block reads a tile along rows and writes it along the rows of the result.

    lego-mlir compile examples/transpose.py -o kernel.mlir
    lego-mlir compile examples/transpose.py --emit ptx -o kernel.ptx
    lego-mlir run examples/transpose.py --on interp

In a row-major tile, a column is in one bank of shared memory, and 32 threads that read it are serialized. The swizzle
stores element (i, j) at column i ^ j: rows and columns both span all 32 banks, and the kernel does not change.
"""

import lego_mlir as lego
from lego_mlir import Row, f32, gallery

M, N, T = 1024, 2048, 32


@lego.kernel(grid=(N // T, M // T), block=(T, 8))
def transpose(src: lego.Tensor(f32, Row(M, N)), dst: lego.Tensor(f32, Row(N, M))):
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    tile = lego.shared(f32, gallery.xor_swizzle(T, T))
    a, b = src.tile_by([M // T, N // T], [T, T]), dst.tile_by([N // T, M // T], [T, T])
    for r in lego.unroll(0, T, 8):
        tile[ty + r, tx] = a[by, bx, ty + r, tx]
    lego.barrier()
    for r in lego.unroll(0, T, 8):
        b[bx, by, ty + r, tx] = tile[tx, ty + r]


@transpose.reference
def expected(src):
    return src.T
