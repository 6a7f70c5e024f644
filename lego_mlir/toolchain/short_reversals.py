"""Reversals of few bits as reversals of 32 bits, for LLVM's code generator.

LLVM recognises `(x & 1) << 1 | (x & 2) >> 1`, two bits of a lane that change their places in a layout, as the reversal
of a number of two bits. GPUs reverse 32 bits in one instruction, and LLVM expands every narrower one into swaps of
bytes, nibbles, pairs and bits. The first bits of the reversal of 32 bits are the same number:

>>> print(widened("  %r = tail call i2 @llvm.bitreverse.i2(i2 %x)"))
  %r.wide = zext i2 %x to i32
  %r.reversed = call i32 @llvm.bitreverse.i32(i32 %r.wide)
  %r.first = lshr i32 %r.reversed, 30
  %r = trunc i32 %r.first to i2
"""

from __future__ import annotations

import re
from typing import Final

WIDTH: Final = 32
"""Bits of the instruction (PTX ISA, brev.b32)."""
NAME: Final = "llvm.bitreverse.i"
_CALL: Final = re.compile(
    r"^ *(?P<result>%[\w.]+) = (?:tail |notail )?call (?:range\([^)]*\) )?i(?P<bits>\d+) @llvm\.bitreverse\.i(?P=bits)"
    r"\(i(?P=bits) (?:range\([^)]*\) )?(?P<operand>[^)]+)\).*$",
    re.MULTILINE,
)
_DECLARED: Final = "declare i32 @llvm.bitreverse.i32(i32)"


def is_short(name: str) -> bool:
    """Whether a function of LLVM reverses fewer bits than the instruction."""
    return name.startswith(NAME) and name.removeprefix(NAME).isdigit() and int(name.removeprefix(NAME)) < WIDTH


def widened(text: str) -> str:
    """The LLVM IR, with reversals of fewer bits computed in 32."""
    return _CALL.sub(_wide, text)


def declared(text: str) -> str:
    """The module of LLVM IR, widened, with the declaration of the reversal that it calls."""
    made = widened(text)
    return made if "declare i32 @llvm.bitreverse.i32(" in made else f"{made}\n{_DECLARED}\n"


def _wide(match: re.Match[str]) -> str:
    result, operand, bits = match["result"], match["operand"], int(match["bits"])
    if bits >= WIDTH:
        return match[0]
    name = f"{result}.wide" if not result[1:].isdigit() else f"%reversal{result[1:]}.wide"
    stem = name.removesuffix(".wide")
    lines = [
        f"{stem}.wide = zext i{bits} {operand} to i{WIDTH}",
        f"{stem}.reversed = call i{WIDTH} @{NAME}{WIDTH}(i{WIDTH} {stem}.wide)",
        f"{stem}.first = lshr i{WIDTH} {stem}.reversed, {WIDTH - bits}",
        f"{result} = trunc i{WIDTH} {stem}.first to i{bits}",
    ]
    return "\n".join(f"  {line}" for line in lines)
