"""Counting machine instructions: of a whole kernel, and of its hottest loop.

SASS, the GPU's own code, is listed by cuobjdump, one instruction a line with its address. A loop is what lies between
a branch and an earlier address that it jumps to; the main loop is the innermost one that does the work asked for
(`HGMMA`, `LDG`, ..), and its instructions are the ones that count.

>>> listing = '''
...     /*0000*/  MOV R1, c[0x0][0x28] ;
...     /*0010*/  IMAD R2, R2, R3, R4 ;
...     /*0020*/  HMMA.16816.F32 R8, R4, R6, R8 ;
...     /*0030*/  @P0 BRA 0x10 ;
...     /*0040*/  EXIT ;
... '''
>>> code = read(listing)
>>> dict(mix(code)), dict(mix(main_loop(code, "MMA")))
({'MOV': 1, 'IMAD': 1, 'HMMA': 1, 'BRA': 1, 'EXIT': 1}, {'IMAD': 1, 'HMMA': 1, 'BRA': 1})
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)([^;]*);")
_TARGET: Final = re.compile(r"\b0x([0-9a-f]+)\b")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its address, its name without modifiers, and where it jumps to, if it does."""

    address: int
    name: str
    target: int | None = None


def read(listing: str) -> tuple[Instruction, ...]:
    """The instructions of a listing, padding left out."""
    found = []
    for address, name, rest in _LINE.findall(listing):
        target = _TARGET.findall(rest) if name == "BRA" else []
        if name != "NOP":
            found.append(Instruction(int(address, 16), name, int(target[-1], 16) if target else None))
    return tuple(found)


def mix(code: Sequence[Instruction]) -> Mapping[str, int]:
    """How many instructions of each name, most frequent first."""
    return dict(Counter(i.name for i in code).most_common())


def main_loop(code: Sequence[Instruction], work: str) -> tuple[Instruction, ...]:
    """The smallest loop with an instruction whose name contains `work`; nothing where there is no such loop."""
    loops = []
    for branch in code:
        if branch.target is not None and branch.target < branch.address:
            body = tuple(i for i in code if branch.target <= i.address <= branch.address)
            if any(work in i.name for i in body):
                loops.append(body)
    return min(loops, key=len, default=())
