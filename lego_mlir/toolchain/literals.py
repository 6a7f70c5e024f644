"""Floating-point literals of LLVM IR text, spelled so that every version of LLVM reads the same bits.

LLVM 23 writes the shortest decimal that rounds to a constant (`float 1.000000e-01`), or the bits of its own type
(`float f0x3FB504F3`), and gives a NaN its payload in words (`half +nan(0x1)`). Earlier versions refuse each of them:
to them a decimal is a double, which must hold the constant exactly, and bits are written `0xH` for a half, `0xR` for a
bfloat, and as those of a double for float and double. Version 23 still reads these older forms, so they are what two
versions exchange:

>>> portable("%2 = fmul float %1, 1.000000e-01")
'%2 = fmul float %1, 0x3FB99999A0000000'
>>> portable("store half +nan(0x1), ptr %0"), portable("store <2 x bfloat> splat (bfloat 1.000980e-01), ptr %0")
('store half 0xH7E01, ptr %0', 'store <2 x bfloat> splat (bfloat 0xR3DCD), ptr %0')

Literals that both read alike are kept: `double 1.000000e-01`, `float 5.000000e-01`.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class FloatType:
    """A floating-point type of LLVM IR: the bits of its exponent and of its stored significand, and its prefix."""

    exponent: int
    significand: int
    prefix: str  # before the digits of a constant's bits; empty where those are the bits of a double
    format: str  # of `struct`; a bfloat is the upper half of a float

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.significand

    @property
    def quiet(self) -> int:
        """The bit that distinguishes a quiet NaN from a signaling one."""
        return 1 << (self.significand - 1)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.significand

    def holds(self, number: float) -> bool:
        """Whether a double is a number of this type: then a decimal that rounds to it is read alike by all."""
        try:
            stored = struct.pack(self.format, number)
        except OverflowError:
            return False
        return struct.unpack(self.format, stored)[0] == number and not any(stored[self.bits // 8 :])

    def nearest(self, decimal: str) -> int:
        """The bits of the number nearest to a decimal, ties to even; one rounding, however many digits there are."""
        exact = abs(Fraction(decimal))
        bias = (1 << (self.exponent - 1)) - 1
        sign = 1 << (self.bits - 1) if decimal.startswith("-") else 0
        if not exact:
            return sign
        scale = exact.numerator.bit_length() - exact.denominator.bit_length()  # the exponent, or one more
        scale = max(scale - (exact < Fraction(2) ** scale), 1 - bias)  # denormals share the smallest exponent
        steps = round(exact / Fraction(2) ** (scale - self.significand))
        # a carry out of the significand enters the exponent, as it should; a denormal's exponent field is 0
        return sign | min(steps + ((scale + bias - 1) << self.significand), self.infinity)

    def spelled(self, bits: int) -> str:
        """A constant of these bits, as all versions of LLVM read it."""
        if self.prefix:
            return f"{self.prefix}{bits:04X}"
        if self.bits == 64:
            return f"0x{bits:016X}"
        sign, magnitude = bits >> (self.bits - 1), bits & ~(1 << (self.bits - 1))
        if magnitude > self.infinity:  # a NaN: the payload moves to the upper end of the wider significand
            wide = 0x7FF << 52 | (magnitude - self.infinity) << (52 - self.significand)
        else:
            (single,) = struct.unpack(">f", magnitude.to_bytes(4, "big"))
            (wide,) = struct.unpack(">Q", struct.pack(">d", single))
        return f"0x{sign << 63 | wide:016X}"


TYPES: Final = {
    "half": FloatType(5, 10, "0xH", ">e"),
    "bfloat": FloatType(8, 7, "0xR", ">f"),
    "float": FloatType(8, 23, "", ">f"),
    "double": FloatType(11, 52, "", ">d"),
}
_LITERAL: Final = (
    r"(?<=[\s(\[<{,])(?:(?P<decimal>[+-]?\d+\.\d*(?:[eE][+-]?\d{1,4})?)|f0x(?P<bits>[0-9A-Fa-f]+)"
    r"|(?P<sign>[+-])(?:(?P<infinity>inf)|(?P<kind>qnan|s?nan)(?:\(0x(?P<payload>[0-9A-Fa-f]+)\))?))(?![\w.:$-])"
)


@cache
def _literals() -> re.Pattern[str]:
    return re.compile(_LITERAL)


@cache
def _tokens() -> re.Pattern[str]:
    """What a line is read by: names, types and literals.

    A literal has the type named last before it: `fadd float %x, 1.0`, `phi float [ 1.0, %a ]`, `half 1.0`. Strings,
    comments and names are stepped over, whatever they contain.
    """
    return re.compile(
        rf'"[^"]*"|;.*|[%@!$#][\w.$-]+|(?<![\w.$-])(?P<type>half|bfloat|float|double)(?![\w.$:-])|{_LITERAL}'
    )


def portable(text: str) -> str:
    """The same LLVM IR with every floating-point constant in a form that all versions of LLVM read."""
    has_literal = _literals().search
    return "\n".join([_portable_line(line) if has_literal(line) else line for line in text.split("\n")])


def _portable_line(line: str) -> str:
    kind: FloatType | None = None

    def spell(token: re.Match[str]) -> str:
        nonlocal kind
        if token["type"]:
            kind = TYPES[token["type"]]
        elif kind is not None and (token["decimal"] or token["bits"] or token["sign"]):
            return _spelled(token, kind)
        return token[0]

    return _tokens().sub(spell, line)


def _spelled(literal: re.Match[str], kind: FloatType) -> str:
    if literal["decimal"]:
        return literal[0] if kind.holds(float(literal["decimal"])) else kind.spelled(kind.nearest(literal["decimal"]))
    if literal["bits"]:
        bits = int(literal["bits"], 16)
    else:
        quiet = kind.quiet if literal["kind"] in ("qnan", "nan") else 0
        negative = 1 << (kind.bits - 1) if literal["sign"] == "-" else 0
        bits = negative | kind.infinity | quiet | int(literal["payload"] or "0", 16)
    return kind.spelled(bits) if bits < 1 << kind.bits else literal[0]  # left for LLVM to report
