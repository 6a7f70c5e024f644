"""C = A B by a fixed number of blocks, each of which computes one tile of C after another, in tensor-core products.

lego-mlir run examples/first_day/persistent_matmul.py --transform matmul_sm80.mlir
lego-mlir compile examples/first_day/persistent_matmul.py --transform matmul_sm80.mlir --target sm_90 -o matmul.ptx
"""

import lego_mlir as lego
from lego_mlir import Row, f16, f32

M, N, K, T, DEPTH, BLOCKS = 192, 192, 256, 64, 32, 4  # sizes; side and depth of a tile; persistent blocks
ROWS, COLUMNS, W = M // T, N // T, T // 2  # tiles of C; each of 2 x 2 warps computes W x W of a tile


@lego.kernel(grid=BLOCKS, block=128)
def matmul(a: lego.Tensor(f16, Row(M, K)), b: lego.Tensor(f16, Row(K, N)), c: lego.Tensor(f16, Row(M, N))):
    t, warp = lego.thread_id[0], lego.thread_id[0] // 32
    left, right = lego.shared(f16, Row(T, DEPTH), name="left"), lego.shared(f16, Row(DEPTH, T), name="right")
    out, tiles = lego.shared(f16, Row(T, T), name="out"), c.tile_by([ROWS, COLUMNS], [T, T])
    for tile in lego.range(lego.block_id[0], ROWS * COLUMNS, BLOCKS):
        row, column = tile // COLUMNS, tile % COLUMNS
        total = lego.accumulator(f32, W, W)
        for k in lego.range(K // DEPTH):
            lego.barrier()
            lego.stage(a, (row, k), left)
            lego.stage(b, (k, column), right)
            lego.barrier()
            lego.mma(left.part((warp // 2 * W, 0), (W, DEPTH)), right.part((0, warp % 2 * W), (DEPTH, W)), total)
        lego.barrier()
        total.store(out, (warp // 2 * W, warp % 2 * W))
        lego.barrier()
        for r in lego.range(t // 8, T, 16):
            tiles.store(out.load(r, t % 8 * 8, width=8), row, column, r, t % 8 * 8)


@matmul.reference
def expected(a, b):
    return a @ b
