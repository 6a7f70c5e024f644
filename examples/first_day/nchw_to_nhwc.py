"""NCHW to NHWC: for each image a transpose of channels and pixels through a swizzled tile, sizes of any kind.

lego-mlir run examples/first_day/nchw_to_nhwc.py --size C=50 --size P=100
"""

import lego_mlir as lego
from lego_mlir import Row, f16, gallery

IMAGES, T = 3, 32
C, P = lego.size("C"), lego.size("P")  # channels, and pixels: height times width
ROWS, COLUMNS = lego.cdiv(C, T), lego.cdiv(P, T)


@lego.kernel(grid=(COLUMNS, ROWS, IMAGES), block=(T, 8))
def to_nhwc(x: lego.Tensor(f16, Row(IMAGES, C, P)), y: lego.Tensor(f16, Row(IMAGES, P, C))):
    (column, row, n), (tx, ty) = lego.block_id, lego.thread_id
    tile = lego.shared(f16, gallery.xor_swizzle(T, T))
    a, b = x.tile_by([IMAGES, ROWS, COLUMNS], [1, T, T]), y.tile_by([IMAGES, COLUMNS, ROWS], [1, T, T])
    for r in lego.unroll(0, T, 8):
        tile[ty + r, tx] = a[n, row, column, 0, ty + r, tx]
    lego.barrier()
    for r in lego.unroll(0, T, 8):
        b[n, column, row, 0, ty + r, tx] = tile[tx, ty + r]


@to_nhwc.reference
def expected(x):
    return x.swapaxes(1, 2)
