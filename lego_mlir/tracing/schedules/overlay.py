"""`overlay`: shared tiles that are first used after the last product take the memory of the rings.

The tile through which an epilogue stores its result then leaves more room for stages. One barrier separates the two
uses of the memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, shared_in, words_in
from lego_mlir.tracing.trace.marks import RingCopy, RingPass, TileProduct
from lego_mlir.tracing.words.control import barrier


@dataclass(frozen=True, slots=True)
class Overlay:
    """Lay the tiles of the epilogue over the rings; those used before the last product keep their own memory.

    Raises ScheduleError for a kernel without rings, and where all later tiles are in use while the rings are; with
    `optional`, these keep their own memory.
    """

    optional: bool = False

    def __str__(self) -> str:
        return "overlay(optional=True)" if self.optional else "overlay"

    def __call__(self, kernel: Kernel) -> Kernel:
        return Scheduled(kernel, _Overlaid(self.optional), str(self))


class _Overlaid(Replay):
    def __init__(self, optional: bool) -> None:
        self.optional = optional

    def run(self) -> None:
        body = self.trace.body
        rings = {m.tile.buffer.name for _, m in words_in(body, RingCopy)}
        rings |= {r.buffer.name for _, p in words_in(body, TileProduct) for r in p.tiles}
        last = max((n for n, s in enumerate(body) if any(words_in((s,), RingPass))), default=-1)
        if last < 0:
            raise refused(self.trace.source, "no tile is in a ring; apply pipeline(stages) before overlay")
        during = {name for s in body[: last + 1] for name in shared_in(s)}
        after = {name for s in body[last + 1 :] for name in shared_in(s)}
        if not (late := frozenset(after - during - rings)) and during - rings and not self.optional:
            raise refused(
                body[last].source,
                f"{', '.join(sorted(during - rings))} is used while the rings are, and keeps its own memory; leave out "
                "overlay",
            )
        self.shared()
        if late:
            self.tracer.phases = (frozenset(rings), late)
        first = next((n for n, s in enumerate(body) if n > last and shared_in(s) & late), None)
        for number, statement in enumerate(body):
            if number == first:
                self.tracer.at = getattr(statement, "source", None)
                barrier()
            self.body((statement,))
