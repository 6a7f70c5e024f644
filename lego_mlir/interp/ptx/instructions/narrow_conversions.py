"""cvt to and from pairs of 4 and 6 bits and of exponents, and cvt.pack. PTX ISA, "cvt", "cvt.pack".

    e2m1x2            8 bits: the second operand in the low half
    e2m3x2, e3m2x2    16 bits: each in the low 6 bits of a byte
    ue8m0x2           16 bits: 2 ** (byte - 127), 255 is NaN

What is too large becomes the largest number, and a NaN the largest positive one, as these types have neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import ml_dtypes
import numpy as np

from lego_mlir.interp.ptx.decoder import Decoder, Source, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import NUMPY
from lego_mlir.interp.ptx.tensor_formats import NARROW

if TYPE_CHECKING:
    from lego_mlir.aliases import Array

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
    write, relu = decoder.sink(instruction.operands[0], instruction), "relu" in instruction.modifiers
    shift = bits if bits == 4 else 8
    if len(instruction.operands) == 3 and "f32" in instruction.modifiers:
        high, low = (decoder.source(o, "f32", instruction) for o in instruction.operands[1:])
        largest = float(ml_dtypes.finfo(dtype).max)

        def codes(value: Array) -> Array:
            kept = np.where(np.isnan(value), largest, np.clip(value, 0.0 if relu else -largest, largest))
            found: Array = kept.astype(np.float32).astype(dtype).view(np.uint8).astype(np.uint16)
            return found

        def to_pair(gang: Gang) -> Outcome:
            pair = np.broadcast_to(codes(low(gang)) | codes(high(gang)) << shift, (gang.lanes,))
            write(gang, np.ascontiguousarray(pair.astype(np.uint8) if bits == 4 else pair))
            return None

        return to_pair
    if len(instruction.operands) != 2 or "f16x2" not in instruction.modifiers:
        raise decoder.refused(instruction, f"{name} is made of two f32, and read as f16x2")
    source = decoder.source(instruction.operands[1], "b8" if bits == 4 else "b16", instruction)
    mask = (1 << bits) - 1

    def from_pair(gang: Gang) -> Outcome:
        word = source(gang).astype(np.uint16)
        halves = [(word >> at & mask).astype(np.uint8).view(dtype).astype(np.float16) for at in (0, shift)]
        values = np.stack(halves, axis=1)
        write(gang, np.ascontiguousarray(np.maximum(values, 0) if relu else values).view(np.uint32)[:, 0])
        return None

    return from_pair


@opcode("cvt", form="ue8m0x2")
def build_exponent_cvt(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cvt.rp.satfinite.ue8m0x2.f32 d, a, b`, `cvt.rz.ue8m0x2.bf16x2 d, a`, `cvt.rn.bf16x2.ue8m0x2 d, a`."""
    write = decoder.sink(instruction.operands[0], instruction)
    types = [m for m in instruction.modifiers if m in ("ue8m0x2", "f32", "bf16x2")]
    if types == ["bf16x2", "ue8m0x2"]:
        source = decoder.source(instruction.operands[1], "b16", instruction)

        def from_exponents(gang: Gang) -> Outcome:
            codes = np.stack([source(gang) & 0xFF, source(gang) >> 8], axis=1).astype(np.float32)
            values = np.where(codes == NAN_CODE, np.nan, np.exp2(codes - EXPONENT_BIAS)).astype(NUMPY["bf16"])
            write(gang, np.ascontiguousarray(values).view(np.uint32)[:, 0])
            return None

        return from_exponents
    up, saturates = "rp" in instruction.modifiers, "satfinite" in instruction.modifiers
    if types == ["ue8m0x2", "f32"]:
        high, low = (decoder.source(o, "f32", instruction) for o in instruction.operands[1:])
        pair: Source = lambda gang: np.stack(np.broadcast_arrays(low(gang), high(gang)), axis=1)  # noqa: E731
    else:
        whole = decoder.source(instruction.operands[1], "bf16x2", instruction)
        pair = lambda gang: whole(gang).astype(np.float32).reshape(-1, 2)  # noqa: E731

    def to_exponents(gang: Gang) -> Outcome:
        codes = exponent_codes(pair(gang), up=up, saturates=saturates)
        write(gang, np.ascontiguousarray(codes).view(np.uint16)[:, 0])
        return None

    return to_exponents


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
    d, *operands = instruction.operands
    if (bits == 16) != (len(operands) == 2):
        raise decoder.refused(instruction, "16 bits are packed from two operands, fewer from three")
    a, b = (decoder.source(o, instruction.modifiers[3], instruction) for o in operands[:2])
    rest = decoder.source(operands[2], "b32", instruction) if len(operands) > 2 else None
    write = decoder.sink(d, instruction)

    def run(gang: Gang) -> Outcome:
        upper, lower = (np.clip(v(gang).astype(np.int64), low, high) & ((1 << bits) - 1) for v in (a, b))
        word = lower | upper << bits
        if rest is not None:
            word = word | rest(gang).astype(np.int64) << 2 * bits
        write(gang, np.ascontiguousarray(np.broadcast_to(word & 0xFFFFFFFF, (gang.lanes,)).astype(np.uint32)))
        return None

    return run
