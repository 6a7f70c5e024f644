"""Place the segments of a shared tile: the same map is applied to the addresses of its copies and of its reads.

A tile of 16-bit numbers is copied and read in segments of 8 consecutive elements, 16 bytes. Eight reads down a column
of segments hit the same banks if a line of the tile is a multiple of 128 bytes long. The attribute `lego.order` of a
tile gives the position of an element instead, by two expressions (`expr.text`) over its line and its place in the line:

    lego.order = "line, place ^ ((line & 7) * 8)"

The map is applied to the index of every access, so it does not affect values. A tile without the attribute gets the
following order, if its lines are a power of two of segments long: within each 128 bytes, segment r of line l is
exchanged with segment r ^ (l mod 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Value
from lego_mlir.errors import ExpressionError
from lego_mlir.expr.text import ARITHMETIC, IndexText, parse
from lego_mlir.hardware.memory import BANK_ROW_BYTES, WIDEST_ACCESS
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.allocate_shared import ORDER
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.operations import is_shared

SEGMENT: Final = 8  # elements
BANKED: Final = BANK_ROW_BYTES // WIDEST_ACCESS  # segments in a row of all banks
_OPERATIONS: Final = {
    "+": "arith.addi", "-": "arith.subi", "*": "arith.muli", "//": "arith.divui", "%": "arith.remui",
    "^": "arith.xori", "&": "arith.andi", "|": "arith.ori", "<<": "arith.shli", ">>": "arith.shrui",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Swizzle(Pass):
    """Raises PassError where no tile can be reordered."""

    name = "lego-swizzle"

    def run(self, module: Module, target: Target) -> None:
        found = False
        for function in kernels(module):
            for operation in list(walk(function)):
                if operation.name != "memref.alloc" or not is_shared(operation.results[0].type):
                    continue
                order = _order(operation)
                if order is not None:
                    _apply(operation.results[0], order)
                    found = True
        if not found:
            sought = "memref.alloc of shared tiles of 16-bit numbers in lines of 16, 32, 64, .."
            refusal = self.no_match(sought, module)
            raise PassError(
                f"{refusal}; padded tiles need no swizzle: use the script's other parts without swizzle.mlir"
            )


def _order(tile: Op) -> str | None:
    """The order of a tile: its attribute, which is removed, or the default where that helps."""
    ir = bindings.load().ir
    if ORDER in tile.attributes:
        order = str(ir.StringAttr(tile.attributes[ORDER]).value)
        del tile.attributes[ORDER]
        return order
    memref = ir.MemRefType(tile.results[0].type)
    segments, rest = divmod(memref.shape[-1], SEGMENT)
    if rest or segments & (segments - 1) or str(memref.element_type) not in ("f16", "bf16"):
        return None
    lines, exchanged = max(1, BANKED // segments), min(BANKED, segments)  # lines and segments in 128 bytes
    return f"line, place ^ line // {lines} % {exchanged} * {SEGMENT}" if exchanged > 1 else None


def _apply(tile: Value, order: str) -> None:
    """Apply an order to every access to a tile; the tile's last two dimensions are line and place."""
    ir = bindings.load().ir
    rank = ir.MemRefType(tile.type).rank
    parsed = _parse(order)
    emit = {symbol: partial(_emit, name) for symbol, name in _OPERATIONS.items()}
    for use in list(tile.uses):
        operation, at = use.owner.operation, use.operand_number + rank - 1
        line, place = operation.operands[at], operation.operands[at + 1]
        with operation.location, ir.InsertionPoint(operation):
            moved = parsed.fold({"line": line, "place": place}, _constant, emit)
        operation.operands[at], operation.operands[at + 1] = moved


def _parse(order: str) -> IndexText:
    """The two expressions of an order. Raises PassError for any other text."""
    try:
        parsed = parse(order, ("line", "place"), ARITHMETIC)
    except ExpressionError as error:
        raise PassError(f"lego-swizzle: {ORDER} = {order!r}: {error}") from None
    if len(parsed.parts) != 2:
        raise PassError(
            f"lego-swizzle: {ORDER} names line and place, as in 'line, place ^ line % 8 * 8', got {order!r}"
        )
    return parsed


def _constant(number: int) -> Value:
    ir = bindings.load().ir
    value = ir.IntegerAttr.get(ir.IndexType.get(), number)
    return ir.Operation.create("arith.constant", [ir.IndexType.get()], attributes={"value": value}).results[0]


def _emit(name: str, *operands: Value) -> Value:
    """An operation of the arith dialect on index values, at the insertion point."""
    ir = bindings.load().ir
    return ir.Operation.create(name, [ir.IndexType.get()], list(operands)).results[0]
