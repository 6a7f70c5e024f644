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
from collections.abc import Sequence
from typing import Final

from lego_mlir.toolchain.block_text import LlvmInstruction, rewritten

FEWEST: Final = 2
"""Extremes of a block with which there is something to move."""
MOST_LINES: Final = 1024
"""Lines below a sum in which its first use is looked for."""
_SUM: Final = re.compile(r"  %\S+ = (?:add|sub) (?:nuw )?(?:nsw )?i32 ")
_EXTREME: Final = re.compile(r"  %\S+ = (?:tail |notail )?call .*@llvm\.[su](?:min|max)\.i32\(")


def moved(text: str) -> str:
    """The module, with sums and extremes moved; the same text where nothing moves."""
    return rewritten(text, _ordered) if _EXTREME.search(text) else text


def _ordered(block: Sequence[LlvmInstruction]) -> Sequence[LlvmInstruction]:
    """A block, each sum and extreme in front of what takes it first, if that is one of them."""
    if sum(1 for one in block if _EXTREME.match(one.text)) < FEWEST:
        return block
    below: list[LlvmInstruction] = []  # from the last one up
    for one in reversed(block):
        place, extreme = len(below), _EXTREME.match(one.text)
        if extreme or _SUM.match(one.text):
            nearest = range(len(below) - 1, max(0, len(below) - MOST_LINES) - 1, -1)
            user = next((k for k in nearest if one.result in below[k].needs), None)
            if user is not None and (_EXTREME.match(below[user].text) or (extreme and _SUM.match(below[user].text))):
                place = user + 1
        below.insert(place, one)
    return below[::-1]
