"""C = A B for matrices stored along the Morton curve: only the layouts differ from a row-major product.

lego-mlir run examples/first_day/morton_matmul.py
"""

import lego_mlir as lego
from lego_mlir import f32, gallery

N, T = 64, 16
curve = gallery.morton(N)


@lego.kernel(grid=(N // T, N // T), block=(T, T))
def matmul(a: lego.Tensor(f32, curve), b: lego.Tensor(f32, curve), c: lego.Tensor(f32, curve)):
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    left, right = (lego.shared(f32, lego.Row(T, T), name=name) for name in ("left", "right"))
    ta, tb, tc = (matrix.tile_by([N // T, N // T], [T, T]) for matrix in (a, b, c))
    total = lego.register(f32, 0.0)
    for k in lego.range(N // T):
        left[ty, tx], right[ty, tx] = ta[by, k, ty, tx], tb[k, bx, ty, tx]
        lego.barrier()
        for d in lego.unroll(T):
            total += left[ty, d] * right[d, tx]
        lego.barrier()
    tc[by, bx, ty, tx] = total


@matmul.reference
def expected(a, b):
    return a @ b
