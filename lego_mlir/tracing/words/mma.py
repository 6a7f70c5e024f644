"""`lego.mma`: a warp multiplies tiles of shared memory into accumulators in registers.

    acc = lego.accumulator(f32, 64, 64)
    for k in lego.range(tiles):
        ...
        lego.mma(a.part((m, 0), (64, 32)), b.part((0, n), (32, 64)), acc)
    acc.store(out, (m, n))

A statement specifies the computation of a warp, not the instruction: tiles become `vector.contract` over rectangles of
`SHAPE`, which a transform script lowers to the target's matrix unit, and which are also executable as emitted.
Products of values spread over threads, `spread.multiplication`, need no script.

A tile that is read from must consist of contiguous segments of 8 elements of a row or of a column, which matrix units
load. Where adjacent rows conflict in banks, use padding, a swizzled layout or the swizzle script.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, overload

import sympy

from lego_mlir.errors import LayoutError, RefutedAccessError, brief
from lego_mlir.expr.index import PerElement, as_expr
from lego_mlir.expr.nodes import Le
from lego_mlir.expr.verdict import Refuted
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.marks import Rectangle, SumsStored, TileProduct, TileSums
from lego_mlir.tracing.trace.shared_lines import RUN, Lines, lines_of
from lego_mlir.tracing.trace.trace import Constant, Contract, Piece, Register, TileLoad, TileStore, Value, Write
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.trace.uncompared import Uncompared
from lego_mlir.tracing.words.control import Cell
from lego_mlir.tracing.words.scalar import Scalar, convert

if TYPE_CHECKING:
    from lego_mlir.tracing.spread.distributed import Spread
    from lego_mlir.tracing.words.tensor import View

SHAPE: Final = (16, 8, 16)
"""Rows, columns and depth of one contraction: the smallest tensor-core shape for 16-bit floats."""
SUMS: Final = {"f16": "f32", "bf16": "f32", "f32": "f32", "f8e4m3fn": "f32", "f8e5m2": "f32", "i8": "i32"}
"""The types that matrix units multiply, f32 as tf32, and the types of their sums."""
READ: Final = 16
"""Rows and columns of one read: the right operand of two contractions, of one where 8 columns are left."""


@dataclass(frozen=True, slots=True, eq=False)
class Part(Uncompared):
    """A rectangle of a shared tile, by its first index and its shape."""

    _instead = "compare elements of the tile, such as tile[i, j] == 0"

    view: View
    at: tuple[Any, Any]
    shape: tuple[int, int]

    @property
    def T(self) -> Part:
        """The same rectangle with rows and columns interchanged."""
        return Part(self.view.T, self.at[::-1], self.shape[::-1])

    def rectangle(self, tracer: Tracer) -> Rectangle:
        """This rectangle, as marks of the trace have it."""
        at = tuple(tracer.simplified(tracer.index(i)) for i in self.at)
        return Rectangle(self.view.buffer, self.view.layout, at, self.shape)

    def read(self, row: int, column: int, shape: tuple[int, int], *, transposed: bool = False) -> Value:
        """A piece of the part as a value of a warp, or its transpose."""
        tracer = current("a tile")
        lines = _lines(tracer, self.view)
        at = lines.index(self.at[0] + row, self.at[1] + column)
        result = tracer.value(self.view.dtype, (shape[1], shape[0]) if transposed else shape)
        place = (as_expr(at[0]), as_expr(at[1]))
        down_columns = lines.transposed != transposed
        tracer.append(TileLoad(result, self.view.buffer, place, lines.stride, down_columns, tracer.here()))
        return result


def part(view: View, at: Sequence[Any], shape: Sequence[int]) -> Part:
    """The rectangle of `shape` that begins at the index `at`. Raises LayoutError where it leaves the tile."""
    tracer = current(f"a part of {view.buffer.name}")
    if view.buffer.space != "workgroup" or len(view.dims()) != 2:
        raise tracer.error(
            f"a part is a rectangle of a two-dimensional tile in shared memory, got {view!r}; copy it there with "
            "lego.stage",
            LayoutError,
        )
    (first, second), (rows, columns) = at, shape
    for axis, (start, extent, n) in enumerate(zip(map(tracer.index, at), shape, view.dims(), strict=True)):
        inside = tracer.prove(sympy.And(Le(0, start), Le(start + extent, n)))
        if isinstance(inside, Refuted):
            values = ", ".join(f"{name} = {value}" for name, value in inside.counter_example.items())
            raise tracer.error(
                f"{view.buffer.name}: a part of {extent} from {start} leaves axis {axis} of {n} for {values}",
                RefutedAccessError,
            )
    return Part(view, (first, second), (rows, columns))


class Accumulator(Uncompared):
    """A rows x columns tile in the registers of a warp, in pieces of 16 x 8."""

    _instead = "store it, and compare elements of the shared tile"

    def __init__(self, dtype: DType, rows: int, columns: int, cells: dict[tuple[int, int], Cell]) -> None:
        self.dtype, self.rows, self.columns, self.cells = dtype, rows, columns, cells

    def __repr__(self) -> str:
        return f"<accumulator of {self.rows} x {self.columns} {self.dtype}>"

    def store(self, view: View, at: Sequence[Any]) -> None:
        """Write the tile, rounded to the view's type, into shared rows; its first element goes to the index `at`."""
        tracer = current("an accumulator")
        target = part(view, at, (self.rows, self.columns))
        lines = _lines(tracer, view)
        fits = view.dtype.is_float and self.dtype.is_float and view.dtype.bits <= self.dtype.bits
        if lines.transposed or lines.order is not None or not (fits or view.dtype == self.dtype):
            raise tracer.error(
                f"an accumulator of {self.dtype} is stored into shared rows of the same or a narrower float type, "
                f"got {view!r}",
                LayoutError,
            )
        with tracer.word(SumsStored(self.registers, target.rectangle(tracer))):
            self._stored(tracer, view, target, lines)

    @property
    def registers(self) -> tuple[Register, ...]:
        """The registers of the pieces."""
        return tuple(cell.register for cell in self.cells.values())

    def _stored(self, tracer: Tracer, view: View, target: Part, lines: Lines) -> None:
        for (row, column), cell in self.cells.items():
            place = (as_expr(target.at[0] + row), as_expr(target.at[1] + column))
            value = convert(cell, view.dtype) if view.dtype != self.dtype else cell
            tracer.append(TileStore(value.entry, view.buffer, place, lines.stride, tracer.here()))


def accumulator(dtype: DType, rows: int, columns: int) -> Accumulator:
    """Zeros to add products to: `rows` a multiple of 16, `columns` of 8."""
    tracer = current("lego.accumulator")
    if rows % SHAPE[0] or columns % SHAPE[1] or rows < 1 or columns < 1:
        raise tracer.error(
            f"lego.accumulator: rows must be a multiple of {SHAPE[0]} and columns of {SHAPE[1]}, got {rows} x {columns}"
        )
    cells: dict[tuple[int, int], Cell] = {}
    made = Accumulator(dtype, rows, columns, cells)
    with tracer.word(lambda: TileSums(made.registers, dtype, (rows, columns))):
        for row in range(0, rows, SHAPE[0]):
            for column in range(0, columns, SHAPE[1]):
                zero = tracer.value(dtype, SHAPE[:2])
                tracer.append(Constant(zero, 0.0 if dtype.is_float else 0, tracer.here()))
                place = tracer.register(dtype, SHAPE[:2])
                tracer.append(Write(place, zero, tracer.here()))
                cells[row, column] = Cell(place)
    return made


@overload
def mma(a: Part, b: Part, acc: Accumulator) -> None: ...


@overload
def mma(
    a: Spread | Part | View,
    b: Spread | Part | View,
    acc: Spread,
    *,
    warpgroups: bool = True,
    metadata: Spread | None = None,
) -> Spread: ...


def mma(
    a: Spread | Part | View,
    b: Spread | Part | View,
    acc: Accumulator | Spread,
    *,
    warpgroups: bool = True,
    metadata: Spread | None = None,
) -> Spread | None:
    """`acc += a @ b`, by a warp: a is (m, k), b is (k, n). Raises TraceError where the shapes do not fit.

    With a spread value as `acc` the result is `acc + a @ b` by all warps of the block, a spread value of the same
    layout, and a and b may be spread values as well: see `spread.multiplication`. With `warpgroups=False` the product
    is `mma.sync` on every target, and a warp needs no other: in a branch that some warps of the block take. With
    `metadata` a has two of each four neighbours along K, see `spread.two_of_four_products`.

    The contractions traverse the result in serpentine order, so that each shares an operand with the previous one; each
    depth step starts at the column where the previous step ended.
    """
    if isinstance(acc, PerElement):
        from lego_mlir.tracing.spread import multiplication

        return multiplication.mma(a, b, acc, warpgroups, metadata)
    tracer = current("lego.mma")
    if metadata is not None:
        raise tracer.error(
            "lego.mma with metadata adds to a spread value, such as lego.zeros(f32, parent.layout(shape))"
        )
    a, b, acc = _operands(tracer, a, b, acc)
    (m, k), (depth, n) = a.shape, b.shape
    if k != depth or (m, n) != (acc.rows, acc.columns) or m % READ or n % SHAPE[1] or k % READ:
        raise tracer.error(
            f"lego.mma: {m} x {k} times {depth} x {n} into {acc.rows} x {acc.columns}; the depths must agree, the "
            f"result must have the accumulator's sizes, and rows and depths are multiples of {READ}, columns of "
            f"{SHAPE[1]}"
        )
    if a.view.dtype != b.view.dtype or SUMS.get(a.view.dtype.name) != acc.dtype.name:
        raise tracer.error(
            "lego.mma multiplies f16, bf16, f32, f8e4m3fn or f8e5m2 into f32, and i8 into i32, both operands of one "
            f"type, got {a.view.dtype} with {b.view.dtype} into {acc.dtype}"
        )
    with tracer.word(TileProduct(a.rectangle(tracer), b.rectangle(tracer), acc.registers)):
        _multiplied(tracer, a, b, acc)
    return None


def _multiplied(tracer: Tracer, a: Part, b: Part, acc: Accumulator) -> None:
    (m, k), n = a.shape, b.shape[1]
    for step, depth in enumerate(range(0, k, READ)):
        left = {row: a.read(row, depth, (READ, READ)) for row in range(0, m, READ)}
        right = list(_columns(tracer, b, depth, n))
        for turn, (row, x) in enumerate(left.items()):
            for column, y in right if (step + turn) % 2 == 0 else reversed(right):
                cell = acc.cells[row, column]
                total = tracer.value(acc.dtype, SHAPE[:2])
                tracer.append(Contract(total, x, y, cell.entry, tracer.here()))
                cell.set(Scalar(total))


def _operands(tracer: Tracer, a: object, b: object, acc: object) -> tuple[Part, Part, Accumulator]:
    """The operands. Raises TraceError for other kinds."""
    if not isinstance(acc, Accumulator):
        raise tracer.error(
            "lego.mma adds into an accumulator, lego.accumulator(dtype, rows, columns), or to a spread value, got "
            f"{brief(repr(acc))}"
        )
    if not isinstance(a, Part) or not isinstance(b, Part):
        wrong = b if isinstance(a, Part) else a
        raise tracer.error(
            "lego.mma multiplies parts of shared tiles, such as tile.part((0, 0), (rows, columns)), got "
            f"{brief(repr(wrong))}"
        )
    return a, b, acc


def _columns(tracer: Tracer, b: Part, depth: int, n: int) -> Iterator[tuple[int, Value]]:
    """The right operand at one depth, as (n, k) pieces by their first column."""
    for column in range(0, n, READ):
        if n - column < READ:
            yield column, b.read(depth, column, (READ, n - column), transposed=True)
            return
        both = b.read(depth, column, (READ, READ), transposed=True)
        for half in range(0, READ, SHAPE[1]):
            piece = tracer.value(b.view.dtype, (SHAPE[1], SHAPE[2]))
            tracer.append(Piece(piece, both, half, tracer.here()))
            yield column + half, piece


def _lines(tracer: Tracer, view: View) -> Lines:
    lines = None if view.boundary is not None else lines_of(view.layout)
    if lines is None:
        raise tracer.error(
            f"{view.buffer.name}: tiles are read in contiguous segments of {RUN} elements of a row or of a column, "
            f"which {view.layout!r} does not keep together; use Row, Col, gallery.padded or "
            f"gallery.xor_swizzle(rows, columns, vec={RUN})",
            LayoutError,
        )
    return lines
