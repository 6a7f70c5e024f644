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
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import lego_mlir as lego
from lego_mlir import Row, Strided, f2, f32, gallery, i32
from lego_mlir.aliases import Operand
from lego_mlir.choices.product_tile import WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import GROUPS, ROWS, height_of, part_of, threads_of, together
from lego_mlir.choices.scaled_tiles import BLOCK, PAD, SCALES, most_blocks, scaled_tile
from lego_mlir.errors import UsageError
from lego_mlir.hardware.devices import REFERENCE_SMS
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.tensor_maps import CHUNK, LINE
from lego_mlir.kernels.grouped_products import MOST_GROUPS, GroupOrder
from lego_mlir.kernels.role_products import (
    ALIGNED,
    LARGEST,
    USES,
    OutputTile,
    ProductRings,
    RowStores,
    bound,
    cluster_number,
    first_row,
    in_panels,
)
from lego_mlir.tracing.definition.named_parameters import with_parameters
from lego_mlir.tracing.schedules.rings import StageCounter
from lego_mlir.tracing.trace.dtypes import DType, bf16, f8e4m3fn

if TYPE_CHECKING:
    from collections.abc import Callable

    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.words.barrier_rings import BarrierRing


Form = Literal["dense", "tiles", "grouped", "masked"]
REGISTERS: Final = ((24, 240), (56, 224))
"""Of a thread that copies, and of one that multiplies; where all threads add parts of K after that, for this too."""


def build(
    form: Form = "dense", tile: ProductTile | None = None, blocks: int = REFERENCE_SMS, result: DType = bf16,
    multiple: int = ALIGNED,
) -> Kernel:  # fmt: skip
    """The kernel of a form and a tile for all M, G, N a `multiple` of 1, 2, 4 or 8, and K = 128 S.

    The strides of sa are multiples of 4, and 1 from row to row.

    `blocks` are persistent; where the tile divides K, each cluster computes one tile of a dense product. The result is
    bf16, f16 or f32. Raises UsageError for a tile that the form, or the multiple, cannot have.
    """
    tile = tile or scaled_tile(128, 128)
    if form != "dense" and (tile.parts > 1 or (form == "tiles" and BLOCK % height_of(tile))):
        raise UsageError(
            f"scaled_product of form {form!r} in {tile}: its blocks compute whole tiles of one matrix of b"
        )
    by_threads = form == "grouped" or multiple * result.bytes % CHUNK > 0
    if by_threads and tile.parts == 1 and part_of(tile)[1] % (LINE // result.bytes):
        raise UsageError(
            f"scaled_product of N a multiple of {multiple} in {tile}: take parts of whole lines of columns"
        )
    M, S = lego.size("M", min=1, max=LARGEST), lego.size("S", min=1, max=LARGEST // BLOCK)
    N = lego.size("N", min=multiple, max=LARGEST, multiple_of=multiple)
    sizes = (M, lego.size("G", min=1, max=MOST_GROUPS), S * BLOCK, N)

    def scaled_product(a: Operand, b: Operand, sa: Operand, sb: Operand, *more: Operand) -> None:
        *rows, c = more
        scales, rings = ScaleRings(tile), ProductRings(tile, f8e4m3fn, ("k", "k"))
        counted = form in ("grouped", "masked")
        order = GroupOrder(tile, blocks, sizes, form == "masked") if counted else DenseOrder(tile, blocks, sizes)
        stores = PartialSums(tile) if tile.parts > 1 else RowStores(tile, result, ragged=form == "grouped")
        copying, multiplying = REGISTERS[tile.parts > 1]
        with lego.warps(GROUPS * WARPGROUP, (GROUPS + 1) * WARPGROUP, registers=copying):
            used = StageCounter(tile.stages)
            for place in order.tiles(*rows):
                rings.fill(a, b, place, used, scales.copies(place, sa, sb, rings.full))
        with lego.warps(0, GROUPS * WARPGROUP, groups=GROUPS, registers=multiplying):
            used = StageCounter(tile.stages)
            for place in order.tiles(*rows):
                stores.write(rings.sums(place, used, scales.taken(place)), c, place, multiple)
        rings.meet()
        if isinstance(stores, PartialSums):
            stores.add(c, part_of_k(tile, sizes), min(multiple, 4))

    tiles = lego.cdiv(M, height_of(tile)) * lego.cdiv(N, tile.n)
    grid = blocks if tile.parts == 1 else tile.parts * tiles
    return lego.kernel(grid=grid, block=threads_of(tile), cluster=tile.clustered)(
        with_parameters(scaled_product, parameter_types(form, result, (M, sizes[1], S, N)))
    )


def parameter_types(form: Form, result: DType, sizes: tuple[Operand, Operand, Operand, Operand]) -> dict[str, Operand]:
    """The types of the kernel's parameters for these M, G, S and N."""
    M, G, S, N = sizes
    of_a, of_b = [G] * (form == "masked"), [G] * (form != "dense")
    strides = [
        lego.size(name, min=SCALES, max=LARGEST, multiple_of=SCALES) for name in ("GA", "CA")[form != "masked" :]
    ]
    parameters = {
        "a": lego.Tensor(f8e4m3fn, Row(*of_a, M, S * BLOCK)),
        "b": lego.Tensor(f8e4m3fn, Row(*of_b, N, S * BLOCK)),
        "sa": lego.Tensor(f32, Strided([*of_a, S, M], [*strides, 1], claim=True)),
        "sb": lego.Tensor(f32, Row(*of_b, lego.cdiv(N, BLOCK), S)),
    }
    if form == "tiles":
        parameters["experts"] = lego.Tensor(i32, Row(lego.cdiv(M, BLOCK)), range=(0, G))
    elif form != "dense":
        parameters["rows"] = lego.Tensor(i32, Row(G), range=(0, M + 1))
    return parameters | {"c": lego.Tensor(result, Row(*of_a, M, N))}


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
            yield part_of_k(tile, self.sizes)
            return
        down, across = bound(lego.cdiv(m, height_of(tile))), bound(lego.cdiv(n, tile.n))
        for number in lego.range(cluster_number(tile), bound(down * across, USES), self.blocks // tile.sharing):
            row, column = in_panels(bound(number, USES), down, across, together(tile, self.blocks))
            top = row * height_of(tile) + first_row(tile)
            last = lego.cdiv(m, BLOCK) - 1  # of the blocks of a cluster some may begin after the rows
            at = lego.minimum(top // BLOCK, last)
            of_b = tuple(lego.index(table[at], range=(0, self.sizes[1])) for table in experts)
            yield OutputTile(top, column * tile.n, m, n, k, of_b=of_b)


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
