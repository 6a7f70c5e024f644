"""The parts of products with warp roles: rings of tiles, their sums, and stores of rows that end anywhere.

One role copies tiles of A and B into rings. Two groups of 4 warps multiply them, each its part of the rows or of the
columns of a tile of C, and store it: chunks of 128 bytes a row go through shared memory, from where a tile copy takes
those whose ends are the tensor's. Where a row may end anywhere, a thread stores 16 bytes, and every row and column is
compared with its end. Blocks are persistent; the role that copies is ahead by the stages of the ring, in the next tile
while the last one is stored.

`grouped_products` and `batched_products` decide which tiles a block computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import bf16, f2, f16, f32
from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.choices.product_tile import BUFFERS, WARPGROUP, ProductTile
from lego_mlir.choices.role_tiles import GROUPS, ROWS, in_lines, part_of
from lego_mlir.errors import UsageError
from lego_mlir.hardware.tensor_maps import CHUNK, LINE
from lego_mlir.tracing.schedules.rings import StageCounter
from lego_mlir.tracing.spread.copied_stores import line_of
from lego_mlir.tracing.trace.shared_lines import copied_lines, ring_layout
from lego_mlir.tracing.words.staging import thread_chunks

if TYPE_CHECKING:
    from lego_mlir.tracing.trace.dtypes import DType

USES: Final = 2**30
"""More than a ring's uses, and than the tiles, of one launch."""
ALIGNED: Final = 8
"""Elements of 16 bytes, of which rows are multiples."""
LARGEST: Final = 2**20
"""The largest size of a product."""


def first_row(tile: ProductTile) -> Operand:
    """The first row of this block's tile in those of its cluster."""
    return lego.cluster_rank * tile.m if tile.sharing > 1 else 0


def cluster_number(tile: ProductTile) -> Operand:
    """The number of this block's cluster."""
    return lego.block_id.x // tile.sharing


@dataclass(frozen=True, slots=True)
class RoleForm:
    """Types, and the orders of a and b, N for rows and T for columns, of a product by warp roles. N is a `multiple`.

    Along their rows in memory the sizes of a and b are multiples of 8, or their rows have a larger pitch.
    """

    dtype: DType = f16
    result: DType | None = None
    layouts: str = "NN"
    multiple: int = ALIGNED

    def require(self, what: str, layouts: Sequence[str]) -> None:
        """Raise UsageError for other types, for an order that is not one of `layouts`, or for another multiple."""
        if self.dtype not in (f16, bf16) or self.stored not in (f16, bf16, f32) or self.layouts not in layouts:
            raise UsageError(
                f"{what} of f16 or bf16 into f16, bf16 or f32, in the orders {', '.join(layouts)}; got "
                f"{self.dtype} into {self.stored}, {self.layouts!r}"
            )
        if self.multiple not in (1, 2, 4, ALIGNED):
            raise UsageError(f"{what} with N a multiple of {self.multiple}: take N a multiple of 1, 2, 4 or 8")

    @property
    def stored(self) -> DType:
        """The type of the result."""
        return self.dtype if self.result is None else self.result

    @property
    def contiguous(self) -> tuple[str, str]:
        """The contiguous dimension of a and of b."""
        return ("k" if self.layouts[0] == "N" else "mn", "k" if self.layouts[1] == "T" else "mn")


@dataclass(frozen=True, slots=True)
class OutputTile:
    """A tile of C: its first row and column, the ends of its rows and columns, and the matrices of A, B and C.

    A matrix is the indices before its row and column, none for a tensor of two dimensions. The sums are of `depth`
    products, from `start` on along K.
    """

    row: Operand
    column: Operand
    end: Operand
    columns: Operand
    depth: Operand
    of_a: tuple[IndexLike, ...] = ()
    of_b: tuple[IndexLike, ...] = ()
    of_c: tuple[IndexLike, ...] = ()
    start: Operand = 0


class ProductRings:
    """The rings of tiles of A and B, for matrices with K contiguous ("k") or not ("mn")."""

    def __init__(self, tile: ProductTile, dtype: DType, contiguous: Sequence[str]) -> None:
        self.tile, self.contiguous, self.depth = tile, contiguous, LINE // dtype.bytes
        across = tile.n if contiguous[1] == "k" else in_lines(tile.n, dtype.bytes)
        self.extents = (tile.m, across)
        self.rings = [
            lego.shared(dtype, ring_layout(tile.stages, *self._shape(side), dtype.bytes), name)
            for side, name in enumerate(("left", "right"))
        ]
        self.full = lego.barriers(tile.stages, arrivals=WARPGROUP * tile.sharing)
        self.empty = lego.barriers(tile.stages, arrivals=WARPGROUP * GROUPS * tile.sharing)
        self.meet()

    def _shape(self, side: int) -> tuple[int, int]:
        extent = self.extents[side]
        return (extent, self.depth) if self.contiguous[side] == "k" else (self.depth, extent)

    def fill(
        self, a: Operand, b: Operand, place: OutputTile, used: StageCounter,
        beside: Callable[[Operand, Operand], None] | None = None,
    ) -> None:  # fmt: skip
        """Copy the tiles of all steps, each as soon as its stage is empty.

        `beside`, a function of the step and its use, copies more into the stage, on the same barrier.
        """
        for step in lego.range(lego.cdiv(place.depth, self.depth)):
            use = used.use()
            self.copy(a, b, place, step * self.depth, use, self.full[use])
            if beside is not None:
                beside(step, use)
            self._arrive(self.full[use])
            used.next()

    def copy(self, a: Operand, b: Operand, place: OutputTile, k: Operand, use: Operand, barrier: Operand) -> None:
        """Copy the tiles from `k` on into the stage of a use, as soon as it is empty; they complete on the barrier."""
        self.empty[use - self.tile.stages].wait()
        for side, (source, outer, first) in enumerate(((a, place.of_a, place.row), (b, place.of_b, place.column))):
            self._copy(side, source, outer, first, place.start + k, use, barrier)

    def _copy(self, side: int, source: Operand, outer: Sequence[IndexLike], first: Operand, k: Operand, use: Operand,
              barrier: Operand) -> None:  # fmt: skip
        """Copy the tile of A, side 0, or this block's part of the tile of B, for all blocks of the cluster."""
        (height, width), (top, left) = self._shape(side), (first, k) if self.contiguous[side] == "k" else (k, first)
        begin, count = use % self.tile.stages * height, height
        shared = side == 1 and self.tile.sharing > 1
        if shared:
            count = height // self.tile.sharing
            begin, top = begin + lego.cluster_rank * count, top + lego.cluster_rank * count
        target = self.rings[side].part((begin, 0), (count, width))
        lego.copy_async(source, target, at=(*outer, top, left), barrier=barrier, blocks="all" if shared else None)

    def _arrive(self, barrier: Operand) -> None:
        """Arrive at the barrier in all blocks of the cluster."""
        if self.tile.sharing == 1:
            barrier.arrive()
            return
        for block in lego.unroll(self.tile.sharing):
            barrier.arrive(block=block)

    def meet(self) -> None:
        """The blocks of a cluster meet: before they use each other's rings, and before one of them ends."""
        if self.tile.sharing > 1:
            lego.cluster_barrier()

    def sums(
        self, place: OutputTile, used: StageCounter, scales: Callable[[Operand, int], Operand] | None = None
    ) -> Operand:
        """The sums of this group's part of a tile.

        With `scales`, a function of the use and of the first row, the products of each step begin anew, and are added
        to f32 totals times the scales, 64 rows at a time: one set of sums serves all rows of a group.
        """
        layout = f2.MmaSync((WARPGROUP, 1)).layout
        rows, columns = part_of(self.tile)
        height = rows if scales is None else ROWS
        zeros = lego.zeros(f32, layout((height, columns)))
        totals = {first: lego.register(zeros) for first in range(0, rows, height)}
        for _ in lego.range(lego.cdiv(place.depth, self.depth)):
            use = used.use()
            self.full[use].wait()
            factors = {first: None if scales is None else scales(use, first) for first in totals}
            slot = use % self.tile.stages
            for first, total in totals.items():
                by, left = factors[first], self._part(0, slot, first, height)
                found = lego.mma(left, self._part(1, slot), total if by is None else zeros)
                if by is None:
                    total.set(found)
                if first + height == rows:
                    self._arrive(self.empty[use])
                if by is not None:
                    total.set(lego.fma(found, by, total))
            used.next()
        registers = [x for total in totals.values() for x in total.get().registers]
        return lego.Spread(layout((rows, columns)), f32, registers)

    def _part(self, side: int, slot: Operand, row: int = 0, rows: int | None = None) -> Operand:
        """This group's part of the tile of A (rows x K), side 0, or of B (K x columns) in a stage.

        Of A the part of so many `rows` from `row` on, all if None.
        """
        extent, height = part_of(self.tile)[side], self._shape(side)[0]
        first = (lego.group_id * extent if extent < (self.tile.m, self.tile.n)[side] else 0) + row
        extent = extent if rows is None else rows
        if self.contiguous[side] == "k":
            found = self.rings[side].part((slot * height + first, 0), (extent, self.depth))
        else:
            found = self.rings[side].part((slot * height, first), (self.depth, extent))
        return found if (side == 0) == (self.contiguous[side] == "k") else found.T


class RowStores:
    """Stores of a group's sums through its buffers: by tile copies, or by the threads, which compare each row.

    Where `ragged`, a tile of rows may end where another begins, and no copy may store it.
    """

    def __init__(self, tile: ProductTile, result: DType, *, ragged: bool = False) -> None:
        self.tile, self.result, self.ragged = tile, result, ragged
        self.line, self.width = line_of(result, part_of(tile)[1]), CHUNK // result.bytes
        self.buffers = lego.shared(result, copied_lines(GROUPS * BUFFERS * ROWS, self.line, result.bytes), "out")

    def write(self, sums: Operand, c: Operand, place: OutputTile, multiple: int) -> None:
        """Store by tile copies where rows of `multiple` elements are whole chunks, else by the threads."""
        if multiple % self.width == 0 and not self.ragged:
            self.copy(sums, c, place)
        else:
            self.store(sums, c, place, min(multiple, self.width))

    def store(self, sums: Operand, c: Operand, place: OutputTile, width: int) -> None:
        """Store what is before the ends of rows and columns, `width` elements at once."""
        chunks = self._chunks(place)
        if len(chunks) % BUFFERS:
            lego.barrier()
        for number, at in enumerate(chunks):
            self._rows(c, place, self._staged(sums, number), at, width)

    def copy(self, sums: Operand, c: Operand, place: OutputTile) -> None:
        """Store by tile copies what is inside of c; `place` must end where c does."""
        count = BUFFERS * ROWS
        through = self.buffers.part((lego.group_id * count, 0), (count, self.line))
        sums.copy_out(c, at=(*place.of_c, *self._first(place)), through=through)

    def _chunks(self, place: OutputTile) -> list[tuple[Operand, Operand]]:
        """The first rows and columns of a group's parts of 64 rows of 128 bytes."""
        (rows, columns), (top, left) = part_of(self.tile), self._first(place)
        return [(top + row, left + column) for row in range(0, rows, ROWS) for column in range(0, columns, self.line)]

    def _first(self, place: OutputTile) -> tuple[Operand, Operand]:
        """The first row and column of a group's part of a tile."""
        rows, columns = part_of(self.tile)
        if rows < self.tile.m:
            return place.row + lego.group_id * rows, place.column
        return place.row, place.column + lego.group_id * columns

    def _staged(self, sums: Operand, number: int) -> Operand:
        """The row of the buffers where the sums of a part are, for all threads of the group."""
        chunk = f2.MmaSync((WARPGROUP, 1)).layout((ROWS, self.line))
        count = ROWS * self.line // (32 * WARPGROUP)
        first = (lego.group_id * BUFFERS + number % BUFFERS) * ROWS
        here = lego.Spread(chunk, f32, sums.registers[number * count : (number + 1) * count])
        here.to(self.result).store(self.buffers, at=(first, 0))
        lego.barrier()
        return first

    def _rows(self, c: Operand, place: OutputTile, first: Operand, at: tuple[Operand, Operand], width: int) -> None:
        """Store one buffer, which begins at row `first`, to C."""
        thread = lego.warp_id * 32 + lego.lane_id
        for row, column in thread_chunks((ROWS, self.line), width, 32 * WARPGROUP, thread):
            i, j = at[0] + row, at[1] + column
            value = self.buffers.load(first + row, column, width=width)
            with lego.when((i < place.end) & (j < place.columns)):
                c.store(value, *place.of_c, i, j)


def bound(x: Operand, end: Operand = LARGEST, first: int = 0) -> Operand:
    """An index as data with a range, so that no proof looks into its computation."""
    return lego.index(lego.i32(x), range=(first, end))


def in_panels(number: Operand, down: Operand, across: Operand, together: int) -> tuple[Operand, Operand]:
    """The row and column of a tile of `down` x `across`, in panels of `together` rows."""
    number, down, each = bound(number, USES), bound(down), bound(together * across, USES, first=1)
    panel = bound(number // each)
    height = bound(lego.minimum(down - panel * together, together), together + 1, first=1)
    inside = bound(number % each, USES)
    return bound(panel * together + inside % height), bound(inside // height)
