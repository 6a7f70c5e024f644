"""A convolution of 3 x 3 as a matrix product: pixels by channels, channels by filters, summed over 9 taps.

The rows of an operand are pixels of an image row; outside of the image they are zeros by the halo. No index is divided.

lego-mlir run examples/second_week/implicit_gemm.py --size H=3 --size W=67 --size C=32 --size F=40
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery

PIXELS, FILTERS, DEPTH = 64, 64, 32
H, W = lego.size("H", max=4096), lego.size("W", max=4096)
C, F = lego.size("C", max=4096, multiple_of=DEPTH), lego.size("F", max=4096, multiple_of=8)


@lego.kernel(grid=(lego.cdiv(W, PIXELS), H, lego.cdiv(F, FILTERS)), block=128, max_registers=88)
def implicit_gemm(
    x: lego.Tensor(f16, Row(H, W, C)),
    filters: lego.Tensor(f16, Row(9, C, F)),
    y: lego.Tensor(f16, Row(H, W, F)),
):
    j, i, f = PIXELS * lego.block_id[0], lego.block_id[1], FILTERS * lego.block_id[2]
    pixels = lego.shared(f16, gallery.xor_swizzle(PIXELS, DEPTH, 8, 2, 4), name="pixels")
    weights = lego.shared(f16, gallery.xor_swizzle(DEPTH, FILTERS, 8, 1, 8), name="weights")
    total = lego.register(lego.zeros(f32, (PIXELS, FILTERS)))
    for c in lego.range(0, C, DEPTH):
        for di in lego.range(3):
            for dj in range(3):
                a = lego.load(x.halo(), (PIXELS, DEPTH), at=(i + di - 1, j + dj - 1, c))
                b = lego.load(filters, (DEPTH, FILTERS), at=(3 * di + dj, c, f))
                lego.barrier()
                a.store(pixels)
                b.store(weights)
                lego.barrier()
                total.set(lego.mma(pixels, weights, total.get()))
    total.get().to(f16).store(y, at=(i, j, f))


@implicit_gemm.reference(rtol=2e-3, atol=2e-2)
def expected(x, filters):
    padded = np.pad(x.astype(np.float32), ((1, 1), (1, 1), (0, 0)))
    h, w, _ = x.shape
    taps = filters.astype(np.float32)
    return sum(padded[t // 3 : t // 3 + h, t % 3 : t % 3 + w] @ taps[t] for t in range(9))


@implicit_gemm.inputs
def inputs(rng, H, W, C, F):
    return {"x": rng.standard_normal((H, W, C)), "filters": rng.standard_normal((9, C, F)) / (3 * C**0.5)}
