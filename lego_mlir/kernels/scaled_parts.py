"""Scales of blocks for the part of a tile that a group of warps has, and sums of parts of K in a cluster.

`scaled_products` has the kernel.
"""

from __future__ import annotations

import functools
import operator
from math import gcd
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import f2, f32, gallery
from lego_mlir.choices.product_tile import WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import part_of, threads_of
from lego_mlir.choices.scaled_tiles import BLOCK, PAD
from lego_mlir.kernels.role_products import OutputTile

if TYPE_CHECKING:
    from lego_mlir.aliases import Operand

UNIT: Final = 8
"""Columns of the unit's pieces, which are in one block of b."""


def part_of_k(tile: ProductTile, sizes: tuple[Operand, Operand, Operand, Operand]) -> OutputTile:
    """This block's part of K of its cluster's tile; all have as many steps, the last ones of zeros."""
    m, _, k, n = sizes
    down, number = lego.cdiv(m, tile.m), lego.block_id.x // tile.parts
    depth = lego.cdiv(k // BLOCK, tile.parts) * BLOCK
    start = lego.cluster_rank * depth
    return OutputTile(number % down * tile.m, number // down * tile.n, m, n, depth, start=start)


class BlockScales:
    """The scales for the part of a tile that a group of warps has: sa of its rows times sb of its columns.

    Those of the next step are loaded while this one is multiplied.
    """

    def __init__(self, tile: ProductTile, place: OutputTile, sa: Operand, sb: Operand) -> None:
        (rows, columns), parent = part_of(tile), f2.MmaSync((WARPGROUP, 1))
        self.place, self.sa, self.sb, self.of_rows = place, sa, sb, f2.Sliced(1, parent).layout((rows,))
        self.piece = lego.arange(parent.layout((rows, columns)), 1) // UNIT
        self.row = place.row + (lego.group_id * rows if rows < tile.m else 0)
        self.column = place.column + (lego.group_id * columns if rows == tile.m else 0)
        self.first, self.last = self.column // BLOCK, lego.cdiv(place.columns, BLOCK) - 1
        self.start = place.start // BLOCK
        self.end = sa.dims()[-2] - 1
        self.blocks = most_blocks(columns)
        of_a, *of_b = self._load(self.start)
        self.ahead = [lego.register(of_a), *(lego.register(f32, x) for x in of_b)]

    def _load(self, step: Operand) -> list[Operand]:
        step = lego.minimum(step, self.end)
        blocks = [lego.minimum(self.first + n, self.last) for n in range(self.blocks)]
        of_a = lego.load(self.sa, self.of_rows, at=(*self.place.of_a, step, self.row))
        return [of_a, *(self.sb[(*self.place.of_b, block, step)] for block in blocks)]

    def take(self, step: Operand) -> Operand:
        """The scales of a step."""
        of_a, *of_b = [x.get() for x in self.ahead]
        for held, value in zip(self.ahead, self._load(self.start + step + 1), strict=True):
            held.set(value)
        found = (of_a * of_b[0])[:, None]
        for n in range(1, self.blocks):
            begin = ((self.first + n) * BLOCK - self.column) // UNIT
            found = lego.where(self.piece >= begin, (of_a * of_b[n])[:, None], found)
        return found


def most_blocks(columns: int) -> int:
    """The most blocks of b that a part of this width meets; parts begin at multiples of their width.

    >>> [most_blocks(n) for n in (64, 96, 128, 144, 160)]
    [1, 2, 1, 2, 2]
    """
    return 1 + -(-(columns - gcd(columns, BLOCK)) // BLOCK)


class PartialSums:
    """The sums of a block's part of K in shared memory, and the sums over the blocks of a cluster."""

    def __init__(self, tile: ProductTile) -> None:
        self.tile, self.sums = tile, lego.shared(f32, gallery.padded(tile.m, tile.n, PAD), "sums")

    def write(self, sums: Operand, c: Operand, place: OutputTile, multiple: int) -> None:
        """Keep the sums of a group's part of the tile."""
        rows, columns = part_of(self.tile)
        sums.store(self.sums, at=(lego.group_id * rows, 0) if rows < self.tile.m else (0, lego.group_id * columns))

    def add(self, c: Operand, place: OutputTile, width: int) -> None:
        """Add the parts in their order, and store this block's share of the rows, `width` elements at once."""
        lego.cluster_barrier()
        tile = self.tile
        rows, chunks = -(-tile.m // tile.parts), tile.n // width
        for number in lego.range(lego.thread_id.x, rows * chunks, threads_of(tile)):
            row, column = lego.cluster_rank * rows + number // chunks, number % chunks * width
            i, j = place.row + row, place.column + column
            with lego.when((row < tile.m) & (i < place.end) & (j < place.columns)):
                parts = [self.sums.of_block(part).load(row, column, width=width) for part in range(tile.parts)]
                c.store(functools.reduce(operator.add, parts).to(c.dtype), i, j, width=width)
        lego.cluster_barrier()
