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

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lego_mlir.errors import DependencyError

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


def find_lister() -> Path | None:
    """cuobjdump on PATH, in Triton, or in the package nvidia-cuda-cuobjdump; None where nobody has it."""
    on_path = shutil.which("cuobjdump")
    if on_path is not None:
        return Path(on_path)
    for package, pattern in (("triton", "backends/nvidia/bin/cuobjdump"), ("nvidia", "cu*/bin/cuobjdump")):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            found = sorted(Path(folder).glob(pattern))
            if found:
                return found[-1]
    return None


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
