"""Numbers of the packed types in registers: codes inside words, and their conversions.

A loaded number of 4, 6 or 8 bits stays where it is, inside a word of 32 bits, until it is converted:

    w.load(i, j, width=8)              8 numbers of u4: one word, and a shift for each of them
    w.load(i, j, width=8).to(f16)      a vector of 8 f16
    lego.f4e2m1fn(x)                   the nearest number of the type to an f32

A word has codes in both of its halves, so that one pattern of bits makes two numbers of 16 bits at once:

    integers   0x6400 | code is 1024 + code in f16: the last bits of its significand; 1024 is subtracted. A signed code
               plus 8, which exchanges its highest bit, is unsigned (bf16: 0x4300 and 128). 0x6400 | code << 4 is
               1024 + 16 code, from which one fma makes the code
    floats     the fields of the code, moved to the last bits of the exponent and the first of the significand, are its
               value times a power of two, also those of subnormal numbers; one product scales it back

Both are exact. Numbers for f32 and others go through f16, which holds every value of these types but those of e8m0.
A number of e8m0 is its code as the exponent of an f32 or, two at a time, of bf16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from lego_mlir.aliases import Operand
from lego_mlir.tracing.trace import dtypes
from lego_mlir.tracing.trace.dtypes import DType, bf16, f16, f32, f64, i4, i32, u4, u32
from lego_mlir.tracing.trace.trace import MlirOperation
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.trace.uncompared import Uncompared
from lego_mlir.tracing.words.scalar import Scalar, compute, convert, reinterpreted, select, vector

Code: TypeAlias = tuple[Scalar, int]
"""A word of 32 bits, a u32, and the bit of it at which a code begins."""
HALF: Final = 16
SHIFTS: Final = {4: (0, 4, 8, 12, 16, 20, 24, 28), 6: (0, 6, 16, 22), 8: (0, 8, 16, 24)}
"""Where the codes of a word begin; those of 6 bits are spread, so that both halves have the same places."""


@dataclass(frozen=True, slots=True)
class MiniFloat:
    """The fields of a small float: the sign, the exponent, `significand` bits; the exponent of 1 is `bias`."""

    significand: int
    bias: int


FLOATS: Final = {
    dtypes.f4e2m1fn: MiniFloat(1, 1),
    dtypes.f6e2m3fn: MiniFloat(3, 1),
    dtypes.f6e3m2fn: MiniFloat(2, 3),
}
"""OCP Microscaling Formats, v1.0, table 1."""
ENCODED: Final = {
    dtype: (DType(name, dtype.bits, "float", "uint8", name), DType(code, dtype.bits, "int", "uint8", code))
    for dtype in FLOATS
    for name, code in [(dtype.name.upper().replace("F", "f", 1), f"i{dtype.bits}")]
}
"""A number of such a type, and its code, as values of MLIR."""
HALVES: Final = {f16: (10, 15, 0x6400, 1024.0), bf16: (7, 127, 0x4300, 128.0)}
"""Bits of the significand, bias, and a pattern whose number has steps of 1, with that number."""
SINGLE: Final = (23, 127)


class PackedNumbers(Uncompared):
    """A number of a packed type, or a vector of `width` of them. It is converted, stored, and taken apart by `v[k]`."""

    __slots__ = ("codes", "dtype", "width")
    _instead = "convert it, for example with .to(lego.f32)"

    def __init__(self, dtype: DType, codes: Sequence[Code], width: int | None) -> None:
        self.dtype, self.codes, self.width = dtype, tuple(codes), width

    @property
    def bits(self) -> int:
        """The bits of all numbers together."""
        return self.dtype.bits * len(self.codes)

    def to(self, dtype: DType) -> Operand:
        """The numbers in another element type."""
        return convert(self, dtype)

    def __getitem__(self, lane: int) -> PackedNumbers:
        if self.width is None or not isinstance(lane, int) or not 0 <= lane < self.width:
            raise current("a vector's element").error(
                f"{self!r} has no element {lane!r}; a vector takes an int below its width"
            )
        return PackedNumbers(self.dtype, self.codes[lane : lane + 1], None)

    def __iter__(self) -> Iterator[PackedNumbers]:
        return (self[lane] for lane in range(self.width or 0))

    def __repr__(self) -> str:
        return f"<{self.dtype if self.width is None else f'vector of {self.width} {self.dtype}'}, packed>"


def decoded(numbers: PackedNumbers, dtype: DType) -> Operand:
    """The numbers in a type with arithmetic, or in another packed type."""
    if dtype.is_packed:
        return encoded(cast(Scalar, decoded(numbers, f32)), dtype)
    each = decoded_each(numbers.dtype, numbers.codes, dtype)
    return each[0] if numbers.width is None else vector(*each)


def decoded_each(source: DType, codes: Sequence[Code], dtype: DType) -> list[Scalar]:
    """The number of each code; two in the halves of one word are converted together."""
    if source is dtypes.f8e8m0fnu and dtype is bf16:
        return _powers_of_two(codes)
    if source is dtypes.f8e8m0fnu:
        return [cast(Scalar, convert(_power_of_two(word >> shift if shift else word), dtype)) for word, shift in codes]
    if source.family == "int" and dtype.family in ("int", "bool"):
        return [cast(Scalar, convert(_integer(source, *code), dtype)) for code in codes]
    taken: dict[int, set[int]] = {}
    for word, shift in codes:
        taken.setdefault(word.entry.number, set()).add(shift)
    found: dict[tuple[int, int], Scalar] = {}
    for word, shift in codes:
        number, low = word.entry.number, shift % HALF
        if (number, shift) in found:
            continue
        both = {low, low + HALF} <= taken[number]
        pair = _pair(source, word, low if both else shift, both, dtype if dtype in HALVES else f16)
        wide = cast(Scalar, convert(pair, dtype))
        found[number, low if both else shift] = wide[0]
        if both:
            found[number, low + HALF] = wide[1]
    return [found[word.entry.number, shift] for word, shift in codes]


def _pair(source: DType, word: Scalar, low: int, both: bool, dtype: DType) -> Scalar:
    """The numbers of the codes at the bits `low` and `low + 16`, in f16 or bf16; the second counts only if `both`.

    A significand of 10 bits has room for 16 times an integer, so that every other integer is taken where it stands.
    """
    significand, bias, pattern, number = HALVES[dtype]
    copies = 0x00010001 if both else 1
    if source.family == "int":
        offset, left = 8 if source is i4 else 0, low % 8 if dtype is f16 else 0
        moved = word >> (low - left) if low > left else word
        made = (moved & (0xF * copies) << left) ^ (pattern | offset << left) * copies
        whole = reinterpreted(made, dtype, 2)
        return cast(Scalar, whole * 2.0**-left - (number * 2.0**-left + offset) if left else whole - (number + offset))
    word = word >> low if low else word
    kind, size = FLOATS[source], source.bits
    sign, rest = 1 << (size - 1), (1 << (size - 1)) - 1
    fields = (word & rest * copies) << (significand - kind.significand)
    made = fields | (word & sign * copies) << (HALF - size)
    return cast(Scalar, reinterpreted(made, dtype, 2) * 2.0 ** (bias - kind.bias))


def halves_of_bytes(four: Sequence[Scalar]) -> list[Scalar]:
    """Up to four numbers of i8 or u8 in f16, by the pattern of `0x6400 | code`, two at a time."""
    source = four[0].dtype
    whole = vector(*four, *[four[-1]] * (4 - len(four)))
    word = reinterpreted(whole, u32, None)
    offset = 0x80 if source is dtypes.i8 else 0
    pattern = (HALVES[f16][2] | offset) * 0x00010001
    number = HALVES[f16][3] + offset
    even, odd = (reinterpreted((word >> s if s else word) & 0x00FF00FF ^ pattern, f16, 2) - number for s in (0, 8))
    return [even[0], odd[0], even[1], odd[1]][: len(four)]


def _integer(source: DType, word: Scalar, shift: int) -> Scalar:
    """A code of 4 bits as an integer, an i32 or a u32."""
    if source is u4:
        return cast(Scalar, (word >> shift) & 0xF)
    top = u32.bits - source.bits
    return cast(Scalar, convert(word << (top - shift), i32) >> top)


def _power_of_two(word: Scalar) -> Scalar:
    """The f32 of an e8m0 code in the last bits of a word: its exponent. Of 0 it is subnormal, and 255 is NaN."""
    code = word & 0xFF
    bits = code << SINGLE[0]
    return reinterpreted(select((code == 0) | (code == 0xFF), bits | 1 << (SINGLE[0] - 1), bits), f32, None)


def _powers_of_two(codes: Sequence[Code]) -> list[Scalar]:
    """The bf16 of e8m0 codes, two at a time, without a branch: a code is the exponent of its number.

    Of 0 the number is subnormal, 2^-127, the least of all. 255 gives infinity, of which a product with 0 makes NaN;
    every other number stays as it is.
    """
    found: list[Scalar] = []
    for first in range(0, len(codes), 2):
        pair = [word >> shift if shift else word for word, shift in codes[first : first + 2]]
        both = (pair[0] & 0xFF) | (pair[1] & 0xFF) << HALF if len(pair) > 1 else pair[0] & 0xFF
        number = compute("maximum", reinterpreted(both << HALVES[bf16][0], bf16, 2), 2.0 ** -HALVES[bf16][1])
        number = compute("fma", number, 0.0, number)
        found += [number[lane] for lane in range(len(pair))]
    return found


def encoded(given: Operand, dtype: DType) -> PackedNumbers:
    """A number, data or a vector rounded to a packed type.

    Floats are rounded to nearest even and saturate, and of NaN the largest is taken (PTX ISA, "cvt.rn.satfinite"); for
    integers they are rounded towards zero and saturate, integers are taken modulo 16. For e8m0 a number is rounded down
    to a power of two; a negative number and NaN give NaN.
    """
    if not isinstance(given, Scalar):
        given = cast(Scalar, convert(given, f32 if dtype.is_float else i32))
    if given.dtype is f64:
        raise current(f"lego.{dtype}(..)").error(
            f"an f64 is not converted to {dtype}, since it would be rounded twice; convert it with .to(lego.f32) first"
        )
    if dtype in FLOATS:
        codes = _float_codes(cast(Scalar, convert(given, f32)), dtype)
        lanes = [codes] if given.width is None else [codes[k] for k in range(given.width)]
        return PackedNumbers(dtype, [(code, 0) for code in lanes], given.width)
    if given.width is not None:
        each = [encoded(given[lane], dtype) for lane in range(cast(int, given.width))]
        return PackedNumbers(dtype, [code for one in each for code in one.codes], cast(int, given.width))
    if dtype.family == "int":
        code = _integer_code(given, dtype)
    else:
        code = _scale_code(cast(Scalar, convert(given, f32)))
    return PackedNumbers(dtype, [(code, 0)], None)


def broadcast_number(given: Operand, dtype: DType, width: int | None) -> PackedNumbers:
    """A number of a packed type, `width` times where there is one."""
    numbers = cast(PackedNumbers, convert(given, dtype))
    return PackedNumbers(dtype, numbers.codes * width, width) if width and numbers.width is None else numbers


def encoded_each(given: Sequence[Operand], dtype: DType) -> list[PackedNumbers]:
    """Each number rounded to a packed type; floats two at a time, as instructions convert them."""
    if dtype not in FLOATS or not all(isinstance(number, Scalar) for number in given):
        return [cast(PackedNumbers, convert(number, dtype)) for number in given]
    pairs = [vector(*given[k : k + 2]) for k in range(0, len(given) - 1, 2)]
    whole = [number for pair in pairs for number in encoded(pair, dtype)]
    return whole + [encoded(number, dtype) for number in given[2 * len(pairs) :]]


def _integer_code(given: Scalar, dtype: DType) -> Scalar:
    if given.dtype.is_float:
        low, high = dtype.span
        whole = cast(Scalar, convert(given, i32))
        given = compute("minimum", compute("maximum", whole, low), high)
    return cast(Scalar, convert(given, u32) & 0xF)


def _float_codes(given: Scalar, dtype: DType) -> Scalar:
    """The codes nearest to f32, each in a u32: a conversion of MLIR, for which a target may have an instruction."""
    tracer = current(f"lego.{dtype}(..)")
    number, code = ENCODED[dtype]
    value = tracer.use(given.entry)
    for kind, operation in ((number, "arith.truncf"), (code, "arith.bitcast"), (u32, "arith.extui")):
        result = tracer.value(kind, given.width)
        tracer.append(MlirOperation((result,), operation, (value,), (), tracer.here()))
        value = result
    return Scalar(value)


def _scale_code(given: Scalar) -> Scalar:
    bits = reinterpreted(given, u32, None)
    size = bits & 0x7FFFFFFF
    known = compute("minimum", size >> SINGLE[0], 0xFE)
    return select((bits > 0x80000000) | (size > _pattern(float("inf"))), 0xFF, known)


def _pattern(number: float) -> int:
    """The bits of an f32."""
    import numpy

    return int(numpy.float32(number).view(numpy.uint32))


def joined_numbers(elements: Sequence[Operand]) -> PackedNumbers:
    """A vector of numbers: `lego.vector` of them. Raises TraceError for several types, and for other widths."""
    types = {e.dtype for e in elements if isinstance(e, PackedNumbers) and e.width is None}
    if len(types) != 1 or len(elements) & (len(elements) - 1):
        raise current("lego.vector").error(
            f"lego.vector takes 2, 4, 8 or 16 packed numbers of one type, got {', '.join(map(repr, elements))}"
        )
    return PackedNumbers(types.pop(), [e.codes[0] for e in elements], len(elements))


def code_of(number: PackedNumbers) -> Scalar:
    """The code of one number, a u8."""
    return cast(Scalar, packed_words(number)[0].to(dtypes.u8))


def number_of(dtype: DType, code: Scalar) -> PackedNumbers:
    """The number of a code."""
    return PackedNumbers(dtype, [(cast(Scalar, code.to(u32)), 0)], None)


def codes_in(dtype: DType, words: Sequence[Scalar], count: int) -> list[Code]:
    """The codes that words of memory have, low bits first: `count` of them from the first bit on."""
    if dtype.bits == 6:
        units = [_spread(_three_bytes(words, 3 * k)) for k in range(-(-count // 4))]
        return [(units[k // 4], SHIFTS[6][k % 4]) for k in range(count)]
    places = SHIFTS[dtype.bits]
    return [(words[k // len(places)], places[k % len(places)]) for k in range(count)]


def _three_bytes(words: Sequence[Scalar], first: int) -> Scalar:
    """A word whose low 24 bits are three bytes of memory."""
    number, shift = first // 4, first % 4 * 8
    word = words[number] >> shift if shift else words[number]
    return word | words[number + 1] << (u32.bits - shift) if shift > 8 else word


def _spread(unit: Scalar) -> Scalar:
    """Four codes of 6 bits from bit 0 on, two of them moved to bit 16."""
    return cast(Scalar, (unit & 0xFFF) | ((unit << 4) & 0xFFF0000))


def packed_words(numbers: PackedNumbers) -> list[Scalar]:
    """The words of memory that hold the numbers, low bits first; the last one may have less than 32 of them."""
    size = numbers.dtype.bits
    words: list[Scalar | None] = [None] * (-(-numbers.bits // u32.bits))

    def add(word: int, part: Scalar) -> None:
        held = words[word]
        words[word] = part if held is None else held | part

    for k, (word, shift) in enumerate(numbers.codes):
        code = (word >> shift if shift else word) & ((1 << size) - 1)
        at, start = divmod(size * k, u32.bits)
        add(at, code << start if start else code)
        if start + size > u32.bits:
            add(at + 1, code >> (u32.bits - start))
    return [cast(Scalar, word) for word in words]
