"""Conversion of integers to bf16 with a single rounding.

Targets without a direct instruction convert to f32 first and then round to bf16. That rounds twice: 2^30 + 2^22 + 1
becomes a tie in f32 and then rounds down, where it should round up. So integers beyond the 24 bits of f32 first lose
low bits, and their last remaining bit is set if any lost bit was (*rounding to odd*): f32 represents the result
exactly, and it rounds to bf16 as the integer does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Op, Type, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass

SIGNED: Final = "arith.sitofp"
CONVERSIONS: Final = (SIGNED, "arith.uitofp")
# By width: integers of at least 2^x lose y low bits, which leaves 10 to 24 bits; a bf16 has 8.
_STEPS: Final = {32: ((24, 8),), 64: ((24, 10), (34, 25), (49, 39))}


@dataclass(frozen=True, slots=True)
class LowerBf16Integers(FunctionPass):
    """Replaces the conversions whose integers f32 may not represent."""

    name = "lego-lower-bf16-integers"

    def run_on(self, function: Op) -> None:
        ir = bindings.load().ir
        for operation in [op for op in walk(function) if op.name in CONVERSIONS]:
            result, given = operation.results[0], operation.operands[0]
            vector = ir.VectorType(result.type) if isinstance(result.type, ir.VectorType) else None
            element = ir.VectorType(given.type).element_type if vector else given.type
            if str(vector.element_type if vector else result.type) != "bf16" or element.width not in _STEPS:
                continue
            wide = ir.VectorType.get(vector.shape, ir.F32Type.get()) if vector else ir.F32Type.get()
            with operation.location, ir.InsertionPoint(operation):
                held = _held(given, element, operation.name == SIGNED)
                exact = ir.Operation.create(operation.name, [wide], [held]).results[0]
                result.replace_all_uses_with(ir.Operation.create("arith.truncf", [result.type], [exact]).results[0])
            operation.erase()


def _held(given: Value, element: Type, is_signed: bool) -> Value:
    """An integer that f32 represents, and that rounds to bf16 as the given one does."""
    ir, type_ = bindings.load().ir, given.type

    def make(name: str, *operands: Value, result: Type = type_, **attributes: Attribute) -> Value:
        return ir.Operation.create(name, [result], operands, attributes=attributes).results[0]

    def number(n: int) -> Value:
        value = ir.IntegerAttr.get(element, n)
        splat = ir.DenseElementsAttr.get_splat(type_, value) if isinstance(type_, ir.VectorType) else value
        return make("arith.constant", value=splat)

    def compared(predicate: int, a: Value, b: Value) -> Value:
        bit = ir.IntegerType.get_signless(1)
        truth = ir.VectorType.get(ir.VectorType(type_).shape, bit) if isinstance(type_, ir.VectorType) else bit
        return make("arith.cmpi", a, b, result=truth, predicate=ir.Attribute.parse(f"{predicate} : i64"))

    for least, lost in _STEPS[element.width]:
        above = make("arith.addi", given, number(1 << least)) if is_signed else given
        is_small = compared(6, above, number((1 + is_signed) << least))  # ult
        is_exact = compared(0, make("arith.andi", given, number((1 << lost) - 1)), number(0))  # eq
        sticky = make("arith.select", is_exact, number(0), number(1 << lost))
        odd = make("arith.ori", make("arith.andi", given, number(-(1 << lost))), sticky)
        given = make("arith.select", is_small, given, odd)
    return given
