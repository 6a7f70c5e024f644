"""cvt to and from pairs of 4 and 6 bits and of exponents, and cvt.pack. PTX ISA, "cvt", "cvt.pack".

    e2m1x2            8 bits: the second operand in the low half
    e2m3x2, e3m2x2    16 bits: each in the low 6 bits of a byte
    ue8m0x2           16 bits: 2 ** (byte - 127), 255 is NaN

What is too large becomes the largest number, and a NaN the largest positive one, as these types have neither.
"""

from __future__ import annotations

from typing import Final

import ml_dtypes
import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import NUMPY
from lego_mlir.interp.ptx.tensor_formats import NARROW

PAIRS: Final = ("e2m1x2", "e2m3x2", "e3m2x2")
EXPONENT_BIAS: Final = 127
NAN_CODE: Final = 255
LARGEST_CODE: Final = 254


@opcode("cvt", form="e2m1x2")
@opcode("cvt", form="e2m3x2")
@opcode("cvt", form="e3m2x2")
def build_narrow_cvt(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cvt.rn.satfinite.e2m1x2.f32 d, a, b`, `cvt.rn.f16x2.e2m1x2 d, a`."""
    name = next(m for m in instruction.modifiers if m in PAIRS)
    dtype, bits = NARROW[name.removesuffix("x2")]
    relu, shift = "relu" in instruction.modifiers, bits if bits == 4 else 8
    if len(instruction.operands) == 3 and "f32" in instruction.modifiers:
        largest = float(ml_dtypes.finfo(dtype).max)

        def codes(value: Array) -> Array:
            kept = np.where(np.isnan(value), largest, np.clip(value, 0.0 if relu else -largest, largest))
            found: Array = kept.astype(np.float32).astype(dtype).view(np.uint8).astype(np.uint16)
            return found

        def to_pair(high: Array, low: Array) -> Array:
            return (codes(low) | codes(high) << shift).astype(np.uint8 if bits == 4 else np.uint16)

        return decoder.computed(instruction, to_pair, "f32")
    if len(instruction.operands) != 2 or "f16x2" not in instruction.modifiers:
        raise decoder.refused(instruction, f"{name} is made of two f32, and read as f16x2")

    def from_pair(word: Array) -> Array:
        codes = word.astype(np.uint16)
        halves = [(codes >> at & (1 << bits) - 1).astype(np.uint8).view(dtype) for at in (0, shift)]
        values = np.stack(halves, axis=1).astype(np.float16)
        return np.ascontiguousarray(np.maximum(values, 0) if relu else values).view(np.uint32)[:, 0]

    return decoder.computed(instruction, from_pair, "b8" if bits == 4 else "b16")


@opcode("cvt", form="ue8m0x2")
def build_exponent_cvt(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cvt.rp.satfinite.ue8m0x2.f32 d, a, b`, `cvt.rz.ue8m0x2.bf16x2 d, a`, `cvt.rn.bf16x2.ue8m0x2 d, a`."""
    types = [m for m in instruction.modifiers if m in ("ue8m0x2", "f32", "bf16x2")]
    up, saturates = "rp" in instruction.modifiers, "satfinite" in instruction.modifiers

    def from_exponents(pairs: Array) -> Array:
        codes = np.stack([pairs & 0xFF, pairs >> 8], axis=1).astype(np.float32)
        values = np.where(codes == NAN_CODE, np.nan, np.exp2(codes - EXPONENT_BIAS)).astype(NUMPY["bf16"])
        return np.ascontiguousarray(values).view(np.uint32)[:, 0]

    def to_exponents(*given: Array) -> Array:
        pair = np.stack(np.broadcast_arrays(*given[::-1]), axis=1) if len(given) == 2 else given[0].reshape(-1, 2)
        codes = exponent_codes(pair.astype(np.float32), up=up, saturates=saturates)
        return np.ascontiguousarray(codes).view(np.uint16)[:, 0]

    if types == ["bf16x2", "ue8m0x2"]:
        return decoder.computed(instruction, from_exponents, "b16")
    return decoder.computed(instruction, to_exponents, "f32" if types == ["ue8m0x2", "f32"] else "bf16x2")


def exponent_codes(value: Array, *, up: bool, saturates: bool) -> Array:
    """The bytes of the powers of two below, or above, the magnitudes of f32."""
    bits = np.abs(value.astype(np.float32)).view(np.uint32)
    codes = (bits >> 23).astype(np.int64)
    if up:
        codes += np.where(codes == 0, bits > 1 << 22, bits & 0x7FFFFF != 0)
    codes = np.where(np.isinf(value), LARGEST_CODE if saturates else NAN_CODE, codes)
    codes = np.minimum(codes, LARGEST_CODE if saturates else NAN_CODE)
    return np.where(np.isnan(value), NAN_CODE, codes).astype(np.uint8)


@opcode("cvt", form="pack")
def build_pack(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cvt.pack.sat.u8.s32.b32 d, a, b, c`: two saturated integers below the low bits of a third word."""
    kind = instruction.modifiers[2]
    signed, bits = kind[0] == "s", int(kind[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if (bits == 16) != (len(instruction.operands) == 3):
        raise decoder.refused(instruction, "16 bits are packed from two operands, fewer from three")

    def packed(a: Array, b: Array, *rest: Array) -> Array:
        upper, lower = (np.clip(v.astype(np.int64), low, high) & ((1 << bits) - 1) for v in (a, b))
        word = lower | upper << bits
        for more in rest:
            word = word | more.astype(np.int64) << 2 * bits
        return (word & 0xFFFFFFFF).astype(np.uint32)

    return decoder.computed(instruction, packed, instruction.modifiers[3], instruction.modifiers[3], "b32")
