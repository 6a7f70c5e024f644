"""Space-filling curves: nearby positions are nearby elements at every scale.

`morton` interleaves the bits of the coordinates (G. M. Morton, 1966). `hilbert` also rotates each quadrant so that
successive positions are always neighbours (D. Hilbert, 1891); it costs one rotation per level before interleaving.

>>> [[morton(4).apply(i, j) for j in range(4)] for i in range(4)]
[[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
>>> [[hilbert(4).apply(i, j) for j in range(4)] for i in range(4)]
[[0, 3, 4, 5], [1, 2, 7, 6], [14, 13, 8, 9], [15, 12, 11, 10]]
"""

from __future__ import annotations

from numbers import Integral

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.layout.canonical import SizeLike
from lego_mlir.layout.permutations import GenP


def morton(rows: SizeLike, columns: SizeLike | None = None) -> GenP:
    """Z-order of a box whose sizes are powers of two; by default a square.

    In a rectangle the bits of the shorter coordinate are interleaved with as many low bits of the longer one, whose
    other bits remain the most significant: the box is a row of squares. Raises LayoutError for other sizes.
    """
    rows = _power_of_two("morton", rows)
    columns = rows if columns is None else _power_of_two("morton", columns)
    row_bits, column_bits = rows.bit_length() - 1, columns.bit_length() - 1
    k = min(row_bits, column_bits)
    side = 1 << k

    def f(i: IndexLike, j: IndexLike) -> IndexLike:
        inside = _interleaved(i % side if row_bits > k else i, j % side if column_bits > k else j, k)
        return inside if rows == columns else (i // side + j // side) * (side * side) + inside

    def f_inv(p: IndexLike) -> tuple[IndexLike, IndexLike]:
        i, j = _deinterleaved(p if rows == columns else p % (side * side), k)
        beyond = 0 if rows == columns else p // (side * side) * side
        return (i + beyond, j) if rows > columns else (i, j + beyond)

    text = f"gallery.morton({rows!r})" if rows == columns else f"gallery.morton({rows!r}, {columns!r})"
    return GenP([rows, columns], f, f_inv, text=text, made=(morton, (rows, columns)))


def hilbert(n: SizeLike) -> GenP:
    """The Hilbert curve of an n x n square, n a power of two. Raises LayoutError for other sizes.

    From the coarsest level down, each pair of coordinate bits gives two bits of the position: the quadrant's number
    along the curve. The quadrants that the curve enters sideways are transposed, and one of them is mirrored along both
    axes as well. Transposing and mirroring commute, so the accumulated rotation is two bits of state; and a rotation
    preserves whether the two bits differ, which is the lower bit of the quadrant's number. So the position interleaves
    the upper bits, twelve bit operations per level, with the exclusive or of the coordinates.
    """
    n = _power_of_two("hilbert", n)
    k = n.bit_length() - 1

    # Every word holds the bit of one level, in place: no bit is shifted down to be tested.
    # `sideways` is the complement of the rotated second bit, `upright` that of "mirrored so far".

    def rotated(
        transposed: IndexLike, upright: IndexLike, unlike: IndexLike, sideways: IndexLike
    ) -> tuple[IndexLike, IndexLike]:
        """The state in the place of the next finer level."""
        return (transposed ^ sideways) >> 1, (upright ^ (unlike & sideways)) >> 1

    def f(i: IndexLike, j: IndexLike) -> IndexLike:
        difference = i ^ j
        complement = transposed = difference & 0
        upright = complement | n >> 1
        for level in reversed(range(k)):
            unlike = difference & 1 << level
            sideways = (j & 1 << level) ^ upright ^ (unlike & transposed)
            complement = complement | sideways ^ unlike
            transposed, upright = rotated(transposed, upright, unlike, sideways)
        return _interleaved(complement ^ (n - 1), difference, k)

    def f_inv(p: IndexLike) -> tuple[IndexLike, IndexLike]:
        upper, difference = _deinterleaved(p, k)
        complement = upper ^ (n - 1)
        j = transposed = difference & 0
        upright = j | n >> 1
        for level in reversed(range(k)):
            unlike = difference & 1 << level
            sideways = (complement & 1 << level) ^ unlike
            j = j | sideways ^ upright ^ (unlike & transposed)
            transposed, upright = rotated(transposed, upright, unlike, sideways)
        return j ^ difference, j

    return GenP([n, n], f, f_inv, text=f"gallery.hilbert({n!r})", made=(hilbert, (n,)))


def _interleaved(upper: IndexLike, lower: IndexLike, k: int) -> IndexLike:
    """The bits of two k-bit words interleaved, `upper` in the odd places."""
    apart = _apart(k)
    if apart is None:
        return _spread(upper, k, (0,)) << 1 | _spread(lower, k, (0,))
    word = _spread(upper << apart | lower, k, (0, apart))
    return (word >> (apart - 1) | word) & ((1 << 2 * k) - 1)


def _deinterleaved(word: IndexLike, k: int) -> tuple[IndexLike, IndexLike]:
    """The bits at odd places, and those at even places, as two words."""
    apart = _apart(k)
    if apart is None:
        return _gathered(word >> 1, k, (0,)), _gathered(word, k, (0,))
    both = _gathered(word << (apart - 1) | word, k, (0, apart))
    return both >> apart, both & ((1 << k) - 1)


def _apart(k: int) -> int | None:
    """The distance at which two words spread within one without overlap; None if they need 64 bits or more."""
    apart = 2 * k + max(_shifts(k), default=1)
    return apart if apart + 2 * k < 64 else None


def _shifts(k: int) -> list[int]:
    return [1 << b for b in range((k - 1).bit_length())] if k else []


def _spread(word: IndexLike, k: int, places: tuple[int, ...]) -> IndexLike:
    """Spread the k-bit words at `places` in `word`, with a gap after every bit."""
    for shift in reversed(_shifts(k)):
        word = (word | word << shift) & _blocks(k, shift, places)
    return word


def _gathered(word: IndexLike, k: int, places: tuple[int, ...]) -> IndexLike:
    """The inverse of `_spread`; other bits are ignored."""
    word = word & _blocks(k, 1, places)
    for shift in _shifts(k):
        word = (word | word >> shift) & _blocks(k, 2 * shift, places)
    return word


def _blocks(k: int, width: int, places: tuple[int, ...]) -> int:
    """Mask of k bits in blocks of `width`, each followed by `width` empty bits: one step of a spread."""
    block = sum(1 << (2 * width * (bit // width) + bit % width) for bit in range(k))
    return sum(block << place for place in places)


def _power_of_two(owner: str, n: SizeLike) -> int:
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
