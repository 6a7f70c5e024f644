r"""Sums of integers of LLVM IR in front of the minima and maxima that take them.

ptxas adds and compares in one instruction (VIADDMNMX) where a sum and the extreme of it are near: not where, as in a
tile of 32 elements in registers, all sums come first and then all extremes. So a sum moves down in front of the extreme
that is the first to take it, and an extreme in front of the sum or extreme that is the first to take that.

>>> print(moved('''define i32 @k(i32 %a, i32 %b) {
...   %x = add i32 %a, 1
...   %y = add i32 %b, 2
...   %z = call i32 @llvm.smax.i32(i32 %x, i32 0)
...   %w = call i32 @llvm.smin.i32(i32 %z, i32 %y)
...   ret i32 %w
... }'''))
define i32 @k(i32 %a, i32 %b) {
v.0:
  %x = add i32 %a, 1
  %z = call i32 @llvm.smax.i32(i32 %x, i32 0)
  %y = add i32 %b, 2
  %w = call i32 @llvm.smin.i32(i32 %z, i32 %y)
  ret i32 %w
}
"""

from __future__ import annotations

import re
from typing import Final

from lego_mlir.toolchain import early_loads

FEWEST: Final = 2
"""Extremes of a block with which there is something to move."""
_SUM: Final = re.compile(r"  (?P<result>%\S+) = (?:add|sub) (?:nuw )?(?:nsw )?i32 ")
_EXTREME: Final = re.compile(r"^  (?P<result>%\S+) = (?:tail |notail )?call .*@llvm\.[su](?:min|max)\.i32\(", re.MULTILINE)
_NAME: Final = re.compile(r'%(?:[-\w.$]+|"[^"]*")')


MOST_LINES: Final = 1024
"""Lines below a sum in which its first use is looked for."""


def moved(text: str) -> str:
    """The module, with sums and extremes moved; the same text where nothing moves."""
    if not _EXTREME.search(text):
        return text
    lines = text.split("\n")
    made: list[str] = []
    block: list[str] = []
    for line in lines:
        if line.startswith("  "):
            block.append(line)
            continue
        made += _ordered(block)
        block = []
        made.append(line)
    made += _ordered(block)
    return text if made == lines else early_loads.named("\n".join(made))


def _ordered(block: list[str]) -> list[str]:
    """The lines of a block, each sum and extreme in front of what takes it first, if that is one of them."""
    if sum(1 for line in block if _EXTREME.match(line)) < FEWEST:
        return block
    below: list[tuple[str, frozenset[str]]] = []  # from the last line up
    for line in reversed(block):
        kept = line, frozenset(_NAME.findall(line))
        place = len(below)
        extreme = _EXTREME.match(line)
        if found := extreme or _SUM.match(line):
            last = max(0, len(below) - MOST_LINES)
            user = next((k for k in range(len(below) - 1, last - 1, -1) if found["result"] in below[k][1]), None)
            if user is not None and (_EXTREME.match(below[user][0]) or (extreme and _SUM.match(below[user][0]))):
                place = user + 1
        below.insert(place, kept)
    return [line for line, _ in reversed(below)]
