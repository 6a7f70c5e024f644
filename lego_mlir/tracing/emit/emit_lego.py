"""A traced kernel as a module of the lego dialect: each access names its layout instead of expanding it.

    %p = lego.apply #lego.layout<Row(1024, 2048) tile_by([32, 64], [32, 32])>(%by, %bx, %ty, %tx)
    %x = memref.load %src[%p] : memref<2097152xf32>

Statements other than accesses are emitted as usual. An access keeps its expanded arithmetic where its layout has no
text (docs/reference/dialect.md), where its index may be out of range (`halo`), and where a shared tile is a matrix in
memory, as tensor-core reads need it. A `GenP` made of functions becomes a `lego.genp` of the GPU module, whose regions
hold its two simplified expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import Expr, Region, Symbol, Value
from lego_mlir.errors import LegoError
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.nodes import tables_of
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify, simplify_all
from lego_mlir.layout.base import Layout
from lego_mlir.layout.notation import functions_of, sizes_in_order, to_attribute
from lego_mlir.layout.permutations import GenP
from lego_mlir.layout.values import end_of
from lego_mlir.printers.mlir import MlirPrinter
from lego_mlir.tracing.emit.emit_tiles import TileEmitter
from lego_mlir.transforms.modules import string_attribute

if TYPE_CHECKING:
    from lego_mlir.expr.ranges import Ranges
    from lego_mlir.tracing.trace.trace import TensorAccess

_DYNAMIC = -(2**63)


class LegoTileEmitter(TileEmitter):
    """Emits positions as `lego.apply`."""

    def __init__(self, printer: MlirPrinter, strides: dict[str, int], ranges: Ranges) -> None:
        super().__init__(printer, strides, ranges)
        self._texts: dict[Layout, tuple[str, Sequence[Symbol]] | None] = {}

    def indices(self, access: TensorAccess) -> list[Value]:
        """The position of an access."""
        layout = access.layout
        if access.buffer.name not in self.strides and _is_plain(access):
            if layout not in self._texts:
                self._texts[layout] = self._text(layout)
            text = self._texts[layout]
            if text is not None:
                return [self._apply(text, access.index)]
        return super().indices(access)

    def _apply(self, text: tuple[str, Sequence[Symbol]], index: Sequence[Expr]) -> Value:
        layout, sizes = text
        build = self.printer.build
        operands = [self.printer.value(i, "index") for i in (*index, *sizes)]
        attributes = {"layout": layout, "operandSegmentSizes": f"array<i32: {len(index)}, {len(sizes)}>"}
        return self.printer.remember(
            (layout, *index), "position", lambda _: build.value("lego.apply", operands, "index", attributes)
        )

    def _text(self, layout: Layout) -> tuple[str, Sequence[Symbol]] | None:
        """The text of a layout and its sizes; None for a layout that is expanded."""
        sizes = sizes_in_order(layout)
        try:
            for size in sizes:
                self.printer.value(size, "index")
            functions = list(dict.fromkeys(functions_of(layout)))
            if not all(map(_has_regions, functions)):
                return None
            text = to_attribute(layout, {perm: f"perm{k}" for k, perm in enumerate(functions)})
        except LegoError:  # no text for this layout, or no value for one of its sizes
            return None
        if functions:
            text = to_attribute(layout, {perm: self._define(perm) for perm in functions})
        return text, sizes

    def _define(self, perm: GenP) -> str:
        """The symbol of a permutation, defined in the GPU module."""
        return self.printer.remember(perm, "lego.genp", self._defined)

    def _defined(self, perm: GenP) -> str:
        ir, build = self.printer.build.ir, self.printer.build
        function = ir.InsertionPoint.current.block.owner
        while function.operation.parent.operation.name != "gpu.module":
            function = function.operation.parent
        body = function.operation.parent.operation.regions[0].blocks[0]
        stem = string_attribute(function.operation, "sym_name")
        taken = {str(op.attributes["sym_name"]) for op in body.operations if "sym_name" in op.attributes}
        name = next(n for k in range(len(taken) + 1) if f'"{(n := f"{stem}_perm{k}")}"' not in taken)
        dims = perm.dims()
        sizes = ", ".join(str(n if isinstance(n, int) else _DYNAMIC) for n in dims)
        with ir.InsertionPoint.at_block_begin(body):
            made = build.operation(
                "lego.genp", (), (), {"sizes": f"array<i64: {sizes}>", "sym_name": f'"{name}"'}, regions=2
            )
        index = [index_symbol(f"i{axis}") for axis in range(len(dims))]
        position = index_symbol("p")
        forward = simplify(Index(perm.apply(*index)).expr, perm.ranges(*index)).expr
        over = {position.expr: Range(0, end_of(perm.numel()))}
        backward = [each.expr for each in simplify_all([Index(i).expr for i in perm.inv(position)], over)]
        extra = [n for n in dims if not isinstance(n, int)]
        self._region(made.regions[0], [*index, *extra], [forward], perm.ranges(*index))
        self._region(made.regions[1], [position, *extra], backward, over)
        return name

    def _region(self, region: Region, arguments: Sequence[Index], results: Sequence[Expr], ranges: Ranges) -> None:
        ir = self.printer.build.ir
        kinds = [ir.IndexType.get()] * len(arguments)
        block = region.blocks.append(*kinds, arg_locs=[ir.Location.unknown()] * len(kinds))
        with ir.InsertionPoint(block), ir.Location.unknown():
            printer = MlirPrinter(dict(zip(arguments, block.arguments, strict=True)), ranges, form="arith")
            values = [printer.value(result, "index") for result in results]
            printer.build.operation("lego.yield", values)


def _is_plain(access: TensorAccess) -> bool:
    """Whether the position of an access is that of its index in its layout."""
    try:
        return bool(access.derivation.raw == as_expr(access.layout.apply(*map(Index, access.index))))
    except LegoError:  # an index that is out of range where a boundary permits it
        return False


def _has_regions(perm: GenP) -> bool:
    """Whether the functions of a permutation are arithmetic on its index and its sizes."""
    index, position = [index_symbol(f"i{axis}") for axis in range(len(perm.dims()))], index_symbol("p")
    results = [as_expr(perm.apply(*index)), *map(as_expr, perm.inv(position))]
    known = {as_expr(s) for s in (*index, position, *perm.dims())}
    return not list(tables_of(*results)) and all(expr.free_symbols <= known for expr in results)
