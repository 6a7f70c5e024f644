"""Logic, shifts and bit fields. PTX ISA, "Logic and Shift Instructions" and the bit-field ones.

Shifts by the width or more give 0, or the sign for `shr.s`: PTX clamps, where NumPy's result is undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import NUMPY

TWO: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@opcode("and", "or", "xor")
def build_logic(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`and.b32 d, a, b`, and of predicates."""
    return decoder.computed(instruction, TWO[instruction.opcode])


@opcode("not", "cnot")
def build_not(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`not.b32 d, a`; `cnot`: 1 for zero."""
    if instruction.opcode == "not":
        return decoder.computed(instruction, np.invert)
    return decoder.computed(instruction, lambda x: (x == 0).astype(x.dtype))


@opcode("shl", "shr")
def build_shift(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`shl.b32 d, a, n`."""
    type_, left = decoder.type_of(instruction), instruction.opcode == "shl"
    dtype = NUMPY[type_]
    bits = 8 * dtype.itemsize

    def shifted(x: Array, by: Array) -> Array:
        capped = np.minimum(by, bits - 1).astype(dtype)
        found = np.left_shift(x, capped) if left else np.right_shift(x, capped)
        return np.where(by >= bits, dtype.type(0), found) if left or dtype.kind == "u" else found

    return decoder.computed(instruction, shifted, type_, "u32")


@opcode("shf")
def build_funnel(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`shf.l.wrap.b32 d, a, b, c`: the upper word of b:a shifted left, or the lower one shifted right."""
    wraps, left = "wrap" in instruction.modifiers, "l" in instruction.modifiers

    def shifted(low: Array, high: Array, amount: Array) -> Array:
        by = amount.astype(np.uint64)
        by = by & np.uint64(31) if wraps else np.minimum(by, np.uint64(32))
        both = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        return ((both << by) >> np.uint64(32) if left else both >> by).astype(np.uint32)

    return decoder.computed(instruction, shifted, "u32")


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
    dtype = NUMPY[decoder.type_of(instruction)]
    bits = 8 * dtype.itemsize

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
    return decoder.computed(instruction, functions[instruction.opcode])


@opcode("bfe")
def build_extract(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`bfe.u32 d, a, start, length`: a field, zero- or sign-extended."""
    type_ = decoder.type_of(instruction)
    dtype = NUMPY[type_]
    bits = 8 * dtype.itemsize

    def extracted(x: Array, start: Array, length: Array) -> Array:
        ends = (v.astype(np.int64) & 0xFF for v in (start, length))
        fields = np.broadcast_arrays(x.astype(object), *ends)
        found = [_field(int(v), int(p), int(n), bits, dtype.kind == "i") for v, p, n in zip(*fields, strict=True)]
        return np.array(found, np.dtype(f"u{dtype.itemsize}"))

    return decoder.computed(instruction, extracted, type_, "u32")


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

    def inserted(field: Array, into: Array, start: Array, length: Array) -> Array:
        first, count = start.astype(object) & 0xFF, length.astype(object) & 0xFF
        mask = ((1 << count) - 1 << first) & ((1 << bits) - 1)
        found = (into.astype(object) & ~mask) | (field.astype(object) << first & mask)
        return found.astype(NUMPY[type_])

    return decoder.computed(instruction, inserted, type_, type_, "u32")


@opcode("prmt")
def build_permute(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`prmt.b32 d, a, b, c`: four bytes of b:a, each chosen by 4 bits of c; bit 3 replicates the sign."""
    if instruction.modifiers != ("b32",):
        raise decoder.refused(instruction, "prmt has a mode; only the form prmt.b32 is modelled")

    def permuted(low: Array, high: Array, chosen: Array) -> Array:
        both = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
        selector = chosen.astype(np.uint64)
        found = np.zeros(1, np.uint64)
        for byte in range(4):
            pick = selector >> np.uint64(4 * byte)
            value = both >> ((pick & np.uint64(7)) * np.uint64(8)) & np.uint64(0xFF)
            sign = np.where(value & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
            found = found | np.where(pick & np.uint64(8), sign, value) << np.uint64(8 * byte)
        return found.astype(np.uint32)

    return decoder.computed(instruction, permuted, "u32")


@opcode("lop3")
def build_lop3(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`lop3.b32 d, a, b, c, table`."""

    def looked_up(a: Array, b: Array, c: Array, table: Array) -> Array:
        found = np.zeros(1, np.uint32)
        for row in range(8):
            if int(table[0]) >> row & 1:
                found = found | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return found

    return decoder.computed(instruction, looked_up, "u32")
