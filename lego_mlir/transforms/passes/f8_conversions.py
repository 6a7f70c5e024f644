"""Conversions between f8 and wider floats, and from these to f6 and f4, in integer arithmetic.

PTX converts f8 from sm_89 on, f6 and f4 on a few targets, and no CPU does. Such a number is a short f16 or f32, so that
the directions are a few operations, the same on every target:

    f8e5m2   -> f16    the byte is the upper half of the f16
    f8e4m3fn -> f16    its bits at the place of an f16's have an exponent too small by 8: times 256; 0x7F is NaN
    f32 -> f8, f6, f4  |x| rebiased, half a unit added (ties to even), shifted right; below the least normal number
                       |x| + magic, whose last bit is the least number, rounds instead; at most the largest number

Beyond the largest number, infinity included, the result is the largest, as of PTX's `cvt.satfinite`. NaN remains in f8;
f6 and f4 have none, and take the largest number.
f64 goes through f32 rounded to odd, so that it is rounded once.

An `ldmatrix` of f8 becomes one of bytes, which upstream's conversion to nvvm lowers; the bits are the same:

    %m = nvgpu.ldmatrix %tile[%i] : memref<64xf8E4M3FN, 3> -> vector<4x4xf8E4M3FN>
    -->
    %bytes = nvgpu.ldmatrix %tile as memref<64xi8, 3>[%i] -> vector<4x4xi8>;  %m = arith.bitcast %bytes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.elementwise import EQ, UGT, ULT, Elementwise, element_name, replace, single_to_odd

F32_BIAS: Final = 127
F32_FRACTION: Final = 23
F32_INFINITY: Final = 0x7F800000


@dataclass(frozen=True, slots=True)
class _Format:
    """Bits of the fraction, bias of the exponent, bits in all, and the code of the largest number."""

    fraction: int
    bias: int
    bits: int
    largest: int


_FORMATS: Final = {
    "f8E4M3FN": _Format(3, 7, 8, 0x7E), "f8E5M2": _Format(2, 15, 8, 0x7B),
    "f6E2M3FN": _Format(3, 1, 6, 0x1F), "f6E3M2FN": _Format(2, 3, 6, 0x1F), "f4E2M1FN": _Format(1, 1, 4, 0x7),
}  # fmt: skip
_NAN: Final = 0x7F


@dataclass(frozen=True, slots=True)
class LowerF8Conversions(FunctionPass):
    """Replaces the conversions."""

    name = "lego-lower-f8-conversions"

    def run_on(self, function: Op) -> None:
        ir = bindings.load().ir
        for operation in [op for op in walk(function) if op.name in ("arith.extf", "arith.truncf")]:
            given, result = operation.operands[0], operation.results[0]
            source, target = element_name(given.type), element_name(result.type)
            if source not in _FORMATS and target not in _FORMATS:
                continue
            with operation.location, ir.InsertionPoint(operation):
                e = Elementwise(result.type)
                made = _widened(e, given, source, target) if source in _FORMATS else _narrowed(e, given, target)
                replace(operation, made)


def _widened(e: Elementwise, given: Value, source: str, target: str) -> Value:
    byte = e.make("arith.bitcast", "i8", given)
    word = e.make("arith.extui", "i16", byte)
    if source == "f8E5M2":
        half = e.make("arith.bitcast", "f16", e.make("arith.shli", "i16", word, e.number(8, "i16")))
    else:
        size = e.make("arith.andi", "i16", word, e.number(_NAN, "i16"))
        sign = e.make("arith.shli", "i16", e.make("arith.subi", "i16", word, size), e.number(8, "i16"))
        low = e.make("arith.shli", "i16", size, e.number(7, "i16"))
        small = e.make("arith.bitcast", "f16", e.make("arith.ori", "i16", sign, low))
        number = e.make("arith.mulf", "f16", small, e.number(256.0, "f16"))
        is_nan = e.compare(EQ, size, e.number(_NAN, "i16"))
        half = e.choose(is_nan, e.number(float("nan"), "f16"), number)
    if target == "f16":
        return half
    wide = e.make("arith.extf", "f64" if target == "f64" else "f32", half)
    return e.make("arith.truncf", "bf16", wide) if target == "bf16" else wide


def _narrowed(e: Elementwise, given: Value, target: str) -> Value:
    kind, source = _FORMATS[target], element_name(given.type)
    shift, least = F32_FRACTION - kind.fraction, 1 - kind.bias  # the exponent of the least normal number
    if source == "f64":
        given = single_to_odd(e, given)
    elif source != "f32":
        given = e.make("arith.extf", "f32", given)
    bits = e.make("arith.bitcast", "i32", given)
    size = e.make("arith.andi", "i32", bits, e.number(0x7FFFFFFF, "i32"))
    rebiased = e.make("arith.subi", "i32", size, e.number((F32_BIAS - kind.bias) << F32_FRACTION, "i32"))
    last = e.make(
        "arith.andi", "i32", e.make("arith.shrui", "i32", rebiased, e.number(shift, "i32")), e.number(1, "i32")
    )
    half = e.make("arith.addi", "i32", last, e.number((1 << shift - 1) - 1, "i32"))
    normal = e.make("arith.shrui", "i32", e.make("arith.addi", "i32", rebiased, half), e.number(shift, "i32"))
    magic = float(2 ** (F32_FRACTION + least - kind.fraction))
    moved = e.make("arith.addf", "f32", e.make("arith.bitcast", "f32", size), e.number(magic, "f32"))
    magic_bits = e.make("arith.bitcast", "i32", e.number(magic, "f32"))
    subnormal = e.make("arith.subi", "i32", e.make("arith.bitcast", "i32", moved), magic_bits)
    is_small = e.compare(ULT, size, e.number((F32_BIAS + least) << F32_FRACTION, "i32"))
    rounded = e.make("arith.minui", "i32", e.choose(is_small, subnormal, normal), e.number(kind.largest, "i32"))
    is_nan = e.compare(UGT, size, e.number(F32_INFINITY, "i32"))
    place = e.number(kind.bits - 1, "i32")
    sign = e.make("arith.shli", "i32", e.make("arith.shrui", "i32", bits, e.number(31, "i32")), place)
    if kind.bits == 8:
        found = e.make("arith.ori", "i32", e.choose(is_nan, e.number(_NAN, "i32"), rounded), sign)
    else:
        found = e.choose(is_nan, e.number(kind.largest, "i32"), e.make("arith.ori", "i32", rounded, sign))
    return e.make("arith.bitcast", target, e.make("arith.trunci", f"i{kind.bits}", found))


LOAD: Final = "nvgpu.ldmatrix"
CAST: Final = "builtin.unrealized_conversion_cast"
_F8: Final = ("f8E4M3FN", "f8E5M2")


@dataclass(frozen=True, slots=True)
class LowerF8MatrixLoads(FunctionPass):
    """Replaces the loads; the tiles become the same LLVM pointers, so that the cast of one disappears."""

    name = "lego-lower-f8-matrix-loads"

    def run_on(self, function: Op) -> None:
        ir = bindings.load().ir
        for load in [op for op in walk(function) if op.name == LOAD]:
            tile, *indices = load.operands
            if element_name(load.results[0].type) not in _F8:
                continue
            with load.location, ir.InsertionPoint(load):
                e = Elementwise(load.results[0].type)
                bytes_ = ir.MemRefType.get(
                    list(tile.type.shape), ir.Type.parse("i8"), tile.type.layout, tile.type.memory_space
                )
                viewed = ir.Operation.create(CAST, [bytes_], [tile]).results[0]
                attributes = {name: load.attributes[name] for name in ("transpose", "numTiles")}
                made = ir.Operation.create(LOAD, [e.type("i8")], [viewed, *indices], attributes=attributes).results[0]
                cast = ir.Operation.create("arith.bitcast", [load.results[0].type], [made]).results[0]
                replace(load, cast)
