"""Fused multiply-adds of f16 and bf16 as LLVM's intrinsic, which becomes an f16x2 instruction on vectors.

Upstream calls the function of f32 for each element instead, between conversions, and so rounds twice: to f32, and from
there to 16 bits. The intrinsic of a vector is `fma.rn.f16x2` for every two elements, rounded once (sm_80 on; PTX ISA,
"Half precision floating point instructions").
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir import bindings
from lego_mlir.aliases import Op
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.elementwise import element_name, replace


@dataclass(frozen=True, slots=True)
class LowerPackedHalves(FunctionPass):
    """Replaces the fused multiply-adds of 16-bit floats."""

    name = "lego-lower-packed-halves"

    def run_on(self, function: Op) -> None:
        ir = bindings.load().ir
        for operation in [op for op in walk(function) if op.name == "math.fma"]:
            type_ = operation.results[0].type
            if element_name(type_) in ("f16", "bf16") and getattr(type_, "rank", 1) == 1:
                with operation.location, ir.InsertionPoint(operation):
                    made = ir.Operation.create("llvm.intr.fma", [type_], list(operation.operands))
                replace(operation, made.results[0])
