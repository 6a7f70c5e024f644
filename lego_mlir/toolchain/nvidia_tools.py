"""Paths of NVIDIA's tools: ptxas, nvcc, nvdisasm, cuobjdump, NVRTC. The one door to `cuda-pathfinder`.

PATH comes first: a user's choice of toolkit wins. Then `cuda-pathfinder` searches NVIDIA's wheels, Conda, CUDA_PATH and
CUDA_HOME, and the toolkit whose libraries the system's loader finds. The tools that only read machine code may also
come from Triton's package; its ptxas may not, since a cubin should not depend on which Triton is installed.
"""

from __future__ import annotations

import importlib.util
import shutil
from functools import cache
from pathlib import Path
from typing import Final

_IN_TRITON: Final = ("cuobjdump", "nvdisasm")


def find(tool: str) -> Path | None:
    """The program of this name, or None where it is not installed."""
    on_path = shutil.which(tool)
    return Path(on_path) if on_path is not None else _find_installed(tool)


@cache
def _find_installed(tool: str) -> Path | None:
    """The tool outside of PATH."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:  # PATH is enough for machines without it
        found = None
    else:
        found = find_nvidia_binary_utility(tool)
    return _find_in_triton(tool) if found is None else Path(found)


@cache
def find_library(name: str) -> Path | None:
    """The shared library of this name, such as nvrtc, of NVIDIA's wheels or a toolkit; None where there is none."""
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        found = load_nvidia_dynamic_lib(name).abs_path
    except (DynamicLibNotFoundError, RuntimeError, OSError):  # a library of another toolkit, which does not load
        return None
    return None if found is None else Path(found)


def _find_in_triton(tool: str) -> Path | None:
    spec = importlib.util.find_spec("triton") if tool in _IN_TRITON else None
    folders = (spec.submodule_search_locations or []) if spec else []
    programs = [Path(folder, "backends", "nvidia", "bin", tool) for folder in folders]
    return next((program for program in programs if program.is_file()), None)
