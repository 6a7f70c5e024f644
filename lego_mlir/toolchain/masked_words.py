r"""Two operations on the bits of a word with a constant each, in one instruction of PTX.

A packed number becomes a float by its bits and an exponent, `x & 0xf000f | 0x64006400`. The machine has one instruction
for any function of three words (PTX ISA, lop3), of which one is a constant in the instruction. ptxas keeps both
constants in instructions and takes two, but for a `lop3` it loads one constant into a register, once for all:

>>> print(joined("\tand.b32 \t%r2, %r1, 983055;\n\tor.b32 \t%r3, %r2, 1677747200;"))
        lop3.b32 	%r3, %r1, 983055, 1677747200, 234;
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

FUNCTIONS: Final = {"or": 0xEA, "xor": 0x6A}
"""(a & b) | c and (a & b) ^ c, as the results for the bits of 0xf0, 0xcc and 0xaa."""
_REGISTER: Final = re.compile(r"%r\d+")
_WRITTEN: Final = re.compile(r"\t[\w.:]+ \t(\{[^}]*\}|%r\d+(?:\|%\w+)?)")
_MASKED: Final = re.compile(r"\tand\.b32 \t(%r\d+), (%r\d+), (-?\d+);")
_CHANGED: Final = re.compile(r"\t(or|xor)\.b32 \t(%r\d+), (%r\d+), (-?\d+);")
_ENDS: Final = re.compile(r"\$|\t(?:@|bra|ret|call)")


def joined(text: str) -> str:
    """The PTX, with such pairs of a block in one instruction; the same text where there are none."""
    return "\n}".join(map(_in_function, text.split("\n}")))


def _in_function(text: str) -> str:
    uses = Counter(_REGISTER.findall(text)) if _MASKED.search(text) else Counter[str]()
    lines: list[str | None] = []
    masked: dict[str, tuple[int, str, str]] = {}  # of this block: the place, the word and its mask
    for line in text.split("\n"):
        if _ENDS.match(line):
            masked = {}
        changed = _CHANGED.fullmatch(line)
        if changed is not None and (found := masked.get(changed[3])) is not None:
            place, word, mask = found
            lines[place] = None
            line = f"\tlop3.b32 \t{changed[2]}, {word}, {mask}, {changed[4]}, {FUNCTIONS[changed[1]]};"
        written = _WRITTEN.match(line)  # a line of inline assembly may write any register that it has
        for register in set(_REGISTER.findall(line if written is None else written[1])):
            masked = {name: known for name, known in masked.items() if register not in (name, known[1])}
        if (match := _MASKED.fullmatch(line)) is not None and uses[match[1]] == 2 and match[1] != match[2]:
            masked[match[1]] = len(lines), match[2], match[3]
        lines.append(line)
    return "\n".join(line for line in lines if line is not None)
