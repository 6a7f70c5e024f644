"""Logic, shifts and bit fields. PTX ISA, "Logic and Shift Instructions" and the bit-field ones.

Shifts by the width or more give 0, or the sign for `shr.s`: PTX clamps, where NumPy's result is undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import NUMPY

if TYPE_CHECKING:
    from lego_mlir.aliases import Array

TWO: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@opcode("and", "or", "xor")
def build_logic(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`and.b32 d, a, b`, and of predicates."""
    type_ = decoder.type_of(instruction)
    d, a, b = instruction.operands
    left, right = (decoder.source(o, type_, instruction) for o in (a, b))
    write, function = decoder.sink(d, instruction), TWO[instruction.opcode]

    def run(gang: Gang) -> Outcome:
        write(gang, function(left(gang), right(gang)))
        return None

    return run


@opcode("not", "cnot")
def build_not(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`not.b32 d, a`; `cnot`: 1 for zero."""
    type_ = decoder.type_of(instruction)
    value = decoder.source(instruction.operands[1], type_, instruction)
    write = decoder.sink(instruction.operands[0], instruction)
    dtype = NUMPY[type_]

    def run(gang: Gang) -> Outcome:
        x = value(gang)
        write(gang, (x == 0).astype(dtype) if instruction.opcode == "cnot" else ~x)
        return None

    return run


@opcode("shl", "shr")
def build_shift(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`shl.b32 d, a, n`."""
    type_ = decoder.type_of(instruction)
    dtype = NUMPY[type_]
    bits = 8 * dtype.itemsize
    d, a, n = instruction.operands
    value, amount = decoder.source(a, type_, instruction), decoder.source(n, "u32", instruction)
    write = decoder.sink(d, instruction)
    left = instruction.opcode == "shl"

    def run(gang: Gang) -> Outcome:
        x, by = value(gang), amount(gang)
        capped = np.minimum(by, bits - 1).astype(dtype)
        found = np.left_shift(x, capped) if left else np.right_shift(x, capped)
        if left or dtype.kind == "u":
            found = np.where(by >= bits, dtype.type(0), found)
        write(gang, found)
        return None

    return run


@opcode("shf")
def build_funnel(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`shf.l.wrap.b32 d, a, b, c`: the upper word of b:a shifted left, or the lower one shifted right."""
    d, a, b, c = instruction.operands
    low, high, amount = (decoder.source(o, "u32", instruction) for o in (a, b, c))
    write = decoder.sink(d, instruction)
    wraps, left = "wrap" in instruction.modifiers, "l" in instruction.modifiers

    def run(gang: Gang) -> Outcome:
        by = amount(gang).astype(np.uint64)
        by = by & np.uint64(31) if wraps else np.minimum(by, np.uint64(32))
        both = (high(gang).astype(np.uint64) << np.uint64(32)) | low(gang).astype(np.uint64)
        found = (both << by) >> np.uint64(32) if left else both >> by
        write(gang, found.astype(np.uint32))
        return None

    return run


def _bit_length(x: Array) -> Array:
    """The position of the highest one bit plus 1; 0 for 0."""
    found = np.zeros(len(x), np.int64)
    value = x.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        above = value >= (np.uint64(1) << np.uint64(step))
        found = np.where(above, found + step, found)
        value = np.where(above, value >> np.uint64(step), value)
    return found + (value > 0)


@opcode("popc", "clz", "brev", "bfind")
def build_count(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`popc.b32 d, a`."""
    type_ = decoder.type_of(instruction)
    dtype = NUMPY[type_]
    bits = 8 * dtype.itemsize
    value = decoder.source(instruction.operands[1], type_, instruction)
    write = decoder.sink(instruction.operands[0], instruction)

    def reversed_bits(x: Array) -> Array:
        rows = np.unpackbits(x.view(np.uint8).reshape(len(x), -1), axis=1, bitorder="little")
        return np.packbits(rows[:, ::-1], axis=1, bitorder="little").copy().view(dtype)[:, 0]

    def highest(x: Array) -> Array:
        positive = np.where(x < 0, ~x, x)
        found = _bit_length(positive.view(np.dtype(f"u{dtype.itemsize}"))) - 1
        if "shiftamt" in instruction.modifiers:
            found = np.where(found < 0, -1, bits - 1 - found)
        return found.astype(np.int32)

    functions: dict[str, Callable[[Array], Array]] = {
        "popc": lambda x: np.bitwise_count(x).astype(np.uint32),
        "clz": lambda x: (bits - _bit_length(x)).astype(np.uint32),
        "brev": reversed_bits,
        "bfind": highest,
    }
    function = functions[instruction.opcode]

    def run(gang: Gang) -> Outcome:
        write(gang, function(value(gang)))
        return None

    return run


@opcode("bfe")
def build_extract(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`bfe.u32 d, a, start, length`: a field, zero- or sign-extended."""
    type_ = decoder.type_of(instruction)
    dtype = NUMPY[type_]
    bits = 8 * dtype.itemsize
    d, a, b, c = instruction.operands
    value = decoder.source(a, type_, instruction)
    start, length = (decoder.source(o, "u32", instruction) for o in (b, c))
    write = decoder.sink(d, instruction)

    def run(gang: Gang) -> Outcome:
        x = value(gang).astype(object)
        first = start(gang).astype(np.int64) & 0xFF
        count = length(gang).astype(np.int64) & 0xFF
        fields = np.broadcast_arrays(x, first, count)
        found = [_field(int(v), int(p), int(n), bits, dtype.kind == "i") for v, p, n in zip(*fields, strict=True)]
        write(gang, np.array(found, np.dtype(f"u{dtype.itemsize}")))
        return None

    return run


def _field(value: int, start: int, length: int, bits: int, signed: bool) -> int:
    if length == 0:
        return 0
    unsigned = value & ((1 << bits) - 1)
    sign_at = min(start + length - 1, bits - 1)
    fill = -1 if signed and unsigned >> sign_at & 1 else 0
    extended = unsigned | (fill << bits)
    found = (extended >> start) & ((1 << length) - 1)
    if fill and length < bits:
        found |= -1 << length
    return found & ((1 << bits) - 1)


@opcode("bfi")
def build_insert(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`bfi.b32 d, a, b, start, length`: the low bits of a into b."""
    type_ = decoder.type_of(instruction)
    bits = 8 * NUMPY[type_].itemsize
    d, a, b, s, n = instruction.operands
    field, into = (decoder.source(o, type_, instruction) for o in (a, b))
    start, length = (decoder.source(o, "u32", instruction) for o in (s, n))
    write = decoder.sink(d, instruction)

    def run(gang: Gang) -> Outcome:
        first, count = start(gang).astype(object) & 0xFF, length(gang).astype(object) & 0xFF
        mask = ((1 << count) - 1 << first) & ((1 << bits) - 1)
        found = (into(gang).astype(object) & ~mask) | (field(gang).astype(object) << first & mask)
        write(gang, found.astype(NUMPY[type_]))
        return None

    return run


@opcode("prmt")
def build_permute(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`prmt.b32 d, a, b, c`: four bytes of b:a, each chosen by 4 bits of c; bit 3 replicates the sign."""
    if instruction.modifiers != ("b32",):
        raise decoder.refused(instruction, "prmt has a mode; only the form prmt.b32 is modelled")
    d, a, b, c = instruction.operands
    low, high, chosen = (decoder.source(o, "u32", instruction) for o in (a, b, c))
    write = decoder.sink(d, instruction)

    def run(gang: Gang) -> Outcome:
        both = low(gang).astype(np.uint64) | (high(gang).astype(np.uint64) << np.uint64(32))
        selector = chosen(gang).astype(np.uint64)
        found = np.zeros(1, np.uint64)
        for byte in range(4):
            pick = selector >> np.uint64(4 * byte)
            value = both >> ((pick & np.uint64(7)) * np.uint64(8)) & np.uint64(0xFF)
            sign = np.where(value & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
            found = found | np.where(pick & np.uint64(8), sign, value) << np.uint64(8 * byte)
        write(gang, found.astype(np.uint32))
        return None

    return run


@opcode("lop3")
def build_lop3(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`lop3.b32 d, a, b, c, table`."""
    d, *inputs, table = instruction.operands
    values = [decoder.source(o, "u32", instruction) for o in inputs]
    bits = decoder.source(table, "u32", instruction)
    write = decoder.sink(d, instruction)

    def run(gang: Gang) -> Outcome:
        a, b, c = (v(gang) for v in values)
        truth = int(bits(gang)[0])
        found = np.zeros(1, np.uint32)
        for row in range(8):
            if truth >> row & 1:
                found = found | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        write(gang, found)
        return None

    return run
