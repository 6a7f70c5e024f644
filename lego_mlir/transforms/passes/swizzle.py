"""Place the segments of a shared tile: the same map is applied to the addresses of its copies and of its reads.

A tile of 16-bit numbers is copied and read in segments of 8 consecutive elements, 16 bytes. Eight reads down a column
of segments hit the same banks if a line of the tile is a multiple of 128 bytes long. The attribute `lego.order` of a
tile gives the position of an element instead, by two expressions over its line and its place in the line:

    lego.order = "line, place ^ ((line & 7) * 8)"

The map is applied to the index of every access, so it does not affect values. A tile without the attribute gets the
following order, if its lines are a power of two of segments long: within each 128 bytes, segment r of line l is
exchanged with segment r ^ (l mod 8).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings, syntax_tree
from lego_mlir.aliases import Module, Op, Value
from lego_mlir.hardware.memory import BANK_ROW_BYTES, WIDEST_ACCESS
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.allocate_shared import ORDER
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.operations import is_shared

SEGMENT: Final = 8  # elements
BANKED: Final = BANK_ROW_BYTES // WIDEST_ACCESS  # segments in a row of all banks
_OPERATIONS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "arith.addi", ast.Sub: "arith.subi", ast.Mult: "arith.muli", ast.FloorDiv: "arith.divui",
    ast.Mod: "arith.remui", ast.BitXor: "arith.xori", ast.BitAnd: "arith.andi", ast.BitOr: "arith.ori",
    ast.LShift: "arith.shli", ast.RShift: "arith.shrui",
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


def _apply(tile: Op, order: str) -> None:
    """Apply an order to every access to a tile; the tile's last two dimensions are line and place."""
    ir = bindings.load().ir
    rank = ir.MemRefType(tile.type).rank
    parts = _parse(order)
    for use in list(tile.uses):
        operation, at = use.owner.operation, use.operand_number + rank - 1
        line, place = operation.operands[at], operation.operands[at + 1]
        with operation.location, ir.InsertionPoint(operation):
            moved = [_emit(part, {"line": line, "place": place}) for part in parts]
        operation.operands[at], operation.operands[at + 1] = moved


def _parse(order: str) -> list[ast.expr]:
    """The two expressions of an order. Raises PassError for any other text."""
    try:
        tree = syntax_tree.parse(order, mode="eval").body
    except SyntaxError as error:
        raise PassError(f"lego-swizzle: {ORDER} = {order!r} is not an expression ({error.msg})") from error
    if not isinstance(tree, ast.Tuple) or len(tree.elts) != 2:
        raise PassError(
            f"lego-swizzle: {ORDER} names line and place, as in 'line, place ^ line % 8 * 8', got {order!r}"
        )
    return tree.elts


def _emit(node: ast.expr, names: dict[str, Value]) -> Value:
    """The value of an expression at the insertion point."""
    ir = bindings.load().ir
    match node:
        case ast.Name(name) if name in names:
            return names[name]
        case ast.Constant(int(number)):
            value = ir.IntegerAttr.get(ir.IndexType.get(), number)
            return ir.Operation.create("arith.constant", [ir.IndexType.get()], attributes={"value": value}).results[0]
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATIONS:
            operands = [_emit(left, names), _emit(right, names)]
            return ir.Operation.create(_OPERATIONS[type(operator)], [ir.IndexType.get()], operands).results[0]
    raise PassError(
        f"lego-swizzle: {ORDER} is made of line, place, integers and + - * // % ^ & | << >>, got {ast.unparse(node)!r}"
    )
