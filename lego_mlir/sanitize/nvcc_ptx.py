"""CUDA C++ to PTX with the numbers of its lines, by nvcc, and what its text says about a kernel's parameters."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lego_mlir.errors import DependencyError, Rerun, ToolchainError
from lego_mlir.toolchain import nvidia_tools
from lego_mlir.toolchain.kept import keep

OPTIONS: Final = ("-std=c++17", "-lineinfo", "-ptx")
REMEDY: Final = "install nvidia-cuda-nvcc with pip, or the CUDA toolkit, or give the kernel's PTX"


def compile_to_ptx(text: str, path: Path | None, target: str = "sm_90", options: Sequence[str] = ()) -> str:
    """The PTX of a CUDA text; with a path, of that file, so that its own includes are found.

    Raises DependencyError without nvcc, ToolchainError with nvcc's message if it fails.
    """
    program = nvidia_tools.find("nvcc")
    if program is None:
        raise DependencyError(f"nvcc is needed to compile CUDA C++, and it was not found; {REMEDY}")
    with tempfile.TemporaryDirectory(prefix="lego-mlir-") as folder:
        source, made = path, Path(folder, "kernel.ptx")
        if source is None:
            source = Path(folder, "kernel.cu")
            source.write_text(text)
        command = [str(program), *OPTIONS, *options, f"-arch={target}", str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            kept = keep(source.name, text.encode())
            again = " ".join(command).replace(str(source), str(kept or source.name)).replace(str(made), "/dev/null")
            raise ToolchainError(Rerun("nvcc", kept, again, done.stderr + done.stdout, done.returncode))
        return made.read_text()


def parameter_names(text: str, kernel: str) -> list[str]:
    """The names of a kernel's parameters in its CUDA text; empty where they cannot be told.

    >>> parameter_names("__global__ void add(const float *x, float* __restrict__ y, int n) {", "add")
    ['x', 'y', 'n']
    """
    found = re.search(rf"\b{re.escape(kernel)}\s*\(([^)]*)\)", text)
    if found is None or not found[1].strip():
        return []
    names = [re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*$", part) for part in found[1].split(",")]
    return [name[1] for name in names if name is not None]


def plain_name(mangled: str) -> str:
    """The last name of a function that C++ has mangled.

    >>> plain_name("_Z5saxpyPKfPffi"), plain_name("_ZN2ns3addEPf"), plain_name("saxpy")
    ('saxpy', 'add', 'saxpy')
    """
    at, name = mangled.removeprefix("_Z").removeprefix("N"), mangled
    if at == mangled:
        return mangled
    while (length := re.match(r"\d+", at)) is not None:
        end = length.end() + int(length[0])
        name, at = at[length.end() : end], at[end:]
    return name
