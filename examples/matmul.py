"""6. A matrix product, written on tiles; a transform script lowers it to tensor-core instructions.

    lego-mlir compile examples/matmul.py --transform matmul_sm80.mlir --param stages=3 --emit ptx -o matmul.ptx
    lego-mlir run examples/matmul.py --on interp --transform matmul_sm80.mlir

The kernel states what a block and a warp compute, without naming instructions. B is column-major here: to make it
row-major, change its layout to Row(K, N) and its tile's to Row(BK, BN), and nothing else.
"""

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, gallery

M, N, K = 256, 512, 256
BM, BN, BK = 64, 128, 32


@lego.kernel(grid=(N // BN, M // BM), block=(32, 4))
def matmul(a: lego.Tensor(f16, Row(M, K)), b: lego.Tensor(f16, Col(K, N)), c: lego.Tensor(f32, Row(M, N))):
    bx, by, lane, warp = *lego.block_id[:2], *lego.thread_id[:2]
    a_tile, b_tile = lego.shared(f16, Row(BM, BK)), lego.shared(f16, Col(BK, BN))
    c_tile = lego.shared(f32, gallery.padded(BM, BN, 8))
    m, n = Row(2, 2).inv(warp)  # each warp computes 32 x 64 of the tile
    total = lego.accumulator(f32, BM // 2, BN // 2)
    for k in lego.range(K // BK):
        lego.barrier()  # all threads have read the previous step's tiles
        lego.stage(a, (by, k), a_tile)
        lego.stage(b, (k, bx), b_tile)
        lego.barrier()
        left = a_tile.part((m * BM // 2, 0), (BM // 2, BK))
        lego.mma(left, b_tile.part((0, n * BN // 2), (BK, BN // 2)), total)
    total.store(c_tile, (m * BM // 2, n * BN // 2))
    lego.barrier()
    out = c.tile_by([M // BM, N // BN], [BM, BN])
    for row in lego.range(0, BM, 4):
        out.store(c_tile.load(row + warp, lane * 4, width=4), by, bx, row + warp, lane * 4)


@matmul.reference
def expected(a, b):
    return a.astype("float32") @ b.astype("float32")
