"""The elements of a square in the order of its anti-diagonals, from the corner (0, 0) (LEGO, figure 8).

>>> [[antidiagonal(3).apply(i, j) for j in range(3)] for i in range(3)]
[[0, 1, 3], [2, 4, 6], [5, 7, 8]]
"""

from __future__ import annotations

from lego_mlir.aliases import IndexLike
from lego_mlir.expr.index import isqrt, maximum, where
from lego_mlir.layout.canonical import SizeLike, as_sizes
from lego_mlir.layout.permutations import GenP


def antidiagonal(n: SizeLike) -> GenP:
    """The anti-diagonal order of an n x n square; n may be a `lego.size`.

    Diagonal d, of the elements with i + j = d, begins after d(d + 1)/2 elements. Past the longest diagonal that count
    is too large by (d - n + 1)^2, the elements of a triangle outside the square. Unlike the branches of the figure this
    needs no choice, and in a loop over diagonals its range decides the maximum. The inverse is counted from the far
    corner there, by symmetry; it takes the root of 8q + 1, which needs no correction.
    """
    (n,) = as_sizes("gallery.antidiagonal", [n])

    def before(d: IndexLike) -> IndexLike:
        return d * (d - 1) // 2

    def f(i: IndexLike, j: IndexLike) -> IndexLike:
        outside = maximum(i + j - (n - 1), 0)
        return i + before(i + j + 1) - outside * outside

    def f_inv(p: IndexLike) -> tuple[IndexLike, IndexLike]:
        first_half = p < n * (n + 1) // 2
        q = where(first_half, p, n * n - 1 - p)
        d = (isqrt(8 * q + 1) + 1) // 2  # the largest d with d(d-1)/2 <= q
        i = q - before(d)
        j = d - 1 - i
        return where(first_half, i, n - 1 - i), where(first_half, j, n - 1 - j)

    return GenP([n, n], f, f_inv, text=f"gallery.antidiagonal({n!r})", made=(antidiagonal, (n,)))
