"""2. Copy: a kernel is written against logical indices, and the layouts of its tensors map them to memory.

    lego-mlir compile examples/matrix_copy.py -o kernel.mlir
    lego-mlir run examples/matrix_copy.py --on interp

Both matrices are 64x128. The source is row-major, the destination column-major, so the copy also converts one into
the other. Change `Col` to `Row`, and the body of the kernel remains the same.
"""

import lego_mlir as lego
from lego_mlir import Col, Row, f32

M, N = 64, 128


@lego.kernel(grid=(N // 32, M // 8), block=(32, 8))
def copy(src: lego.Tensor(f32, Row(M, N)), dst: lego.Tensor(f32, Col(M, N))):
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    i, j = by * 8 + ty, bx * 32 + tx
    dst[i, j] = src[i, j]


@copy.reference
def expected(src):
    return src
