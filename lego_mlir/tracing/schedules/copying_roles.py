"""`roles`: a pipelined kernel as two programs of one block, copies and products, which meet in the rings alone.

The warps of the block keep their numbers and multiply. The copies get warps of their own after them: one group of 4
warps, or as many as the block has where threads compute what they copy. Each program is a slice of the kernel
(`sides`), so loops over tiles and steps stand in both, and registers go from the copies' warps to the products'.

Where all threads of a cluster meet, so do the warps of the copies: a kernel is divided from one `lego.cluster_barrier`
to the next, and the statements after the last copy are those of the warps that multiply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Index
from lego_mlir.hardware.limits import REGISTERS_PER_SM, WARP
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.own_numbers import OwnNumbers
from lego_mlir.tracing.schedules.rings import last_ring
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, words_in
from lego_mlir.tracing.schedules.sides import meets, phases_of, require_copies, side_of, slice_of
from lego_mlir.tracing.trace.marks import COPIES, PRODUCTS, Meeting, OnSide, RingCopy, RingMade, RingPass, TileProduct
from lego_mlir.tracing.trace.trace import Barrier, For, If, Statement, Value, While, statements_in
from lego_mlir.tracing.words.async_copies import copy_async
from lego_mlir.tracing.words.barrier_rings import BarrierRing, barriers
from lego_mlir.tracing.words.clustered_blocks import cluster_barrier
from lego_mlir.tracing.words.control import barrier
from lego_mlir.tracing.words.warp_roles import REGISTERS, WARPGROUP, groups_of
from lego_mlir.tracing.words.warp_roles import warps as role

UNIT = 8  # registers of a thread are granted in multiples of this. PTX ISA, setmaxnreg
LEAST, MOST = REGISTERS
STORING = 40  # registers of a thread that stores into stages itself, or keeps values for what follows the roles


@dataclass(frozen=True, slots=True)
class Roles:
    """Divide a pipelined kernel between warps that copy and warps that multiply.

    `copies` are the registers of a copying thread; 0 takes as few as its program needs. Raises ScheduleError, with the
    line, for copies that need what the products compute.
    """

    copies: int = 0

    def __post_init__(self) -> None:
        if type(self.copies) is not int or self.copies % UNIT or not (self.copies == 0 or LEAST <= self.copies <= 232):
            raise ScheduleError(f"roles: copies={self.copies!r} must be 0 or a multiple of {UNIT} from {LEAST} to 232")

    def __str__(self) -> str:
        return f"roles(copies={self.copies})" if self.copies else "roles"

    def __call__(self, kernel: Kernel) -> Kernel:
        trace = kernel.trace()
        threads = prod(trace.block)
        stores = any(mark.name == COPIES for _, mark in words_in(trace.body, OnSide))
        more = threads if stores else WARPGROUP * WARP
        few = self.copies or (STORING if stores or any(map(meets, trace.body)) else LEAST)
        granted = REGISTERS_PER_SM // (threads + more) // UNIT * UNIT * (threads + more) - few * more
        registers = few, min(MOST, granted // threads // UNIT * UNIT)
        line = threads // trace.block[-1]
        if more % line:
            raise refused(
                kernel.source,
                f"the copies' {more} threads are not whole lines of {line} threads of the block {trace.block}; use a "
                "block of one dimension",
            )
        block = (*trace.block[:-1], trace.block[-1] + more // line)
        return Scheduled(kernel, _Divided(more, registers, block, stores), str(self))


class _Divided(OwnNumbers):
    def __init__(self, more: int, registers: tuple[int, int], block: tuple[Expr, ...], stores: bool) -> None:
        self.more, self.registers, self.block, self.stores = more, registers, block, stores

    def run(self) -> None:
        self.words = {
            RingMade: self._make,
            RingPass: self._pass,
            RingCopy: self._copy_tile,
            TileProduct: self._multiply,
            OnSide: self._store,
            Meeting: self._meet,
        }
        self.rings: dict[Value, BarrierRing] = {}
        self.last = last_ring(self.trace)
        self.side = ""
        self.kept: set[int] = set()
        self.begin()
        body = self.trace.body
        made = [s for s in body if isinstance(s, If) and isinstance(s.mark, RingMade)]
        if not made:
            raise refused(
                self.trace.source, "no copy of this kernel completes on a ring; apply pipeline(stages) before roles"
            )
        self.shared()
        self.body(made)
        last = [s for s in body if isinstance(s, If) and s.mark == OnSide("block")]
        divided = False
        for phase, meeting in phases_of(self.trace, tuple(s for s in body if s not in made and s not in last)):
            divided = self._divide(phase, divided) or divided
            self.body(meeting)
        for statement in last:
            super().branch(statement)

    def _divide(self, phase: tuple[Statement, ...], divided: bool) -> bool:
        """Write the roles of a phase, and return whether there are two; the first two set their registers."""
        first, end = self.threads // WARP, (self.threads + self.more) // WARP
        copies = any(side_of(s) == COPIES for s in statements_in(phase))
        sides = [(COPIES, (first, end), 0)] * copies + [(PRODUCTS, (0, first), 1)] * bool(phase)
        for side, between, count in sides:
            self.side, self.kept = side, slice_of(phase, side)
            if side == COPIES:
                require_copies(self.trace, phase, self.kept)
            self.tracer.at = self.trace.source
            with role(*between, registers=self.registers[count] if copies and not divided else None):
                self.body(phase)
        self.side = ""
        return copies

    # -- the statements of one side

    def statement(self, statement: Statement) -> None:
        """A statement of the side's slice; those of the copies get numbers of their own."""
        if self.side and id(statement) not in self.kept:
            return
        if self.side == COPIES and not isinstance(statement, If | For | While):
            self.copy(self.own_statement(statement))
        elif isinstance(statement, Barrier):
            with groups_of(self.tracer, 1 if statement.role is None else statement.role.groups):
                barrier(products=statement.waits)  # of the role, or of its groups
        else:
            super().statement(statement)

    def loop(self, loop: For) -> None:
        """A loop with the bounds of the side."""
        if self.side == COPIES:
            loop = replace(loop, lo=self.own_expr(loop.lo), hi=self.own_expr(loop.hi), step=self.own_expr(loop.step))
        super().loop(loop)

    def repetition(self, loop: While) -> None:
        """A loop with a condition, which the side has in a register of its own."""
        if self.side == COPIES:
            loop = replace(loop, condition=self.moved.get(loop.condition, loop.condition))
        super().repetition(loop)

    def branch(self, branch: If) -> None:
        """A branch with the condition of the side."""
        if self.side == COPIES:
            branch = replace(branch, condition=self.own_expr(branch.condition))
        super().branch(branch)

    def own_expr(self, expr: Expr | Cond) -> Expr | Cond:
        """An expression of the block's threads for those of the copies, whose lines come after theirs."""
        expr = sympy.sympify(expr)
        if self.side != COPIES:
            return expr
        last = "thread_id", "xyz"[len(self.trace.block) - 1]
        moved: Mapping[Symbol, Expr] = {
            s: s - self.trace.block[-1] for s, kind in self.trace.ids.items() if kind == last
        }
        if not expr.free_symbols & {*moved, *self.replaced}:
            return expr
        return self.tracer.simplified(expr.xreplace({**moved, **self.replaced}))

    # -- words

    def _make(self, statement: If, mark: RingMade) -> None:
        found: list[BarrierRing] = []
        warps = (self.more if mark.side == COPIES else self.threads) // WARP
        with self.tracer.word(lambda: replace(mark, ring=found[0].group, together=self._together(mark.side))):
            found.append(barriers(mark.count, arrivals=warps * mark.blocks))
            if mark.blocks > 1 and mark is self.last:
                cluster_barrier()
        self.rings[mark.ring] = found[0]

    def _together(self, side: str) -> bool:
        """Whether a unit alone fills a stage, or reads it, for whole groups of warps."""
        return len(self.trace.block) == 1 and not (self.stores and side == COPIES)

    def _pass(self, statement: If, mark: RingPass) -> None:
        ring, use = self.rings[mark.ring], Index(self.own_expr(mark.use))
        together = mark.kind == "arrive" and self._together(mark.side)
        with self.tracer.word(replace(mark, ring=ring.group, use=use.expr, together=together)):
            pass_ring(ring, mark, use)

    def _copy_tile(self, statement: If, mark: RingCopy) -> None:
        at, ring = tuple(Index(self.own_expr(i)) for i in mark.at), self.rings[mark.ring]
        row, column = (self.own_expr(i) for i in mark.tile.at)
        use, tile = Index(self.own_expr(mark.use)), replace(mark.tile, at=(row, column))
        begin, since = (None if i is None else self.own_expr(i) for i in (mark.begin, mark.since))
        there = tuple(i.expr for i in at)
        together = self._together(COPIES)
        with self.tracer.word(
            replace(
                mark, ring=ring.group, use=use.expr, tile=tile, at=there, together=together, begin=begin, since=since
            )
        ):
            copy_async(self.view(mark), self.part(tile), at=at, barrier=ring[use], blocks=mark.blocks)

    def _multiply(self, statement: If, mark: TileProduct) -> None:
        before = len(self.tracer.products)
        self.product(mark)
        if len(self.tracer.products) == before:
            raise refused(
                statement.source,
                f"wgmma cannot compute this product of {mark.a.buffer.dtype} tiles; use tiles that pipeline has made "
                "rings of, with K contiguous but for f16 and bf16, and for i8 a multiple of 16 columns",
            )

    def _meet(self, statement: If, mark: Meeting) -> None:
        with self.tracer.word(replace(mark, warp=self.threads // WARP)):
            pass

    def _store(self, statement: If, mark: OnSide) -> None:
        for s in statement.then:
            self.copy(self.own_statement(s))


def pass_ring(ring: BarrierRing, mark: RingPass, use: Index) -> None:
    """Record the wait or arrival of a mark, here or in all blocks of the cluster."""
    if mark.kind == "wait":
        ring[use].wait()
    elif mark.blocks == 1:
        ring[use].arrive(products=mark.products)
    else:
        for block in range(mark.blocks):
            ring[use].arrive(block=block, products=mark.products)
