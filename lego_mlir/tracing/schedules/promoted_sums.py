"""`exact(every)`: the unit's sums begin anew every few steps, and are added to totals by the threads.

The matrix unit aligns the products of an instruction and the sum to the largest of them, and cuts off what is below. A
long sum drifts towards zero, and with operands of 8 bits it keeps fewer bits than f32. Each addition to a total rounds
to nearest, so that the drift is that of `every` steps, however long K is:

    for k in lego.range(steps):               total = sums
        copy, meet                            for first in lego.range(0, steps, every):
        lego.mma(ta, tb, sums)         -->        sums = 0
        meet                                      for k in lego.range(first, min(first + every, steps)):
                                                      copy, meet; lego.mma(ta, tb, sums); meet
                                                  total += sums
                                              sums = total

It takes twice the registers, and the unit is idle during the additions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Index, as_expr, minimum
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.replay import Replay, variable_of
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, words_in
from lego_mlir.tracing.spread.variables import SpreadVariable
from lego_mlir.tracing.trace.marks import RingMade, TileProduct
from lego_mlir.tracing.trace.trace import For, If
from lego_mlir.tracing.words.control import loop as range_loop
from lego_mlir.tracing.words.control import register

MOST: int = 64  # steps, as many as a loop along K of 8192 has


@dataclass(frozen=True, slots=True)
class Exact:
    """Add the sums of `every` steps of a loop to totals. Raises ScheduleError, with the line, for other products."""

    every: int = 4

    def __post_init__(self) -> None:
        if type(self.every) is not int or not 1 <= self.every <= MOST:
            raise ScheduleError(f"exact: every={self.every!r} must be an int from 1 to {MOST}")

    def __str__(self) -> str:
        return f"exact(every={self.every})"

    def __call__(self, kernel: Kernel) -> Kernel:
        return Scheduled(kernel, _Promoted(self.every), str(self))


class _Promoted(Replay):
    def __init__(self, every: int) -> None:
        self.every = every

    def run(self) -> None:
        if made := next((s for s, _ in words_in(self.trace.body, RingMade)), None):
            raise refused(made.source, "the loop has a ring already; apply exact before pipeline")
        inside = {id(s) for loop in self.trace.statements() if isinstance(loop, For) for s in loop.body}
        for statement, mark in words_in(self.trace.body, TileProduct):
            if mark.layout is None:
                raise refused(
                    statement.source, "the accumulator's layout is open; apply warpgroups or warps before exact"
                )
            if id(statement) not in inside:
                raise refused(
                    statement.source,
                    "exact divides a loop of products, and this one is in no loop, or in a branch of one; multiply in "
                    "the body of a lego.range",
                )
        super().run()

    def loop(self, loop: For) -> None:
        """A loop of products becomes two, the inner one of `every` steps."""
        marks = [s.mark for s in loop.body if isinstance(s, If) and isinstance(s.mark, TileProduct)]
        sums = {m.sums: variable_of(m.layout, m.sums) for m in marks}
        if not sums:
            super().loop(loop)
            return
        totals = [(variable, register(variable.get())) for variable in sums.values()]
        span = self.every * loop.step
        for first in range_loop(Index(loop.lo), Index(loop.hi), Index(span)):
            self._chunk(loop, first, totals)
        for variable, total in totals:
            variable.set(total.get())

    def _chunk(self, loop: For, first: Index, totals: list[tuple[SpreadVariable, SpreadVariable]]) -> None:
        for variable, _ in totals:
            variable.set(0)
        end = self.tracer.simplified(as_expr(minimum(first + self.every * Index(loop.step), Index(loop.hi))))
        inner = replace(loop, lo=first.expr, hi=end)
        with self.open_loop(inner) as body:
            self.body(loop.body)
        self.tracer.append(replace(inner, body=tuple(body)))
        for variable, total in totals:
            total.set(total.get() + variable.get())
