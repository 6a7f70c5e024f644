"""PTX -> cubin, with the registers and spills that ptxas reports: the only use of NVIDIA's assembler.

Only the last stage needs ptxas; `nvidia_tools` finds it.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from lego_mlir.errors import DependencyError, LegoError
from lego_mlir.hardware.targets import Target
from lego_mlir.toolchain import nvidia_tools

REMEDY: Final = "run: pip install nvidia-cuda-nvcc (or put a CUDA toolkit's bin folder on PATH)"
_ENTRY: Final = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers")


class PtxasError(LegoError):
    """ptxas rejected the PTX."""

    def __init__(self, output: str, exit_code: int, arguments: tuple[str, ...]) -> None:
        super().__init__(output)
        self.exit_code = exit_code
        self.arguments = arguments


@dataclass(frozen=True, slots=True)
class Resources:
    """Per-thread resources of one kernel, from ptxas: registers, and bytes of stack and spills."""

    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


def find() -> Path | None:
    """ptxas, or None where it is not installed."""
    return nvidia_tools.find("ptxas")


def required() -> Path:
    """ptxas. Raises DependencyError, with the remedy, where it is not installed."""
    found = find()
    if found is None:
        raise DependencyError(f"ptxas is needed to assemble a cubin, and it was not found; {REMEDY}")
    return found


@cache
def version() -> str:
    """The release of ptxas, such as "ptxas V13.0.88", for `doctor` and cache keys."""
    program = find()
    if program is None:
        return "ptxas (not found)"
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"\bV[\d.]+", output)
    return f"ptxas {release.group() if release else hashlib.sha256(output.encode()).hexdigest()[:12]}"


def assemble(ptx: str, target: Target) -> tuple[bytes, tuple[Resources, ...]]:
    """The cubin of a PTX text, and the resources of each of its kernels. Raises PtxasError."""
    program = required()
    with tempfile.TemporaryDirectory(prefix="lego-mlir-") as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        options = (f"-arch={target.name}", "-v")
        done = subprocess.run(
            [program, *options, str(source), "-o", str(cubin)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise PtxasError((done.stderr + done.stdout).replace(str(source), "kernel.ptx"), done.returncode, options)
        return cubin.read_bytes(), parse_report(done.stderr + done.stdout)


def parse_report(text: str) -> tuple[Resources, ...]:
    """The resources of each kernel in the output of `ptxas -v`."""
    found: list[Resources] = []
    for part in re.split(r"(?=Compiling entry function)", text):
        entry, used, spills = _ENTRY.search(part), _USED.search(part), _SPILLS.search(part)
        if entry and used:
            stack, stores, loads = map(int, spills.groups()) if spills else (0, 0, 0)
            found.append(Resources(entry.group(1), int(used.group(1)), stack, stores, loads))
    return tuple(found)
