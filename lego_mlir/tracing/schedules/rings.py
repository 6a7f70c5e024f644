"""Shared tiles as rings of stages, and the counters that walk through them.

A ring holds `stages` tiles below each other, in panels of 128 bytes a row whose chunks of 16 bytes are swizzled: what
tensor copies fill and `wgmma` reads. Elements of a staged tile are accessed by logical index, so the layout is free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.expr.index import Index
from lego_mlir.layout.base import Layout
from lego_mlir.layout.transposed import Transposed
from lego_mlir.tracing.schedules.scheduled import words_in
from lego_mlir.tracing.trace.dtypes import i32
from lego_mlir.tracing.trace.marks import Rectangle, RingMade
from lego_mlir.tracing.trace.trace import KernelTrace
from lego_mlir.tracing.words.claimed import claim
from lego_mlir.tracing.words.control import register
from lego_mlir.tracing.words.functions import where
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.tensor import View


@dataclass(frozen=True, slots=True)
class TileRing:
    """The stages of a shared tile of `shape`; those of a tile of columns hold its transpose.

    The last panel of each row is filled to its end, `beyond` columns outside of the tile; `below` rows follow a tile.
    Where stages hold several tiles, this one begins at `origin`, and a stage has `more` rows.
    """

    view: View
    tile: Layout
    transposed: bool
    beyond: int = 0
    below: int = 0
    origin: tuple[int, int] = (0, 0)
    more: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of the tile."""
        rows, columns = map(int, self.tile.dims())
        return rows, columns

    @property
    def height(self) -> int:
        """The rows of a stage, as the ring has them in memory."""
        return self.shape[self.transposed] + self.below + self.more

    def is_turned(self, layout: Layout) -> bool:
        """Whether a view of the tile, which has this layout, is its transpose."""
        return isinstance(layout, Transposed) and layout.inner == self.tile

    def whole(self, slot: Index) -> Part:
        """What a copy fills: whole panels, as the ring has them in memory."""
        rows, columns = self.shape[::-1] if self.transposed else self.shape
        return Part(self.view, self._place(slot, (Index(0), Index(0))), (rows, columns + self.beyond))

    def all(self, slot: Index) -> Part:
        """All tiles of a stage side by side, which the tile is the first of, as products take their right operand."""
        whole, (row, column) = self.whole(slot), self.beside
        part = replace(whole, shape=(whole.shape[0] + row, whole.shape[1] + column))
        return part.T if self.transposed else part

    @property
    def beside(self) -> tuple[int, int]:
        """Where a tile begins that is beside this one, along the columns of the right operand of a product."""
        columns = self.shape[1]
        return (columns, 0) if self.transposed else (0, columns)

    def _place(self, slot: Index, at: tuple[Index, Index]) -> tuple[Index, Index]:
        """An index of the ring, for one of the tile as a stage holds it."""
        return slot * self.height + self.origin[0] + at[0], self.origin[1] + at[1]

    def of(self, slot: Index, given: Rectangle) -> Part:
        """A part of the tile, or of its transpose, in a stage."""
        if self.is_turned(given.layout):
            return self.part(slot, (given.at[1], given.at[0]), given.shape[::-1]).T
        return self.part(slot, given.at, given.shape)

    def part(self, slot: Index, at: tuple[Expr, Expr], shape: tuple[int, int]) -> Part:
        """A part of the tile in a stage, from the index `at` of the tile on."""
        if self.transposed:
            return Part(self.view, self._place(slot, (Index(at[1]), Index(at[0]))), shape[::-1]).T
        return Part(self.view, self._place(slot, (Index(at[0]), Index(at[1]))), shape)


def last_ring(trace: KernelTrace) -> RingMade | None:
    """The mark of the ring that is made last: all blocks of a cluster meet after it."""
    return next((mark for _, mark in reversed(list(words_in(trace.body, RingMade)))), None)


class StageCounter:
    """The stage in use, and the parity of its phase, as registers: each program of the block counts for itself.

    Several loops, nested and persistent ones go on where the one before ended, and need nothing more.
    """

    def __init__(self, stages: int) -> None:
        self.stages = stages
        self._slot, self._parity, self._last = (register(i32, 0) for _ in range(3))

    def use(self) -> IndexLike:
        """The use of the rings in this step, modulo twice the stages: it has the step's stage and parity."""
        slot = claim(self._slot.get(), (0, self.stages))
        return slot + self.stages * claim(self._parity.get(), (0, 2))

    def previous(self) -> IndexLike:
        """The stage of the step before."""
        return claim(self._last.get(), (0, self.stages))

    def next(self) -> None:
        """Go on to the next stage."""
        slot = self._slot.get()
        wraps = slot == self.stages - 1
        self._last.set(slot)
        self._parity.set(where(wraps, 1 - self._parity.get(), self._parity.get()))
        self._slot.set(where(wraps, 0, slot + 1))
