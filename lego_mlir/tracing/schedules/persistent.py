"""`persistent(blocks)`: few blocks compute all tiles, each every `blocks`-th of them.

The block's number becomes the variable of a loop over the tiles, so no statement of the kernel changes:

    for block in lego.range(lego.block_id.x, tiles, blocks):
        ...

Where a tile of the grid may begin to use a shared tile that threads still use for the one before, a barrier ends the
loop's body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import sympy

from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.limits import LARGEST_GRID
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, shared_in, words_in
from lego_mlir.tracing.trace.marks import RingMade, TileCopy
from lego_mlir.tracing.trace.trace import Barrier, For, If, Load, MatrixLoad, Statement, TileLoad, While
from lego_mlir.tracing.words.control import barrier

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


@dataclass(slots=True)
class _Uses:
    """The shared tiles that statements read and write, up to a barrier that all threads reach if one `ended` them."""

    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    ended: bool = False

    def add(self, other: _Uses) -> None:
        self.read |= other.read
        self.written |= other.written

    def conflicts(self, other: _Uses) -> bool:
        return bool(self.written & (other.read | other.written) or self.read & other.written)


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
        if made := next((s for s, _ in words_in(self.trace.body, RingMade)), None):
            raise refused(
                made.source,
                "the kernel has rings already, and copies run ahead of its tiles; apply persistent before pipeline",
            )
        tile = self.id("block_id")
        own, tiles = sympy.Symbol(f"{tile}_own", integer=True), as_expr(self.trace.grid[0])
        self.tracer.rename_id("block_id", "x", own, Range(0, self.blocks))
        self.tracer.ranges[tile] = self.trace.ranges[tile]
        self.shared()
        with self.tracer.region(Le(own, tile), variable=tile) as body:
            self.body(self.trace.body)
            if self._outside(self.trace.body).conflicts(self._outside(self.trace.body, backwards=True)):
                barrier()
        self.tracer.append(For(tile, own, tiles, as_expr(self.blocks), tuple(body), self.trace.source))

    def _outside(self, body: Sequence[Statement], *, backwards: bool = False) -> _Uses:
        """The uses in front of the first barrier of a body, or after its last one."""
        found = _Uses()
        for statement in reversed(body) if backwards else body:
            match statement:
                case Barrier(role=None):
                    found.ended = True
                case If(condition=condition, then=then, otherwise=otherwise):
                    inner = [self._outside(branch, backwards=backwards) for branch in (then, otherwise)]
                    for uses in inner:
                        found.add(uses)
                    found.ended = condition == sympy.true and inner[0].ended
                case For(body=inside, lo=lo, hi=hi):
                    uses = self._outside(inside, backwards=backwards)
                    found.add(uses)
                    found.ended = uses.ended and isinstance(self.tracer.prove(Lt(lo, hi)), Proved)
                case While(body=inside):
                    found.add(self._outside(inside, backwards=backwards))
                case _:
                    reads = isinstance(statement, Load | TileLoad | MatrixLoad)
                    (found.read if reads else found.written).update(shared_in(statement))
            if found.ended:
                break
        return found
