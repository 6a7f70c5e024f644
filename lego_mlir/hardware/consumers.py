"""How the consumers of a block divide its tile: its rows, or its columns.

A warpgroup multiplies 64 rows with an instruction, and up to 256 columns. Two consumers take half of 128 or 256 rows
each. They take half of the columns each, and all rows, where three times 64 rows cannot be divided, or where an
instruction cannot have all columns:

    256 x 192    128 rows each                    each reads its rows of A, and all of B
    192 x 208    104 columns each                 each reads all of A, and its columns of B, three times
    128 x 320    160 columns each
"""

from __future__ import annotations

from typing import Final

ROWS: Final = 64
"""Rows of C that a warpgroup's instruction computes. PTX ISA, `wgmma.mma_async`, as the next one."""
MOST_COLUMNS: Final = 256
MOST_CONSUMERS: Final = 2


def consumers_across(rows: int, columns: int) -> int:
    """The consumers that divide the columns of a tile, one where they divide its rows.

    >>> [consumers_across(*tile) for tile in ((192, 208), (128, 256), (128, 320), (256, 192))]
    [2, 1, 2, 1]
    """
    return MOST_CONSUMERS if rows == 3 * ROWS or (rows == 2 * ROWS and columns > MOST_COLUMNS) else 1
