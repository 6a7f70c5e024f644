"""Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, dp4a. PTX ISA, "Integer Arithmetic".

The floating-point instructions of the same names are in `float_arithmetic`; `by_type` sends each form to its family.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions import float_arithmetic
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import FLOATS, NUMPY, PACKED


def _quotient(a: Array, b: Array) -> Array:
    """Truncating division; a divisor of 0 gives all ones, as on the hardware."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        found = a // safe
    else:
        magnitude = _magnitude(a) // _magnitude(safe)
        signed = magnitude.view(a.dtype)
        found = np.where((a < 0) != (b < 0), -signed, signed)
    return np.where(b == 0, np.array(-1, np.int64).astype(a.dtype), found)


def _magnitude(a: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return np.where(a < 0, -a, a).view(unsigned)


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a - _quotient(a, b) * b)


TWO: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "div": _quotient,
    "rem": _remainder,
}


def is_float(decoder: Decoder, instruction: PtxInstruction) -> bool:
    """Whether an instruction's type is floating point, packed ones included."""
    type_ = decoder.type_of(instruction)
    return PACKED.get(type_, type_) in FLOATS


@opcode("add", "sub", "min", "max", "div", "rem")
def build_two(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`add.s32 d, a, b`."""
    if is_float(decoder, instruction):
        return float_arithmetic.build_two(decoder, instruction)
    if "cc" in instruction.modifiers:
        return build_carried(decoder, instruction)
    type_, function = decoder.type_of(instruction), TWO[instruction.opcode]
    if "sat" in instruction.modifiers:
        return decoder.computed(instruction, lambda a, b: _saturated(function, a, b))
    relu = "relu" in instruction.modifiers  # of min and max: none is negative

    def computed(a: Array, b: Array) -> Array:
        found = function(a, b)
        return float_arithmetic.repacked(np.maximum(found, found.dtype.type(0)) if relu else found, type_)

    return decoder.computed(instruction, computed)


def _saturated(function: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """`add.sat.s32`."""
    limits = np.iinfo(a.dtype)
    return np.clip(function(a.astype(np.int64), b.astype(np.int64)), limits.min, limits.max).astype(a.dtype)


@opcode("addc", "subc", "madc")
def build_carried(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`add.cc`, `addc.cc`, `sub.cc`, `subc`, `mad.lo.cc`, `madc.hi`: the flag is the last operand (see `linking`)."""
    type_ = decoder.type_of(instruction)
    unsigned = f"u{8 * NUMPY[type_].itemsize}"
    d, *given, flag = instruction.operands
    multiplied = _multiplied(instruction) if instruction.opcode in ("mad", "madc") else None
    factors = [decoder.source(o, type_, instruction) for o in (given[:2] if multiplied else ())]
    terms = [decoder.source(o, unsigned, instruction) for o in given[len(factors) :]]
    write, put_flag = decoder.sink(d, instruction), decoder.sink(flag, instruction)
    carry = decoder.source(flag, "pred", instruction)
    reads, sets = instruction.opcode.endswith("c"), "cc" in instruction.modifiers
    minus = instruction.opcode in ("sub", "subc")

    def run(gang: Gang) -> None:
        values = [t(gang) for t in terms]
        x = multiplied(*(f(gang) for f in factors)).view(values[0].dtype) if multiplied else values.pop(0)
        y = values[0]
        extra = carry(gang).astype(x.dtype) if reads else x.dtype.type(0)
        if minus:
            first = x - y
            total = first - extra
            over = (x < y) | (first < extra)
        else:
            first = x + y
            total = first + extra
            over = (first < x) | (total < first)
        write(gang, total)
        if sets:
            put_flag(gang, over)

    return run


@opcode("sad")
def build_sad(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`sad.u32 d, a, b, c`: c + |a - b|."""
    return decoder.computed(instruction, lambda a, b, c: c + np.where(a < b, b - a, a - b))


@opcode("mul", "mul24")
def build_mul(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mul.lo`, `mul.hi`, `mul.wide`."""
    if is_float(decoder, instruction):
        return float_arithmetic.build_two(decoder, instruction)
    return decoder.computed(instruction, _multiplied(instruction))


def _multiplied(instruction: PtxInstruction) -> Callable[[Array, Array], Array]:
    if "wide" in instruction.modifiers:
        return lambda a, b: np.multiply(a, b, dtype=np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}"))
    return _high if "hi" in instruction.modifiers else np.multiply


def _high(a: Array, b: Array) -> Array:
    """The upper half of the product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}8")
        return (a.astype(wide) * b.astype(wide) >> wide.type(bits)).astype(a.dtype)
    products = a.astype(object) * b.astype(object)
    return np.array([int(p) >> 64 for p in np.atleast_1d(products)], a.dtype)


@opcode("mad", "mad24")
def build_mad(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mad.lo.s32 d, a, b, c`."""
    if is_float(decoder, instruction):
        return float_arithmetic.build_fma(decoder, instruction)
    if "cc" in instruction.modifiers:
        return build_carried(decoder, instruction)
    multiplied, type_ = _multiplied(instruction), decoder.type_of(instruction)
    addend = f"{type_[0]}{2 * int(type_[1:])}" if "wide" in instruction.modifiers else type_
    return decoder.computed(instruction, lambda a, b, c: multiplied(a, b) + c, type_, type_, addend)


@opcode("neg", "abs")
def build_one(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`neg.s32 d, a`."""
    if is_float(decoder, instruction):
        return float_arithmetic.build_one(decoder, instruction)
    return decoder.computed(instruction, np.negative if instruction.opcode == "neg" else np.abs)


@opcode("dp4a")
def build_dp4a(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """Four products of bytes, summed: `dp4a.s32.s32 d, a, b, c`."""
    types = [m for m in instruction.modifiers if m in NUMPY]

    def summed(a: Array, b: Array, c: Array) -> Array:
        quads = [np.ascontiguousarray(v).view(f"{v.dtype.kind}1").reshape(len(v), 4).astype(np.int64) for v in (a, b)]
        return ((quads[0] * quads[1]).sum(axis=1) + c).astype(np.int32)

    return decoder.computed(instruction, summed, *types[:2], types[0])
