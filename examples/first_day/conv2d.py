"""Convolution of images with 3 x 3 filters, zeros around the images: a thread computes a pixel of an output channel.

lego-mlir run examples/first_day/conv2d.py --size H=20 --size W=50
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

IMAGES, C, K = 2, 3, 4  # images, input and output channels
H, W = lego.size("H"), lego.size("W")


@lego.kernel(grid=(lego.cdiv(W, 32), lego.cdiv(H, 4), IMAGES * K), block=(32, 4))
def conv2d(
    x: lego.Tensor(f32, Row(IMAGES, C, H, W)),
    filters: lego.Tensor(f32, Row(K, C, 3, 3)),
    y: lego.Tensor(f32, Row(IMAGES, K, H, W)),
):
    (bx, by, bz), (tx, ty) = lego.block_id, lego.thread_id
    n, k, i, j = bz // K, bz % K, by * 4 + ty, bx * 32 + tx
    padded, total = x.halo("zero"), lego.register(f32, 0.0)
    with lego.when((i < H) & (j < W)):
        for c in lego.range(C):
            for di in lego.unroll(3):
                for dj in lego.unroll(3):
                    total += padded[n, c, i + di - 1, j + dj - 1] * filters[k, c, di, dj]
        y[n, k, i, j] = total


@conv2d.reference
def expected(x, filters):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,kcij->nkhw", windows, filters)
