"""Reversal, block-cyclic distribution, and a padded tile.

>>> reverse(2, 3).apply(0, 0), block_cyclic(12, 2, 3).apply(6), padded(32, 32).physical_size()
(5, 2, 1056)
"""

from __future__ import annotations

from numbers import Integral

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import is_symbolic
from lego_mlir.layout.canonical import SizeLike, as_count, as_sizes, flatten, product, unflatten
from lego_mlir.layout.padded import Padded
from lego_mlir.layout.permutations import GenP, RegP, Row


def reverse(*dims: SizeLike) -> GenP:
    """All elements of a box in the opposite order, its last element first."""
    dims = as_sizes("gallery.reverse", dims)

    def f(*index: IndexLike) -> IndexLike:
        return product(dims) - 1 - flatten(index, dims)

    def f_inv(p: IndexLike) -> tuple[IndexLike, ...]:
        return unflatten(product(dims) - 1 - p, dims)

    return GenP(dims, f, f_inv, text=f"gallery.reverse({', '.join(map(repr, dims))})", made=(reverse, dims))


def block_cyclic(n: SizeLike, block: int, owners: int) -> GenP:
    """n elements distributed in blocks, round robin, each owner's blocks contiguous.

    The block-cyclic distribution of High Performance Fortran and ScaLAPACK (one dimension). It is an interchange of
    axes, [rounds, owners, block] to [owners, rounds, block], with a one-dimensional index. Raises LayoutError if the
    blocks are not distributed evenly.
    """
    (n,) = as_sizes("block_cyclic", [n])
    block, owners = as_count("block_cyclic", block=block), as_count("block_cyclic", owners=owners)
    turn = block * owners
    if not is_symbolic(n) and n % turn:
        raise LayoutError(
            f"block_cyclic: {owners} owners times blocks of {block} must divide n={n}; use Padded(block_cyclic("
            f"{-(-n // turn) * turn}, {block}, {owners}), [{n}])"
        )
    dealt = RegP([n // turn, owners, block], [2, 1, 3])

    def f(i: IndexLike) -> IndexLike:
        return dealt._apply(unflatten(i, dealt.dims()))

    def f_inv(p: IndexLike) -> tuple[IndexLike, ...]:
        return (flatten(dealt._inv(p), dealt.dims()),)

    text = f"gallery.block_cyclic({n!r}, {block!r}, {owners!r})"
    return GenP([n], f, f_inv, text=text, made=(block_cyclic, (n, block, owners)))


def padded(rows: SizeLike, columns: SizeLike, pad: SizeLike = 1) -> Padded:
    """A row-major tile with `pad` unused elements after each row, so that a column spans different banks."""
    rows, columns = as_sizes("padded", [rows, columns])
    if not isinstance(pad, Integral) or pad < 1:
        raise LayoutError(f"padded: {pad=} must be >= 1; without padding the tile is Row({rows!r}, {columns!r})")
    return Padded(Row(rows, columns + pad), [rows, columns])
