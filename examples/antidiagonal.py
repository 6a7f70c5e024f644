"""4. A layout that strides cannot express: a matrix stored along its anti-diagonals.

    lego-mlir explain examples/antidiagonal.py
    lego-mlir run examples/antidiagonal.py --on interp

Dynamic programming over two sequences (alignment, edit distance) computes all elements of an anti-diagonal at once, so
they should be contiguous in memory. The layout below is figure 8 of the LEGO paper; `mine` is the same, by hand.
A function of `GenP` is ordinary Python over ints, arrays and symbols; `lego.where` and `lego.isqrt` replace `if` and
`math.isqrt`, and the index expression, square root and all, becomes part of the kernel.
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import GenP, Row, f32, gallery

N = 32
LAST = 2 * N - 2  # the number of the last anti-diagonal


def triangle(d):
    return d * (d + 1) // 2


def position(i, j):
    """Element (i, j) is on anti-diagonal i + j; the second half of the matrix mirrors the first."""
    d = i + j
    upper = triangle(d) + i
    lower = N * N - 1 - (triangle(LAST - d) + (N - 1 - i))
    return lego.where(d < N, upper, lower)


def element(p):
    """The inverse: which anti-diagonal holds position p, and where on it."""
    mirrored = N * N - 1 - p
    half = triangle(N)
    q = lego.where(p < half, p, mirrored)
    d = (lego.isqrt(8 * q + 1) - 1) // 2
    i = q - triangle(d)
    return lego.where(p < half, i, N - 1 - i), lego.where(p < half, d - i, N - 1 - (d - i))


mine = GenP([N, N], position, element)
diagonal = gallery.antidiagonal(N)


@lego.kernel(grid=(N // 8, N // 8), block=(8, 8))
def pack(src: lego.Tensor(f32, Row(N, N)), dst: lego.Tensor(f32, mine)):
    """Store a row-major matrix along its anti-diagonals."""
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    i, j = by * 8 + ty, bx * 8 + tx
    dst[i, j] = src[i, j]


@pack.reference
def expected(src):
    return src


@lego.kernel(grid=N * N // 64, block=64)
def unpack(src: lego.Tensor(f32, Row(N * N)), dst: lego.Tensor(f32, Row(N, N))):
    """Read memory in physical order, adjacent threads at adjacent addresses; compute the element at each position."""
    p = lego.block_id[0] * 64 + lego.thread_id[0]
    i, j = diagonal.inv(p)
    dst[i, j] = src[p]


@unpack.reference
def unpacked(src):
    return src[diagonal.apply(*np.indices((N, N)))]
