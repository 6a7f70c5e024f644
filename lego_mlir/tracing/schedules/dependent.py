"""`dependent`: the kernel begins while the one before it on the stream ends.

Its barriers are initialised and its roles have begun when the kernel before it ends; each role waits for that before it
uses global memory. A role that loads nothing from there, and stores only what copies have brought, has no wait; nor has
one after a barrier of the cluster, which threads have passed that waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sympy

from lego_mlir.expr.nodes import Lt
from lego_mlir.expr.verdict import Proved
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled
from lego_mlir.tracing.trace.marks import PRODUCTS, Dependent, RingPass, WarpRole
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    For,
    If,
    Load,
    MlirOperation,
    Statement,
    accesses_of,
    statements_in,
)
from lego_mlir.tracing.words.clustered_blocks import WAIT


@dataclass(frozen=True, slots=True)
class DependentLaunch:
    """Launch the kernel as a dependent of the one before it (`griddepcontrol`, PTX ISA); apply it after `roles`."""

    def __str__(self) -> str:
        return "dependent"

    def __call__(self, kernel: Kernel) -> Kernel:
        return Scheduled(kernel, _Overlapping(), str(self))


class _Overlapping(Replay):
    def run(self) -> None:
        self.waited = self.ordered = False
        self.shared()
        self._append("launch_dependents")
        if not any(isinstance(s, If) and isinstance(s.mark, WarpRole) for s in self.trace.body):
            self._append("wait")
        self.body(self.trace.body)

    def _append(self, action: str) -> None:
        self.tracer.append(If(sympy.true, (), (), self.tracer.here(), Dependent(action)))

    def copy(self, statement: Statement) -> None:
        """Add a statement as it is; after a barrier of the cluster nothing waits."""
        self.ordered |= self.waited and isinstance(statement, MlirOperation) and statement.name == WAIT
        super().copy(statement)

    def branch(self, branch: If) -> None:
        """A role begins with a wait, if it uses global memory before copies have come."""
        if not isinstance(branch.mark, WarpRole):
            super().branch(branch)
            return
        with self.tracer.region(branch.condition) as then:
            if not (self.ordered or self._follows_copies(branch.then)):
                self._append("wait")
                self.waited = True
            self.body(branch.then)
        self.tracer.append(replace(branch, then=tuple(then)))

    def _follows_copies(self, body: Sequence[Statement]) -> bool:
        """Whether a role loads nothing, and stores when copies have come that were issued after their role's wait."""
        return not _loads(body) and self._waits(body) is not None

    def _waits(self, body: Sequence[Statement]) -> bool | None:
        """Whether a body surely waits for a copy; None if it may use global memory before."""
        for s in body:
            match s:
                case If(mark=RingPass(kind="wait", side=side)) if side == PRODUCTS:
                    return True
                case If(mark=None, then=then, otherwise=otherwise):
                    sides = self._waits(then), self._waits(otherwise)
                    found = None if None in sides else all(sides)
                case For(body=inner, lo=lo, hi=hi):
                    found = self._waits(inner)
                    if found and not isinstance(self.tracer.prove(Lt(lo, hi)), Proved):
                        found = False
                case _:
                    found = None if _uses_global((s,)) else False
            if found is None or found:
                return found
        return False


def _loads(body: Sequence[Statement]) -> bool:
    return _uses_global(tuple(s for s in statements_in(tuple(body)) if isinstance(s, Load | Atomic | AsyncCopy)))


def _uses_global(body: Sequence[Statement]) -> bool:
    return any(a.buffer.space != "workgroup" for s in statements_in(tuple(body)) for a in accesses_of(s))
