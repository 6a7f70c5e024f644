"""`lockstep(every)`: copies of all blocks meet every few steps, so that they read the same tiles from L2.

Blocks of a persistent kernel drift apart from tile to tile: one that is a few steps behind reads tiles of A and B which
the others no longer need, and which L2 has dropped. Every few steps the copies of a block count themselves in and wait
until all blocks have, for a bounded time: nothing depends on it (`emit_meetings`), and the word has no statements. The
stages that were filled ahead cover the wait.

Every second tile of a block takes its steps backwards, so that it begins with what the tile before read last:

    for tile in range(block, tiles, blocks):
        for k in range(steps):
            if k % every == 0 and tile < tiles // blocks * blocks:      a round that all blocks take part in
                meet
            copy step (k if (tile - block) // blocks % 2 == 0 else steps - 1 - k)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Lt, Select, Size, Smaller
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, words_in
from lego_mlir.tracing.trace.marks import COPIES, Meeting, RingCopy, RingMade, RingPass
from lego_mlir.tracing.trace.symbols import expressions
from lego_mlir.tracing.trace.trace import For, If, Read, Register, Statement, ToIndex, While, Write, statements_in
from lego_mlir.tracing.words.async_copies import copy_async
from lego_mlir.tracing.words.barrier_rings import BarrierRing
from lego_mlir.tracing.words.control import when

MOST = 1 << 16  # steps between two meetings


@dataclass(frozen=True, slots=True)
class Lockstep:
    """Have the copies of all blocks meet at every `every`-th step; apply it after `pipeline`, and before `roles`.

    With `back`, every second tile takes its steps backwards, which is a different order of additions. Raises
    ScheduleError, with the line, for a kernel that is not persistent, for steps that differ from block to block, and
    for statements that need the order of the steps.
    """

    every: int = 32
    back: bool = True

    def __post_init__(self) -> None:
        if type(self.every) is not int or not 1 <= self.every <= MOST:
            raise ScheduleError(f"lockstep: every={self.every!r} must be an int from 1 to {MOST}")
        if type(self.back) is not bool:
            raise ScheduleError(f"lockstep: back={self.back!r} must be True or False")

    def __str__(self) -> str:
        return f"lockstep(every={self.every}{'' if self.back else ', back=False'})"

    def __call__(self, kernel: Kernel) -> Kernel:
        return Scheduled(kernel, _InStep(self.every, self.back), str(self))


class _InStep(Replay):
    def __init__(self, every: int, back: bool) -> None:
        self.every, self.back = every, back

    def run(self) -> None:
        self.words = {RingCopy: self._copy_tile}
        filling = [s for s in self.trace.statements() if isinstance(s, For) and _fills(s)]
        if not filling:
            raise refused(self.trace.source, "no loop fills a ring; apply pipeline(stages) before lockstep")
        if already := next((s for s, _ in words_in(self.trace.body, Meeting)), None):
            raise refused(already.source, "the copies of this kernel meet already; apply lockstep once")
        self.tiles, self.blocks = self._loop_over_tiles()
        direct = {id(s) for s in self.tiles.body}
        for loop in filling:
            bounds = {s for bound in (loop.lo, loop.hi, loop.step) for s in as_expr(bound).free_symbols}
            if id(loop) not in direct or not all(isinstance(s, Size) for s in bounds):
                raise refused(
                    loop.source,
                    "blocks may take different numbers of these steps, and would wait in vain for each other; leave "
                    "out lockstep",
                )
            if self.back:
                _require_exchangeable(loop)
        self.loops = {id(loop) for loop in filling}
        self.counts = {m.ring: m.count for _, m in words_in(self.trace.body, RingMade)}
        self.step: tuple[Symbol, Expr] | None = None
        self.shared()
        self.body(self.trace.body)

    def _loop_over_tiles(self) -> tuple[For, int]:
        """The loop in which each of so many blocks takes every so many-th tile."""
        block, grid = self.id("block_id"), as_expr(self.trace.grid[0])
        for s in self.trace.body:
            if isinstance(s, For) and s.lo == block and as_expr(s.step).is_Integer:
                whole = grid in (s.step, Smaller(s.step, s.hi))  # fewer tiles than blocks are no whole round
                if whole:
                    return s, int(s.step)
        raise refused(
            self.trace.source,
            "the blocks have one tile each, and do not run at the same time; apply persistent(blocks) before lockstep",
        )

    def loop(self, loop: For) -> None:
        """A loop that fills stages begins each step with a meeting, where one is due."""
        if id(loop) not in self.loops:
            super().loop(loop)
            return
        number, last = FloorDiv(loop.symbol - loop.lo, loop.step), FloorDiv(loop.hi - 1 - loop.lo, loop.step)
        round_ = FloorDiv(self.tiles.symbol - self.tiles.lo, self.blocks)
        backwards = 2 * loop.lo + last * loop.step - loop.symbol
        chosen = Select(Eq(FloorMod(round_, 2), 0), loop.symbol, backwards)
        whole = FloorDiv(as_expr(self.tiles.hi), self.blocks) * self.blocks
        due = sympy.And(Eq(FloorMod(number, self.every), 0), Lt(self.tiles.symbol, whole))
        with self.open_loop(loop) as body:
            self.tracer.at = loop.source
            with when(due), self.tracer.word(Meeting(self.blocks)):
                pass
            self.step = (loop.symbol, self.tracer.simplified(chosen)) if self.back else None
            self.body(loop.body)
            self.step = None
        self.tracer.append(replace(loop, body=tuple(body)))

    def _copy_tile(self, statement: If, mark: RingCopy) -> None:
        """A copy of the tile that the step takes."""
        if self.step is None:
            self.branch(statement)
            return
        at = tuple(self.tracer.simplified(sympy.sympify(i).xreplace(dict([self.step]))) for i in mark.at)
        ring = BarrierRing(self.tracer, mark.ring, self.counts[mark.ring], self.threads // WARP)
        with self.tracer.word(replace(mark, at=at)):
            copy_async(
                self.view(mark),
                self.part(mark.tile),
                at=tuple(map(Index, at)),
                barrier=ring[Index(mark.use)],
                blocks=mark.blocks,
            )


def _fills(loop: For) -> bool:
    """Whether each step of a loop fills a stage of rings."""
    marks = [s.mark for s in loop.body if isinstance(s, If)]
    return any(isinstance(m, RingPass) and (m.kind, m.side) == ("wait", COPIES) for m in marks)


def _require_exchangeable(loop: For) -> None:
    """Refuse a statement, other than a tile copy, that knows which step it is in or what the one before computed."""
    counters, outside = _counters(loop.body), list(_outside_words(loop.body))
    read = {s.register for s in outside if isinstance(s, Read)} - counters
    for s in outside:
        carries = isinstance(s, Write) and s.register in read
        if carries or any(loop.symbol in sympy.sympify(e).free_symbols for e in expressions((s,))):
            raise refused(
                s.source,
                "this statement depends on the order of the steps, and every second tile takes them backwards; use "
                "lockstep(back=False)",
            )


def _outside_words(body: Sequence[Statement]) -> Iterator[Statement]:
    """The statements of a body, a word as one; copies of tiles, and branches of waits and arrivals, left out."""
    for s in body:
        if isinstance(s, If) and s.mark is None:
            if not all(isinstance(t, If) and isinstance(t.mark, RingPass) for t in s.then):
                yield replace(s, then=(), otherwise=())
                yield from _outside_words((*s.then, *s.otherwise))
        elif isinstance(s, For | While):
            yield replace(s, body=())
            yield from _outside_words(s.body)
        elif not (isinstance(s, If) and isinstance(s.mark, RingCopy | RingPass)):
            yield s


def _counters(body: Sequence[Statement]) -> set[Register]:
    """The registers that count the stages of the rings."""
    marks = [s.mark for s in statements_in(tuple(body)) if isinstance(s, If)]
    used = {s for m in marks if isinstance(m, RingPass | RingCopy) for s in sympy.sympify(m.use).free_symbols}
    numbers = {s.operand.number for s in statements_in(tuple(body)) if isinstance(s, ToIndex) and s.symbol in used}
    return {s.register for s in statements_in(tuple(body)) if isinstance(s, Read) and s.result.number in numbers}
