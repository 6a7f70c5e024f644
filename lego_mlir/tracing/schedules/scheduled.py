"""A kernel whose trace is rewritten from that of another kernel.

A schedule takes a kernel to a kernel. It runs no function again: it reads the trace of its origin, a program of
statements, and writes another one, in which words about tiles are called again with other arguments. Whatever a kernel
can do, a scheduled one can: it is printed, interpreted, checked, counted, compiled, launched and scheduled further.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator
from functools import update_wrapper
from typing import TYPE_CHECKING, TypeVar

from lego_mlir.aliases import Expr
from lego_mlir.errors import ScheduleError
from lego_mlir.layout.naming import NamedMaps
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.definition.kernel_traces import Recorded, implied
from lego_mlir.tracing.definition.reference import Referenced
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import (
    Atomic,
    Buffer,
    FunctionCall,
    If,
    KernelTrace,
    ScalarParameter,
    Statement,
    Store,
    TileLoad,
    TileStore,
    accesses_in,
    accesses_of,
    statements_in,
)
from lego_mlir.tracing.trace.tracer import Tracer, record

if TYPE_CHECKING:
    from lego_mlir.engine.layout_choice import LayoutChoice

Mark = TypeVar("Mark")


class TraceRewriter(ABC):
    """What a schedule does with the trace of a kernel."""

    block: tuple[Expr, ...] | None = None
    """The threads of the new kernel's blocks; None for those of its origin."""
    grid: tuple[Expr, ...] | None = None
    cluster: tuple[int, ...] | None = None

    @abstractmethod
    def rewrite(self, trace: KernelTrace, tracer: Tracer) -> None:
        """Record the new program. Raises ScheduleError, with the line, for a statement that stands in the way."""


class Scheduled(Kernel):
    """The kernel that a rewriter makes of `origin`; `schedule` is its text, `name` its own name if it has one."""

    def __init__(
        self, origin: Kernel, rewriter: TraceRewriter, schedule: str | None = None, name: str | None = None
    ) -> None:
        Referenced.__init__(self)
        self.expected, self.tolerance, self.supplied = origin.expected, origin.tolerance, origin.supplied
        self.name, self.function, self.source = name or origin.name, origin.function, origin.source
        self.signature, self.bounds, self.arguments_fixed = origin.signature, origin.bounds, origin.arguments_fixed
        update_wrapper(self, origin.function, updated=())
        self._texts = {}
        self.block = origin.block if rewriter.block is None else rewriter.block
        self.grid = origin.grid if rewriter.grid is None else rewriter.grid
        self.cluster = origin.cluster if rewriter.cluster is None else rewriter.cluster
        self.origin, self.rewriter = origin, rewriter
        self.schedules = (*origin.schedules, schedule) if schedule else origin.schedules

    @property
    def layout_choice(self) -> LayoutChoice | None:
        """The layouts that were chosen for the tiles of the kernel that is scheduled."""
        return self.origin.layout_choice

    def completed(self, trace: KernelTrace) -> KernelTrace:
        """Room for shared tiles is judged where the kernel is compiled: a later schedule may make room."""
        return trace

    def recorded(self, maps: NamedMaps) -> Recorded:
        old = self.origin.trace()
        tracer = Tracer(self.name, self.grid, self.block, self.source, self.signature, self.cluster)
        tracer.continue_from(old)
        tracer.requirements += old.requirements[len(implied(self.origin, old.sizes)) :]
        for requirement in tracer.requirements:
            tracer.assume(requirement.condition)
        parameters = [p for p in old.parameters if p.name in self.signature]
        tracer.define_values(p.value.number for p in parameters if isinstance(p, ScalarParameter))
        maps.ranges = tracer.ranges
        with maps.current():
            record(tracer, lambda: self.rewriter.rewrite(old, tracer), [])
        tracer.at = None
        return tracer, parameters


def refused(source: Source, message: str) -> ScheduleError:
    """An error that names the statement in the schedule's way."""
    return ScheduleError(f"{source}: {message}")


def words_in(body: Iterable[Statement], kind: type[Mark]) -> Iterator[tuple[If, Mark]]:
    """The words of one kind in a body, with their statements."""
    for statement in statements_in(tuple(body)):
        if isinstance(statement, If) and isinstance(statement.mark, kind):
            yield statement, statement.mark


def written_in(trace: KernelTrace) -> dict[str, Statement]:
    """The statement by which a kernel, or a function that it calls, writes each buffer."""
    return {name: s for s in trace.statements() for name in stored_by(s)}


def stored_by(statement: Statement) -> set[str]:
    """The buffers whose elements a statement stores, itself or in a function that it calls."""
    if isinstance(statement, FunctionCall):
        return {name for s in statements_in(statement.function.body) for name in stored_by(s)}
    return {accesses_of(statement)[-1].buffer.name} if isinstance(statement, Store | Atomic) else set()


def shared_in(statement: Statement) -> set[str]:
    """The names of the shared tiles whose elements a statement, or one in its body, accesses."""
    return {b.name for b in _accessed_by(statement) if b.space == "workgroup"}


def ordered_in(statement: Statement, written: Container[str]) -> set[str]:
    """The memory that a statement accesses in an order which barriers may keep: shared tiles, and what is `written`."""
    return {b.name for b in _accessed_by(statement) if b.space == "workgroup" or b.name in written}


def _accessed_by(statement: Statement) -> Iterator[Buffer]:
    """The memory that a statement, one in its body, or a function that it calls accesses."""
    for s in statements_in((statement,)):
        yield from (a.buffer for a in (accesses_in(s.function) if isinstance(s, FunctionCall) else accesses_of(s)))
        if isinstance(s, TileLoad | TileStore):
            yield s.buffer
