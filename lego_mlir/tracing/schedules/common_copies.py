"""`clusters(blocks)`: blocks that follow each other copy the tiles they have in common once, each its part for all.

A copy whose place is proved equal for the blocks of a cluster copies `1 / blocks` of the tile's rows into the shared
memory of all of them. A stage is then released, and filled, by the warps of all blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Eq, FloorDiv
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.limits import PORTABLE_CLUSTER, WARP
from lego_mlir.tracing.async_copies import copy_async
from lego_mlir.tracing.barrier_rings import BarrierRing, barriers
from lego_mlir.tracing.clustered_blocks import cluster_barrier, cluster_rank
from lego_mlir.tracing.definition import Kernel
from lego_mlir.tracing.marks import COPIES, OnSide, RingCopy, RingMade, RingPass
from lego_mlir.tracing.schedules.copying_roles import pass_ring
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.rings import last_ring
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, words_in
from lego_mlir.tracing.trace import For, If, Value

SWIZZLED_ROWS = 8  # a part of a ring's tile begins at a multiple of these. PTX ISA, swizzling modes of tensor copies


@dataclass(frozen=True, slots=True)
class Clusters:
    """Share copies among `blocks` of a cluster. Raises ScheduleError where they have no tile in common."""

    blocks: int = 2

    def __post_init__(self) -> None:
        if type(self.blocks) is not int or not 2 <= self.blocks <= PORTABLE_CLUSTER:
            raise ScheduleError(f"clusters: blocks={self.blocks!r} must be an int from 2 to {PORTABLE_CLUSTER}")

    def __str__(self) -> str:
        return f"clusters(blocks={self.blocks})"

    def __call__(self, kernel: Kernel) -> Kernel:
        if len(kernel.grid) != 1:
            raise refused(
                kernel.source,
                f"clusters takes a grid of one dimension, got {kernel.grid}; number the tiles by lego.block_id.x",
            )
        return Scheduled(kernel, _Clustered(self.blocks), str(self))


class _Clustered(Replay):
    def __init__(self, blocks: int) -> None:
        self.blocks, self.cluster = blocks, (blocks,)

    def run(self) -> None:
        self.words = {RingMade: self._make, RingPass: self._pass, RingCopy: self._copy_tile}
        self.rings: dict[Value, BarrierRing] = {}
        self.last = last_ring(self.trace)
        self.shared()
        copies = list(words_in(self.trace.body, RingCopy))
        if not copies:
            raise refused(
                self.trace.source, "no copy of this kernel completes on a ring; apply pipeline(stages) before clusters"
            )
        if own := next((s for s, m in words_in(self.trace.body, OnSide) if m.name == COPIES), None):
            raise refused(own.source, "threads store this tile, and a cluster shares copies of tiles only; stage it")
        if not any(self._is_common(mark) for _, mark in copies):
            lines = ", ".join(str(s.source) for s, _ in copies)
            raise refused(
                self.trace.source,
                f"no tile is the same for {self.blocks} blocks that follow each other ({lines}); order the tiles along "
                "one row, for example by lego.schedule.grouped",
            )
        self.body(self.trace.body)
        with self.tracer.word(OnSide("block")):
            cluster_barrier()

    def _is_common(self, mark: RingCopy) -> bool:
        """Whether the tile is proved to be the same for all blocks of a cluster, and divides among them."""
        of_blocks = [[sympy.sympify(i).xreplace(numbers) for i in mark.at] for numbers in self._numbers]
        return mark.tile.shape[0] % (SWIZZLED_ROWS * self.blocks) == 0 and all(
            isinstance(self.tracer.prove(Eq(of_one, of_first)), Proved)
            for other in of_blocks[1:]
            for of_one, of_first in zip(other, of_blocks[0], strict=True)
        )

    @cached_property
    def _numbers(self) -> list[dict[Symbol, Expr]]:
        """For each block of a cluster, its number by that of the cluster, and the tiles of loops over them."""
        block, found = self.id("block_id"), []
        cluster, turns = sympy.Symbol(f"{block}cluster", integer=True), self._turns(block)
        count = self.tracer.simplified(FloorDiv(as_expr(self.trace.grid[0]), self.blocks))
        self.tracer.ranges[cluster] = Range(0, count)
        for rank in range(self.blocks):
            own = {block: self.blocks * cluster + rank}
            found.append({**own, **{tile: number.xreplace(own) for tile, number in turns.items()}})
        return found

    def _turns(self, block: Symbol) -> dict[Symbol, Expr]:
        """The variables of loops that begin at the block's number, as that number and the loop's turn."""
        found: dict[Symbol, Expr] = {}
        for loop in (s for s in self.trace.statements() if isinstance(s, For) and block in s.lo.free_symbols):
            tiles, step = (int(self.tracer.simplified(n)) if n.is_number else 0 for n in (loop.hi, loop.step))
            if not tiles or tiles % self.blocks or step % self.blocks:
                raise refused(
                    loop.source,
                    f"the blocks of a cluster of {self.blocks} need equal numbers of tiles: {loop.hi} by steps of "
                    f"{loop.step}; use numbers that {self.blocks} divides",
                )
            turn = sympy.Symbol(f"{loop.symbol}turn", integer=True)
            self.tracer.ranges[turn] = Range(0, -(-tiles // step))
            found[loop.symbol] = loop.lo + step * turn
        return found

    def _make(self, statement: If, mark: RingMade) -> None:
        found: list[BarrierRing] = []
        with self.tracer.word(lambda: replace(mark, ring=found[0].group, blocks=self.blocks)):
            found.append(barriers(mark.count, arrivals=self.threads // WARP * self.blocks))
            if mark is self.last:
                cluster_barrier()
        self.rings[mark.ring] = found[0]

    def _pass(self, statement: If, mark: RingPass) -> None:
        ring, everywhere = self.rings[mark.ring], replace(mark, blocks=self.blocks)
        with self.tracer.word(replace(everywhere, ring=ring.group)):
            pass_ring(ring, everywhere, Index(mark.use))

    def _copy_tile(self, statement: If, mark: RingCopy) -> None:
        common, at, tile, ring = self._is_common(mark), list(mark.at), mark.tile, self.rings[mark.ring]
        if common:
            rows = tile.shape[0] // self.blocks
            first = (cluster_rank * rows).expr
            at[0] = self._plus(at[0], first)
            tile = replace(tile, at=(self._plus(tile.at[0], first), tile.at[1]), shape=(rows, tile.shape[1]))
        with self.tracer.word(replace(mark, ring=ring.group, at=tuple(at), tile=tile, shared=common)):
            copy_async(
                self.view(mark),
                self.part(tile),
                at=tuple(map(Index, at)),
                barrier=ring[Index(mark.use)],
                blocks="all" if common else None,
            )

    def _plus(self, a: Expr, b: Expr) -> Expr:
        return self.tracer.simplified(sympy.sympify(a) + b)
