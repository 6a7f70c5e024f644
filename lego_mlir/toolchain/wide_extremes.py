r"""Minima and maxima of 16 bits in 32 bits, for ptxas.

LLVM computes small indices in 16 bits. For compute capability 9.0, ptxas 13.0 merges the instruction with a comparison
of its result with a constant into one of two halves, and both halves write the same predicate:

    max.u16 %rs2, %rs1, 1;  cvt.u32.u16 %r3, %rs2;  setp.eq.u32 %p1, %r3, 1;      PTX
    VIMNMX.U16x2 R0, P0, P0, R0, 0x1, !PT                                         machine code

The other half is 0, so the predicate no longer depends on the number: loops run a wrong number of times, and roles that
wait for each other hang. Instructions of 32 bits are not merged this way.

>>> print(widened("\tmax.u16 \t%rs2, %rs1, 1;"))
    {
    .reg .b32 %wide<2>;
    cvt.u32.u16     %wide0, %rs1;
    mov.b32         %wide1, 1;
    max.u32         %wide0, %wide0, %wide1;
    cvt.u16.u32     %rs2, %wide0;
    }
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lego_mlir.hardware.targets import Target

MERGES: Final = (9, 0)
"""The compute capability."""
_EXTREME: Final = re.compile(r"^\t(min|max)\.([us])16 \t(%rs\d+), ([^,]+), ([^;]+);$", re.MULTILINE)
_BITS: Final = 0xFFFF


def for_target(ptx: str, target: Target) -> str:
    """The PTX that ptxas is given."""
    return widened(ptx) if target.compute_capability == MERGES else ptx


def widened(ptx: str) -> str:
    """The PTX, with minima and maxima of 16 bits computed in 32."""
    return _EXTREME.sub(_wide, ptx)


def _wide(match: re.Match[str]) -> str:
    name, sign, result, *operands = match.groups()
    loads = [_load(number, operand, sign) for number, operand in enumerate(operands)]
    lines = [
        "{",
        ".reg .b32 %wide<2>;",
        *loads,
        f"{name}.{sign}32 \t%wide0, %wide0, %wide1;",
        f"cvt.u16.u32 \t{result}, %wide0;",
        "}",
    ]
    return "\n".join(f"\t{line}" for line in lines)


def _load(number: int, operand: str, sign: str) -> str:
    """An operand in 32 bits; LLVM prints constants with a sign."""
    if operand.startswith("%"):
        return f"cvt.{sign}32.{sign}16 \t%wide{number}, {operand};"
    return f"mov.b32 \t%wide{number}, {int(operand) & _BITS if sign == 'u' else int(operand)};"
