"""`ahead`: the threads of a pipelined kernel copy tiles some steps before they multiply them (`cp.async`, sm_80 on).

The copies of a step are a slice of the kernel (`sides`), written again under numbers of their own, so they run as far
ahead of the products as the rings have room. One barrier a step takes the place of the rings' mbarriers:

    for k in lego.range(steps):                   for s in lego.unroll(stages - 1): copy step s; commit
        empty[use - stages].wait()                for k in lego.range(steps):
        lego.copy_async(a, ta[use], ..)               wait_copies(stages - 2); barrier()
        full[use].arrive(); full[use].wait()  -->     if k + stages - 1 < steps: copy step k + stages - 1
        lego.mma(ta[use], tb[use], acc)               commit_copies()
        empty[use - 1].arrive(..)                     lego.mma(ta[use], tb[use], acc)

After the barrier of a step no thread reads the stage of the step before, which is the one that is filled next. What
threads store into a tile themselves is stored as far ahead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import sympy

from lego_mlir.aliases import Expr
from lego_mlir.expr.index import Index
from lego_mlir.expr.nodes import Lt
from lego_mlir.expr.verdict import Proved
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.own_numbers import OwnNumbers
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, words_in
from lego_mlir.tracing.schedules.sides import require_copies, slice_of
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
from lego_mlir.tracing.trace.trace import AsyncCopy, For, If, Statement, While, Write, statements_in
from lego_mlir.tracing.words.async_copies import commit_copies, copy_async, wait_copies
from lego_mlir.tracing.words.control import Cell, barrier, register, when


@dataclass(frozen=True, slots=True)
class Ahead:
    """Let each thread copy ahead of its products, as many steps as the rings of `pipeline` have stages, less one.

    Raises ScheduleError, with the line, for copies that need what the products compute, or that a cluster shares.
    """

    def __str__(self) -> str:
        return "ahead"

    def __call__(self, kernel: Kernel) -> Kernel:
        return Scheduled(kernel, _Prefetched(), str(self))


class _Prefetched(OwnNumbers):
    def run(self) -> None:
        self.words = {
            RingMade: self._drop,
            RingPass: self._meet,
            RingCopy: self._drop,
            OnSide: self._drop,
            ThreadCopies: self._drop,
            TileProduct: self._multiply,
        }
        body = self.trace.body
        made = next((mark for _, mark in words_in(body, RingMade)), None)
        if made is None:
            raise refused(
                self.trace.source, "no copy of this kernel completes on a ring; apply pipeline(stages) before ahead"
            )
        self._require(body)
        self.stages, self.depth, self.filled = made.count, 0, False
        self.copies, self.kept = slice_of(body, COPIES), slice_of(body, PRODUCTS)
        require_copies(self.trace, body, self.copies)
        self.loops: list[For] = []
        self.shared()
        self.body(body)

    def _require(self, body: tuple[Statement, ...]) -> None:
        words = (*words_in(body, RingCopy), *words_in(body, ThreadCopies))
        rings = {id(s) for word, _ in words for s in statements_in((word,))}
        for s in statements_in(body):
            if isinstance(s, If) and isinstance(s.mark, RingCopy) and s.mark.sharing > 1:
                raise refused(s.source, "the blocks of a cluster share this copy; apply roles, or leave out clusters")
            if isinstance(s, If) and isinstance(s.mark, Meeting):
                raise refused(s.source, "the copies of blocks meet, which have no warps of their own; apply roles")
            if isinstance(s, AsyncCopy) and id(s) not in rings:
                raise refused(
                    s.source,
                    "the kernel has asynchronous copies of its own, which ahead would not wait for; apply roles",
                )

    # -- the products' statements

    def statement(self, statement: Statement) -> None:
        """A statement, unless it serves the copies of a loop alone."""
        if self.loops and id(statement) in self.copies and id(statement) not in self.kept:
            return
        super().statement(statement)

    def branch(self, branch: If) -> None:
        """A branch, unless the words of rings are all that it has."""
        if branch.mark is not None or any(not isinstance(getattr(s, "mark", None), RingPass) for s in branch.then):
            super().branch(branch)

    def loop(self, loop: For) -> None:
        """A pipelined loop begins with the copies of its first steps."""
        self.depth += 1
        if any(isinstance(s, If) and isinstance(s.mark, RingPass) and s.mark.kind == "wait" for s in loop.body):
            self._pipelined(loop)
        else:
            super().loop(loop)
        self.depth -= 1

    def _pipelined(self, loop: For) -> None:
        if self.filled or self.depth > 1:
            barrier()  # the stages may still be read
        self.filled = True
        self._begin_copies(loop)
        for step in range(self.stages - 1):
            self._fill(loop, loop.lo + step * loop.step)
        self.loops.append(loop)
        with self.open_loop(loop) as body:
            self.body(loop.body)
        self.loops.pop()
        self.tracer.append(replace(loop, body=tuple(body)))
        self._end_copies(loop)

    def _meet(self, statement: If, mark: RingPass) -> None:
        """The wait for a full stage waits for the thread's copies, and meets the others; then the next is filled."""
        if (mark.kind, mark.side) != ("wait", PRODUCTS):
            return
        wait_copies(self.stages - 2)
        barrier()
        loop = self.loops[-1]
        self._fill(loop, loop.symbol + (self.stages - 1) * loop.step)

    def _multiply(self, statement: If, mark: TileProduct) -> None:
        self.product(mark, warpgroups=False)

    def _drop(self, statement: If, mark: object) -> None:
        """What the copies' program has."""

    # -- the copies' statements

    def _begin_copies(self, loop: For) -> None:
        """The copies continue with the registers that the loop changes, in registers of their own."""
        changed = dict.fromkeys(
            s.register for s in statements_in(loop.body) if isinstance(s, Write) and id(s) in self.copies
        )
        self.carried = {
            old: register(old.dtype, Cell(old)).register for old in changed if self.tracer.is_register_open(old)
        }

    def _end_copies(self, loop: For) -> None:
        """What follows the loop finds the registers that its copies alone have changed as they left them."""
        kept = {s.register for s in statements_in(loop.body) if isinstance(s, Write) and id(s) in self.kept}
        for old, own in self.carried.items():
            if old not in kept:
                Cell(old).set(Cell(own).get())

    def _fill(self, loop: For, step: Expr) -> None:
        """Copy the tiles of a step, if there is one; the copies of a thread are a group, which may be empty."""
        step = self.tracer.simplified(sympy.sympify(step))
        self.begin()
        self.moved, self.replaced = dict(self.carried), {loop.symbol: step}
        if isinstance(self.tracer.prove(Lt(step, loop.hi)), Proved):
            self._copies_of(loop.body)
        else:
            with when(Index(step) < Index(loop.hi)):
                self._copies_of(loop.body)
        commit_copies()

    def _copies_of(self, body: Iterable[Statement]) -> None:
        for statement in body:
            if id(statement) not in self.copies:
                continue
            self.tracer.at = getattr(statement, "source", None)
            match statement:
                case If(mark=RingPass()):
                    pass
                case If(mark=RingCopy() as mark):
                    self._copy_tile(mark)
                case If(mark=ThreadCopies(), then=then):
                    for copy in (s for s in then if isinstance(s, AsyncCopy)):
                        self.copy(self.own_statement(copy))
                case If(mark=mark, condition=condition, then=then, otherwise=otherwise):
                    condition = self.own_expr(condition)
                    with self.tracer.region(condition) as first:
                        self._copies_of(then)
                    with self.tracer.region(sympy.Not(condition)) as second:
                        self._copies_of(otherwise)
                    kept = None if isinstance(mark, OnSide) else mark
                    self.tracer.append(
                        replace(statement, condition=condition, then=tuple(first), otherwise=tuple(second), mark=kept)
                    )
                case For():
                    bounds = {name: self.own_expr(getattr(statement, name)) for name in ("lo", "hi", "step")}
                    loop = replace(statement, **bounds)
                    with self.open_loop(loop) as inner:
                        self._copies_of(loop.body)
                    self.tracer.append(replace(loop, body=tuple(inner)))
                case While():
                    raise refused(
                        statement.source, "the copies need what this loop computes, whose end is not known; apply roles"
                    )
                case _:
                    self.copy(self.own_statement(statement))

    def _copy_tile(self, mark: RingCopy) -> None:
        row, column = (self.own_expr(i) for i in mark.tile.at)
        tile = replace(mark.tile, at=(row, column))
        copy_async(self.view(mark), self.part(tile), at=tuple(Index(self.own_expr(i)) for i in mark.at))
