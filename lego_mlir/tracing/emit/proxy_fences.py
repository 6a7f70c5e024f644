"""Arrivals that come after stores into the operands of the matrix unit, which reads shared memory by another path.

What a thread stores is visible to the unit after a proxy fence of this thread (PTX ISA, "Async proxy"). A barrier of
the block has one. An arrival at a ring has one where elements of an operand may have been stored since the last: copies
that threads compute. A wait for copies of threads has one behind it: they are complete there. Others go without: one
more in the main loop of attention took about 1 % of its time on an H200.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lego_mlir.tracing.trace.marks import ThreadCopies, WarpRole
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Barrier,
    For,
    FunctionCall,
    If,
    KernelTrace,
    MlirOperation,
    Statement,
    Store,
    TileStore,
    While,
    statements_in,
)
from lego_mlir.tracing.words.barrier_rings import WAIT

ARRIVAL_SYNC = "nvvm.bar.warp.sync"  # in front of each arrival


def fenced_arrivals(body: Sequence[Statement], operands: Collection[str]) -> frozenset[int]:
    """The ids of the synchronisations in front of arrivals that need a fence; `operands` are names of shared tiles."""
    found = _Fences(frozenset(operands))
    found.after(body, stored=False)
    return frozenset(found.needed)


def fenced_waits(trace: KernelTrace, operands: Collection[str]) -> frozenset[int]:
    """The ids of the waits for what single threads have copied into operands: the unit sees it after a fence here."""
    rings = {
        s.mark.ring.number
        for s in trace.statements()
        if isinstance(s, If) and isinstance(s.mark, ThreadCopies)
        if any(isinstance(copy, AsyncCopy) and copy.target.buffer.name in operands for copy in s.then)
    }
    waits = (s for s in trace.statements() if isinstance(s, MlirOperation) and s.name == WAIT)
    return frozenset(id(s) for s in waits if s.operands[0].number in rings)


class _Fences:
    def __init__(self, operands: frozenset[str]) -> None:
        self.operands = operands
        self.needed: set[int] = set()

    def after(self, body: Sequence[Statement], *, stored: bool) -> bool:
        """Whether elements may be stored and not fenced after a body, if they are before it."""
        roles: list[tuple[WarpRole, bool]] = []
        for s in body:
            match s:
                case If(mark=WarpRole() as role):
                    before = stored or any(made for other, made in roles if _overlap(role, other))
                    roles.append((role, self.after(s.then, stored=before)))
                    continue
                case _ if roles:
                    stored = stored or any(made for _, made in roles)
                    roles.clear()
                case _:
                    pass
            stored = self._after_one(s, stored)
        return stored or any(made for _, made in roles)

    def _after_one(self, s: Statement, stored: bool) -> bool:
        match s:
            case If(mark=mark, then=then) if mark is not None:
                return self.after(then, stored=stored)
            case If(then=then, otherwise=otherwise):
                sides = [self.after(side, stored=stored) for side in (then, otherwise)]
                return any(sides)
            case For(body=body) | While(body=body):
                once = self.after(body, stored=stored)
                return stored or self.after(body, stored=stored or once)
            case Store(access=access):
                return stored or access.buffer.name in self.operands
            case TileStore(buffer=buffer):
                return stored or buffer.name in self.operands
            case FunctionCall(function=function):
                return stored or any(isinstance(i, Store | TileStore) for i in statements_in(function.body))
            case Barrier():
                return False
            case MlirOperation(name=name) if name == ARRIVAL_SYNC:
                if stored:
                    self.needed.add(id(s))
                return False
        return stored


def _overlap(a: WarpRole, b: WarpRole) -> bool:
    return a.first < b.end and b.first < a.end
