"""Count machine instructions: of a whole kernel, and of its hottest loop.

cuobjdump lists SASS, the GPU's machine code, one instruction per line with its address. A loop extends from the target
of a backward branch to the branch; the main loop is the innermost one that contains the requested work (`HGMMA`,
`LDG`, ..), and its instructions determine the time.

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
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lego_mlir.errors import DependencyError
from lego_mlir.toolchain import nvidia_tools

_LINE: Final = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)([^;]*);")
_TARGET: Final = re.compile(r"\b0x([0-9a-f]+)\b")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its address, its name without modifiers, and its jump target, if it has one."""

    address: int
    name: str
    target: int | None = None


def read(listing: str) -> tuple[Instruction, ...]:
    """The instructions of a listing, without padding."""
    found = []
    for address, name, rest in _LINE.findall(listing):
        target = _TARGET.findall(rest) if name == "BRA" else []
        if name != "NOP":
            found.append(Instruction(int(address, 16), name, int(target[-1], 16) if target else None))
    return tuple(found)


def find_lister() -> Path | None:
    """cuobjdump, or None where it is not installed."""
    return nvidia_tools.find("cuobjdump")


def disassemble(cubin: bytes) -> tuple[Instruction, ...]:
    """The instructions of a cubin. Raises DependencyError, with the remedy, where no cuobjdump is installed."""
    program = find_lister()
    if program is None:
        raise DependencyError("cuobjdump is needed to list machine code; run: pip install nvidia-cuda-cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([program, "-sass", file.name], capture_output=True, text=True, check=True)
    return read(done.stdout)


def mix(code: Sequence[Instruction]) -> Mapping[str, int]:
    """The number of instructions of each name, most frequent first."""
    return dict(Counter(i.name for i in code).most_common())


def main_loop(code: Sequence[Instruction], work: str) -> tuple[Instruction, ...]:
    """The smallest loop with an instruction whose name contains `work`; empty where there is none."""
    loops = []
    for branch in code:
        if branch.target is not None and branch.target < branch.address:
            body = tuple(i for i in code if branch.target <= i.address <= branch.address)
            if any(work in i.name for i in body):
                loops.append(body)
    return min(loops, key=len, default=())
