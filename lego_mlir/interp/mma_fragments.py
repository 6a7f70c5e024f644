"""Fragments of `mma.sync` and `mma.sp`, for both interpreters: the rows and columns of a warp's registers.

With e elements in a register of 4 (or 8) bytes, lane l = 4 * group + t holds

    A  register r: row group + 8 * (r % 2), columns e*t .. e*t + e - 1, plus 4*e * (r // 2)    (8 rows: r % 2 is 0)
    B  register r: rows e*t .. e*t + e - 1, plus 4*e * r, column group
    C  elements 2r, 2r + 1: row group + 8 * r, columns 2*t and 2*t + 1

for every shape and type. A of mma.sp is the fragment of half the depth, which holds what is kept: of 4 neighbours in a
row two (8 and 16 bits), or of 2 one (tf32). For each that is kept, the metadata has its place among its neighbours in 2
bits; tf32 has 0b0100 or 0b1110 in 4. A selector chooses the threads of each four that give words: with group g and
words w = 0, 1, .. of that group,

    16 and 32 bits    low half: row g, high half: row g + 8, of part w of the columns
    8 bits            row g + 8 * (w % 2), part w / 2 of the columns

PTX ISA, "Matrix Fragments for mma", "Sparse matrix storage", "Matrix fragments for multiply-accumulate operation with
sparse matrix A"; CUTLASS, `util/host_reorder.h`, for the order of the words.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware.limits import WARP

GROUP: Final = np.arange(WARP)[None, :, None] // 4
THREAD: Final = np.arange(WARP)[None, :, None] % 4
ROWS: Final = 16
"""Rows of A of a sparse product."""
PART: Final = {4: 8, 2: 16, 1: 32}
"""Columns of a part, by the bytes of an element."""
WIDE_PLACES: Final = {0b0100: 0, 0b1110: 1}


def left_places(m: int, registers: int, per: int) -> tuple[IntArray, IntArray]:
    """Row and column of each element of A, of m rows: (registers, lanes, elements of a register)."""
    r, e = np.arange(registers)[:, None, None], np.arange(per)
    high, deep = (r % 2, r // 2) if m == 16 else (0, r)
    row, column = np.broadcast_arrays(GROUP + 8 * high, per * THREAD + e + 4 * per * deep)
    return row, column


def right_places(registers: int, per: int) -> tuple[IntArray, IntArray]:
    """The same of B."""
    row, column = np.broadcast_arrays(
        per * THREAD + np.arange(per) + 4 * per * np.arange(registers)[:, None, None], GROUP
    )
    return row, column


def sum_places(m: int) -> tuple[IntArray, IntArray]:
    """The same of C, in pairs: (m / 8, lanes, 2)."""
    row, column = np.broadcast_arrays(GROUP + 8 * np.arange(m // 8)[:, None, None], 2 * THREAD + np.arange(2))
    return row, column


def metadata_threads(depth: int, itemsize: int) -> int:
    """How many threads of four give metadata."""
    return depth // PART[itemsize] * (2 if itemsize == 1 else 1)


def kept_columns(words: Array, depth: int, itemsize: int, selector: int) -> tuple[IntArray, Array]:
    """The column of each element that A keeps, (.., 16, depth / 2), and whether its metadata is valid.

    `words` has the metadata of the lanes of each warp, (.., 32).
    """
    count, outer = metadata_threads(depth, itemsize), words.shape[:-1]
    given = words[..., 4 * np.arange(WARP // 4)[:, None] + selector * count + np.arange(count)]  # (.., 8, count)
    if itemsize == 1:
        by_row = np.moveaxis(given.reshape(*outer, 8, -1, 2), -1, -3)  # (.., half, group, part)
    else:
        by_row = np.stack([given & 0xFFFF, given >> 16], axis=-3)
    width = 4 if itemsize == 4 else 2
    codes = by_row[..., None] >> np.arange(0, 32 if itemsize == 1 else 16, width, dtype=np.uint32) & ((1 << width) - 1)
    codes = codes.reshape(*outer, ROWS, depth // 2).astype(np.int64)
    if itemsize == 4:
        return 2 * np.arange(depth // 2) + (codes == 0b1110), np.isin(codes, list(WIDE_PLACES))
    distinct = np.repeat(codes[..., 0::2] != codes[..., 1::2], 2, axis=-1)
    return 4 * (np.arange(depth // 2) // 2) + codes, distinct


def ascending(columns: IntArray) -> Array:
    """Whether the places of each two that are kept ascend."""
    return np.repeat(columns[..., 0::2] < columns[..., 1::2], 2, axis=-1)


def spread_out(kept: Array, columns: IntArray, depth: int) -> Array:
    """A with zeros where it keeps nothing."""
    whole = np.zeros((*kept.shape[:-1], depth), kept.dtype)
    np.put_along_axis(whole, columns, kept, axis=-1)
    return whole
