"""Functions of f32 that may be approximate, as instructions of the hardware.

    %y = math.exp2 %x fastmath<afn> : f32    -->    ex2.approx.ftz.f32
    %y = math.exp %x fastmath<afn> : f32     -->    ex2.approx.ftz.f32 of %x times log2(e)
    %y = arith.divf %a, %b fastmath<afn>     -->    div.full.ftz.f32, or rcp.approx.ftz.f32 where %a is 1

Numbers too small to be normal, in or out, become 0. docs/reference/kernels.md has the bounds: "Approximate functions".
Without the flag a function keeps such numbers and takes ten instructions and more. Vectors become their elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.elementwise import Elementwise, called, element_name, replace

FASTMATH: Final = "fastmath"


@dataclass(frozen=True, slots=True)
class FastFunction:
    """An instruction as an intrinsic of LLVM, and the factors of its operand and its result."""

    intrinsic: str
    before: float = 1.0
    after: float = 1.0


FUNCTIONS: Final = {
    "arith.divf": FastFunction("llvm.nvvm.div.full.ftz"),
    "math.sqrt": FastFunction("llvm.nvvm.sqrt.approx.ftz.f"),
    "math.rsqrt": FastFunction("llvm.nvvm.rsqrt.approx.ftz.f"),
    "math.exp2": FastFunction("llvm.nvvm.ex2.approx.ftz.f"),
    "math.exp": FastFunction("llvm.nvvm.ex2.approx.ftz.f", before=math.log2(math.e)),
    "math.log2": FastFunction("llvm.nvvm.lg2.approx.ftz.f"),
    "math.log": FastFunction("llvm.nvvm.lg2.approx.ftz.f", after=math.log(2)),
    "math.sin": FastFunction("llvm.nvvm.sin.approx.ftz.f"),
    "math.cos": FastFunction("llvm.nvvm.cos.approx.ftz.f"),
}
_SAME_NUMBER: Final = ("vector.broadcast", "vector.splat", "arith.extf")
RECIPROCAL: Final = FastFunction("llvm.nvvm.rcp.approx.ftz.f")


@dataclass(frozen=True, slots=True)
class LowerFastFunctions(FunctionPass):
    """Replaces the functions of f32 whose flags allow approximate ones."""

    name = "lego-lower-fast-functions"

    def run_on(self, function: Op) -> None:
        ir = bindings.load().ir
        for operation in [op for op in walk(function) if op.name in FUNCTIONS and _is_approximate(op)]:
            if element_name(operation.results[0].type) != "f32":
                continue
            with operation.location, ir.InsertionPoint(operation):
                replace(operation, _lowered(operation))


def _is_approximate(operation: Op) -> bool:
    flags = str(operation.attributes[FASTMATH]) if FASTMATH in operation.attributes else ""
    return "afn" in flags or "fast>" in flags


def _lowered(operation: Op) -> Value:
    """The instructions in place of an operation, for each element of a vector."""
    function, operands = FUNCTIONS[operation.name], list(operation.operands)
    if operation.name == "arith.divf" and _is_one(operands[0]):
        function, operands = RECIPROCAL, operands[1:]
    type_ = operation.results[0].type
    whole = Elementwise(type_)
    if function.before != 1.0:
        operands = [whole.make("arith.mulf", "f32", operands[0], whole.number(function.before, "f32"))]
    made = whole.by_elements(operands, lambda *each: called(function.intrinsic, each[0].type, *each), type_)
    if function.after != 1.0:
        made = whole.make("arith.mulf", "f32", made, whole.number(function.after, "f32"))
    return made


def _is_one(value: Value) -> bool:
    """Whether a value is the constant 1, of a number or repeated in a vector, in this or a narrower type."""
    ir = bindings.load().ir
    while isinstance(value.owner, ir.Operation | ir.OpView):
        made = value.owner.operation
        if made.name == "arith.constant":
            given = made.attributes["value"]
            if isinstance(given, ir.DenseElementsAttr):
                given = given.get_splat_value() if given.is_splat else None
            return given is not None and bool(ir.FloatAttr(given).value == 1.0)
        if made.name not in _SAME_NUMBER:
            return False
        value = made.operands[0]
    return False
