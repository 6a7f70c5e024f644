"""cvt: between integers, between floats, between the two, and pairs of 4, 6 and 8 bits. PTX ISA, "cvt" and "cvt.pack".

A float becomes an integer by its rounding (rni, rzi, rmi, rpi), clamped to the integer's range. A narrower float is
rounded to nearest even (rn), towards zero (rz), or, for tf32, to nearest away from zero (rna). A pair is made of two
f32: the first operand goes to the upper half.

Pairs of 4 and 6 bits, and of exponents:

    e2m1x2            8 bits: the second operand in the low half
    e2m3x2, e3m2x2    16 bits: each in the low 6 bits of a byte
    ue8m0x2           16 bits: 2 ** (byte - 127), 255 is NaN

What is too large becomes the largest number, and a NaN the largest positive one, as these types have neither.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import ml_dtypes
import numpy as np

from lego_mlir.aliases import Array, Dtype
from lego_mlir.interp import rounding
from lego_mlir.interp.directed_rounding import MODES, directed_integers
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.instructions.float_arithmetic import flushed, repacked, saturated
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import BITS, FLOATS, NUMPY, PACKED, TYPE_NAMES
from lego_mlir.interp.ptx.tensor_formats import NARROW

INTEGER_ROUNDINGS: Final[dict[str, Callable[[Array], Array]]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
TF32_LARGEST: Final = np.uint32(0x7F7FE000).view(np.float32)
Convert = Callable[["Array"], "Array"]


@opcode("cvt")
def build_cvt(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cvt.rn.f16.f32 d, a`, `cvt.rn.f16x2.f32 d, a, b`."""
    to, from_ = [m for m in instruction.modifiers if m in TYPE_NAMES][:2]
    if to in PACKED and len(instruction.operands) == 3:
        return _pair(decoder, instruction, to, from_)
    convert = conversion(decoder, instruction, PACKED.get(to, to), PACKED.get(from_, from_))
    return decoder.computed(instruction, lambda x: repacked(convert(x), to), "b32" if from_ == "tf32" else from_)


def _pair(decoder: Decoder, instruction: PtxInstruction, to: str, from_: str) -> Step:
    """`cvt.rn.f16x2.f32 d, high, low`."""
    convert = conversion(decoder, instruction, PACKED[to], from_)
    element = NUMPY[PACKED[to]]

    def pairs(high: Array, low: Array) -> Array:
        both = np.empty((max(len(high), len(low)), 2), element)
        both[:, 0], both[:, 1] = convert(low), convert(high)
        return both.view(BITS[16 * element.itemsize])[:, 0]

    return decoder.computed(instruction, pairs, from_)


def conversion(decoder: Decoder, instruction: PtxInstruction, to: str, from_: str) -> Convert:
    """The function on arrays."""
    modifiers = set(instruction.modifiers)
    if to in FLOATS and from_ in FLOATS:
        found = _between_floats(decoder, instruction, to, from_)
    elif to in FLOATS:
        target, mode = NUMPY[to], next((m for m in MODES if m in modifiers), None)
        if mode is None:
            found = lambda value: _float_of(value, target)  # noqa: E731
        elif to in ("f32", "f64"):
            found = partial(_directed, mode, target)
        else:
            found = lambda value: narrowed(rounding.to_odd_f64(value), target, mode)  # noqa: E731
    elif from_ in FLOATS:
        rounds = next((INTEGER_ROUNDINGS[m] for m in instruction.modifiers if m in INTEGER_ROUNDINGS), None)
        if rounds is None:
            raise decoder.refused(instruction, "a conversion to an integer needs one of .rni, .rzi, .rmi, .rpi")
        target = NUMPY[to]
        of_nan = _of_nan(from_, target)
        found = lambda value: integer_of(rounds(value.astype(np.float64)), target, of_nan)  # noqa: E731
    else:
        target = NUMPY[to]
        if "sat" in modifiers:
            return lambda value: _clamped(value, target)
        return lambda value: value.astype(target)
    if "sat" in modifiers:
        unclamped = found
        found = lambda value: saturated(unclamped(value))  # noqa: E731
    if "satfinite" in modifiers and to in ("f16", "bf16", "tf32"):
        open_ = found
        largest = float(ml_dtypes.finfo(NUMPY[to]).max) if to != "tf32" else float(TF32_LARGEST)
        found = lambda value: _finite(open_(value), NUMPY[to], largest)  # noqa: E731
    if "relu" in modifiers:
        plain = found
        found = lambda value: plain(np.where((value > 0) | np.isnan(value), value, value.dtype.type(0)))  # noqa: E731
    if "ftz" in modifiers:
        kept = found
        return lambda value: flushed(kept(flushed(value)))
    return found


def _between_floats(decoder: Decoder, instruction: PtxInstruction, to: str, from_: str) -> Convert:
    target = NUMPY[to]
    modifiers = set(instruction.modifiers)
    for name, function in INTEGER_ROUNDINGS.items():
        if name in modifiers:
            return lambda value: function(value.astype(np.float64)).astype(target)
    if to == "tf32":
        if not modifiers & {"rna", "rn", "rz"}:
            raise decoder.refused(instruction, "a conversion to tf32 needs .rna, .rn or .rz")
        return tf32_away if "rna" in modifiers else rounding.tf32_even if "rn" in modifiers else rounding.tf32
    if "rs" in modifiers:
        raise decoder.refused(instruction, "a conversion by random bits (.rs) is not modelled")
    mode = next((m for m in MODES if m in modifiers), None)
    if mode is not None and target.itemsize < NUMPY[from_].itemsize:
        return lambda value: narrowed(value, target, mode)
    return lambda value: rounding.narrow(value, target)


def _directed(mode: str, target: Dtype, value: Array) -> Array:
    return directed_integers(mode, value, target)


def tf32_away(value: Array) -> Array:
    """f32 to tf32, ties away from zero."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(bits.view(np.float32)), rounded, bits)


def narrowed(value: Array, target: Dtype, mode: str) -> Array:
    """Floats in a narrower type, rounded down (rm), up (rp) or towards zero (rz)."""
    near, exact = rounding.narrow(value, target), value.astype(np.float64)
    back, word = near.astype(np.float64), np.dtype(f"i{target.itemsize}")
    down = (back > exact) & ((mode == "rm") | ((mode == "rz") & (exact > 0)))
    up = (back < exact) & ((mode == "rp") | ((mode == "rz") & (exact < 0)))
    bits = near.view(word).astype(np.int64)
    lowest = -(1 << 8 * target.itemsize - 1)
    ordered = np.where(bits < 0, lowest - bits, bits) - down + up  # -0.0 and 0.0 are one
    found = np.where(ordered < 0, lowest - ordered, ordered)
    found = np.where((ordered == 0) & np.signbit(exact), lowest, found)
    return np.where(down | up, found, bits).astype(word).view(target)


def _finite(value: Array, dtype: Dtype, largest: float) -> Array:
    """Infinities as the largest number."""
    numbers = value.view(dtype)
    wide = numbers.astype(np.float64)
    found: Array = np.where(np.isinf(wide), np.copysign(largest, wide), wide).astype(dtype)
    return found


def _float_of(value: Array, target: Dtype) -> Array:
    if target.itemsize < 4:
        return rounding.narrow(rounding.to_odd_f64(value), target)
    return value.astype(target)


def _of_nan(from_: str, target: Dtype) -> int:
    """The integer that a NaN becomes: 0, with 64 bits on one side the least signed one (its bits, if unsigned)."""
    return 0 if from_ != "f64" and target.itemsize < 8 else 1 << 8 * target.itemsize - 1


def integer_of(value: Array, target: Dtype, of_nan: int) -> Array:
    """f64 without fraction, clamped to an integer type."""
    limits = np.iinfo(target)
    clamped = np.where(np.isnan(value), 0, value)
    found = np.clip(clamped, float(limits.min), float(limits.max))
    top, bottom = found >= float(limits.max), found <= float(limits.min)
    inside = np.where(top | bottom, 0, found).astype(target)
    inside = np.where(top, target.type(limits.max), np.where(bottom, target.type(limits.min), inside))
    return np.where(np.isnan(value), np.array(of_nan).astype(target), inside)


def _clamped(value: Array, target: Dtype) -> Array:
    limits = np.iinfo(target)
    low, high = max(limits.min, np.iinfo(value.dtype).min), min(limits.max, np.iinfo(value.dtype).max)
    return np.clip(value, value.dtype.type(low), value.dtype.type(high)).astype(target)


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
