"""Where the runs of a shared tile lie: at the addresses of its copies and its reads.

A tile of 16-bit numbers is copied and read in runs of 8 neighbours, 16 bytes. Eight reads that follow one another down
a tile fall into the same banks where its lines are 128 bytes long, or a multiple. The attribute `lego.order` of a tile
says where a run lies instead, by two expressions over the number of a line and the place in it:

    lego.order = "line, place ^ ((line & 7) * 8)"

The index of every access goes through them, which no value can tell: an order moves the cells of a tile, and everybody
asks the new place. A tile without the attribute gets the order that is written here, where its lines are a power of
two of runs: within each 128 bytes, run r of line l changes places with run r ^ (l mod 8).
"""

from __future__ import annotations

import ast
from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.context import Context, PassError, nothing
from lego_mlir.transforms.passes.operations import is_shared
from lego_mlir.transforms.passes.shared_alloc import ORDER

RUN: Final = 8  # elements
BANKED: Final = 8  # runs in 128 bytes, which is a row of all banks
_OPERATIONS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "arith.addi", ast.Sub: "arith.subi", ast.Mult: "arith.muli", ast.FloorDiv: "arith.divui",
    ast.Mod: "arith.remui", ast.BitXor: "arith.xori", ast.BitAnd: "arith.andi", ast.BitOr: "arith.ori",
    ast.LShift: "arith.shli", ast.RShift: "arith.shrui",
}  # fmt: skip


def run(module: Any, context: Context) -> None:
    """The pass. Raises PassError where no tile is left to be ordered."""
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
        refusal = nothing("lego-swizzle", sought, module)
        raise PassError(f"{refusal}; padded tiles need no swizzle: use the script's other parts without swizzle.mlir")


def _order(tile: Any) -> str | None:
    """The order of a tile: its own, which is taken off it, or ours where that helps."""
    ir = bindings.load().ir
    if ORDER in tile.attributes:
        order = str(ir.StringAttr(tile.attributes[ORDER]).value)
        del tile.attributes[ORDER]
        return order
    memref = ir.MemRefType(tile.results[0].type)
    runs, rest = divmod(memref.shape[-1], RUN)
    if rest or runs & (runs - 1) or str(memref.element_type) not in ("f16", "bf16"):
        return None
    lines, turned = max(1, BANKED // runs), min(BANKED, runs)  # lines in 128 bytes, and runs that change places
    return f"line, place ^ line // {lines} % {turned} * {RUN}" if turned > 1 else None


def _apply(tile: Any, order: str) -> None:
    """Let every access to a tile go where its order says; the tile's last two dimensions are line and place."""
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
    """The two expressions of an order. Raises PassError where it is none."""
    try:
        tree = ast.parse(order, mode="eval").body
    except SyntaxError as error:
        raise PassError(f"lego-swizzle: {ORDER} = {order!r} is not an expression ({error.msg})") from error
    if not isinstance(tree, ast.Tuple) or len(tree.elts) != 2:
        raise PassError(
            f"lego-swizzle: {ORDER} names line and place, as in 'line, place ^ line % 8 * 8', got {order!r}"
        )
    return tree.elts


def _emit(node: ast.expr, names: dict[str, Any]) -> Any:
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
