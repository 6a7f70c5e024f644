"""Compile rendered CUDA text to a cubin with nvcc, without a GPU, and report each kernel's resources.

`toolchain.nvidia_tools` finds nvcc. Running kernels does not need it: `runtime.source` compiles with NVRTC. Outputs are
kept in the toolchain's cache.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache as remember
from pathlib import Path
from typing import Final

from lego_mlir.errors import DependencyError, Rerun, ToolchainError
from lego_mlir.store import Cache, key
from lego_mlir.toolchain import nvidia_tools
from lego_mlir.toolchain.kept import keep
from lego_mlir.toolchain.ptxas import Resources, parse_report

REMEDY: Final = "install the CUDA toolkit and put its bin folder on PATH"
OPTIONS: Final = ("-std=c++17", "-O3", "-Xptxas=-v")


@dataclass(frozen=True, slots=True)
class CompiledCuda:
    """A CUDA text compiled for a target: the cubin, and the resources of each of its kernels."""

    cubin: bytes
    resources: tuple[Resources, ...]


@remember
def version() -> str | None:
    """nvcc's version text, or None if nvcc is not installed."""
    program = nvidia_tools.find("nvcc")
    if program is None:
        return None
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def compile_text(text: str, *, target: str = "sm_90", name: str = "kernel", cache: Cache | None = None) -> CompiledCuda:
    """Compile CUDA C++. Raises DependencyError without nvcc, ToolchainError with nvcc's message if it fails."""
    release = version()
    if release is None:
        raise DependencyError(f"nvcc is needed to compile CUDA C++, and it was not found; {REMEDY}")
    places = [key(f"nvcc {kind}", text.encode(), target, release, *OPTIONS) for kind in ("cubin", "report")]
    known = [cache.read(place) for place in places] if cache else [None]
    if None not in known:
        return CompiledCuda(known[0] or b"", parse_report((known[1] or b"").decode()))
    with tempfile.TemporaryDirectory(prefix="lego-mlir-") as folder:
        source, cubin = Path(folder, f"{name}.cu"), Path(folder, f"{name}.cubin")
        source.write_text(text)
        command = ["nvcc", *OPTIONS, f"-arch={target}", "-cubin", str(source), "-o", str(cubin)]
        done = subprocess.run(
            command, executable=nvidia_tools.find("nvcc"), capture_output=True, text=True, check=False
        )
        if done.returncode:
            kept = keep(source.name, text.encode())
            again = " ".join(command).replace(str(source), str(kept or source.name)).replace(str(cubin), "/dev/null")
            said = (done.stderr + done.stdout).replace(str(source), kept.name if kept else source.name)
            raise ToolchainError(Rerun("nvcc", kept, again, said, done.returncode))
        report, body = done.stderr + done.stdout, cubin.read_bytes()
    if cache:
        for place, part in zip(places, (body, report.encode()), strict=True):
            cache.write(place, part)
    return CompiledCuda(body, parse_report(report))
