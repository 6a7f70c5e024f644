"""Scales of blocks for the part of a tile that a group of warps has, and sums of parts of K in a cluster.

`scaled_products` has the kernel.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, f2, f32, gallery
from lego_mlir.aliases import Operand
from lego_mlir.choices.product_tile import WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import ROWS, part_of, threads_of
from lego_mlir.choices.scaled_tiles import BLOCK, PAD, most_blocks
from lego_mlir.hardware.limits import WARP
from lego_mlir.kernels.role_products import OutputTile, bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from lego_mlir.tracing.words.barrier_rings import BarrierRing

UNIT: Final = 8
"""Columns of the unit's pieces, which are in one block of b."""


def part_of_k(tile: ProductTile, sizes: tuple[Operand, Operand, Operand, Operand]) -> OutputTile:
    """This block's part of K of its cluster's tile; all have as many steps, the last ones of zeros."""
    m, _, k, n = sizes
    down, number = lego.cdiv(m, tile.m), lego.block_id.x // tile.parts
    depth = lego.cdiv(k // BLOCK, tile.parts) * BLOCK
    start = lego.cluster_rank * depth
    return OutputTile(number % down * tile.m, number // down * tile.n, m, n, depth, start=start)


class ScaleRings:
    """The scales of each stage, beside its tiles: those of the tile's rows, and of the blocks of b that it meets.

    The copy unit fills the scales of rows. Those of blocks are 4 bytes a step: the lanes of the first warp that copies
    load them for 32 steps, and each stores its own when that step comes.
    """

    def __init__(self, tile: ProductTile) -> None:
        self.tile, self.blocks = tile, most_blocks(tile.n)
        self.of_rows = lego.shared(f32, Row(tile.stages, tile.m), "row_scales")
        self.of_blocks = lego.shared(f32, Row(tile.stages, self.blocks), "block_scales")

    def copies(
        self, place: OutputTile, sa: Operand, sb: Operand, full: BarrierRing
    ) -> Callable[[Operand, Operand], None]:
        """What fills the stage of a use with the scales of a step of a tile."""
        start, end, first = place.start // BLOCK, sa.dims()[-2] - 1, place.column // BLOCK
        last = lego.cdiv(place.columns, BLOCK) - 1
        blocks = [lego.minimum(first + n, last) for n in range(self.blocks)]
        held = [lego.register(f32, 0.0) for _ in blocks]

        def copy(step: Operand, use: Operand) -> None:
            slot = use % self.tile.stages
            rows = self.of_rows.part((slot, 0), (1, self.tile.m))
            lego.copy_async(sa, rows, at=(*place.of_a, start + step, place.row), barrier=full[use])
            with lego.when(step % WARP == 0):
                there = lego.minimum(start + step + lego.lane_id, end)
                for register, block in zip(held, blocks, strict=True):
                    register.set(sb[(*place.of_b, block, there)])
            with lego.when((lego.warp_id == 0) & (lego.lane_id == step % WARP)):
                for n, register in enumerate(held):
                    self.of_blocks[slot, n] = register.get()

        return copy

    def taken(self, place: OutputTile) -> Callable[[Operand, int], Operand]:
        """The scales of a use for 64 rows of this group's part of a tile: those of rows times those of columns."""
        (rows, columns), parent = part_of(self.tile), f2.MmaSync((WARPGROUP, 1))
        piece = lego.arange(parent.layout((ROWS, columns)), 1) // UNIT
        row = lego.group_id * rows if rows < self.tile.m else 0
        column = place.column + (lego.group_id * columns if rows == self.tile.m else 0)
        own = column // BLOCK
        before = bound(own - place.column // BLOCK, self.blocks)
        blocks = [lego.minimum(before + n, self.blocks - 1) for n in range(most_blocks(columns))]

        def take(use: Operand, first: int) -> Operand:
            slot = use % self.tile.stages
            of_a = lego.load(self.of_rows, f2.Sliced(1, parent).layout((ROWS,)), at=(slot, row + first))
            found, *others = [(of_a * self.of_blocks[slot, block])[:, None] for block in blocks]
            for n, other in enumerate(others, 1):
                found = lego.where(piece >= ((own + n) * BLOCK - column) // UNIT, other, found)
            return found

        return take


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
