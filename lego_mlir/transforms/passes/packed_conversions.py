"""Conversions between f8 and wider floats, and to f6 and f4, by the target's instructions, two numbers at a time.

    cvt.rn.satfinite.e4m3x2.f32      two f32 to two f8, saturated
    cvt.rn.satfinite.e4m3x2.f16x2    two f16 to two f8, saturated
    cvt.rn.f16x2.e4m3x2              two f8 to two f16, exactly
    cvt.rn.satfinite.e2m1x2.f32      two f32 to two f4, in the halves of a byte
    cvt.rn.satfinite.e2m3x2.f32      two f32 to two f6, each in a byte

A pair is two neighbours of a vector that is converted, or that is composed of converted numbers; a number alone is
converted with a zero beside it. bf16 goes through f32. What is left, f64 and targets without the instruction,
`f8_conversions` expands. PTX ISA, "cvt".

f16 and bf16 themselves are LLVM's: it packs their conversions, and makes one instruction of a sum of two bf16 that is
rounded to bf16, which an intrinsic would hide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Type, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.elementwise import element_name, replace

_F8: Final = ("f8E4M3FN", "f8E5M2")
_SHORT: Final = {"f4E2M1FN": ("f4x2", 4, 4), "f6E2M3FN": ("f6x2", 6, 8), "f6E3M2FN": ("f6x2", 6, 8)}
"""Types of less than 8 bits: the pair's name, the bits of a code, and of a half of the result."""
_NEAREST: Final = "#nvvm.fp_rnd_mode<rn>"
_FINITE: Final = "#nvvm.sat_mode<satfinite>"
_CONVERSIONS: Final = ("arith.truncf", "arith.extf")


@dataclass(frozen=True, slots=True)
class PackConversions(FunctionPass):
    """Replaces conversions to and from f8, and to f6 and f4, where the target has the instructions."""

    f8: bool = False
    short: bool = False
    name = "lego-pack-conversions"

    def run_on(self, function: Op) -> None:
        if not self.f8:
            return
        for operation in [op for op in walk(function) if op.name == "vector.from_elements"]:
            _at(operation, _composed)
        for operation in [op for op in walk(function) if op.name in _CONVERSIONS]:
            if operation.name == "arith.extf":
                _at(operation, _widened)
            elif element_name(operation.results[0].type) not in _SHORT:
                _at(operation, _narrowed)
            elif self.short:
                _at(operation, _shortened)


def _at(operation: Op, rewrite: Callable[[Op], None]) -> None:
    with operation.location, bindings.load().ir.InsertionPoint(operation):
        rewrite(operation)


def _composed(operation: Op) -> None:
    """A vector of numbers that are converted for it alone: the conversion of a vector."""
    ir = bindings.load().ir
    operands = list(operation.operands)
    made = [value.owner.operation for value in operands if not isinstance(value.owner, ir.Block)]
    wide = {element_name(one.operands[0].type) for one in made if one.name == "arith.truncf"}
    if element_name(operation.results[0].type) not in _F8 or len(made) < len(operands) or len(operands) % 2:
        return
    if any(one.name != "arith.truncf" or len(list(one.results[0].uses)) > 1 for one in made) or len(wide) > 1:
        return
    given = [one.operands[0] for one in made]
    whole = _make("vector.from_elements", ir.VectorType.get([len(given)], given[0].type), *given)
    replace(operation, _make("arith.truncf", operation.results[0].type, whole))
    for one in made:
        one.erase()


def _narrowed(operation: Op) -> None:
    """A number or vector to f8."""
    ir = bindings.load().ir
    given, type_ = operation.operands[0], operation.results[0].type
    source, target = element_name(given.type), element_name(type_)
    if target not in _F8 or source == "f64":
        return
    if source == "bf16":
        given, source = _make("arith.extf", _like(given.type, ir.F32Type.get()), given), "f32"
    if not isinstance(type_, ir.VectorType):
        word = _to_f8([given, _zero(given.type)], source, target)
        byte = _make("arith.trunci", ir.IntegerType.get_signless(8), word)
        replace(operation, _make("arith.bitcast", type_, byte))
    elif type_.rank == 1 and type_.shape[0] % 2 == 0:
        numbers = [_element(given, n) for n in range(type_.shape[0])]
        words = [_to_f8(numbers[n : n + 2], source, target) for n in range(0, len(numbers), 2)]
        packed = ir.VectorType.get([len(words)], ir.IntegerType.get_signless(16))
        replace(operation, _make("vector.bitcast", type_, _make("vector.from_elements", packed, *words)))


def _shortened(operation: Op) -> None:
    """A number or vector of f32 to f6 or f4."""
    ir = bindings.load().ir
    given, type_ = operation.operands[0], operation.results[0].type
    target = element_name(type_)
    pair, bits, place = _SHORT[target]
    whole, code = (ir.IntegerType.get_signless(n) for n in (2 * place, bits))
    numbers = [given]
    if isinstance(type_, ir.VectorType):
        if type_.rank != 1:
            return
        numbers = [_element(given, n) for n in range(type_.shape[0])]
    kind = ir.TypeAttr.get(ir.Type.parse(target))
    codes = []
    for n in range(0, len(numbers), 2):
        low, high = numbers[n], numbers[n + 1] if n + 1 < len(numbers) else _zero(numbers[n].type)
        both = _make(f"nvvm.convert.f32x2.to.{pair}", whole, high, low, dstTy=kind)
        distance = _make("arith.constant", whole, value=ir.IntegerAttr.get(whole, place))
        codes += [_make("arith.trunci", code, v) for v in (both, _make("arith.shrui", whole, both, distance))]
    made = codes[0]
    if isinstance(type_, ir.VectorType):
        made = _make("vector.from_elements", _like(type_, code), *codes[: len(numbers)])
    replace(operation, _make("arith.bitcast", type_, made))


def _widened(operation: Op) -> None:
    """A number or vector of f8 to a wider type, by way of f16."""
    ir = bindings.load().ir
    given, type_ = operation.operands[0], operation.results[0].type
    source, target = element_name(given.type), element_name(type_)
    byte, half = ir.IntegerType.get_signless(8), ir.F16Type.get()
    if source not in _F8:
        return
    if not isinstance(type_, ir.VectorType):
        wide = _from_f8([_make("arith.bitcast", byte, given), _zero(byte)], source)[0]
    elif type_.shape[-1] % 2 == 0:
        whole = _make("arith.bitcast", _like(given.type, byte), given)
        numbers = [_element(whole, *place) for place in product(*map(range, type_.shape))]
        halves = [one for n in range(0, len(numbers), 2) for one in _from_f8(numbers[n : n + 2], source)]
        wide = _make("vector.from_elements", _like(type_, half), *halves)
    else:
        return
    if target == "bf16":
        wide = _make("arith.truncf", type_, _make("arith.extf", _like(type_, ir.F32Type.get()), wide))
    replace(operation, wide if target == "f16" else _make("arith.extf", type_, wide) if target != "bf16" else wide)


def _to_f8(pair: Sequence[Value], source: str, target: str) -> Value:
    """Two numbers as f8, the first in the lower byte of an i16."""
    ir = bindings.load().ir
    facts = {"sat": ir.Attribute.parse(_FINITE), "dstTy": ir.TypeAttr.get(ir.Type.parse(target))}
    word = ir.IntegerType.get_signless(16)
    if source == "f16":
        both = _make("vector.from_elements", ir.VectorType.get([2], ir.F16Type.get()), *pair)
        return _make("nvvm.convert.f16x2.to.f8x2", word, both, **facts)
    nearest = ir.Attribute.parse(_NEAREST)
    return _make("nvvm.convert.f32x2.to.f8x2", word, pair[1], pair[0], rnd=nearest, **facts)


def _from_f8(pair: Sequence[Value], source: str) -> list[Value]:
    """Two bytes of f8 as f16."""
    ir = bindings.load().ir
    both = _make("vector.from_elements", ir.VectorType.get([2], pair[0].type), *pair)
    kind = ir.TypeAttr.get(ir.Type.parse(source))
    halves = _make("nvvm.convert.f8x2.to.f16x2", ir.VectorType.get([2], ir.F16Type.get()), both, srcType=kind)
    return [_element(halves, n) for n in range(2)]


def _like(type_: Type, element: Type) -> Type:
    """The element type, in the shape of another type."""
    ir = bindings.load().ir
    return ir.VectorType.get(list(type_.shape), element) if isinstance(type_, ir.VectorType) else element


def _zero(type_: Type) -> Value:
    ir = bindings.load().ir
    number = ir.IntegerAttr.get(type_, 0) if isinstance(type_, ir.IntegerType) else ir.FloatAttr.get(type_, 0.0)
    return _make("arith.constant", type_, value=number)


def _element(vector: Value, *place: int) -> Value:
    position = bindings.load().ir.DenseI64ArrayAttr.get(list(place))
    return _make("vector.extract", vector.type.element_type, vector, static_position=position)


def _make(name: str, type_: Type, *operands: Value, **attributes: object) -> Value:
    return bindings.load().ir.Operation.create(name, [type_], list(operands), attributes=attributes).results[0]
