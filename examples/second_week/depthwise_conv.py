"""Depthwise convolution with 3 x 3 filters, zeros around the images: a thread computes 4 pixels of 8 channels.

lego-mlir run examples/second_week/depthwise_conv.py --size H=5 --size W=19
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32

IMAGES, C, V, PIXELS = 2, 64, 8, 4  # images, channels; channels and pixels of a thread
H, W = lego.size("H", max=4096), lego.size("W", max=4096)
COLUMNS = lego.cdiv(W, PIXELS)


@lego.kernel(grid=(lego.cdiv(COLUMNS, 16), H, IMAGES), block=(C // V, 16), max_registers=104)
def depthwise_conv(
    x: lego.Tensor(f16, Row(IMAGES, H, W, C)),
    filters: lego.Tensor(f16, Row(3, 3, C)),
    y: lego.Tensor(f16, Row(IMAGES, H, W, C)),
):
    (bx, i, n), (tx, ty) = lego.block_id, lego.thread_id
    c, j = tx * V, (bx * 16 + ty) * PIXELS
    padded, sums = x.halo("zero"), [lego.register(f32, 0.0, V) for _ in range(PIXELS)]
    for di in lego.range(3):  # not unrolled: LLVM would move the sums to their stores, and keep all that is loaded
        row = [padded.load(n, i + di - 1, j + k - 1, c, width=V).to(f32) for k in lego.unroll(PIXELS + 2)]
        for dj in lego.unroll(3):
            weight = filters.load(di, dj, c, width=V).to(f32)
            for k in lego.unroll(PIXELS):
                sums[k] += row[k + dj] * weight
    for k in lego.unroll(PIXELS):
        y.halo().store(sums[k].get().to(f16), n, i, j + k, c)


@depthwise_conv.reference(rtol=2e-3, atol=2e-3)
def expected(x, filters):
    padded = np.pad(x.astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1:3]
    parts = [padded[:, a : a + height, b : b + width] * filters[a, b] for a in range(3) for b in range(3)]
    return sum(parts)
