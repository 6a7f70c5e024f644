"""`copied_out(buffers)`: accumulators leave through swizzled buffers, by tile copies.

A kernel that stores its accumulators into shared tiles, meets, and stores the tiles by `lego.store_tile` keeps both
meanings in its trace. The tiles and the barrier go, and `Spread.copy_out` takes their place: `stmatrix` into a buffer,
then a tensor copy that clips what is outside of the tensor. A function of the elements (`by=`) is computed in registers
in front of it, a part of the tile at a time, for pairs of elements where the layout has them next to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from lego_mlir.aliases import Cond, Expr, Operand
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Condition, Index, as_expr
from lego_mlir.expr.nodes import Eq, FloorMod, Le, Lt
from lego_mlir.expr.verdict import Proved
from lego_mlir.f2.boxed import is_inside
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import trans
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.own_numbers import OwnNumbers
from lego_mlir.tracing.schedules.replay import variable_of
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, shared_in, words_in
from lego_mlir.tracing.spread.copied_stores import buffers, copy_out_parts, line_of, shares
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.reshaping import rectangle
from lego_mlir.tracing.spread.strided_tiles import strides
from lego_mlir.tracing.trace.marks import ElementProgram, Rectangle, StoredTile, SumsStored
from lego_mlir.tracing.trace.trace import (
    Barrier,
    Compute,
    For,
    If,
    Load,
    Read,
    Register,
    Statement,
    While,
    Write,
    accesses_of,
    operands_of,
    statements_in,
)
from lego_mlir.tracing.words.control import Cell
from lego_mlir.tracing.words.functions import where
from lego_mlir.tracing.words.scalar import Scalar, as_value, vector
from lego_mlir.tracing.words.tensor import shared

FEWEST, MOST = 1, 8  # buffers


@dataclass(frozen=True, slots=True)
class CopiedOut:
    """Store results by tile copies through `buffers`, each of 64 lines of 128 bytes for a group of 4 warps.

    Raises ScheduleError, with the line, for a tile that is not one accumulator, and for rows of other multiples; with
    `optional` such a kernel stays as it is.
    """

    buffers: int = 2
    optional: bool = False

    def __post_init__(self) -> None:
        if type(self.buffers) is not int or not FEWEST <= self.buffers <= MOST:
            raise ScheduleError(f"copied_out: buffers={self.buffers!r} must be an int from {FEWEST} to {MOST}")

    def __str__(self) -> str:
        return f"copied_out(buffers={self.buffers}{', optional=True' * self.optional})"

    def __call__(self, kernel: Kernel) -> Kernel:
        found = Scheduled(kernel, _Copied(self.buffers), str(self))
        if self.optional:
            try:
                found.trace()
            except ScheduleError:
                return kernel
        return found


class _Copied(OwnNumbers):
    def __init__(self, count: int) -> None:
        self.count = count

    def run(self) -> None:
        self.words = {SumsStored: self._drop, StoredTile: self._store}
        self.sums = {m.target.buffer.name: m for _, m in words_in(self.trace.body, SumsStored)}
        self.depth = 0
        self.last: Statement | None = None
        stored = list(words_in(self.trace.body, StoredTile))
        if not stored:
            raise refused(
                self.trace.source,
                "no shared tile is stored as it is, or as a function of its elements (lego.store_tile); leave out "
                "copied_out",
            )
        for statement, mark in stored:
            self._require(statement, mark)
        self.names = frozenset(tile.buffer.name for _, m in stored for tile in m.tiles)
        self.shared(self.names)
        (_, mark), (tile, *_) = stored[0], stored[0][1].tiles
        columns, dtype, self.tracer.at = tile.shape[1], mark.tensor.dtype, tile.buffer.source
        rows = shares(self._layout(self.sums[tile.buffer.name]), line_of(dtype, columns)).buffer_rows
        self.through = shared(dtype, buffers(dtype, rows, self.count, columns), "copied_out")
        self.body(self.trace.body)

    def _require(self, statement: If, mark: StoredTile) -> None:
        for tile in mark.tiles:
            self._require_sums(statement, tile)
        layouts = {self.sums[tile.buffer.name].layout for tile in mark.tiles}
        if len(layouts) > 1:
            raise refused(statement.source, "the tiles of this store are not divided alike; give them equal warps")
        steps, size = strides(mark.layout), mark.tensor.dtype.bytes
        if steps is None or not all(
            s == 1 or isinstance(self.tracer.prove(Eq(FloorMod(s * size, CHUNK), 0)), Proved) for s in steps
        ):
            raise refused(
                statement.source,
                f"rows of {mark.tensor.name} are not proved to be multiples of {CHUNK} bytes, as tile copies need "
                f"them (strides {steps}); pad them, declare the size's divisor, or leave out copied_out",
            )
        for program in mark.programs or ():
            self._require_simple(program)
        sums = [self.sums[tile.buffer.name] for tile in mark.tiles]
        words = (*words_in(self.trace.body, SumsStored), *words_in(self.trace.body, StoredTile))
        inside = {id(s) for word, m in words if m in (*sums, mark) for s in statements_in((word,))}
        names = {tile.buffer.name for tile in mark.tiles}
        for s in self.trace.statements():
            if id(s) not in inside and not isinstance(s, If | For | While) and (used := names & shared_in(s)):
                raise refused(
                    s.source,
                    f"{', '.join(used)} is used by more than the store of the accumulator; leave out copied_out",
                )

    def _require_sums(self, statement: If, tile: Rectangle) -> None:
        name, sums = tile.buffer.name, self.sums.get(tile.buffer.name)
        if sums is None or sums.layout is None or sums.target.shape != tile.shape or any(sums.target.at):
            raise refused(
                statement.source,
                f"{name} is not filled by one accumulator of the block; apply warpgroups before copied_out",
            )
        if any(across for _, across in sums.layout.bases["warp"]):
            raise refused(
                statement.source,
                f"warps divide the columns of {name}, and copied_out stores whole lines; give each group of warps "
                "whole rows, or leave out copied_out",
            )

    def _require_simple(self, program: ElementProgram) -> None:
        """A function of elements without branches, loops and stores, which reads what the kernel does not write."""
        written = {a.buffer.name for s in self.trace.statements() if not isinstance(s, Load) for a in accesses_of(s)}
        if unordered := _depends_on_order(program):
            raise refused(
                unordered.source,
                "the function of this store sets a variable, and the order of the elements is open; let it become the "
                "lego.minimum or lego.maximum of itself and a value, and use it after the store",
            )
        for s in program.body:
            if isinstance(s, If | For | While):
                raise refused(s.source, "the function of this store branches; use lego.where")
            if not isinstance(s, Load) and accesses_of(s):
                raise refused(s.source, "the function of this store stores; store in a loop of its own")
            if read := next((a for a in accesses_of(s) if a.buffer.name in written), None):
                raise refused(
                    s.source,
                    f"the function of this store reads {read.buffer.name}, which the kernel writes; leave out "
                    "copied_out",
                )

    def statement(self, statement: Statement) -> None:
        """The barrier between the two sides of a tile goes with the tile."""
        before, self.last = self.last, statement
        if (
            isinstance(statement, Barrier)
            and isinstance(before, If)
            and isinstance(before.mark, SumsStored)
            and before.mark.target.buffer.name in self.names
        ):
            return
        super().statement(statement)

    def loop(self, loop: For) -> None:
        """A loop: what is copied out in it goes through the buffers again."""
        self.depth += 1
        super().loop(loop)
        self.depth -= 1

    def _drop(self, statement: If, mark: SumsStored) -> None:
        if mark.target.buffer.name not in self.names:
            self.branch(statement)

    def _layout(self, sums: SumsStored) -> LinearLayout:
        """The layout of an accumulator as the tile has it."""
        layout: LinearLayout = sums.layout
        return trans(layout, (1, 0)) if sums.transposed else layout

    def _store(self, statement: If, mark: StoredTile) -> None:
        sums = [self.sums[tile.buffer.name] for tile in mark.tiles]
        found = [variable_of(one.layout, one.sums).get() for one in sums]
        found = [value.T if one.transposed else value for one, value in zip(sums, found, strict=True)]

        program = self._program(statement, mark, found[0].layout)

        def part_at(layout: LinearLayout, first: tuple[int, int]) -> Spread:
            parts = [
                rectangle(value, layout, first).to(tile.buffer.dtype)
                for value, tile in zip(found, mark.tiles, strict=True)
            ]
            return parts[0] if program is None else self._computed(mark, program, parts, first)

        at = tuple(map(Index, mark.at))
        copy_out_parts(found[0].layout, part_at, self.view(mark), at, self.through, again=self.depth > 0)

    def _program(self, statement: If, mark: StoredTile, layout: LinearLayout) -> ElementProgram | None:
        """The program for pairs of a row, where the layout has them next to each other, or for single elements."""
        if mark.programs is None:
            return None
        widths = (2, 1) if layout.bases["register"][0] == (0, 1) else (1,)
        found = next((p for p in mark.programs if p.width in widths), None)
        if found is None:
            raise refused(
                statement.source,
                f"the function of this store takes no {'pair' if 2 in widths else 'single element'} of a row, as the "
                "accumulator's registers have them; compute with x itself, without its width, or leave out copied_out",
            )
        return found

    def _computed(
        self, mark: StoredTile, program: ElementProgram, parts: list[Spread], first: tuple[int, int]
    ) -> Spread:
        """A part of the result: the function of its elements, a vector of a row at a time."""
        layout, elements = parts[0].layout, [part.registers for part in parts]
        width, dims = program.width, [as_expr(n) for n in mark.layout.dims()]
        indices = [parts[0].index(axis).registers for axis in range(2)]
        ends = [Le(at + n, end) for at, n, end in zip(mark.at, mark.tiles[0].shape, dims, strict=True)]
        is_whole = all(isinstance(self.tracer.prove(end), Proved) for end in ends)
        registers: list[Operand] = [None] * len(elements[0])
        for r in (r for r in range(0, len(registers), width) if is_inside(layout, r)):
            place = [as_expr(Index(at) + n + index[r]) for at, n, index in zip(mark.at, first, indices, strict=True)]
            inside = [] if is_whole else [Lt(i, n) for i, n in zip(place, dims, strict=True)]
            given = [of_tile[r] if width == 1 else vector(*of_tile[r : r + width]) for of_tile in elements]
            with self.tracer.supposed(*inside):
                result = self._run(program, given, place, sympy.And(*inside))
            registers[r : r + width] = [result] if width == 1 else list(result)
        return Spread(layout, mark.tensor.dtype, registers)

    def _run(self, program: ElementProgram, given: list[Scalar], place: list[Expr], inside: Cond) -> Scalar:
        """The program's statements for some elements; outside of the tensor nothing is loaded and no variable set."""
        self.begin()
        self.moved = {s.register: s.register for s in program.body if isinstance(s, Write)}
        self.renamed = {old.number: new.entry for old, new in zip(program.given, given, strict=True)}
        self.replaced = {program.row: place[0], program.column: place[1]}
        for statement in program.body:
            own = self.own_statement(statement)
            if isinstance(own, Load) and inside != True:  # noqa: E712  SymPy's true is not Python's
                other = as_value(0, own.result.dtype, own.result.width) if own.other is None else own.other
                own = replace(own, access=replace(own.access, mask=sympy.And(own.access.mask, inside)), other=other)
            if isinstance(own, Write) and inside != True:  # noqa: E712
                before = Cell(own.register).get()
                own = replace(own, value=as_value(where(Condition(inside), Scalar(own.value), before), own.value.dtype))
            self.tracer.append(own)
        return Scalar(self.own_value(program.result))


def _depends_on_order(program: ElementProgram) -> Statement | None:
    """A statement by which the order of the elements matters: of variables that are not a least or largest value."""
    kept = {s.register for s in program.body if isinstance(s, Write)}
    held: dict[int, Register] = {}  # the values that come from a variable
    for s in program.body:
        used = {held[v.number] for v in operands_of(s) if v.number in held}
        if isinstance(s, Read) and s.register in kept:
            held[s.result.number] = s.register
        elif isinstance(s, Compute) and s.operation in ("minimum", "maximum") and len(used) == 1:
            held[s.result.number] = used.pop()
        elif isinstance(s, Write):
            if held.get(s.value.number) != s.register:
                return s
        elif used:
            return s
    return program.body[-1] if program.result.number in held else None
