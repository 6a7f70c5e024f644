"""Run Triton kernels in Triton's interpreter, in a child process.

Triton decides at import, for the whole process, whether its functions are compiled or interpreted. So that one program
can do both, the interpreter runs in a child process, started on first use and reused: arrays are sent over a pipe and
back. PyTorch is not needed: `HostArray` gives a NumPy array the tensor interface that the interpreter uses.
"""

from __future__ import annotations

import atexit
import inspect
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import IO, Any, Final

import numpy

from lego_mlir.errors import TemplateError, did_you_mean
from lego_mlir.expr.index import is_masked
from lego_mlir.templates import Rendered
from lego_mlir.templates.run.triton_memory import Memory, OutsideError

Failure = tuple[str, str]
"""The message, and the child's traceback if the kernel itself failed."""

NO_NUMBERS: Final = "OSUMm"  # NumPy kinds: objects, strings and times


def interpret(rendered: Rendered, kernel: str, grid: Sequence[int], *arguments: Any, **constants: Any) -> None:
    """Run a kernel on the CPU in Triton's interpreter; NumPy arrays among the arguments are read and written.

    A list of arrays is passed as an array of their addresses, as 64-bit integers. Raises TemplateError, with the
    rendered line, if the kernel fails or accesses memory outside its arguments, and for invalid arguments.
    """
    _require_grid(f"{rendered.template.name}: {kernel}", grid)
    positional = [_contiguous(a) for a in arguments]
    named = {name: _contiguous(a) for name, a in constants.items()}
    name = rendered.template.name
    try:
        launch = pickle.dumps((rendered.text, name, kernel, tuple(grid), positional, named))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TemplateError(f"{name}: {kernel}: an argument cannot be handed to the interpreter: {error}") from error
    child = _child()
    assert child.stdin is not None and child.stdout is not None  # both are pipes
    try:
        child.stdin.write(launch)
        child.stdin.flush()
        failure, results = pickle.load(child.stdout)
    except (BrokenPipeError, EOFError) as broken:
        _child.cache_clear()
        code = child.wait()
        _end(child)
        raise TemplateError(f"{name}: Triton's interpreter ended (exit code {code})") from broken
    if failure is not None:
        message, trace = failure
        raise TemplateError(message) from (_ChildError(trace) if trace else None)
    for given, result in zip([*arguments, *constants.values()], results, strict=True):
        for array, new in zip(*((v if isinstance(v, list) else [v]) for v in (given, result)), strict=True):
            if _is_array(array):
                array[...] = new


def _require_grid(kernel: str, grid: object) -> None:
    """Require one to three numbers of programs."""
    axes = tuple(grid) if isinstance(grid, (tuple, list)) else ()
    if not (1 <= len(axes) <= 3 and all(hasattr(n, "__index__") and n >= 0 for n in axes)):
        raise TemplateError(f"{kernel}: a grid is one to three numbers of programs, such as (4,), got {grid!r}")


class _ChildError(Exception):
    """The traceback of an exception in the interpreter's process."""

    def __str__(self) -> str:
        return f"in the interpreter's process:\n{self.args[0]}"


def _is_array(value: object) -> bool:
    return isinstance(value, numpy.ndarray)


def _contiguous(value: Any) -> Any:
    if is_masked(value):
        raise TemplateError("a masked array has no elements where its mask is set; pass array.filled(value)")
    if isinstance(value, list):
        return [_contiguous(part) for part in value]
    return numpy.ascontiguousarray(value) if _is_array(value) else value


@cache
def _child() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lego_mlir.templates.run.triton_interpreter"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    atexit.register(_end, child)
    return child


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the interpreter's process, wait for its end, and close the pipes to it."""
    child.terminate()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        with suppress(OSError):  # of what was still to be written to a process that is gone
            assert pipe is not None
            pipe.close()


class _Storage:
    """The storage of an array, which the interpreter would copy between devices."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def cpu(self) -> _Storage:
        return self

    def copy_(self, other: _Storage) -> None:
        """Nothing to do: the interpreter works in place."""


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

    def set_(self, storage: _Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)


def _run(
    text: str, name: str, kernel: str, grid: tuple[int, ...], arguments: Any, constants: Any
) -> tuple[Failure | None, Any]:
    """In the child: one launch; the failure, or the updated arguments."""
    from lego_mlir.templates import Template
    from lego_mlir.templates.run.triton import interpreter, load

    try:
        function = load(Rendered(Template.of("", name), text, (), {}, ()), kernel)
        given = _bound(name, function, arguments, constants)
    except TemplateError as error:
        return (str(error), ""), None
    memory = Memory(_arrays(given))
    native = interpreter()
    launched = {n: HostArray(memory.copies[n]) if n in memory.copies else value for n, value in given.items()}
    try:
        with memory.guards(native), numpy.errstate(all="ignore"):  # lanes that are masked off may compute anything
            function[grid](**launched)
    except Exception as error:  # any kernel error is reported by the parent
        return _failure(error, name, function, text, native.interpreter_builder.grid_idx), None
    return None, [memory.held(value) for value in (*arguments, *constants.values())]


def _bound(name: str, function: Any, arguments: Any, constants: Any) -> dict[str, Any]:
    """The arguments by parameter name. Raises TemplateError for missing arguments and types unknown to Triton.

    Launch options for a GPU, such as num_warps, are accepted and ignored.
    """
    from lego_mlir.templates.run.triton import launch_options

    parameters = list(function.arg_names)
    shown = f"{name}: {function.fn.__name__}({', '.join(parameters)})"
    known = {n: value for n, value in constants.items() if n in parameters}
    if unknown := [n for n in constants if n not in known and n not in launch_options()]:
        raise TemplateError(f"{shown} has no parameter {unknown[0]!r}{did_you_mean(unknown[0], parameters)}")
    try:
        bound = inspect.signature(function.fn).bind(*arguments, **known).arguments
    except TypeError as error:
        raise TemplateError(f"{shown}: {error}") from error
    for n, value in bound.items():
        if isinstance(value, list) and not (value and all(map(_is_array, value))):
            raise TemplateError(
                f"{shown}: {n} is a list, which is passed as the addresses of the NumPy arrays in it; for one "
                "array of numbers pass numpy.array(..)"
            )
        for array in value if isinstance(value, list) else [value]:
            if _is_array(array) and array.dtype.kind in NO_NUMBERS:
                raise TemplateError(
                    f"{name}: {n} is an array of {array.dtype}, for which Triton has no type; convert it"
                )
    return dict(bound)


def _arrays(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are arrays or lists of them."""
    return {name: value for name, value in given.items() if _is_array(value) or isinstance(value, list)}


def _failure(error: BaseException, name: str, function: Any, text: str, program: Sequence[int]) -> Failure:
    """The line of the rendered text where the kernel failed, and the reason, without Triton's frames."""
    trace = "".join(traceback.format_exception(error))
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:  # an enclosing call
        error = error.__cause__
    file = function.fn.__code__.co_filename
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    where = f", at line {lines[-1]} of the rendered text, {text.splitlines()[lines[-1] - 1].strip()!r}" if lines else ""
    kernel = function.fn.__name__
    if isinstance(error, OutsideError):
        which = ", ".join(map(str, program))
        return f"{name}: {kernel}{where}: program ({which}) {error}; mask it, or give it larger arrays", ""
    return f"{name}: {kernel} failed in Triton's interpreter{where}: {type(error).__name__}: {error}", trace


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """In the child: serve launches until the parent closes the pipe."""
    while True:
        try:
            launch = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = _run(*launch)
        except Exception as error:
            answer = (f"Triton's interpreter failed: {type(error).__name__}: {error}", traceback.format_exc()), None
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # redirect a kernel's output to stderr, away from the answers
    _serve(sys.stdin.buffer, output)
