"""Space-filling curves: nearby positions are nearby elements, at every scale.

`morton` interleaves the bits of the coordinates (G. M. Morton, 1966). `hilbert` also turns each quadrant so that
successive positions are always neighbours (D. Hilbert, 1891); it costs a turn a level.

>>> [[morton(4).apply(i, j) for j in range(4)] for i in range(4)]
[[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
>>> [[hilbert(4).apply(i, j) for j in range(4)] for i in range(4)]
[[0, 3, 4, 5], [1, 2, 7, 6], [14, 13, 8, 9], [15, 12, 11, 10]]
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from lego_mlir.errors import LayoutError
from lego_mlir.layout.permutations import GenP


def morton(rows: Any, columns: Any = None) -> GenP:
    """Z-order of a box whose sizes are powers of two; a square without `columns`.

    In a rectangle the bits of the shorter coordinate are interleaved with as many low bits of the longer one; the
    longer one's other bits stay on top, so that the box is a row of squares. Raises LayoutError for other sizes.
    """
    rows = _power_of_two("morton", rows)
    columns = rows if columns is None else _power_of_two("morton", columns)
    row_bits, column_bits = rows.bit_length() - 1, columns.bit_length() - 1
    k = min(row_bits, column_bits)
    side = 1 << k
    shifts = [1 << b for b in range((k - 1).bit_length())] if k else []
    # Both coordinates are spread in one word. Neither reaches the other's bits while it moves by the largest shift.
    apart = 2 * k + max(shifts, default=1)

    def both(mask: int) -> int:
        return mask << apart | mask

    def f(i: Any, j: Any) -> Any:
        word = (i % side if row_bits > k else i) << apart | (j % side if column_bits > k else j)
        for shift in reversed(shifts):
            word = (word | word << shift) & both(_blocks(k, shift))
        inside = (word >> (apart - 1) | word) & (side * side - 1)
        return inside if rows == columns else (i // side + j // side) * (side * side) + inside

    def f_inv(p: Any) -> tuple[Any, Any]:
        inside = p if rows == columns else p % (side * side)
        word = (inside << (apart - 1) | inside) & both(_blocks(k, 1))
        for shift in shifts:
            word = (word | word >> shift) & both(_blocks(k, 2 * shift))
        i, j = word >> apart, word & (side - 1)
        beyond = 0 if rows == columns else p // (side * side) * side
        return (i + beyond, j) if rows > columns else (i, j + beyond)

    text = f"gallery.morton({rows!r})" if rows == columns else f"gallery.morton({rows!r}, {columns!r})"
    return GenP([rows, columns], f, f_inv, text=text)


def _blocks(k: int, width: int) -> int:
    """k bits in blocks of `width`, each block followed by as many empty bits: the word halfway through a spread."""
    return sum(1 << (2 * width * (bit // width) + bit % width) for bit in range(k))


def hilbert(n: Any) -> GenP:
    """The Hilbert curve of an n x n square, n a power of two. Raises LayoutError for other sizes.

    From the coarsest level down, each pair of coordinate bits gives two bits of the position: the quadrant's number
    along the curve. The quadrants in which the curve enters sideways are transposed, and one of them is mirrored along
    both axes as well. Transposing and mirroring commute, so the turns so far are two bits of state, and a level is a
    handful of bit operations without a branch.
    """
    n = _power_of_two("hilbert", n)
    bits = n.bit_length() - 1

    def turned(transposed: Any, mirrored: Any, along: Any, unlike: Any) -> tuple[Any, Any]:
        """The state below a quadrant whose own, turned, second coordinate is `along`."""
        sideways = along ^ 1
        return transposed ^ sideways, mirrored ^ (unlike & sideways)

    def f(i: Any, j: Any) -> Any:
        difference = i ^ j  # turning swaps or complements both bits, which leaves whether they differ as it is
        position = transposed = mirrored = difference & 0
        for level in reversed(range(bits)):
            unlike = difference >> level & 1
            along = (j >> level & 1) ^ mirrored ^ (unlike & transposed)
            position = position << 2 | (along ^ unlike) << 1 | unlike
            transposed, mirrored = turned(transposed, mirrored, along, unlike)
        return position

    def f_inv(p: Any) -> tuple[Any, Any]:
        j = difference = transposed = mirrored = p & 0
        for level in reversed(range(bits)):
            unlike = p >> 2 * level & 1
            along = (p >> (2 * level + 1) & 1) ^ unlike
            j = j << 1 | along ^ mirrored ^ (unlike & transposed)
            difference = difference << 1 | unlike
            transposed, mirrored = turned(transposed, mirrored, along, unlike)
        return j ^ difference, j

    return GenP([n, n], f, f_inv, text=f"gallery.hilbert({n!r})")


def _power_of_two(owner: str, n: Any) -> int:
    whole = isinstance(n, Integral) and not isinstance(n, bool)
    if not whole or n < 1:
        raise LayoutError(f"gallery.{owner}: sizes must be ints that are powers of two, got {n!r}")
    n = int(n)
    if n & (n - 1):
        raise LayoutError(
            f"gallery.{owner}: sizes must be powers of two, got {n}; pad to {_next_power(n)} with Padded(...)"
        )
    return n


def _next_power(n: int) -> int:
    return 1 << (n - 1).bit_length()
