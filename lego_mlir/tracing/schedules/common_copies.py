"""`clusters(blocks)`: blocks that follow each other copy the tiles they have in common once, each its part for all.

    clusters(blocks=8), tiles of C by rank       A is the same in a row       B is the same in a column
        0 2 4 6                                  0, 2, 4, 6 copy a quarter    0, 1 copy a half
        1 3 5 7                                  each, for all four           each, for both

Where the place of a copy is proved equal for some blocks of a cluster, each copies its share of the tile's rows into
the shared memory of all of them. A stage is then released, and filled, by the warps of all blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.hardware.limits import PORTABLE_CLUSTER, WARP
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.cluster_values import ClusterValues
from lego_mlir.tracing.schedules.copying_roles import pass_ring
from lego_mlir.tracing.schedules.one_way import require_one_way
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.rings import last_ring
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, words_in
from lego_mlir.tracing.trace.marks import OnSide, Rectangle, RingCopy, RingMade, RingPass, ThreadCopies
from lego_mlir.tracing.trace.trace import AsyncCopy, If, Value
from lego_mlir.tracing.words.async_copies import copy_async
from lego_mlir.tracing.words.barrier_rings import BarrierRing, barriers
from lego_mlir.tracing.words.clustered_blocks import cluster_barrier, cluster_rank
from lego_mlir.tracing.words.tile_copies import complete_on

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
        if kernel.cluster:
            raise refused(
                kernel.source,
                f"the kernel has clusters of {' x '.join(map(str, kernel.cluster))} blocks for a purpose of its own; "
                "leave out clusters",
            )
        return Scheduled(kernel, _Clustered(self.blocks), str(self))


@dataclass(frozen=True, slots=True)
class _Share:
    """`count` blocks of a cluster need the same tile: their ranks are `distance` apart."""

    count: int
    distance: int

    def number(self, rank: IndexLike) -> Index:
        """The number of a block among those that share."""
        return Index(as_expr(rank)) // self.distance % self.count

    def mask(self, rank: IndexLike) -> Index:
        """The ranks of those that share with a block, as bits."""
        first = Index(as_expr(rank)) - self.number(rank) * self.distance
        return Index(sum(1 << k * self.distance for k in range(self.count))) << first

    def rows(self, tile: Rectangle) -> int:
        """The rows that a block copies: whole groups, those of the last block may reach below the tile."""
        return -(-tile.shape[0] // (SWIZZLED_ROWS * self.count)) * SWIZZLED_ROWS

    def classes(self, blocks: int) -> list[list[int]]:
        """The ranks that share, by the first of them."""
        firsts = [rank for rank in range(blocks) if rank // self.distance % self.count == 0]
        return [[first + k * self.distance for k in range(self.count)] for first in firsts]


def _patterns(blocks: int, count: int) -> list[_Share]:
    """The ways in which `count` ranks of a cluster share: those that follow each other, or as far apart as they can."""
    ways = (_Share(count, distance) for distance in {1, blocks // count})
    return [way for way in ways if count > 1 and blocks % count == 0]


class _Clustered(Replay):
    def __init__(self, blocks: int) -> None:
        self.blocks, self.cluster = blocks, (blocks,)
        self._shares: dict[int, _Share | None] = {}

    def run(self) -> None:
        self.words = {RingMade: self._make, RingPass: self._pass, RingCopy: self._copy_tile}
        self.words[ThreadCopies] = self._copy_by_threads
        self.rings: dict[Value, BarrierRing] = {}
        self.last = last_ring(self.trace)
        self.values = ClusterValues(self.trace, self.tracer, self.id("block_id"), self.blocks)
        copies = list(words_in(self.trace.body, RingCopy))
        if not copies:
            raise refused(
                self.trace.source, "no copy of this kernel completes on a ring; apply pipeline(stages) before clusters"
            )
        if all(self._sharing(mark) is None for _, mark in copies):
            lines = ", ".join(str(s.source) for s, _ in copies)
            raise refused(
                self.trace.source,
                f"no tile is the same for {self.blocks} blocks that follow each other ({lines}); order the tiles along "
                "one row, for example by lego.schedule.grouped",
            )
        require_one_way(self.trace, self.values)
        self.shared()
        self.body(self.trace.body)
        with self.tracer.word(OnSide("block")):
            cluster_barrier()

    # -- which blocks have a tile in common

    def _sharing(self, mark: RingCopy) -> _Share | None:
        """The blocks that are proved to need this tile, and that it divides among; None for a block alone."""
        if id(mark) not in self._shares:
            classes = self.values.classes(mark.at)
            found = (share for count in {len(ranks) for ranks in classes} for share in _patterns(self.blocks, count))
            room = mark.tile.shape[0] + mark.below
            self._shares[id(mark)] = next(
                (s for s in found if classes == s.classes(self.blocks) and s.rows(mark.tile) * s.count <= room), None
            )
        return self._shares[id(mark)]

    # -- words

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

    def _copy_by_threads(self, statement: If, mark: ThreadCopies) -> None:
        ring = self.rings[mark.ring]
        with self.tracer.word(replace(mark, ring=ring.group)):
            self.body(s for s in statement.then if isinstance(s, AsyncCopy))
            complete_on(ring[Index(mark.use)])

    def _copy_tile(self, statement: If, mark: RingCopy) -> None:
        share, at, tile, ring = self._sharing(mark), list(mark.at), mark.tile, self.rings[mark.ring]
        blocks = None
        if share is not None:
            rows = share.rows(tile)
            first, blocks = (share.number(cluster_rank) * rows).expr, Index(share.mask(cluster_rank)).expr
            at[0] = self._plus(at[0], first)
            tile = replace(tile, at=(self._plus(tile.at[0], first), tile.at[1]), shape=(rows, tile.shape[1]))
        sharing, begin = (1, None) if share is None else (share.count, mark.at[0])
        with self.tracer.word(
            replace(mark, ring=ring.group, at=tuple(at), tile=tile, sharing=sharing, blocks=blocks, begin=begin)
        ):
            copy_async(
                self.view(mark), self.part(tile), at=tuple(map(Index, at)), barrier=ring[Index(mark.use)], blocks=blocks
            )

    def _plus(self, a: Expr, b: Expr) -> Expr:
        return self.tracer.simplified(sympy.sympify(a) + b)
