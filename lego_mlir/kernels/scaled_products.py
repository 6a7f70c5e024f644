"""Products of f8e4m3 with scales of blocks: c = sum over blocks k of 128 along K of (a_k b_k^T) * sa[:, k] * sb[:, k].

    a         [M, K]            f8e4m3fn, sa [M, K / 128] of f32: a scale for 128 elements of a row
    b         [N, K]            f8e4m3fn, sb [ceil(N / 128), K / 128]: a scale for 128 x 128 elements
    c         [M, N]            bf16

The products of each block begin anew in the matrix unit, and are added to f32 totals times their scales, as `exact`
promotes sums (`role_products`). The form is that of DeepSeek-V3 (2024, section 3.3). While one group of warps adds to
its totals, the other one multiplies. Persistent blocks share the tiles, in panels.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, Strided, f2, f32, gallery
from lego_mlir.choices.product_tile import WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import GROUPS, height_of, part_of, threads_of, together
from lego_mlir.choices.scaled_tiles import scaled_tile
from lego_mlir.kernels.role_products import (
    LARGEST,
    USES,
    OutputTile,
    ProductRings,
    RingUse,
    RowStores,
    bound,
    cluster_number,
    first_row,
    in_panels,
)
from lego_mlir.tracing.trace.dtypes import bf16, f8e4m3fn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lego_mlir.aliases import Operand
    from lego_mlir.tracing.definition.kernel import Kernel

BLOCK: Final = 128
"""Elements along K, and rows of b, that share a scale."""
ALIGNED: Final = 8
"""N is a multiple: rows of bf16 are then whole chunks of 16 bytes."""
UNIT: Final = 8
"""Columns of the unit's pieces, which are in one block of b."""
PAD: Final = 8
"""Floats after each row of sums: the 8 rows of a piece are in different banks, two by two."""


def build(tile: ProductTile | None = None, blocks: int = 132) -> Kernel:
    """The kernel of a tile for all M, N a multiple of 8 and K = 128 S; sa has strides RA and CA.

    `blocks` are persistent; where the tile divides K, each cluster computes one tile.
    """
    tile = tile or scaled_tile(128, 128, 6)
    M, S = (lego.size(name, min=1, max=LARGEST // (BLOCK if name == "S" else 1)) for name in ("M", "S"))
    N = lego.size("N", min=ALIGNED, max=LARGEST, multiple_of=ALIGNED)
    strides = [lego.size(name, min=1, max=LARGEST) for name in ("RA", "CA")]
    down, across = lego.cdiv(M, height_of(tile)), lego.cdiv(N, tile.n)
    grid = blocks if tile.parts == 1 else tile.parts * down * across

    @lego.kernel(grid=grid, block=threads_of(tile), cluster=tile.clustered)
    def scaled_product(  # type: ignore[no-untyped-def]
        a: lego.Tensor(f8e4m3fn, Row(M, S * BLOCK)),  # type: ignore[valid-type]
        b: lego.Tensor(f8e4m3fn, Row(N, S * BLOCK)),  # type: ignore[valid-type]
        sa: lego.Tensor(f32, Strided([M, S], strides, claim=True)),  # type: ignore[valid-type]
        sb: lego.Tensor(f32, Row(lego.cdiv(N, BLOCK), S)),  # type: ignore[valid-type]
        c: lego.Tensor(bf16, Row(M, N)),  # type: ignore[valid-type]
    ):
        rings, order = ProductRings(tile, f8e4m3fn, ("k", "k")), ScaledOrder(tile, blocks, (M, N, S))
        stores = RowStores(tile, bf16) if tile.parts == 1 else PartialSums(tile)
        with lego.warps(GROUPS * WARPGROUP, (GROUPS + 1) * WARPGROUP, registers=24):
            used = RingUse()
            for place in order.tiles():
                rings.fill(a, b, place, used)
        with lego.warps(0, GROUPS * WARPGROUP, groups=GROUPS, registers=240):
            used = RingUse()
            for place in order.tiles():
                stores.write(rings.sums(place, used, BlockScales(tile, place, sa, sb).take), c, place, ALIGNED)
        rings.meet()
        if isinstance(stores, PartialSums):
            stores.add(c, order.part())

    return scaled_product


@dataclass(frozen=True, slots=True)
class ScaledOrder:
    """The tiles of a block: `sizes` are M, N and blocks along K."""

    tile: ProductTile
    blocks: int
    sizes: tuple[Operand, Operand, Operand]

    def tiles(self) -> Iterator[OutputTile]:
        """The places of the block's tiles, or of its part of one."""
        tile, (m, n, steps) = self.tile, self.sizes
        if tile.parts > 1:
            yield self.part()
            return
        down, across = bound(lego.cdiv(m, height_of(tile))), bound(lego.cdiv(n, tile.n))
        for number in lego.range(cluster_number(tile), bound(down * across, USES), self.blocks // tile.sharing):
            row, column = in_panels(bound(number, USES), down, across, together(tile, self.blocks))
            yield OutputTile(row * height_of(tile) + first_row(tile), column * tile.n, m, n, steps * BLOCK)

    def part(self) -> OutputTile:
        """This block's part of K of its cluster's tile."""
        tile, (m, n, steps) = self.tile, self.sizes
        down, number = lego.cdiv(m, tile.m), lego.block_id.x // tile.parts
        each = lego.cdiv(steps, tile.parts)
        start = lego.minimum(lego.cluster_rank * each, steps)
        depth = lego.minimum(each, steps - start)
        return OutputTile(number % down * tile.m, number // down * tile.n, m, n, depth * BLOCK, start=start * BLOCK)


class BlockScales:
    """The scales for the part of a tile that a group of warps has: sa of its rows times sb of its columns.

    Those of the next step are loaded while this one is multiplied.
    """

    def __init__(self, tile: ProductTile, place: OutputTile, sa: Operand, sb: Operand) -> None:
        (rows, columns), parent = part_of(tile), f2.MmaSync((WARPGROUP, 1))
        self.sa, self.sb, self.of_rows = sa, sb, f2.Sliced(1, parent).layout((rows,))
        self.each = lego.arange(parent.layout((rows, columns)), 1) // UNIT
        self.row = place.row + (lego.group_id * rows if rows < tile.m else 0)
        self.column = place.column + (lego.group_id * columns if rows == tile.m else 0)
        self.last, self.start = lego.cdiv(place.columns, BLOCK) - 1, place.start // BLOCK
        self.end = self.start + place.depth // BLOCK - 1
        common = gcd(columns, BLOCK)
        self.blocks = (columns - common) // BLOCK + 1 + ((columns - common) % BLOCK > 0)
        of_a, *of_b = self._load(self.start)
        self.ahead = [lego.register(of_a), *(lego.register(f32, x) for x in of_b)]

    def _load(self, step: Operand) -> list[Operand]:
        step, first = lego.maximum(lego.minimum(step, self.end), 0), self.column // BLOCK
        of_b = [self.sb[lego.minimum(first + n, self.last), step] for n in range(self.blocks)]
        return [lego.load(self.sa.T, self.of_rows, at=(step, self.row)), *of_b]

    def take(self, step: Operand) -> Operand:
        """The scales of a step."""
        of_a, *of_b = [x.get() for x in self.ahead]
        for held, value in zip(self.ahead, self._load(self.start + step + 1), strict=True):
            held.set(value)
        found = (of_a * of_b[0])[:, None]
        for n in range(1, self.blocks):
            begin = ((self.column // BLOCK + n) * BLOCK - self.column) // UNIT
            found = lego.where(self.each >= begin, (of_a * of_b[n])[:, None], found)
        return found


class PartialSums:
    """The sums of a block's part of K in shared memory, and the sums over the blocks of a cluster."""

    def __init__(self, tile: ProductTile) -> None:
        self.tile, self.sums = tile, lego.shared(f32, gallery.padded(tile.m, tile.n, PAD), "sums")

    def write(self, sums: Operand, c: Operand, place: OutputTile, multiple: int) -> None:
        """Keep the sums of a group's part of the tile."""
        rows, columns = part_of(self.tile)
        at = (lego.group_id * rows, 0) if rows < self.tile.m else (0, lego.group_id * columns)
        sums.store(self.sums, at=at)

    def add(self, c: Operand, place: OutputTile) -> None:
        """Add the parts in their order, and store this block's share of the rows."""
        lego.cluster_barrier()
        tile, threads = self.tile, threads_of(self.tile)
        rows, chunks = -(-tile.m // tile.parts), tile.n // ALIGNED
        first = lego.cluster_rank * rows
        for number in lego.range(lego.thread_id.x, rows * chunks, threads):
            row, column = first + number // chunks, number % chunks * ALIGNED
            i, j = place.row + row, place.column + column
            with lego.when((row < tile.m) & (i < place.end) & (j < place.columns)):
                for half in (0, 4):
                    found = [
                        self.sums.of_block(part).load(row, column + half, width=4) for part in range(tile.parts)
                    ]
                    c.store(functools.reduce(operator.add, found).to(bf16), i, j + half, width=4)
        lego.cluster_barrier()
