"""Floats to integers with one meaning for every number: towards zero, clamped to the integer's range, NaN to 0.

`arith.fptosi` and `arith.fptoui` leave numbers outside of the range undefined. LLVM computes anything for them, an x86
the least integer, and PTX's `cvt` clamps, but turns a NaN of f64, or one that becomes 64 bits, into the least integer
(PTX ISA, "cvt"). So the operation gets 0 in their place, and the result is chosen afterwards:

    -2^31 <= x < 2^31     fptosi x
    x < -2^31             -2^31
    x >= 2^31             2^31 - 1
    NaN                   0

On a GPU a number of f32 or less becomes 32 bits or less by `cvt.rzi.s32.f32` or `.u32`, which have this meaning, and
fewer bits are clamped as integers. The integer square root is left as it is: no root is outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.elementwise import OGE, OLT, Elementwise, called, element_name, replace

SIGNED: Final = "arith.fptosi"
UNSIGNED: Final = "arith.fptoui"
WORD: Final = 32
"""Bits of the integers that the unit makes of f32, with 0 of NaN. PTX ISA, "cvt"."""


@dataclass(frozen=True, slots=True)
class LowerFloatToInteger(FunctionPass):
    """Bounds the operands of these conversions; `by_unit`: or uses the instructions of a GPU that clamp."""

    by_unit: bool = False
    name = "lego-lower-float-to-integer"

    def run_on(self, function: Op) -> None:
        ir = bindings.load().ir
        for operation in [op for op in walk(function) if op.name in (SIGNED, UNSIGNED)]:
            if not _is_of_a_root(operation.operands[0]):
                with operation.location, ir.InsertionPoint(operation):
                    replace(operation, _converted(operation) if self.by_unit else _clamped(operation))


def _converted(operation: Op) -> Value:
    """By the unit, where it has the instruction."""
    e, signed = Elementwise(operation.results[0].type), operation.name == SIGNED
    given, element = operation.operands[0], element_name(operation.results[0].type)
    bits = int(element.removeprefix("i"))
    if element_name(given.type) == "f64" or bits > WORD:
        return _clamped(operation)
    if element_name(given.type) != "f32":
        given = e.make("arith.extf", "f32", given)
    word = e.ir.Type.parse("i32")
    intrinsic = "llvm.nvvm.f2i.rz" if signed else "llvm.nvvm.f2ui.rz"
    found = e.by_elements([given], lambda x: called(intrinsic, word, x), e.type("i32"))
    if bits == WORD:
        return found
    least, end = _span(bits, signed)
    found = e.make("arith.minsi" if signed else "arith.minui", "i32", found, e.number(end - 1, "i32"))
    found = e.make("arith.maxsi", "i32", found, e.number(least, "i32")) if signed else found
    return e.make("arith.trunci", element, found)


def _span(bits: int, signed: bool) -> tuple[int, int]:
    """The least number of an integer type, and the end of its range."""
    return (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)


def _clamped(operation: Op) -> Value:
    e, given = Elementwise(operation.results[0].type), operation.operands[0]
    if element_name(given.type) not in ("f32", "f64"):
        given = e.make("arith.extf", "f32", given)
    source, element = element_name(given.type), element_name(operation.results[0].type)
    least, end = _span(int(element.removeprefix("i")), operation.name == SIGNED)
    from_least = e.compare(OGE, given, e.number(float(least), source))
    below_end = e.compare(OLT, given, e.number(float(end), source))
    inside = e.choose(e.make("arith.andi", "i1", from_least, below_end), given, e.number(0.0, source))
    found = e.make(operation.name, element, inside)
    found = e.choose(e.compare(OLT, given, e.number(float(least), source)), e.number(least, element), found)
    greatest = end - 1 if operation.name == SIGNED else -1  # all bits
    return e.choose(e.compare(OGE, given, e.number(float(end), source)), e.number(greatest, element), found)


def _is_of_a_root(given: Value) -> bool:
    owner = getattr(given.owner, "operation", given.owner)  # a block's argument belongs to a block
    return getattr(owner, "name", "") == "math.sqrt"
