"""`math.exp2` that may be approximate, as the one instruction of the hardware.

    %y = math.exp2 %x fastmath<afn> : f32    -->    ex2.approx.ftz.f32

Exact to 2 ulp; numbers too small to be normal, in or out, become 0 (PTX ISA, "ex2"). Without the flag the operation
becomes a function of about ten instructions, which keeps them. Vectors are left to that function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Op
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.elementwise import replace

FASTMATH: Final = "fastmath"
_INTRINSIC: Final = {
    "intrin": '"llvm.nvvm.ex2.approx.ftz.f"',
    "op_bundle_sizes": "array<i32>",
    "operandSegmentSizes": "array<i32: 1, 0>",
}


@dataclass(frozen=True, slots=True)
class LowerApproximateExp2(FunctionPass):
    """Replaces the exp2 of f32 whose flags allow approximate functions."""

    name = "lego-lower-approximate-exp2"

    def run_on(self, function: Op) -> None:
        ir = bindings.load().ir
        attributes: dict[str, Attribute] = {}
        for operation in [op for op in walk(function) if op.name == "math.exp2"]:
            type_ = operation.results[0].type
            if str(type_) != "f32" or not _is_approximate(operation):
                continue
            attributes = attributes or {name: ir.Attribute.parse(text) for name, text in _INTRINSIC.items()}
            with operation.location, ir.InsertionPoint(operation):
                made = ir.Operation.create(
                    "llvm.call_intrinsic", [type_], list(operation.operands), attributes=attributes
                )
            replace(operation, made.results[0])


def _is_approximate(operation: Op) -> bool:
    flags = str(operation.attributes[FASTMATH]) if FASTMATH in operation.attributes else ""
    return "afn" in flags or "fast>" in flags
