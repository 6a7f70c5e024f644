"""`copied_out(buffers)`: accumulators leave through swizzled buffers, by tile copies.

A kernel that stores its accumulator into a shared tile, meets, and stores the tile with `lego.stored_tile` around the
statements keeps both meanings in its trace. The tile and the barrier go, and `Spread.copy_out` takes their place:
`stmatrix` into a buffer, then a tensor copy that clips what is outside of the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Index
from lego_mlir.expr.nodes import Eq, FloorMod
from lego_mlir.expr.verdict import Proved
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import trans
from lego_mlir.hardware.tensor_maps import CHUNK, LINE
from lego_mlir.tracing.definition import Kernel
from lego_mlir.tracing.marks import StoredTile, SumsStored
from lego_mlir.tracing.schedules.replay import Replay, variable_of
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, shared_in, words_in
from lego_mlir.tracing.spread.copied_stores import buffers, copy_out, shares
from lego_mlir.tracing.spread.strided_tiles import strides
from lego_mlir.tracing.tensor import shared
from lego_mlir.tracing.trace import Barrier, For, If, Statement, While, statements_in

FEWEST, MOST = 1, 8  # buffers


@dataclass(frozen=True, slots=True)
class CopiedOut:
    """Store results by tile copies through `buffers`, each of 64 lines of 128 bytes for a group of 4 warps.

    Raises ScheduleError, with the line, for a tile that is not one accumulator, and for rows of other multiples.
    """

    buffers: int = 2

    def __post_init__(self) -> None:
        if type(self.buffers) is not int or not FEWEST <= self.buffers <= MOST:
            raise ScheduleError(f"copied_out: buffers={self.buffers!r} must be an int from {FEWEST} to {MOST}")

    def __str__(self) -> str:
        return f"copied_out(buffers={self.buffers})"

    def __call__(self, kernel: Kernel) -> Kernel:
        return Scheduled(kernel, _Copied(self.buffers), str(self))


class _Copied(Replay):
    def __init__(self, count: int) -> None:
        self.count = count

    def run(self) -> None:
        self.words = {SumsStored: self._drop, StoredTile: self._store}
        self.sums = {m.target.buffer.name: m for _, m in words_in(self.trace.body, SumsStored)}
        self.depth = 0
        self.last: Statement | None = None
        stored = list(words_in(self.trace.body, StoredTile))
        if not stored:
            raise refused(
                self.trace.source,
                "no shared tile is stored as it is (an epilogue changes each element); leave out copied_out",
            )
        for statement, mark in stored:
            self._require(statement, mark)
        self.names = frozenset(m.tile.buffer.name for _, m in stored)
        self.shared(self.names)
        _, mark = stored[0]
        columns, dtype, self.tracer.at = mark.tile.shape[1], mark.tensor.dtype, mark.tile.buffer.source
        line = min(LINE // dtype.bytes, columns)
        rows = shares(self._layout(self.sums[mark.tile.buffer.name]), line).buffer_rows
        self.through = shared(dtype, buffers(dtype, rows, self.count, columns), "copied_out")
        self.body(self.trace.body)

    def _require(self, statement: If, mark: StoredTile) -> None:
        name, sums = mark.tile.buffer.name, self.sums.get(mark.tile.buffer.name)
        if sums is None or sums.layout is None or sums.target.shape != mark.tile.shape or any(sums.target.at):
            raise refused(
                statement.source,
                f"{name} is not filled by one accumulator of the block; apply warpgroups before copied_out",
            )
        if any(across for _, across in sums.layout.bases["warp"]):
            raise refused(
                statement.source,
                f"warps divide the columns of {name}, and copied_out stores whole lines; give each group of warps "
                "whole rows, or leave out copied_out",
            )
        steps, size = strides(mark.layout), mark.tensor.dtype.bytes
        if steps is None or not all(
            s == 1 or isinstance(self.tracer.prove(Eq(FloorMod(s * size, CHUNK), 0)), Proved) for s in steps
        ):
            raise refused(
                statement.source,
                f"rows of {mark.tensor.name} are not proved to be multiples of {CHUNK} bytes, as tile copies need "
                f"them (strides {steps}); pad them, declare the size's divisor, or leave out copied_out",
            )
        words = (*words_in(self.trace.body, SumsStored), *words_in(self.trace.body, StoredTile))
        inside = {id(s) for word, m in words if m in (sums, mark) for s in statements_in((word,))}
        for s in self.trace.statements():
            if id(s) not in inside and not isinstance(s, If | For | While) and name in shared_in(s):
                raise refused(
                    s.source, f"{name} is used by more than the store of the accumulator; leave out copied_out"
                )

    def statement(self, statement: Statement) -> None:
        """The barrier between the two sides of a tile goes with the tile."""
        before, self.last = self.last, statement
        if (
            isinstance(statement, Barrier)
            and isinstance(before, If)
            and isinstance(before.mark, SumsStored)
            and before.mark.target.buffer.name in self.names
        ):
            return
        super().statement(statement)

    def loop(self, loop: For) -> None:
        """A loop: what is copied out in it goes through the buffers again."""
        self.depth += 1
        super().loop(loop)
        self.depth -= 1

    def _drop(self, statement: If, mark: SumsStored) -> None:
        if mark.target.buffer.name not in self.names:
            self.branch(statement)

    def _layout(self, sums: SumsStored) -> LinearLayout:
        """The layout of an accumulator as the tile has it."""
        layout: LinearLayout = sums.layout
        return trans(layout, (1, 0)) if sums.transposed else layout

    def _store(self, statement: If, mark: StoredTile) -> None:
        sums = self.sums[mark.tile.buffer.name]
        found = variable_of(sums.layout, sums.sums).get()
        value = found.T if sums.transposed else found
        copy_out(value, self.view(mark), tuple(map(Index, mark.at)), self.through, again=self.depth > 0)
