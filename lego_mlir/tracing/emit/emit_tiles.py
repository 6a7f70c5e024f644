"""Tiles as MLIR: a warp's reads, writes and contractions, in the vector dialect.

    TileLoad    vector.transfer_read of a rectangle, transposed by its permutation map
    Contract    vector.contract (m, k) x (n, k) -> (m, n)
    Piece       vector.extract_strided_slice
    TileStore   vector.transfer_write

Each thread of a warp runs them for the whole tile, so the module is executable as emitted; a transform script
distributes a tile over the lanes. Shared memory that tiles are read from is two-dimensional: memory rows of one length.

A tile with another layout than lines of one length is emitted with straight lines in every access: the positions inside
a tile are not observable outside. Its order is the attribute `lego.order`, which a transform script applies to the
addresses once the tile is distributed (`lego-swizzle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lego_mlir.errors import ExpressionError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import FloorDiv, FloorMod
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.text import ARITHMETIC, parse
from lego_mlir.printers.mlir import MlirPrinter
from lego_mlir.tracing.trace.shared_lines import LINE, PLACE, Lines, lines_of
from lego_mlir.tracing.trace.trace import Buffer, Contract, Piece, TensorAccess, TileLoad, TileStore, Value

_ROWS = "affine_map<(d0, d1) -> (d0, d1)>"
_COLUMNS = "affine_map<(d0, d1) -> (d1, d0)>"
_CONTRACT = {
    "indexing_maps": "[affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, "
    "affine_map<(d0, d1, d2) -> (d0, d1)>]",
    "iterator_types": '[#vector.iterator_type<"parallel">, #vector.iterator_type<"parallel">, '
    '#vector.iterator_type<"reduction">]',
    "kind": "#vector.kind<add>",
}


class TileEmitter:
    """Emits tile statements at the current insertion point; `strides` are `KernelTrace.tile_rows()`."""

    def __init__(self, printer: MlirPrinter, strides: dict[str, int], ranges: Any) -> None:
        self.printer, self.strides, self.ranges = printer, strides, ranges

    def indices(self, access: TensorAccess) -> list[Any]:
        """The index of an access: its position, or its memory row and column."""
        stride = self.strides.get(access.buffer.name)
        if stride is None:
            return [self.printer.value(access.position, "index")]
        lines = lines_of(access.buffer.layout)
        if lines is not None and lines.order is not None:
            return self._at(_line(access, lines))
        known = {s: self.ranges[s] for s in access.position.free_symbols if s in self.ranges}
        split = (FloorDiv(access.position, stride), FloorMod(access.position, stride))
        return [self.printer.value(simplify(part, known).expr, "index") for part in split]

    def load(self, load: TileLoad, memref: Any) -> Any:
        """`vector.transfer_read`, in bounds."""
        operands = (memref, *self._at(load.at), self._padding(load.result))
        return self.printer.build.value(
            "vector.transfer_read",
            operands,
            load.result.mlir,
            {
                "in_bounds": "[true, true]",
                "operandSegmentSizes": "array<i32: 1, 2, 1, 0>",
                "permutation_map": _COLUMNS if load.transposed else _ROWS,
            },
        )

    def store(self, store: TileStore, value: Any, memref: Any) -> None:
        """`vector.transfer_write`, in bounds."""
        self.printer.build.operation(
            "vector.transfer_write",
            (value, memref, *self._at(store.at)),
            (),
            {"in_bounds": "[true, true]", "operandSegmentSizes": "array<i32: 1, 1, 2, 0>", "permutation_map": _ROWS},
        )

    def piece(self, piece: Piece, operand: Any) -> Any:
        """`vector.extract_strided_slice` of whole rows."""
        assert isinstance(piece.result.width, tuple)
        rows, columns = piece.result.width
        return self.printer.build.value(
            "vector.extract_strided_slice",
            (operand,),
            piece.result.mlir,
            {"offsets": f"[{piece.first}, 0]", "sizes": f"[{rows}, {columns}]", "strides": "[1, 1]"},
        )

    def contract(self, contract: Contract, a: Any, b: Any, c: Any) -> Any:
        """`vector.contract` of an (m, k) and an (n, k) tile."""
        return self.printer.build.value("vector.contract", (a, b, c), contract.result.mlir, _CONTRACT)

    def _at(self, at: Sequence[Any]) -> list[Any]:
        return [self.printer.value(part, "index") for part in at]

    def _padding(self, like: Value) -> Any:
        kind, zero = like.dtype.mlir, "0.0" if like.dtype.is_float else "0"
        return self.printer.remember(
            "tile padding",
            kind,
            lambda _: self.printer.build.value("arith.constant", (), kind, {"value": f"{zero} : {kind}"}),
        )


def order_of(buffer: Buffer) -> str | None:
    """The attribute `lego.order` of a tile, "line, place ^ (line & 7) << 3"; None for straight lines.

    Also None for an order that the attribute cannot express, one with a call: any order gives the same values, and
    `lego-swizzle` then chooses one.
    """
    lines = lines_of(buffer.layout)
    if lines is None or lines.order is None:
        return None
    from lego_mlir.printers.triton import TritonPrinter  # the attribute is a Python expression

    count, length = lines.index(*buffer.layout.dims())
    printer = TritonPrinter({LINE: Range(0, count), PLACE: Range(0, length)})
    order = ", ".join(printer.expression(part) for part in lines.order)
    try:
        parse(order, operators=ARITHMETIC)
    except ExpressionError:
        return None
    return order


def _line(access: TensorAccess, lines: Lines) -> tuple[Any, Any]:
    """The line of an access, and the place in it, through any view of the tile."""
    from lego_mlir.layout.transposed import Transposed

    base, layout, index = access.buffer.layout, access.layout, access.index
    while isinstance(layout, Transposed):
        layout, index = layout.inner, index[::-1]
    line, place = lines.index(*(index if layout == base else base.inv(Index(access.position))))
    return as_expr(line), as_expr(place)
