"""`persistent(blocks)`: few blocks compute all tiles, each every `blocks`-th of them.

The block's number becomes the variable of a loop over the tiles, so no statement of the kernel changes:

    for block in lego.range(lego.block_id.x, tiles, blocks):
        ...
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Le
from lego_mlir.expr.ranges import Range
from lego_mlir.hardware.limits import LARGEST_GRID
from lego_mlir.tracing.definition import Kernel
from lego_mlir.tracing.marks import TileCopy
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, words_in
from lego_mlir.tracing.trace import For

MOST_BLOCKS = LARGEST_GRID[0]


@dataclass(frozen=True, slots=True)
class Persistent:
    """Launch `blocks` blocks for all tiles of the grid. Raises ScheduleError for a grid of several dimensions."""

    blocks: int

    def __post_init__(self) -> None:
        if type(self.blocks) is not int or not 1 <= self.blocks <= MOST_BLOCKS:
            raise ScheduleError(f"persistent: blocks={self.blocks!r} must be an int from 1 to {MOST_BLOCKS}")

    def __str__(self) -> str:
        return f"persistent(blocks={self.blocks})"

    def __call__(self, kernel: Kernel) -> Kernel:
        if len(kernel.grid) != 1:
            raise refused(
                kernel.source,
                f"persistent takes a grid of one dimension, got {kernel.grid}; number the tiles by lego.block_id.x",
            )
        return Scheduled(kernel, _Looped(self.blocks), str(self))


class _Looped(Replay):
    def __init__(self, blocks: int) -> None:
        self.blocks, self.grid = blocks, (blocks,)

    def run(self) -> None:
        for s, mark in words_in(self.trace.body, TileCopy):
            if mark.stores:
                raise refused(
                    s.source,
                    "a tile copy stores the result, and does not wait for that of the tile before; apply persistent "
                    "before copied_out",
                )
        tile = self.id("block_id")
        own, tiles = sympy.Symbol(f"{tile}_own", integer=True), as_expr(self.trace.grid[0])
        self.tracer.rename_id("block_id", "x", own, Range(0, self.blocks))
        self.tracer.ranges[tile] = self.trace.ranges[tile]
        self.shared()
        with self.tracer.region(Le(own, tile), variable=tile) as body:
            self.body(self.trace.body)
        self.tracer.append(For(tile, own, tiles, as_expr(self.blocks), tuple(body), self.trace.source))
