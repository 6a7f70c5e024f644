"""`roles`: a pipelined kernel as two programs of one block, copies and products, which meet in the rings alone.

The warps of the block keep their numbers and multiply. The copies get warps of their own after them, one group of 4
unless told. Each program is a slice of the kernel (`sides`), so loops over tiles and steps stand in both, and registers
go from the copies' warps to the products'.

Threads that compute what they copy were as many as the block has. Where the copying warps have fewer, each of these
threads does what several of the block's did: a statement that depends on the thread stands there several times, one
after the other, so that the loads of all are under way together; any other stands there once.

Where all threads of a cluster meet, so do the warps of the copies: a kernel is divided from one `lego.cluster_barrier`
to the next, and the statements after the last copy are those of the warps that multiply.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
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
from lego_mlir.tracing.schedules.sides import (
    copies_of,
    differing,
    filled_rings,
    meets,
    phases_of,
    require_copies,
    side_of,
    slice_of,
)
from lego_mlir.tracing.trace.marks import (
    COPIES,
    PRODUCTS,
    Meeting,
    OnSide,
    RingCopy,
    RingMade,
    RingPass,
    ThreadCopies,
    TileProduct,
)
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Barrier,
    For,
    If,
    KernelTrace,
    Load,
    MatrixLoad,
    Statement,
    Value,
    While,
    statements_in,
)
from lego_mlir.tracing.words.async_copies import copy_async
from lego_mlir.tracing.words.barrier_rings import BarrierRing, barriers
from lego_mlir.tracing.words.clustered_blocks import cluster_barrier
from lego_mlir.tracing.words.control import barrier
from lego_mlir.tracing.words.tile_copies import complete_on
from lego_mlir.tracing.words.warp_roles import REGISTERS, WARPGROUP, groups_of
from lego_mlir.tracing.words.warp_roles import warps as role

UNIT = 8  # registers of a thread are granted in multiples of this. PTX ISA, setmaxnreg
LEAST, MOST = REGISTERS
GROUP = WARPGROUP * WARP
REGISTER = 32  # bits
STORING = 40  # registers of a thread that stores into stages itself, or keeps values for what follows the roles
SEVERAL = 64  # of one that stores for several threads, besides what it loads: with fewer ptxas waits between loads
FULL = 168  # registers of a thread with which even three groups begin


@dataclass(frozen=True, slots=True)
class Roles:
    """Divide a pipelined kernel between warps that copy and warps that multiply.

    `copies` are the registers of a copying thread; 0 takes as few as its program needs. `threads` copy: a multiple of
    128 that divides those of the block, where threads store into stages themselves; 0 takes 128 if it can. Raises
    ScheduleError, with the line, for copies that need what the products compute.
    """

    copies: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        if type(self.copies) is not int or self.copies % UNIT or not (self.copies == 0 or LEAST <= self.copies <= 232):
            raise ScheduleError(f"roles: copies={self.copies!r} must be 0 or a multiple of {UNIT} from {LEAST} to 232")
        if type(self.threads) is not int or self.threads % GROUP or self.threads < 0:
            raise ScheduleError(f"roles: threads={self.threads!r} must be 0 or a multiple of {GROUP}")

    def __str__(self) -> str:
        given = ", ".join(f"{e.name}={n}" for e in fields(self) if (n := getattr(self, e.name)))
        return f"roles({given})" if given else "roles"

    def __call__(self, kernel: Kernel) -> Kernel:
        trace = kernel.trace()
        threads = prod(trace.block)
        stores = any(mark.name == COPIES for _, mark in words_in(trace.body, OnSide))
        stores = stores or any(words_in(trace.body, ThreadCopies))
        more = self._copying(trace, threads) if stores else GROUP
        few = self.copies or (STORING if stores or any(map(meets, trace.body)) else LEAST)
        if stores and more < threads and not self.copies:
            few = min(FULL, -(-(SEVERAL + threads // more * _loaded(trace)) // UNIT) * UNIT)
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

    def _copying(self, trace: KernelTrace, threads: int) -> int:
        """The threads that copy where those of the block store into stages."""
        if not self.threads:
            return threads if threads % GROUP or GROUP % (threads // trace.block[-1]) else GROUP
        if threads % self.threads:
            raise refused(
                trace.source,
                f"threads={self.threads} cannot store what the block's do: the block has {threads}; leave it out",
            )
        return self.threads


class _Divided(OwnNumbers):
    def __init__(self, more: int, registers: tuple[int, int], block: tuple[Expr, ...], stores: bool) -> None:
        self.more, self.registers, self.block, self.stores = more, registers, block, stores

    def run(self) -> None:
        self.words = {
            RingMade: self._make,
            RingPass: self._pass,
            RingCopy: self._copy_tile,
            TileProduct: self._multiply,
            ThreadCopies: self._copy_by_threads,
            OnSide: self._store,
            Meeting: self._meet,
        }
        self.rings: dict[Value, BarrierRing] = {}
        self.last = last_ring(self.trace)
        self.side = ""
        self.kept: set[int] = set()
        body = self.trace.body
        self.begin()
        self.common = self.renamed, self.moved, self.replaced
        self.turn, self.inside = 0, False
        self.own = [[ChainMap({}, names) for names in self.common] for _ in range(self.threads // self.more)]
        self.direct = copies_of(self.trace)
        self.loaded = {id(load) for load, _ in self.direct.values()}
        self.copied: list[AsyncCopy] = []
        self.apart = differing(self.trace.body, threads_of(self.trace)) if self.stores and len(self.own) > 1 else set()
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
            sets = copies and not divided and first % WARPGROUP == 0  # only whole groups set their registers
            with role(*between, registers=self.registers[count] if sets else None):
                self.body(phase)
        self.side = ""
        return copies

    # -- the statements of one side

    def statement(self, statement: Statement) -> None:
        """A statement of the side's slice; those of the copies get numbers of their own."""
        if self.side and (id(statement) not in self.kept or (self.side == COPIES and id(statement) in self.loaded)):
            return
        for _ in self._turns(statement):
            self._one(statement)

    def _turns(self, statement: Statement) -> Iterator[None]:
        """Once, or once per thread of the block whose work a copying thread does, each time under its own names."""
        if self.side != COPIES or self.inside or id(statement) not in self.apart:
            yield
            return
        self.inside = True
        for turn, own in enumerate(self.own):
            self.turn, (self.renamed, self.moved, self.replaced) = turn, own
            yield
        self.turn, self.inside = 0, False
        self.renamed, self.moved, self.replaced = self.common

    def _one(self, statement: Statement) -> None:
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
        last, whole = ("thread_id", "xyz"[len(self.trace.block) - 1]), self.trace.block[-1]
        before = whole - self.turn * self.more * whole // self.threads
        moved: Mapping[Symbol, Expr] = {s: s - before for s, kind in self.trace.ids.items() if kind == last}
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
        alone = not self.stores if side == COPIES else not _loads_stages(self.trace)
        return len(self.trace.block) == 1 and alone

    def _pass(self, statement: If, mark: RingPass) -> None:
        ring, use = self.rings[mark.ring], Index(self.own_expr(mark.use))
        together = mark.kind == "arrive" and self._together(mark.side)
        if self.copied and mark.kind == "arrive" and self.side == COPIES:
            with self.tracer.word(ThreadCopies(ring.group, use.expr)):
                for copy in self.copied:
                    self.tracer.append(copy)
                complete_on(ring[use])
            self.copied.clear()
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
                f"wgmma cannot compute this product of {mark.b.buffer.dtype} tiles; use tiles that pipeline has made "
                "rings of, with K contiguous but for f16 and bf16, and for i8 a multiple of 16 columns",
            )

    def _meet(self, statement: If, mark: Meeting) -> None:
        with self.tracer.word(replace(mark, warp=self.threads // WARP)):
            pass

    def _copy_by_threads(self, statement: If, mark: ThreadCopies) -> None:
        for s in statement.then:
            if isinstance(s, AsyncCopy):
                self.copied += (self._own_copy(s) for _ in self._turns(s))

    def _own_copy(self, copy: AsyncCopy) -> AsyncCopy:
        return replace(copy, origin=self._access(copy.origin), target=self._access(copy.target))

    def _store(self, statement: If, mark: OnSide) -> None:
        for s in statement.then:
            for _ in self._turns(s):
                if found := self.direct.get(id(s)):
                    load, store = found
                    self.copied.append(AsyncCopy(self._access(load.access), self._access(store.access), s.source))
                else:
                    self.copy(self.own_statement(s))


def _loaded(trace: KernelTrace) -> int:
    """The registers of what a thread of the block loads for its copies, but for what is copied as it is."""
    direct, kept = {id(load) for load, _ in copies_of(trace).values()}, slice_of(trace.body, COPIES)
    loads = [s for s in trace.statements() if isinstance(s, Load) and id(s) in kept - direct]
    return sum(-(-s.access.width * s.result.dtype.bits // REGISTER) for s in loads)


def _loads_stages(trace: KernelTrace) -> bool:
    """Whether threads load elements of a stage themselves, so that each of their warps has to release it."""
    rings = filled_rings(trace.body)
    words = (s for kind in (TileProduct, RingCopy) for s, _ in words_in(trace.body, kind))
    inside = {id(s) for word in words for s in statements_in((word,))}
    return any(
        isinstance(s, Load | MatrixLoad) and s.access.buffer.name in rings and id(s) not in inside
        for s in trace.statements()
    )


def threads_of(trace: KernelTrace) -> set[Symbol]:
    """The symbols of a thread's place in its block."""
    return {s for s, (kind, _) in trace.ids.items() if kind == "thread_id"}


def pass_ring(ring: BarrierRing, mark: RingPass, use: Index) -> None:
    """Record the wait or arrival of a mark, here or in all blocks of the cluster."""
    if mark.kind == "wait":
        ring[use].wait()
    elif mark.blocks == 1:
        ring[use].arrive(products=mark.products)
    else:
        for block in range(mark.blocks):
            ring[use].arrive(block=block, products=mark.products)
