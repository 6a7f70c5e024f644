"""CUDA C++ to a cubin by NVRTC, a library: no nvcc, no host compiler, no process, so it takes a fraction of the time.

CuPy and PyTorch bring it to the machines that run kernels. A text that NVRTC does not compile, such as one that
includes headers of the toolkit, is compiled by nvcc where that is installed (`compile_text`).

docs.nvidia.com/cuda/nvrtc, "User Interface".
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache as remember
from typing import Final

from lego_mlir.aliases import Foreign
from lego_mlir.errors import DependencyError, Rerun, ToolchainError
from lego_mlir.store import Cache, key
from lego_mlir.templates.run import nvcc
from lego_mlir.toolchain import nvidia_tools
from lego_mlir.toolchain.kept import keep

REMEDY: Final = (
    "install NVIDIA's nvidia-cuda-nvrtc, which CuPy and PyTorch bring, or the CUDA toolkit with nvcc on PATH"
)
OPTIONS: Final = ("--std=c++17",)


@remember
def library() -> Foreign | None:
    """NVRTC, loaded; None where it is not installed."""
    path = nvidia_tools.find_library("nvrtc")
    try:
        return None if path is None else ctypes.CDLL(str(path))
    except OSError:
        return None


@remember
def version() -> str | None:
    """The version of NVRTC, such as 13.0, or None if it is not installed."""
    found = library()
    if found is None:
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    found.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def compilers() -> str:
    """The versions of what compiles CUDA C++ here: NVRTC first, then nvcc; "none" without either."""
    by_library, by_program = version(), nvcc.version()
    named = [f"NVRTC {by_library}"] if by_library else []
    return ", ".join([*named, *([by_program] if by_program else [])]) or "none"


def compile_text(text: str, *, target: str = "sm_90", name: str = "kernel", cache: Cache | None = None) -> bytes:
    """A cubin by NVRTC, or by nvcc where NVRTC is missing or refuses the text.

    Raises DependencyError without both, ToolchainError with the compiler's message.
    """
    release = version()
    if release is None:
        if nvcc.version() is None:
            raise DependencyError(f"CUDA C++ is compiled by NVRTC or nvcc, and neither was found; {REMEDY}")
        return nvcc.compile_text(text, target=target, name=name, cache=cache).cubin
    place = key("nvrtc cubin", text.encode(), target, release, *OPTIONS)
    if cache and (known := cache.read(place)) is not None:
        return known
    try:
        made = _compiled(text, target, name)
    except ToolchainError:
        if nvcc.version() is None:
            raise
        return nvcc.compile_text(text, target=target, name=name, cache=cache).cubin
    if cache:
        cache.write(place, made)
    return made


def _compiled(text: str, target: str, name: str) -> bytes:
    """The cubin. Raises ToolchainError with NVRTC's log."""
    found, program = library(), ctypes.c_void_p()
    assert found is not None
    _check(found, found.nvrtcCreateProgram(ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None))
    try:
        options = [f"--gpu-architecture={target}", *OPTIONS]
        array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = found.nvrtcCompileProgram(program, len(options), array)
        if code:
            said = _text(found, "ProgramLog", program).rstrip(b"\0").decode(errors="replace")
            raise _failed(text, name, options, said or _reason(found, code), code)
        return _text(found, "CUBIN", program)
    finally:
        found.nvrtcDestroyProgram(ctypes.byref(program))


def _text(found: Foreign, what: str, program: ctypes.c_void_p) -> bytes:
    """What NVRTC has of a program: its log or its cubin."""
    size = ctypes.c_size_t()
    _check(found, getattr(found, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    memory = ctypes.create_string_buffer(max(size.value, 1))
    _check(found, getattr(found, f"nvrtcGet{what}")(program, memory))
    return memory.raw[: size.value]


def _failed(text: str, name: str, options: Sequence[str], said: str, code: int) -> ToolchainError:
    kept = keep(f"{name}.cu", text.encode())
    again = f"nvcc {' '.join(options)} -cubin {kept or f'{name}.cu'} -o /dev/null"
    return ToolchainError(Rerun("NVRTC", kept, again, said, code))


def _check(found: Foreign, code: int) -> None:
    if code:
        raise ToolchainError(Rerun("NVRTC", None, "python -c 'import cuda.pathfinder'", _reason(found, code), code))


def _reason(found: Foreign, code: int) -> str:
    found.nvrtcGetErrorString.restype = ctypes.c_char_p
    reason: bytes = found.nvrtcGetErrorString(code)
    return reason.decode()
