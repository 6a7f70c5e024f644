"""A step of the heat equation in three dimensions: each point from itself and its six neighbours.

lego-mlir run examples/second_week/stencil7.py --size D=3 --size H=9 --size W=40
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

D, H, W = (lego.size(name, max=1024) for name in "DHW")
GRID = lego.Tensor(f32, Row(D, H, W))


@lego.kernel(grid=(lego.cdiv(W, 32), lego.cdiv(H, 4), D), block=(32, 4))
def stencil7(x: GRID, y: GRID, alpha: f32):
    (bx, by, k), (tx, ty) = lego.block_id, lego.thread_id
    i, j = by * 4 + ty, bx * 32 + tx
    near = x.halo("clamp")
    with lego.when((i < H) & (j < W)):
        here = x[k, i, j]
        around = near[k, i, j - 1] + near[k, i, j + 1] + near[k, i - 1, j] + near[k, i + 1, j]
        around = around + near[k - 1, i, j] + near[k + 1, i, j]
        y[k, i, j] = here + alpha * (around - 6.0 * here)


@stencil7.reference
def expected(x, alpha):
    p = np.pad(x, 1, mode="edge")
    around = p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
    around = around + p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1]
    return x + np.float32(alpha) * (around - 6 * x)
