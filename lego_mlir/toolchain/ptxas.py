"""PTX -> cubin, and what ptxas reports of registers and spills: the only use of NVIDIA's assembler.

ptxas comes from PATH or from PyPI's `nvidia-cuda-nvcc`. Nothing but the last stage needs it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from lego_mlir.errors import DependencyError, LegoError
from lego_mlir.hardware.targets import Target

REMEDY: Final = "run: pip install nvidia-cuda-nvcc (or put a CUDA toolkit's bin folder on PATH)"
_ENTRY: Final = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers")


class PtxasError(LegoError):
    """ptxas refused the PTX."""

    def __init__(self, output: str, exit_code: int, arguments: tuple[str, ...]) -> None:
        super().__init__(output)
        self.exit_code = exit_code
        self.arguments = arguments


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes, as ptxas says: registers a thread, and bytes of stack and spills a thread."""

    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


def find() -> Path | None:
    """ptxas on PATH, else in the package nvidia-cuda-nvcc; None where neither has it."""
    on_path = shutil.which("ptxas")
    if on_path is not None:
        return Path(on_path)
    spec = importlib.util.find_spec("nvidia")
    for package in (spec.submodule_search_locations or []) if spec else []:
        for candidate in [
            *sorted(Path(package).glob("cu*/bin/ptxas"), reverse=True),
            Path(package, "cuda_nvcc/bin/ptxas"),
        ]:
            if candidate.is_file():
                return candidate
    return None


def required() -> Path:
    """The same, or DependencyError with the remedy."""
    found = find()
    if found is None:
        raise DependencyError(f"ptxas is needed to assemble a cubin, and it was not found; {REMEDY}")
    return found


@cache
def version() -> str:
    """The release that ptxas says it is, such as "ptxas V13.0.88"; for `doctor` and cache keys."""
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
    """The resources in what `ptxas -v` printed, one kernel after the other."""
    found: list[Resources] = []
    for part in re.split(r"(?=Compiling entry function)", text):
        entry, used, spills = _ENTRY.search(part), _USED.search(part), _SPILLS.search(part)
        if entry and used:
            stack, stores, loads = map(int, spills.groups()) if spills else (0, 0, 0)
            found.append(Resources(entry.group(1), int(used.group(1)), stack, stores, loads))
    return tuple(found)
