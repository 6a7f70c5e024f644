"""Copy a trace statement by statement; a schedule says what becomes of some words.

A statement that no schedule changes keeps its number and its line. A word that it changes is called again, as the
user's function called it: widths, boxes and proofs are derived anew for the new program, with the line of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from math import prod
from typing import Any

import sympy

from lego_mlir.aliases import Symbol
from lego_mlir.expr.index import Index
from lego_mlir.expr.nodes import Le, Lt, Size
from lego_mlir.f2.boxed import registers_of
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.tracing.schedules.scheduled import TraceRewriter
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.variables import SpreadVariable
from lego_mlir.tracing.trace.marks import HeldTile, Rectangle, RingCopy, StagedTile, StoredTile, TileProduct
from lego_mlir.tracing.trace.trace import (
    For,
    If,
    KernelTrace,
    MlirOperation,
    Register,
    Statement,
    TensorAccess,
    ToIndex,
    While,
    Write,
)
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.control import Cell
from lego_mlir.tracing.words.mma import Part, mma
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import View

Rewrites = Mapping[type, Callable[[If, Any], None]]
"""What a schedule does with a word, by the class of its mark."""


class Replay(TraceRewriter):
    """Copies a trace; the words of a class in `words` are rewritten, others are copied."""

    trace: KernelTrace
    tracer: Tracer
    words: Rewrites

    def rewrite(self, trace: KernelTrace, tracer: Tracer) -> None:
        """Record the new program."""
        self.trace, self.tracer, self.words = trace, tracer, {}
        self._products = {number: product for product in trace.products for number in product.covered}
        self._kept: set[int] = set()
        self.run()

    def run(self) -> None:
        """The whole program: the shared tiles and the body."""
        self.shared()
        self.body(self.trace.body)

    @property
    def threads(self) -> int:
        """The threads of a block of the origin."""
        return prod(self.trace.block)

    def id(self, kind: str, axis: str = "x") -> Symbol:
        """The symbol of an id in the origin's trace."""
        return next(s for s, named in self.trace.ids.items() if named == (kind, axis))

    def shared(self, without: frozenset[str] = frozenset()) -> None:
        """Take over the shared tiles but those that the schedule replaces."""
        self.tracer.phases = self.trace.phases
        self.tracer.shared += [b for b in self.trace.shared if b.name not in without]

    def body(self, body: Iterable[Statement]) -> None:
        """Copy or rewrite the statements of a body."""
        for statement in body:
            self.tracer.at = getattr(statement, "source", None)
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        """Copy or rewrite one statement."""
        match statement:
            case If(mark=mark) if type(mark) in self.words:
                self.words[type(mark)](statement, mark)
            case If():
                self.branch(statement)
            case For():
                self.loop(statement)
            case While():
                self.repetition(statement)
            case _:
                self.copy(statement)

    def branch(self, branch: If) -> None:
        """Copy a branch, or a word, whose registers stay open after it."""
        if branch.condition == True and branch.mark is not None:  # noqa: E712  SymPy's true is not Python's
            with self.tracer.recorded() as part:
                self.body(branch.then)
            self.tracer.append(replace(branch, then=tuple(part)))
            return
        with self.tracer.region(branch.condition) as then:
            self.body(branch.then)
        with self.tracer.region(sympy.Not(branch.condition)) as otherwise:
            self.body(branch.otherwise)
        self.tracer.append(replace(branch, then=tuple(then), otherwise=tuple(otherwise)))

    def loop(self, loop: For) -> None:
        """Copy a loop."""
        with self.open_loop(loop) as body:
            self.body(loop.body)
        self.tracer.append(replace(loop, body=tuple(body)))

    def repetition(self, loop: While) -> None:
        """Copy a loop with a condition."""
        with self.tracer.region() as body:
            self.body(loop.body)
        self.tracer.append(replace(loop, body=tuple(body)))

    def open_loop(self, loop: For) -> AbstractContextManager[list[Statement]]:
        """Around the statements of a loop's body, with what its bounds say about its variable."""
        facts = [
            fact
            for fact, bound in ((Le(loop.lo, loop.symbol), loop.lo), (Lt(loop.symbol, loop.hi), loop.hi))
            if not all(isinstance(s, Size) for s in bound.free_symbols)
        ]
        return self.tracer.region(*facts, variable=loop.symbol)

    def copy(self, statement: Statement) -> None:
        """Add a statement as it is."""
        self._define(statement)
        self.tracer.append(statement)

    def _define(self, statement: Statement) -> None:
        results = statement.results if isinstance(statement, MlirOperation) else (getattr(statement, "result", None),)
        made = [value for value in results if value is not None]
        self.tracer.define_values(value.number for value in made)
        for product in (self._products.get(value.number) for value in made):
            if product is not None and id(product) not in self._kept:
                self._kept.add(id(product))
                self.tracer.products.append(product)
        if isinstance(statement, Write):
            self.tracer.define_register(statement.register)
        if isinstance(statement, ToIndex):
            self.tracer.define_symbol(statement.symbol)

    # -- marks as words take them

    def view(self, of: Rectangle | TensorAccess | StagedTile | StoredTile | RingCopy) -> View:
        """The view of a tensor, or of a shared tile, that a mark or an access has."""
        buffer = of.buffer if isinstance(of, Rectangle | TensorAccess) else of.tensor
        return View(self.tracer, buffer, of.layout)

    def part(self, rectangle: Rectangle) -> Part:
        """A part of a shared tile."""
        return Part(self.view(rectangle), (Index(rectangle.at[0]), Index(rectangle.at[1])), rectangle.shape)

    def product(self, mark: TileProduct, *, warpgroups: bool = True) -> None:
        """A product of the block, called again: its sums are the registers of a spread variable."""
        assert mark.layout is not None, "only a product of the block has a layout"
        total = variable_of(mark.layout, mark.sums)
        b = self.part(mark.b)
        with self.tracer.word(mark):
            if isinstance(mark.a, HeldTile):
                held = [None if value is None else Scalar(value) for value in mark.a.values]
                total.set(mma(Spread(mark.a.layout, mark.a.dtype, held), b, total, warpgroups=warpgroups))
                return
            a = self.part(mark.a)
            left, right = (b.T, a.T) if mark.transposed else (a, b)
            total.set(mma(left, right, total, warpgroups=warpgroups))


def variable_of(layout: LinearLayout, registers: tuple[Register, ...]) -> SpreadVariable:
    """The spread variable whose registers inside the box of its layout are these, in order."""
    cells: list[Cell | None] = [None] * layout.in_sizes["register"]
    for place, held in zip(registers_of(layout), registers, strict=True):
        cells[place] = Cell(held)
    return SpreadVariable(layout, registers[0].dtype, cells)
