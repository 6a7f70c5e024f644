r"""Sums of a constant and a number times a power of two, as one operation: the last two of `1 + exp(x)`.

`exp` of the library ends in a product of 2^f and 2^n. That product is exact but for numbers that overflow or are
subnormal, and there the sum with a constant of ordinary size is infinite, or the constant: so the fused operation,
which rounds once, gives the same number in all cases.

>>> print(fused('''  %bits = shl i32 %n, 23
...   %p = bitcast i32 %bits to float
...   %e = fmul float %f, %p
...   %s = fadd float %e, 1.000000e+00
... declare float @llvm.fma.f32(float, float, float)'''))
  %bits = shl i32 %n, 23
  %p = bitcast i32 %bits to float
  %s = call float @llvm.fma.f32(float %f, float %p, float 1.000000e+00)
declare float @llvm.fma.f32(float, float, float)
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from typing import Final

from lego_mlir.toolchain.block_text import NAMES, named

LEAST, GREATEST = 2.0**-90, 2.0**90
"""Sizes of constants: far from subnormal numbers and from infinity."""
_FMA: Final = "declare float @llvm.fma.f32("
_NAME: Final = r"%[-\w.$]+"
_SHIFTED: Final = re.compile(rf"^ *({_NAME}) = shl (?:nuw |nsw )*i32 {_NAME}, 23$", re.MULTILINE)
_POWER: Final = re.compile(rf"^ *({_NAME}) = bitcast i32 ({_NAME}) to float$", re.MULTILINE)
_PRODUCT: Final = re.compile(rf"^ *({_NAME}) = fmul float ({_NAME}), ({_NAME})\n", re.MULTILINE)
_SUM: Final = re.compile(rf"^( *{_NAME} = )fadd float ({_NAME}), (-?\d\.\d+e[+-]\d+|0x[0-9A-F]{{16}})$", re.MULTILINE)


def fused(text: str) -> str:
    """The LLVM IR, with such sums fused; the same text where there are none."""
    if _FMA not in text:
        return text
    return "".join(map(_in_function, re.split(r"^(?=define )", text, flags=re.MULTILINE)))


def _in_function(text: str) -> str:
    shifted = set(_SHIFTED.findall(text))
    powers = {name for name, bits in _POWER.findall(text) if bits in shifted}
    uses = Counter(NAMES.findall(text))
    products = {
        name: (x, power) for name, x, power in _PRODUCT.findall(text) if power in powers and uses[name] == 2
    }  # fmt: skip
    sums = {x for _, x, constant in _SUM.findall(text) if x in products and LEAST <= abs(_number(constant)) <= GREATEST}
    if not sums:
        return text

    def fuse(match: re.Match[str]) -> str:
        if match[2] not in sums:
            return match[0]
        x, power = products[match[2]]
        return f"{match[1]}call float @llvm.fma.f32(float {x}, float {power}, float {match[3]})"

    made = _SUM.sub(fuse, text)
    return named(_PRODUCT.sub(lambda match: "" if match[1] in sums else match[0], made))


def _number(constant: str) -> float:
    """A constant of LLVM IR: decimal, or the bits of a double."""
    if constant.startswith("0x"):
        found: tuple[float] = struct.unpack(">d", bytes.fromhex(constant[2:]))
        return found[0]
    return float(constant)
