"""Products of f8e4m3 with scales of blocks: c = the sum over blocks k of 128 along K of (a_k b_k^T) * sa[k] * sb[k].

    a         [M, K]            sa [K / 128, M] of f32: a scale for 128 elements of a row
    b         [N, K]            sb [ceil(N / 128), K / 128] of f32: a scale for 128 x 128 elements
    c         [M, N]            bf16

The products of each block begin anew in the matrix unit, and are added to f32 totals times their scales: while one
group of warps adds to its totals, the other one multiplies (`role_products`). Persistent blocks share the tiles, in
panels. Products of few tiles divide K among the blocks of a cluster, which add their sums through shared memory.

    "dense"     one matrix b
    "tiles"     b [G, N, K]; 128 rows of a from 128 t on are multiplied by b[experts[t]]
    "grouped"   b [G, N, K]; group g has the rows of a up to ends[g], as `grouped_products` has them
    "masked"    a [G, M, K] and b [G, N, K]; group g has the first counts[g] of its rows, and others are undefined

(DeepSeek-V3 technical report, 2024, section 3.3: "fine-grained quantization", "increasing accumulation precision".)
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Final, Literal

import lego_mlir as lego
from lego_mlir import Row, Strided, f2, f32, gallery, i32
from lego_mlir.choices.product_tile import WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import GROUPS, height_of, part_of, threads_of, together
from lego_mlir.choices.scaled_tiles import BLOCK, scaled_tile
from lego_mlir.errors import UsageError
from lego_mlir.kernels.grouped_products import MOST_GROUPS, GroupOrder
from lego_mlir.kernels.role_products import (
    ALIGNED,
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
    from lego_mlir.aliases import Operand
    from lego_mlir.tracing.definition.kernel import Kernel

Form = Literal["dense", "tiles", "grouped", "masked"]
UNIT: Final = 8
"""Columns of the unit's pieces, which are in one block of b."""
PAD: Final = 8
"""Floats after each row of sums: rows of a piece begin in different banks, two by two."""


def build(form: Form = "dense", tile: ProductTile | None = None, blocks: int = 132) -> Kernel:
    """The kernel of a form and a tile for all M, G, N a multiple of 8, and K = 128 S; sa has any strides.

    `blocks` are persistent; where the tile divides K, each cluster computes one tile of a dense product.
    """
    tile = tile or scaled_tile(128, 128)
    if form != "dense" and (tile.parts > 1 or (form == "tiles" and BLOCK % height_of(tile))):
        raise UsageError(f"scaled_product of form {form!r} in {tile}: its blocks compute whole tiles of one matrix of b")
    M, S = lego.size("M", min=1, max=LARGEST), lego.size("S", min=1, max=LARGEST // BLOCK)
    N = lego.size("N", min=ALIGNED, max=LARGEST, multiple_of=ALIGNED)
    G = lego.size("G", min=1, max=MOST_GROUPS)
    of_a, of_b = [G] * (form == "masked"), [G] * (form != "dense")
    strides = [lego.size(name, min=1, max=LARGEST) for name in ("GA", "CA", "RA")[form != "masked" :]]
    sizes = (M, G, S * BLOCK, N)
    parameters = {
        "a": lego.Tensor(f8e4m3fn, Row(*of_a, M, S * BLOCK)),
        "b": lego.Tensor(f8e4m3fn, Row(*of_b, N, S * BLOCK)),
        "sa": lego.Tensor(f32, Strided([*of_a, S, M], strides, claim=True)),
        "sb": lego.Tensor(f32, Row(*of_b, lego.cdiv(N, BLOCK), S)),
    }
    if form == "tiles":
        parameters["experts"] = lego.Tensor(i32, Row(lego.cdiv(M, BLOCK)), range=(0, G))
    elif form != "dense":
        parameters["rows"] = lego.Tensor(i32, Row(G), range=(0, M + 1))
    parameters["c"] = lego.Tensor(bf16, Row(*of_a, M, N))

    def scaled_product(a: Operand, b: Operand, sa: Operand, sb: Operand, *more: Operand) -> None:
        *rows, c = more
        rings = ProductRings(tile, f8e4m3fn, ("k", "k"))
        counted = form in ("grouped", "masked")
        order = GroupOrder(tile, blocks, sizes, form == "masked") if counted else DenseOrder(tile, blocks, sizes)
        stores = RowStores(tile, bf16) if tile.parts == 1 else PartialSums(tile)
        with lego.warps(GROUPS * WARPGROUP, (GROUPS + 1) * WARPGROUP, registers=24):
            used = RingUse()
            for place in order.tiles(*rows):
                rings.fill(a, b, place, used)
        with lego.warps(0, GROUPS * WARPGROUP, groups=GROUPS, registers=240):
            used = RingUse()
            for place in order.tiles(*rows):
                sums = rings.sums(place, used, BlockScales(tile, place, sa, sb).take)
                if form == "grouped":
                    stores.store(sums, c, place, ALIGNED)
                else:
                    stores.write(sums, c, place, ALIGNED)
        rings.meet()
        if isinstance(stores, PartialSums):
            stores.add(c, order.part())

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    scaled_product.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind, annotation=tensor) for name, tensor in parameters.items()]
    )
    tiles = lego.cdiv(M, height_of(tile)) * lego.cdiv(N, tile.n)
    grid = blocks if tile.parts == 1 else tile.parts * tiles
    return lego.kernel(grid=grid, block=threads_of(tile), cluster=tile.clustered)(scaled_product)


@dataclass(frozen=True, slots=True)
class DenseOrder:
    """The tiles of a block of one product, or of one whose rows choose matrices of b: `sizes` are M, G, K and N."""

    tile: ProductTile
    blocks: int
    sizes: tuple[Operand, Operand, Operand, Operand]

    def tiles(self, *experts: Operand) -> Iterator[OutputTile]:
        """The places of the block's tiles, or of its part of one; `experts` is the table of the matrices, if any."""
        tile, (m, _, k, n) = self.tile, self.sizes
        if tile.parts > 1:
            yield self.part()
            return
        down, across = bound(lego.cdiv(m, height_of(tile))), bound(lego.cdiv(n, tile.n))
        for number in lego.range(cluster_number(tile), bound(down * across, USES), self.blocks // tile.sharing):
            row, column = in_panels(bound(number, USES), down, across, together(tile, self.blocks))
            top = row * height_of(tile) + first_row(tile)
            last = lego.cdiv(m, BLOCK) - 1  # of the blocks of a cluster some may begin after the rows
            at = lego.minimum(top // BLOCK, last)
            of_b = tuple(lego.index(table[at], range=(0, self.sizes[1])) for table in experts)
            yield OutputTile(top, column * tile.n, m, n, k, of_b=of_b)

    def part(self) -> OutputTile:
        """This block's part of K of its cluster's tile."""
        tile, (m, _, k, n) = self.tile, self.sizes
        down, number, steps = lego.cdiv(m, tile.m), lego.block_id.x // tile.parts, k // BLOCK
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
        self.place, self.sa, self.sb, self.of_rows = place, sa, sb, f2.Sliced(1, parent).layout((rows,))
        self.piece = lego.arange(parent.layout((rows, columns)), 1) // UNIT
        self.row = place.row + (lego.group_id * rows if rows < tile.m else 0)
        self.column = place.column + (lego.group_id * columns if rows == tile.m else 0)
        self.first, self.last = self.column // BLOCK, lego.cdiv(place.columns, BLOCK) - 1
        self.start = place.start // BLOCK
        self.end = self.start + place.depth // BLOCK - 1
        self.blocks = 1 + -(-(columns - gcd(columns, BLOCK)) // BLOCK)  # a part begins at a multiple of its columns
        of_a, *of_b = self._load(self.start)
        self.ahead = [lego.register(of_a), *(lego.register(f32, x) for x in of_b)]

    def _load(self, step: Operand) -> list[Operand]:
        step = lego.maximum(lego.minimum(step, self.end), 0)
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


class PartialSums:
    """The sums of a block's part of K in shared memory, and the sums over the blocks of a cluster."""

    def __init__(self, tile: ProductTile) -> None:
        self.tile, self.sums = tile, lego.shared(f32, gallery.padded(tile.m, tile.n, PAD), "sums")

    def write(self, sums: Operand, c: Operand, place: OutputTile, multiple: int) -> None:
        """Keep the sums of a group's part of the tile."""
        rows, columns = part_of(self.tile)
        sums.store(self.sums, at=(lego.group_id * rows, 0) if rows < self.tile.m else (0, lego.group_id * columns))

    def add(self, c: Operand, place: OutputTile) -> None:
        """Add the parts in their order, and store this block's share of the rows."""
        lego.cluster_barrier()
        tile, width = self.tile, 4
        rows, chunks = -(-tile.m // tile.parts), tile.n // width
        for number in lego.range(lego.thread_id.x, rows * chunks, threads_of(tile)):
            row, column = lego.cluster_rank * rows + number // chunks, number % chunks * width
            i, j = place.row + row, place.column + column
            with lego.when((row < tile.m) & (i < place.end) & (j < place.columns)):
                parts = [self.sums.of_block(part).load(row, column, width=width) for part in range(tile.parts)]
                c.store(functools.reduce(operator.add, parts).to(bf16), i, j, width=width)
        lego.cluster_barrier()
