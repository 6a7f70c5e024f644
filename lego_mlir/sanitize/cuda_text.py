"""CUDA C++ to PTX with the numbers of its lines, by nvcc or clang, and what its text says about a kernel's parameters.

clang needs the headers and libdevice of a CUDA toolkit. Its wrapper includes a header of curand, which NVIDIA's wheels
do not have beside the others; an empty one takes its place where it is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lego_mlir.errors import DependencyError, Rerun, ToolchainError, UsageError, did_you_mean
from lego_mlir.toolchain import nvidia_tools
from lego_mlir.toolchain.kept import keep

OPTIONS: Final = {
    "nvcc": ("-std=c++17", "-lineinfo", "-ptx"),
    "clang": (
        "-x", "cuda", "-std=c++17", "-O3", "-gline-tables-only", "--cuda-device-only", "-S",
        "-Wno-unknown-cuda-version",
    ),
}  # fmt: skip
"""The compilers, and how each prints PTX with lines."""
CLANGS: Final = ("clang", *(f"clang-{number}" for number in range(30, 15, -1)))
CURAND: Final = "curand_mtgp32_kernel.h"
REMEDY: Final = "install nvidia-cuda-nvcc with pip, or the CUDA toolkit, or give the kernel's PTX"


def compile_to_ptx(
    text: str, path: Path | None, target: str = "sm_90", options: Sequence[str] = (), compiler: str | None = None
) -> str:
    """The PTX of a CUDA text; with a path, of that file, so that its own includes are found.

    By nvcc where it is found and no other `compiler` is asked for, otherwise by clang. Raises UsageError for another
    compiler, DependencyError without one, ToolchainError with its message if it fails.
    """
    if compiler is not None and compiler not in OPTIONS:
        raise UsageError(f"unknown compiler {compiler!r}{did_you_mean(compiler, OPTIONS)}; there are nvcc and clang")
    name, program = _program(compiler)
    with tempfile.TemporaryDirectory(prefix="lego-mlir-") as folder:
        source, made = path, Path(folder, "kernel.ptx")
        if source is None:
            source = Path(folder, "kernel.cu")
            source.write_text(text)
        command = [str(program), *OPTIONS[name], *options]
        command += [f"-arch={target}"] if name == "nvcc" else [f"--cuda-gpu-arch={target}", *_toolkit(Path(folder))]
        command += [str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            kept = keep(source.name, text.encode())
            again = " ".join(command).replace(str(source), str(kept or source.name)).replace(str(made), "/dev/null")
            raise ToolchainError(Rerun(name, kept, again, done.stderr + done.stdout, done.returncode))
        return made.read_text()


def _program(compiler: str | None) -> tuple[str, Path]:
    """The compiler's name and its program. Raises DependencyError."""
    nvcc = nvidia_tools.find("nvcc") if compiler in (None, "nvcc") else None
    if nvcc is not None:
        return "nvcc", nvcc
    clang = next(filter(None, map(shutil.which, CLANGS)), None) if compiler in (None, "clang") else None
    if clang is not None:
        return "clang", Path(clang)
    wanted = compiler or "nvcc or clang"
    raise DependencyError(f"{wanted} is needed to compile CUDA C++, and it was not found; {REMEDY}")


def _toolkit(folder: Path) -> list[str]:
    """Where clang finds the toolkit: CUDA_HOME's, CUDA_PATH's, nvcc's, a usual place, or where it looks itself."""
    named = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    nvcc = nvidia_tools.find("nvcc")
    of_nvcc = [nvcc.resolve().parents[1]] if nvcc is not None else []
    roots = (*named, *of_nvcc, *sorted(Path("/usr/local").glob("cuda*"), reverse=True))
    root = next((root for root in roots if (root / "include" / "cuda_runtime.h").is_file()), None)
    if root is None:
        return []
    if (root / "include" / CURAND).is_file():
        return [f"--cuda-path={root}"]
    (folder / CURAND).touch()
    return [f"--cuda-path={root}", "-I", str(folder)]


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
