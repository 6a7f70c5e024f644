"""Lower `gpu.subgroup_reduce` of 32-bit integers over whole warps to one instruction, `redux.sync`.

    %y = gpu.subgroup_reduce add %x : (i32) -> i32        ->        %y = nvvm.redux.sync add %x, %all : i32 -> i32

It exists from sm_80 on (PTX ISA, "redux.sync"). Clusters, other types and the warps of a block that the warp's size
does not divide are left to `subgroup_reduce`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op
from lego_mlir.hardware.limits import WARP
from lego_mlir.transforms.kernel_facts import facts_of
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.subgroup_reduce import REDUCE, Reduction, check_converged

KINDS: Final = {
    "add": "add", "and": "and", "or": "or", "xor": "xor",
    "minsi": "min", "maxsi": "max", "minui": "umin", "maxui": "umax",
}  # fmt: skip
"""Reductions of `gpu.subgroup_reduce` -> of `nvvm.redux.sync`."""


@dataclass(frozen=True, slots=True)
class LowerWarpReductions(FunctionPass):
    """Replaces the reductions, where the target has the instruction."""

    redux: bool = False

    name = "lego-lower-warp-reductions"

    def run_on(self, function: Op) -> None:
        block = facts_of(function).block
        if not self.redux or block is None or prod(block) % WARP:
            return
        ir = bindings.load().ir
        for operation in [op for op in walk(function) if op.name == REDUCE]:
            reduction = Reduction.of(operation)
            if str(reduction.value.type) != "i32" or reduction.size != WARP or reduction.kind not in KINDS:
                continue
            check_converged(operation)
            kind = {"kind": ir.Attribute.parse(f"#nvvm<reduction_kind {KINDS[reduction.kind]}>")}
            with operation.location, ir.InsertionPoint(operation):
                word = reduction.value.type
                every = ir.Operation.create(
                    "arith.constant", [word], attributes={"value": ir.IntegerAttr.get(word, -1)}
                ).results[0]
                made = ir.Operation.create("nvvm.redux.sync", [word], [reduction.value, every], attributes=kind)
            operation.results[0].replace_all_uses_with(made.results[0])
            operation.erase()
