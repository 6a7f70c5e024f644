"""`lego.bitcast(x, dtype)`: the same bits as numbers of another type.

    lego.bitcast(x, u32)                 the pattern of an f32
    lego.bitcast(word, f16)              a vector of two, the low half first
    lego.bitcast(v, u32)                 of a vector of four u8 one number, of eight a vector of two
    lego.bitcast(word, u4)               eight packed numbers, see `tracing.words.packed_values`

A number with the bits of several is a vector of them, and a vector with the bits of one is a number. A tile of values
keeps its shape, so that its two types have the same size.
"""

from __future__ import annotations

from typing import cast

from lego_mlir.aliases import Operand
from lego_mlir.errors import brief
from lego_mlir.expr.index import PerElement
from lego_mlir.tracing.trace.dtypes import DType, dtype_named, u32
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.packed_values import PackedNumbers, codes_in, packed_words
from lego_mlir.tracing.words.scalar import Scalar, reinterpreted, vector


def bitcast(given: Operand, dtype: DType) -> Operand:
    """The bits of data as numbers of `dtype`. Raises TraceError for other bits than whole numbers have, and for i1."""
    tracer = current("lego.bitcast")
    if not isinstance(dtype, DType) or dtype.family in ("bool", "index"):
        raise tracer.error(f"lego.bitcast: the second argument is a type with a pattern of bits, got {dtype!r}")
    if isinstance(given, PerElement):
        return given.map(lambda value: _in_place(tracer, value, dtype), given)
    packed = isinstance(given, PackedNumbers)
    if not packed and (not isinstance(given, Scalar) or given.dtype.family == "bool"):
        raise tracer.error(f"lego.bitcast takes data of a kernel, a vector or a tile, got {brief(repr(given))}")
    bits = given.bits if packed else given.dtype.bits * (given.width or 1)
    count = bits // dtype.bits
    if bits % dtype.bits or count & (count - 1):
        raise tracer.error(
            f"lego.bitcast: {given!r} has {bits} bits, which are not 1, 2, 4, 8, .. whole numbers of {dtype}, of "
            f"{dtype.bits} bits each"
        )
    width = None if count == 1 else count
    if not packed and not dtype.is_packed:
        return reinterpreted(given, dtype, width)
    words = packed_words(given) if packed else _words(given, bits)
    if dtype.is_packed:
        return PackedNumbers(dtype, codes_in(dtype, words, count), width)
    whole = words[0] if len(words) == 1 else vector(*words)
    return reinterpreted(whole if bits >= u32.bits else cast(Scalar, whole.to(_unsigned(bits))), dtype, width)


def _words(given: Scalar, bits: int) -> list[Scalar]:
    """The bits of data in words of 32, low bits first."""
    if bits < u32.bits:
        return [cast(Scalar, reinterpreted(given, _unsigned(bits), None).to(u32))]
    whole = reinterpreted(given, u32, None if bits == u32.bits else bits // u32.bits)
    return [whole] if whole.width is None else list(whole)


def _in_place(tracer: Tracer, value: Operand, dtype: DType) -> Operand:
    """One element of a tile in another type of the same size."""
    if getattr(value, "dtype", dtype).bits != dtype.bits:
        raise tracer.error(
            f"lego.bitcast: a tile of {value.dtype} keeps its shape, and numbers of {dtype} have other sizes; load the "
            "tile in that type"
        )
    return bitcast(value, dtype)


def _unsigned(bits: int) -> DType:
    return dtype_named(f"u{bits}")
