"""Copies that make K the contiguous dimension of an operand: transposed, into rows of multiples of 16 bytes.

Units multiply types of other than 16 bits with K contiguous only, from rows of whole 16-byte words:

    K rows of R elements    ->  R rows of P elements, P >= K a multiple of 16 bytes, zeros from column K on

Elements are moved as integers of their size. A thread transposes micro-tiles of w x w elements in registers, as in
`transpose`. Zeros come from the masks of loads past row K. Where w does not divide R, rows begin at any element, and
micro-tiles are loaded element by element, from the same cache lines.

>>> named("along_k_32bit_by_1").name
'along_k_32bit_by_1'
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from functools import cache
from typing import Final

import lego_mlir as lego
from lego_mlir import Kernel, Row
from lego_mlir.aliases import Array, IndexLike, Traced
from lego_mlir.errors import UsageError
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.kernels.depth_copies import TYPES, WIDTHS, name_of
from lego_mlir.kernels.transpose import micro_tiles, store_micro_tile
from lego_mlir.tracing.words.staging import thread_chunks
from lego_mlir.tracing.words.tensor import View

SIDES: Final = {(1, 16): 256, (1, 8): 128, (1, 4): 128, (1, 1): 128, (4, 4): 64, (4, 1): 32}
"""The side of a block's tile for a size of elements and a width; rows of the result are lines of 128 bytes."""
WORD: Final = 4
"""Bytes of a row of a micro-tile that is loaded element by element."""
THREADS: Final = 256


def named(name: str) -> Kernel:
    """The kernel of a name."""
    known = {name_of(element, width): (element, width) for element, widths in WIDTHS.items() for width in widths}
    return along_k(*known[name])


@cache
def along_k(element: int, width: int) -> Kernel:
    """The kernel that copies the columns of `source` to rows, for elements of that many bytes, in loads of `width`.

    Sizes are those of the arrays at launch; R is a multiple of `width`. Raises UsageError for another width.
    """
    if width not in WIDTHS.get(element, ()):
        known = "; ".join(f"{', '.join(map(str, widths))} for {size} bytes" for size, widths in WIDTHS.items())
        raise UsageError(f"along_k: elements of {element} bytes in loads of {width}; there are {known}")
    dtype, side = TYPES[element], SIDES[element, width]
    w = max(width, WORD // element)
    threads = min(THREADS, (side // w) ** 2)
    P, R = lego.size("P", multiple_of=CHUNK // element), lego.size("R", multiple_of=width)
    K = lego.size("K", max=P)
    tiles = lego.cdiv(P, side), lego.cdiv(R, side)

    def body(source: lego.Tensor(dtype, Row(K, R)), rows: lego.Tensor(dtype, Row(R, P))):  # type: ignore[no-untyped-def]
        at = lego.block_id.y, lego.block_id.x
        stage = lego.shared(dtype, micro_tiles(side, side, w))
        given, result = source.tile_by(tiles, (side, side)), rows.tile_by(tiles[::-1], (side, side))
        places = [(i * w, j) for i, j in thread_chunks((side // w, side), w, threads, lego.thread_id.x)]
        loaded = [[_line(given, (*at, i + k, j), w, width) for k in range(w)] for i, j in places]
        for (i, j), lines in zip(places, loaded, strict=True):
            store_micro_tile(stage, lines, j, i)
        lego.barrier()
        for j, i in thread_chunks((side, side), w, threads, lego.thread_id.x):
            result.store(stage.load(j, i, width=w), *at[::-1], j, i)

    made = lego.kernel(grid=tiles[::-1], block=threads, name=name_of(element, width))(body)

    @made.reference
    def transposed(source: Array, rows: Array) -> Array:
        rows[...] = 0
        rows[:, : source.shape[0]] = source.T
        return rows

    return made


def _line(tile: View, at: tuple[IndexLike, ...], w: int, width: int) -> Traced:
    """The w elements of a micro-tile's row, or the only one; zeros outside of the matrix."""
    if w == 1:
        return tile[at]
    if width == 1:
        return [tile[(*at[:-1], at[-1] + k)] for k in range(w)]
    vector = tile.load(*at, width=w)
    return [vector[k] for k in range(w)]
