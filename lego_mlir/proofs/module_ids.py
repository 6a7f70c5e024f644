"""Read constants, ids, extents and selections of a module's kernel."""

from __future__ import annotations

from typing import Final

import sympy

from lego_mlir.aliases import Expr, Op
from lego_mlir.expr.nodes import FloorDiv, FloorMod
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.program import Operation
from lego_mlir.proofs.module_kernel import AXES, ModuleKernel, reads
from lego_mlir.proofs.module_values import select_of

FOUND: Final = {"gpu.thread_id": "thread_id", "gpu.block_id": "block_id"}


@reads("arith.constant", "index.constant", "index.bool.constant")
def _constant(kernel: ModuleKernel, op: Op) -> None:
    text = str(op.results[0].type)
    attribute = op.attributes["value"]
    if text == "i1":
        holds = sympy.true if str(attribute).startswith(("true", "1", "-1")) else sympy.false
        kernel.conditions[op.results[0]] = holds
    elif text == "index" or (text.startswith("i") and text[1:].isdigit()):
        kernel.values[op.results[0]] = sympy.Integer(int(attribute.value))


@reads("gpu.thread_id", "gpu.block_id")
def _hardware_id(kernel: ModuleKernel, op: Op) -> None:
    axis = Operation(kernel.compiler, op).keyword("dimension")
    kind = FOUND[op.name]
    symbol = next((s for s, found in kernel.ids.items() if found == (kind, axis)), sympy.Integer(0))
    kernel.values[op.results[0]] = symbol


@reads("gpu.lane_id", "gpu.subgroup_id")
def _place_in_block(kernel: ModuleKernel, op: Op) -> None:
    """`gpu.lane_id` and `gpu.subgroup_id`."""
    found = {axis: s for s, (kind, axis) in kernel.ids.items() if kind == "thread_id"}
    linear: Expr = sympy.Integer(0)
    for axis, extent in zip("zyx", reversed([*kernel.block, 1, 1][:3]), strict=True):
        linear = linear * extent + found.get(axis, 0)
    kernel.values[op.results[0]] = (FloorMod if op.name == "gpu.lane_id" else FloorDiv)(linear, WARP)


@reads("gpu.block_dim", "gpu.grid_dim")
def _extent(kernel: ModuleKernel, op: Op) -> None:
    axis = AXES.index(Operation(kernel.compiler, op).keyword("dimension"))
    extents = kernel.block if op.name == "gpu.block_dim" else kernel.grid
    value = kernel.size(f"grid size {AXES[axis]}") if extents is None else sympy.Integer([*extents, 1, 1][axis])
    kernel.values[op.results[0]] = value


@reads("arith.select")
def _select(kernel: ModuleKernel, op: Op) -> None:
    condition, one, other = op.operands
    found = select_of(kernel.conditions.get(condition), kernel.value(one), kernel.value(other))
    text = str(op.results[0].type)
    if found is not None:
        kernel.values[op.results[0]] = found
    elif text == "index" or (text.startswith("i") and text[1:].isdigit()):
        kernel.unknown(op, op.results[0])
