"""Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, dp4a. PTX ISA, "Integer Arithmetic".

The floating-point instructions of the same names are in `float_arithmetic`; `by_type` sends each form to its family.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions import float_arithmetic
from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import FLOATS, NUMPY, PACKED

if TYPE_CHECKING:
    from lego_mlir.aliases import Array


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
    if "sat" in instruction.modifiers:
        return _saturated(decoder, instruction)
    type_ = decoder.type_of(instruction)
    function, relu = TWO[instruction.opcode], "relu" in instruction.modifiers  # of min and max: none is negative
    d, a, b = instruction.operands
    write = decoder.sink(d, instruction)
    left, right = (decoder.source(o, type_, instruction) for o in (a, b))

    def run(gang: Gang) -> Outcome:
        found = function(left(gang), right(gang))
        write(gang, float_arithmetic.repacked(np.maximum(found, found.dtype.type(0)) if relu else found, type_))
        return None

    return run


def _saturated(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`add.sat.s32`."""
    d, a, b = instruction.operands
    type_ = decoder.type_of(instruction)
    left, right = (decoder.source(o, type_, instruction) for o in (a, b))
    write, function = decoder.sink(d, instruction), TWO[instruction.opcode]
    limits = np.iinfo(NUMPY[type_])

    def run(gang: Gang) -> Outcome:
        wide = function(left(gang).astype(np.int64), right(gang).astype(np.int64))
        write(gang, np.clip(wide, limits.min, limits.max).astype(NUMPY[type_]))
        return None

    return run


@opcode("addc", "subc", "madc")
def build_carried(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`add.cc`, `addc.cc`, `sub.cc`, `subc`, `mad.lo.cc`, `madc.hi`: the flag is the last operand (see `linking`)."""
    type_ = decoder.type_of(instruction)
    bits = 8 * NUMPY[type_].itemsize
    d, *given, flag = instruction.operands
    unsigned = f"u{bits}"
    is_mad = instruction.opcode in ("mad", "madc")
    terms = [decoder.source(o, unsigned, instruction) for o in (given[2:] if is_mad else given)]
    product = _product(decoder, instruction) if is_mad else None
    write, put_flag = decoder.sink(d, instruction), decoder.sink(flag, instruction)
    carry = decoder.source(flag, "pred", instruction)
    reads, sets = instruction.opcode.endswith("c"), "cc" in instruction.modifiers
    minus = instruction.opcode in ("sub", "subc")

    def run(gang: Gang) -> Outcome:
        values = [t(gang) for t in terms]
        x = product(gang).view(values[0].dtype) if product is not None else values.pop(0)
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
        return None

    return run


@opcode("sad")
def build_sad(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`sad.u32 d, a, b, c`: c + |a - b|."""
    type_ = decoder.type_of(instruction)
    d, *given = instruction.operands
    a, b, c = (decoder.source(o, type_, instruction) for o in given)
    write = decoder.sink(d, instruction)

    def run(gang: Gang) -> Outcome:
        x, y = a(gang), b(gang)
        write(gang, c(gang) + np.where(x < y, y - x, x - y))
        return None

    return run


@opcode("mul", "mul24")
def build_mul(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mul.lo`, `mul.hi`, `mul.wide`."""
    if is_float(decoder, instruction):
        return float_arithmetic.build_two(decoder, instruction)
    product = _product(decoder, instruction)
    write = decoder.sink(instruction.operands[0], instruction)

    def run(gang: Gang) -> Outcome:
        write(gang, product(gang))
        return None

    return run


def _product(decoder: Decoder, instruction: PtxInstruction) -> Callable[[Gang], Array]:
    type_ = decoder.type_of(instruction)
    left, right = (decoder.source(o, type_, instruction) for o in instruction.operands[1:3])
    dtype = NUMPY[type_]
    if "wide" in instruction.modifiers:
        wide = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        return lambda gang: left(gang).astype(wide) * right(gang).astype(wide)
    if "hi" in instruction.modifiers:
        return lambda gang: _high(left(gang), right(gang))
    return lambda gang: left(gang) * right(gang)


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
    product = _product(decoder, instruction)
    type_ = decoder.type_of(instruction)
    if "wide" in instruction.modifiers:
        type_ = f"{type_[0]}{2 * int(type_[1:])}"
    addend = decoder.source(instruction.operands[3], type_, instruction)
    write = decoder.sink(instruction.operands[0], instruction)

    def run(gang: Gang) -> Outcome:
        write(gang, product(gang) + addend(gang))
        return None

    return run


@opcode("neg", "abs")
def build_one(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`neg.s32 d, a`."""
    if is_float(decoder, instruction):
        return float_arithmetic.build_one(decoder, instruction)
    function: Callable[[Array], Array] = np.negative if instruction.opcode == "neg" else np.abs
    value = decoder.source(instruction.operands[1], decoder.type_of(instruction), instruction)
    write = decoder.sink(instruction.operands[0], instruction)

    def run(gang: Gang) -> Outcome:
        write(gang, function(value(gang)))
        return None

    return run


@opcode("dp4a")
def build_dp4a(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """Four products of bytes, summed: `dp4a.s32.s32 d, a, b, c`."""
    types = [m for m in instruction.modifiers if m in NUMPY]
    d, a, b, c = instruction.operands
    left = decoder.source(a, types[0], instruction)
    right = decoder.source(b, types[1], instruction)
    addend = decoder.source(c, types[0], instruction)
    write = decoder.sink(d, instruction)
    bytes_of = [np.dtype(f"{t[0].replace('s', 'i')}1") for t in types[:2]]

    def run(gang: Gang) -> Outcome:
        lanes = gang.lanes
        quads = [
            np.broadcast_to(v, (lanes,)).copy().view(t).reshape(lanes, 4).astype(np.int64)
            for v, t in ((left(gang), bytes_of[0]), (right(gang), bytes_of[1]))
        ]
        total = (quads[0] * quads[1]).sum(axis=1) + addend(gang)
        write(gang, total.astype(np.int32))
        return None

    return run
