"""Constant tables: a permutation given as data becomes a `memref.global` of the module that uses it.

The entries are stored in the smallest unsigned width that holds them. A table used twice in a module is emitted once;
two tables with the same name and different entries get different symbols.
"""

from __future__ import annotations

from typing import Any

import numpy

from lego_mlir.aliases import Attribute, Op, Value
from lego_mlir.errors import PrintError, brief
from lego_mlir.expr.nodes import Table
from lego_mlir.printers.builder import Builder

WIDTHS = (8, 16, 32, 64)


def constant_table(build: Builder, table: Table) -> Value:
    """The memref of a `Table` node with entries, loaded at the current insertion point."""
    ir = build.ir
    if min(table.entries) < 0 or max(table.entries) >= 2**63:
        raise PrintError(
            f"mlir: the entries of the table '{table.name}' must lie in 0..2^63-1, got {brief(table.entries)}"
        )
    width = next(w for w in WIDTHS if max(table.entries) < 2**w)
    kind = f"memref<{len(table.entries)}xi{width}>"
    entries = numpy.array(table.entries, dtype=f"uint{width}")
    data = ir.DenseElementsAttr.get(entries, type=build.type(f"i{width}"))
    name = _declare(build, symbol_table_owner(ir), table.name, kind, data)
    return build.value("memref.get_global", (), kind, {"name": f"@{name}"})


def symbol_table_owner(ir: Any) -> Op:
    """The innermost symbol table operation around the insertion point."""
    operation = ir.InsertionPoint.current.block.owner
    while operation is not None:
        if operation.operation.name in ("builtin.module", "gpu.module"):
            return operation.operation
        operation = operation.operation.parent
    raise PrintError("mlir: a constant table needs a builtin.module or gpu.module around the insertion point")


def _declare(build: Builder, owner: Op, wish: str, kind: str, data: Attribute) -> str:
    """The symbol of a global with this type and these entries, created if the module has none yet."""
    block = owner.regions[0].blocks[0]
    ir = build.ir
    taken: dict[str, Any] = {
        ir.StringAttr(op.attributes["sym_name"]).value: op for op in block.operations if "sym_name" in op.attributes
    }
    name, count = wish, 0
    while name in taken:
        op = taken[name].operation
        if op.name == "memref.global" and op.attributes["initial_value"] == data:
            return name
        count += 1
        name = f"{wish}_{count}"
    with ir.InsertionPoint.at_block_begin(block):
        build.operation(
            "memref.global",
            attributes={
                "sym_name": f'"{name}"',
                "sym_visibility": '"private"',
                "type": kind,
                "initial_value": data,
                "constant": "unit",
                "alignment": "16 : i64",
            },
        )
    return name
