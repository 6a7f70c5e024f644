"""Boxes whose elements lie side by side along different axes of both memories: moved in tiles through shared memory.

    source, side by side along s        tile in shared memory, s x t         target, side by side along t
    t: w rows of 16 bytes a thread  ──► transposed in registers, swizzled ──► s: rows of 16 bytes a thread

A tile is a grid of SIDE x SIDE micro-tiles of w x w elements, one for each thread, as in `kernels.transpose`: both
sides are accessed 16 bytes at a time, a quarter of a kilobyte side by side, and without bank conflicts. Edges are whole
micro-tiles that are left out: a box takes this way if places and extents are multiples of w, and both extents at least
LEAST micro-tiles. Others are moved element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import and_
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir.aliases import IndexLike
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.kernels.transpose import micro_tiles, store_micro_tile
from lego_mlir.layout import Row

if TYPE_CHECKING:
    from lego_mlir.mesh.box_kernels import FusedBox
    from lego_mlir.tracing.trace.dtypes import DType
    from lego_mlir.tracing.words.tensor import View

SIDE: Final = 16
"""Micro-tiles along a side of a tile."""
THREADS: Final = SIDE * SIDE
WIDEST: Final = 8
"""Elements of a micro-tile's side; with 16 of one byte a tile would be 64 KB."""
LEAST: Final = 4
"""Micro-tiles that a box has along both axes at least."""


@dataclass(frozen=True, slots=True)
class TransposedBox:
    """A box with the offsets of both sides; `along` is the axis of its source, the last axis is its target's."""

    box: FusedBox
    offsets: tuple[int, int]
    along: int
    width: int

    @property
    def others(self) -> list[int]:
        """The axes that are neither."""
        return [axis for axis in range(len(self.box.sizes) - 1) if axis != self.along]

    @property
    def extents(self) -> tuple[int, int]:
        """The elements along s and along t."""
        return self.box.sizes[self.along], self.box.sizes[-1]

    @property
    def tiles(self) -> tuple[int, ...]:
        """The grid of tiles: other axes, along s, along t; in this order, so that rows of the target are completed."""
        side = SIDE * self.width
        return (*(self.box.sizes[axis] for axis in self.others), *(-(-n // side) for n in self.extents))

    @property
    def blocks(self) -> int:
        """Blocks of THREADS threads, one for each tile."""
        return prod(self.tiles)

    def move(self, source: View, target: View, part: IndexLike, stage: View | None) -> None:
        """Move one tile."""
        assert stage is not None
        index = Row(*self.tiles).inv(part)
        *outer, tile_s, tile_t = index
        starts = [
            offset + sum(i * strides[axis] for i, axis in zip(outer, self.others, strict=True))
            for offset, strides in zip(self.offsets, (self.box.source, self.box.target), strict=True)
        ]
        w = self.width
        one, other = lego.thread_id.x // SIDE * w, lego.thread_id.x % SIDE * w
        first_s, first_t = tile_s * (SIDE * w), tile_t * (SIDE * w)
        with self._inside(first_s + other, first_t + one):
            step = self.box.source[-1]
            at = starts[0] + (first_t + one) * step + first_s + other
            lines = [source.load(at + k * step, width=w) for k in range(w)]
            store_micro_tile(stage, lines, other, one)
        lego.barrier()
        for k in range(w):  # SIDE rows of the tile at a time
            s, t = k * SIDE + lego.thread_id.x // SIDE, other
            with self._inside(first_s + s, first_t + t):
                there = starts[1] + (first_s + s) * self.box.target[self.along] + first_t + t
                target.store(stage.load(s, t, width=w), there)

    def _inside(self, s: IndexLike, t: IndexLike) -> AbstractContextManager[object]:
        """A branch for what is inside the box, where tiles reach outside."""
        side, (extent_s, extent_t) = SIDE * self.width, self.extents
        conditions = [i < n for i, n in ((s, extent_s), (t, extent_t)) if n % side]
        return lego.when(reduce(and_, conditions)) if conditions else nullcontext()


def transposed_box(box: FusedBox, offsets: tuple[int, int], item_bytes: int) -> TransposedBox | None:
    """The box moved in tiles, if both sides are side by side along an axis, aligned, and long enough; else None."""
    width = min(WIDEST, WIDEST_ACCESS // item_bytes)
    if width < 2 or box.target[-1] != 1 or 1 not in box.source[:-1]:
        return None
    along = box.source.index(1)
    aligned = (
        *offsets, box.sizes[along], box.sizes[-1],
        *(step for axis, step in enumerate(box.source) if axis != along), *box.target[:-1],
    )  # fmt: skip
    if any(n % width for n in aligned) or min(box.sizes[along], box.sizes[-1]) < LEAST * width:
        return None
    return TransposedBox(box, offsets, along, width)


def stage_of(boxes: Sequence[object], dtype: DType) -> View | None:
    """The tile in shared memory, in the target's orientation, if a box needs one."""
    widths = {box.width for box in boxes if isinstance(box, TransposedBox)}
    if not widths:
        return None
    (width,) = widths
    side = SIDE * width
    return lego.shared(dtype, micro_tiles(side, side, width))
