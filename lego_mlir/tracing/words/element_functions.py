"""Functions of the elements of a tile on their way to a tensor: `lego.store_tile(tile, c, at, by=function)`.

    def add(sums, place):                                   # a vector of the tile's elements, and where they go
        return sums + place.by_column(bias).to(f32) + place.of(residual).to(f32)

A function is called for the vectors that a thread stores. It is also recorded as a program of its own, of one vector at
an index that symbols stand for: a schedule that keeps the elements in registers (`copied_out`) writes that program
again for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.errors import LegoError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import FloorMod
from lego_mlir.expr.ranges import Range
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.marks import ElementProgram
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.scalar import Scalar, as_value, convert
from lego_mlir.tracing.words.tensor import View

ElementFunction: TypeAlias = Callable[..., Operand]
"""`by(value, .., place)`: a vector of each tile, or a number where its width is 1, and their `VectorPlace`."""


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """The first index of a contiguous vector of a matrix, and its axis: 1 along a row, 0 down a column."""

    row: IndexLike
    column: IndexLike
    width: int
    axis: int = 1

    def by_column(self, numbers: Operand) -> Operand:
        """The vector's elements of a tensor with a number for each column of the matrix."""
        return numbers.load(self.column, width=self.width if self.axis == 1 else 1)

    def by_row(self, numbers: Operand) -> Operand:
        """The vector's elements of a tensor with a number for each row of the matrix."""
        return numbers.load(self.row, width=self.width if self.axis == 0 else 1)

    def of(self, matrix: Operand) -> Operand:
        """The vector's elements of another matrix of the same shape, contiguous along the same axis."""
        if self.axis == 1:
            return matrix.load(self.row, self.column, width=self.width)
        return matrix.T.load(self.column, self.row, width=self.width)


def elements(found: Operand, dtype: DType, width: int) -> Scalar:
    """What a function gave for a vector of this width, in this element type; a single number is all of its elements."""
    return Scalar(as_value(convert(found, dtype), dtype, width if width > 1 else None))


def programs(tracer: Tracer, by: ElementFunction, dtypes: Sequence[DType], target: View) -> tuple[ElementProgram, ...]:
    """The function recorded for two elements of a row, where all rows have whole pairs and it has them, and for one."""
    rows, columns = map(as_expr, target.dims())
    found = []
    for width in (2, 1):
        if width == 1 or tracer.simplified(FloorMod(columns, width)) == 0:
            row = tracer.parameter_symbol("row", Range(0, rows))
            column = tracer.parameter_symbol("column", Range(0, columns, width))
            try:
                with tracer.region() as body:
                    given = [tracer.value(dtype, width if width > 1 else None) for dtype in dtypes]
                    place = VectorPlace(Index(row), Index(column), width)
                    result = elements(by(*map(Scalar, given), place), target.dtype, width)
            except (LegoError, TypeError):  # it takes no such vector; if it takes none, its call says why
                continue
            found.append(ElementProgram(tuple(given), row, column, width, tuple(body), result.entry))
    return tuple(found)
