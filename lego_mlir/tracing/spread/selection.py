"""The k greatest elements along an axis by k reductions, where that takes fewer steps than ordering all elements.

An element and its index are one integer, so that the greatest one is found by a maximum:

    high half    the element: an integer, or the bits of a float as an integer of that order, both zeros 0, NaN greatest
    low half     2 * (size - index) + sign of a float: of equal elements the first is greater

A reduction leaves the greatest one in all lanes that hold the axis; it is taken out, and the next one found. Elements
of 16 bits and their indices are 32 bits together, wider ones 64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from lego_mlir.f2.axis_bits import axis_bits, resized
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.filled import arange
from lego_mlir.tracing.spread.folds import folded
from lego_mlir.tracing.trace.dtypes import DType, bf16, f16, f32, i16, i32, i64
from lego_mlir.tracing.trace.trace import MlirOperation
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words import functions
from lego_mlir.tracing.words.scalar import Scalar


def prefers_selection(layout: LinearLayout, axis: int, k: int, dtype: DType) -> bool:
    """Whether k reductions take fewer combinations than a bitonic sort, and none of them crosses warps."""
    bits = axis_bits(layout, axis)
    if bits is None or dtype.bits > f32.bits or any(bit.place == "warp" for bit in bits.each):
        return False
    lanes = sum(bit.place == "lane" for bit in bits.each)
    registers, levels = 1 << len(bits.each) - lanes, len(bits.each)
    return k * (registers + lanes) < registers * levels * (levels + 1) // 2


def selected(x: Spread, k: int, axis: int) -> tuple[Spread, Spread]:
    """The k greatest elements along an axis and their indices, in the layout of the tile with an axis of k."""
    form = PackedForm.of(x.dtype, x.shape[axis])
    keys = x.map(form.packed, x, x.index(axis).to(i32))
    place = arange(resized(x.layout, axis, k), axis)
    found = None
    for n in range(k):
        best = folded("max of topk", keys, axis if len(x.shape) > 1 else None, functions.maximum)
        grown = best.expand_dims(axis) if isinstance(best, Spread) else best
        found = place.map(lambda p, v: v, place, grown) if found is None else functions.where(place == n, grown, found)
        if n < k - 1:
            keys = functions.where(keys == grown, form.lowest, keys)
    assert found is not None
    return found.map(form.element, found), found.map(form.index, found)


@dataclass(frozen=True, slots=True)
class PackedForm:
    """An element of `dtype` above its index along an axis of `size`, in an integer of type `word`."""

    dtype: DType
    size: int
    number: DType
    """The type whose bits are ordered: f16, bf16 or f32 for floats, i32 for integers."""
    word: DType

    @classmethod
    def of(cls, dtype: DType, size: int) -> PackedForm:
        """The narrowest form."""
        half = dtype.bits <= f16.bits and 2 * size < 1 << f16.bits - 1
        number = i32 if not dtype.is_float else dtype if dtype in (f16, bf16) else f16 if dtype.bits < f16.bits else f32
        return cls(dtype, size, number, i32 if half else i64)

    @property
    def shift(self) -> int:
        """The position of the element."""
        return self.word.bits // 2

    @property
    def lowest(self) -> int:
        """Less than all packed elements, whose low half is not 0."""
        return -(1 << self.word.bits - 1)

    @property
    def _sign(self) -> int:
        return 1 << self.number.bits - 1

    def packed(self, value: Scalar, index: Scalar) -> Scalar:
        """The element and its index as one integer."""
        low = (self.size - index) * 2
        if not self.number.is_float:
            high = value.to(i32)
            if self.dtype.is_unsigned and self.dtype.bits == self.shift:
                high = high ^ -(1 << 31) if self.dtype.bits == i32.bits else high - (1 << self.shift - 1)
            return (high.to(self.word) << self.shift) | low.to(self.word)
        bits = self._bits(value.to(self.number))
        magnitude, infinity = bits & self._sign - 1, self._infinity
        no_number = magnitude > infinity
        magnitude = functions.where(no_number, infinity | infinity >> 1, magnitude)
        sign = (bits >> self.number.bits - 1) & 1
        high = functions.where((sign != 0) & ~no_number, -magnitude, magnitude)
        low = low + sign
        return cast(Scalar, (high.to(self.word) << self.shift) | low.to(self.word))

    def element(self, packed: Scalar) -> Scalar:
        """The element of a packed one: the same bits, but for the payload of a NaN."""
        high = (packed >> self.shift).to(i32)
        if not self.number.is_float:
            if self.dtype.is_unsigned and self.dtype.bits == self.shift:
                high = high ^ -(1 << 31) if self.dtype.bits == i32.bits else high + (1 << self.shift - 1)
            return high.to(self.dtype)
        sign = packed.to(i32) & 1
        bits = abs(high) | sign << self.number.bits - 1
        if self.number.bits < i32.bits:
            bits = bits.to(i16)
        return bits_as(bits, self.number).to(self.dtype)

    def index(self, packed: Scalar) -> Scalar:
        """The index of a packed element."""
        low = packed.to(i32) & (1 << self.shift) - 1 if self.shift < i32.bits else packed.to(i32)
        return self.size - (low >> 1)

    @property
    def _infinity(self) -> int:
        """The bits of infinity."""
        return {f16: 0x7C00, bf16: 0x7F80, f32: 0x7F800000}[self.number]

    def _bits(self, value: Scalar) -> Scalar:
        """The bits of a float, in the low ones of an i32."""
        if self.number.bits == i32.bits:
            return bits_as(value, i32)
        return bits_as(value, i16).to(i32) & 0xFFFF


def bits_as(value: Scalar, dtype: DType) -> Scalar:
    """The same bits as another type."""
    tracer = current("topk")
    result = tracer.value(dtype)
    tracer.append(MlirOperation((result,), "arith.bitcast", (tracer.use(value.entry),), (), tracer.here()))
    return Scalar(result)
