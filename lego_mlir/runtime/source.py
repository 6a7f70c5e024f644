"""A rendered CUDA text as kernels that CuPy launches: compiled on the machine that runs them, by NVRTC.

Like the rest of the runtime it needs CuPy and NumPy only: the text was made elsewhere. CuPy caches what it compiles on
disk, and one text gives one module here.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from lego_mlir.runtime.cuda import cupy

OPTIONS: Final = ("--std=c++17",)


@cache
def module(text: str) -> Any:
    """The `cupy.RawModule` of a CUDA C++ text. Raises DependencyError without CuPy."""
    return cupy().RawModule(code=text, options=OPTIONS, backend="nvrtc")


def kernel(text: str, name: str) -> Any:
    """One `extern "C"` kernel of a text: call it with grid, block and a tuple of arguments."""
    return module(text).get_function(name)
