"""Triton's interpreter in a process of its own.

Triton decides when it is imported whether its own functions are compiled or interpreted, for the whole process. So that
one program can do both, the interpreter runs in a child, started when it is first needed and kept: arrays go there and
come back over a pipe. Without PyTorch: `HostArray` gives a NumPy array what the interpreter asks of a tensor.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import IO, Any

from lego_mlir.errors import TemplateError
from lego_mlir.templates import Rendered


def interpret(rendered: Rendered, kernel: str, grid: Sequence[int], *arguments: Any, **constants: Any) -> None:
    """Run a kernel on the CPU in Triton's interpreter; NumPy arrays among the arguments are read and written.

    A list of arrays is an argument too: the kernel gets an array of their addresses, as 64-bit integers. Raises
    TemplateError with what Triton said where the kernel fails.
    """
    import numpy

    contiguous = [[numpy.ascontiguousarray(x) for x in a] if isinstance(a, list) else a for a in arguments]
    contiguous = [numpy.ascontiguousarray(a) if isinstance(a, numpy.ndarray) else a for a in contiguous]
    launch = (rendered.text, rendered.template.name, kernel, tuple(grid), contiguous, constants)
    child = _child()
    assert child.stdin is not None and child.stdout is not None  # both are pipes
    try:
        pickle.dump(launch, child.stdin)
        child.stdin.flush()
        error, results = pickle.load(child.stdout)
    except (BrokenPipeError, EOFError) as broken:
        _child.cache_clear()
        raise TemplateError(
            f"{rendered.template.name}: Triton's interpreter ended (exit code {child.poll()})"
        ) from broken
    if error is not None:
        raise TemplateError(f"{rendered.template.name}: {kernel} failed in Triton's interpreter:\n{error}")
    for given, result in zip(arguments, results, strict=True):
        for array, new in zip(*((v if isinstance(v, list) else [v]) for v in (given, result)), strict=True):
            if isinstance(array, numpy.ndarray):
                array[...] = new


@cache
def _child() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lego_mlir.toolchain.triton_interpreter"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    atexit.register(child.terminate)
    return child


class _Storage:
    """The memory of an array, which the interpreter would copy between devices if there were any."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def cpu(self) -> _Storage:
        return self

    def copy_(self, other: _Storage) -> None:
        """The interpreter has worked in place."""


class HostArray:
    """A C-contiguous NumPy array as an argument of Triton's interpreter, which writes into it."""

    def __init__(self, array: Any = None) -> None:
        self.array = array

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def untyped_storage(self) -> _Storage:
        return _Storage(self.array)

    def new_empty(self, size: int, device: str) -> HostArray:
        return HostArray()

    def set_(self, storage: _Storage, offset: int, size: Any, stride: Any) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> Any:
        return self.array.shape

    def stride(self) -> Any:
        return tuple(s // self.array.itemsize for s in self.array.strides)


def _run(text: str, name: str, kernel: str, grid: Any, arguments: Any, constants: Any) -> Any:
    """In the child: one launch."""
    import numpy

    from lego_mlir.templates import Template
    from lego_mlir.toolchain.triton import load

    rendered = Rendered(Template.of("", name), text, (), {}, ())
    given = []
    for argument in arguments:
        if isinstance(argument, list):
            argument = numpy.array([a.ctypes.data for a in argument], dtype=numpy.int64)
        given.append(HostArray(argument) if isinstance(argument, numpy.ndarray) else argument)
    load(rendered, kernel)[grid](*given, **constants)
    return arguments


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """In the child: launches, one after the other, until the parent closes the pipe."""
    import traceback

    while True:
        try:
            launch = pickle.load(requests)
        except EOFError:
            return
        try:
            answer: Any = (None, _run(*launch))
        except Exception:  # whatever the kernel does wrong is the parent's to report
            answer = (traceback.format_exc(), None)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a kernel prints goes to stderr, not between the answers
    _serve(sys.stdin.buffer, output)
