"""C = A B for any sizes, through tiles in shared memory; where a tile is partial, `tile_by` masks.

lego-mlir run examples/first_day/ragged_matmul.py --size M=33 --size N=50 --size K=71
"""

import lego_mlir as lego
from lego_mlir import Row, f32

T = 16
M, N, K = lego.size("M"), lego.size("N"), lego.size("K")


@lego.kernel(grid=(lego.cdiv(N, T), lego.cdiv(M, T)), block=(T, T))
def matmul(a: lego.Tensor(f32, Row(M, K)), b: lego.Tensor(f32, Row(K, N)), c: lego.Tensor(f32, Row(M, N))):
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    left, right = lego.shared(f32, Row(T, T), name="left"), lego.shared(f32, Row(T, T), name="right")
    rows, columns, depth = (lego.cdiv(n, T) for n in (M, N, K))
    ta, tb = a.tile_by([rows, depth], [T, T]), b.tile_by([depth, columns], [T, T])
    total = lego.register(f32, 0.0)
    for k in lego.range(depth):
        left[ty, tx], right[ty, tx] = ta[by, k, ty, tx], tb[k, bx, ty, tx]
        lego.barrier()
        for d in lego.unroll(T):
            total += left[ty, d] * right[d, tx]
        lego.barrier()
    c.tile_by([rows, columns], [T, T])[by, bx, ty, tx] = total


@matmul.reference
def expected(a, b):
    return a @ b
