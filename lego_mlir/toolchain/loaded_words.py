r"""Indices that are loaded as integers of 32 bits stay so until an address is computed from them.

LLVM joins a load with the extension of its result to 64 bits, in two registers, whose product with the size of an
element then takes a shift and two sums with carry. With a `freeze` in between, which changes no value that a kernel
computes and takes no instruction, the extension and the product are one `mul.wide` (PTX ISA, mul), and the multiple is
added to the address in the same instruction of the machine:

>>> print(kept("  %i = load i32, ptr %p, align 4\n  %at = sext i32 %i to i64"))
  %i = load i32, ptr %p, align 4
  %at.word = freeze i32 %i
  %at = sext i32 %at.word to i64
"""

from __future__ import annotations

import re
from typing import Final

_LOAD: Final = re.compile(r"^ *(%[-\w.$]+) = load i32, ", re.MULTILINE)
_EXTENSION: Final = re.compile(
    r"^(?P<head> *(?P<result>%[-\w.$]+) = (?:sext|zext(?: nneg)?) i32 )(?P<word>%[-\w.$]+)(?= to i64)", re.MULTILINE
)


def kept(text: str) -> str:
    """The optimised LLVM IR, with a `freeze` between loads of words and their extensions."""
    loads = set(_LOAD.findall(text))
    return _EXTENSION.sub(lambda match: _frozen(match) if match["word"] in loads else match[0], text)


def _frozen(match: re.Match[str]) -> str:
    result = match["result"]
    name = f"%word{result[1:]}" if result[1:].isdigit() else f"{result}.word"
    return f"  {name} = freeze i32 {match['word']}\n{match['head']}{name}"
