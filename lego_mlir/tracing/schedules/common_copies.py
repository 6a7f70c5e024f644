"""`clusters(blocks)`: blocks that follow each other copy the tiles they have in common once, each its part for all.

    clusters(blocks=8), tiles of C by rank       A is the same in a row       B is the same in a column
        0 2 4 6                                  0, 2, 4, 6 copy a quarter    0, 1 copy a half
        1 3 5 7                                  each, for all four           each, for both

Where the place of a copy is proved equal for some blocks of a cluster, each copies its share of the tile's rows into
the shared memory of all of them. A stage is then released, and filled, by the warps of all blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import sympy
from sympy.logic.boolalg import Boolean

from lego_mlir.aliases import Expr, IndexLike, Symbol
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.limits import PORTABLE_CLUSTER, WARP
from lego_mlir.tracing.async_copies import copy_async
from lego_mlir.tracing.barrier_rings import BarrierRing, barriers
from lego_mlir.tracing.clustered_blocks import cluster_barrier, cluster_rank
from lego_mlir.tracing.definition import Kernel
from lego_mlir.tracing.marks import COPIES, OnSide, Rectangle, RingCopy, RingMade, RingPass
from lego_mlir.tracing.schedules.copying_roles import pass_ring
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.rings import last_ring
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, words_in
from lego_mlir.tracing.trace import For, FromIndex, If, Load, Statement, ToIndex, Value, statements_in

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
        self.rings: dict[Value, BarrierRing] = {}
        self.last = last_ring(self.trace)
        copies = list(words_in(self.trace.body, RingCopy))
        if not copies:
            raise refused(
                self.trace.source, "no copy of this kernel completes on a ring; apply pipeline(stages) before clusters"
            )
        if own := next((s for s, m in words_in(self.trace.body, OnSide) if m.name == COPIES), None):
            raise refused(own.source, "threads store this tile, and a cluster shares copies of tiles only; stage it")
        if all(self._sharing(mark) is None for _, mark in copies):
            lines = ", ".join(str(s.source) for s, _ in copies)
            raise refused(
                self.trace.source,
                f"no tile is the same for {self.blocks} blocks that follow each other ({lines}); order the tiles along "
                "one row, for example by lego.schedule.grouped",
            )
        for statement in self.trace.statements():
            self._require_one_way(statement)
        self.shared()
        self.body(self.trace.body)
        with self.tracer.word(OnSide("block")):
            cluster_barrier()

    # -- which blocks have a tile in common

    def _sharing(self, mark: RingCopy) -> _Share | None:
        """The blocks that are proved to need this tile, and that it divides among; None for a block alone."""
        if id(mark) not in self._shares:
            classes = self._classes(mark)
            found = (share for count in {len(ranks) for ranks in classes} for share in _patterns(self.blocks, count))
            room = mark.tile.shape[0] + mark.below
            self._shares[id(mark)] = next(
                (s for s in found if classes == s.classes(self.blocks) and s.rows(mark.tile) * s.count <= room), None
            )
        return self._shares[id(mark)]

    def _classes(self, mark: RingCopy) -> list[list[int]]:
        """The ranks of a cluster by the tile that they copy."""
        classes: list[tuple[tuple[Expr, ...], list[int]]] = []
        for rank, numbers in enumerate(self._numbers):
            at = tuple(self.tracer.simplified(self._through(i).xreplace(numbers)) for i in mark.at)
            same = next((ranks for first, ranks in classes if self._are_equal(at, first)), None)
            if same is None:
                classes.append((at, [rank]))
            else:
                same.append(rank)
        return [ranks for _, ranks in classes]

    def _require_one_way(self, statement: Statement) -> None:
        """Refuse a branch or loop that blocks of a cluster may take differently, and that passes their common rings."""
        ways: tuple[Expr, ...]
        if isinstance(statement, If):
            ways, bodies = (statement.condition,), statement.then + statement.otherwise
        elif isinstance(statement, For):
            ways, bodies = (statement.lo, statement.hi, statement.step), statement.body
        else:
            return
        if isinstance(statement, For) and statement.symbol in self._numbers[0]:
            return  # a loop over tiles, in which all have equal numbers of turns
        if not any(isinstance(s, If) and isinstance(s.mark, (RingPass, RingCopy)) for s in statements_in(bodies)):
            return
        first, *others = (tuple(self._through(way).xreplace(numbers) for way in ways) for numbers in self._numbers)
        if not all(self._is_same(a, b) for other in others for a, b in zip(first, other, strict=True)):
            what = "the condition" if isinstance(statement, If) else "the bounds of this loop"
            raise refused(
                statement.source,
                f"{what} may differ between the {self.blocks} blocks of a cluster, which wait for each other inside; "
                "order the tiles so that such blocks decide alike, or leave out clusters",
            )

    def _is_same(self, one: Expr, other: Expr) -> bool:
        """Whether two indices, or two conditions, are proved to be equal."""
        if one == other:
            return True
        if not isinstance(one, Boolean) or one.is_integer:  # SymPy's symbols of integers are Booleans too
            return isinstance(self.tracer.prove(Eq(one, other)), Proved)
        if any(isinstance(s, sympy.Symbol) and not s.is_integer for s in (one, other)):
            return False  # what a comparison of data found
        ways = (sympy.Or(sympy.Not(a), b) for a, b in ((one, other), (other, one)))
        return all(isinstance(self.tracer.prove(way), Proved) for way in ways)

    def _are_equal(self, at: tuple[Expr, ...], first: tuple[Expr, ...]) -> bool:
        return all(map(self._is_same, at, first))

    def _through(self, index: Expr) -> Expr:
        """An index in which data that is computed from an index is that index again."""
        expr = sympy.sympify(index)
        while known := {s: self._indices[s] for s in expr.free_symbols if s in self._indices}:
            expr = expr.xreplace(known)
        return expr

    @cached_property
    def _indices(self) -> dict[Symbol, Expr]:
        """What the symbols of data that is an index stand for."""
        given = {s.result.number: s.expr for s in self.trace.statements() if isinstance(s, FromIndex)}
        found = (s for s in self.trace.statements() if isinstance(s, ToIndex))
        return {s.symbol: given[s.operand.number] for s in found if s.operand.number in given}

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
        self._tell_data_apart(found)
        return found

    def _tell_data_apart(self, numbers: list[dict[Symbol, Expr]]) -> None:
        """Give each block symbols of its own for data, but for what all load from one place of global memory."""
        loads = {s.result.number: s.access for s in self.trace.statements() if isinstance(s, Load)}
        for symbol, operand in ((s.symbol, s.operand) for s in self.trace.statements() if isinstance(s, ToIndex)):
            access = loads.get(operand.number)
            if symbol in self._indices:
                continue
            if access is not None and access.buffer.space != "workgroup":
                first, *others = (tuple(self._through(i).xreplace(own) for i in access.index) for own in numbers)
                if all(other == first for other in others):
                    continue
            for rank, own in enumerate(numbers):
                own[symbol] = sympy.Symbol(f"{symbol}of{rank}", integer=True)
                if symbol in self.tracer.ranges:
                    self.tracer.ranges[own[symbol]] = self.tracer.ranges[symbol]

    def _turns(self, block: Symbol) -> dict[Symbol, Expr]:
        """The variables of loops that begin at the block's number, as that number and the loop's turn."""
        found: dict[Symbol, Expr] = {}
        for loop in (s for s in self.trace.statements() if isinstance(s, For) and block in s.lo.free_symbols):
            tiles, step = as_expr(loop.hi), as_expr(loop.step)
            if not all(isinstance(self.tracer.prove(Eq(FloorMod(n, self.blocks), 0)), Proved) for n in (tiles, step)):
                raise refused(
                    loop.source,
                    f"the blocks of a cluster of {self.blocks} need equal numbers of tiles: {loop.hi} by steps of "
                    f"{loop.step}; use numbers that {self.blocks} divides",
                )
            turn = sympy.Symbol(f"{loop.symbol}turn", integer=True)
            self.tracer.ranges[turn] = Range(0, self.tracer.simplified(FloorDiv(tiles + step - 1, step)))
            found[loop.symbol] = loop.lo + step * turn
        return found

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
