"""`@lego.generic`: one definition of a kernel for several element types, sizes or layouts, named and made on request.

The decorated function makes a kernel from its parameters; brackets select them:

>>> import lego_mlir as lego
>>> from lego_mlir import Row, f16, f32
>>> @lego.generic
... def axpy(T, N):
...     @lego.kernel(grid=N // 128, block=128)
...     def kernel(a: T, x: lego.Tensor(T, Row(N)), y: lego.Tensor(T, Row(N))):
...         i = lego.block_id[0] * 128 + lego.thread_id[0]
...         y[i] += a * x[i]
...     return kernel
>>> axpy[f16, 256].name, axpy[f16, 256].grid
('axpy_f16_256', (2,))
>>> axpy[f16, 256] is axpy[f16, 256]
True

A kernel is made once for equal parameters. Its name, the entry of the compiled code, is that of the function and of the
parameters, so it does not depend on which kernels were made before.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from types import FunctionType, MappingProxyType
from typing import Final, NoReturn

from lego_mlir.errors import TraceError, brief
from lego_mlir.expr.index import Index
from lego_mlir.tracing.definition.kernel import Kernel, require_entry_name
from lego_mlir.tracing.trace.spec_line import Source

LONGEST: Final = 40  # characters of one parameter in a kernel's name; a longer one is abbreviated by its digest
_FIXED: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class GenericKernel:
    """A function from types, sizes and layouts to a kernel. `g[f16, 128]` is the kernel for these parameters."""

    def __init__(self, function: Callable[..., Kernel]) -> None:
        if not inspect.isfunction(function):
            raise TraceError(f"@lego.generic decorates a function that returns a kernel, got {function!r}")
        code = function.__code__
        self.name, self.function = function.__name__, function
        self.source = Source(code.co_filename, code.co_firstlineno)
        require_entry_name(self.name, self.source)
        self.signature = inspect.signature(function)
        for parameter in self.signature.parameters.values():
            if parameter.kind not in _FIXED:
                raise TraceError(
                    f"{self.source}: parameter '{parameter.name}' of {self.name} must be a plain one: brackets, as in "
                    f"{self.name}[f16, 128], pass no keywords"
                )
        self._made: dict[str, tuple[tuple[object, ...], Kernel]] = {}

    def __repr__(self) -> str:
        return f"<generic kernel {self}, {self.source}>"

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(self.signature.parameters)}]"

    def __call__(self, *given: object, **named: object) -> NoReturn:
        raise TraceError(
            f"{self.source}: {self.name} is generic: select a kernel by its parameters, {self.name}[..], then use that"
        )

    @property
    def made(self) -> Mapping[str, Kernel]:
        """The kernels made so far, by the text that selects them: `axpy[f16, 128]`."""
        return MappingProxyType({self._shown(values): kernel for values, kernel in self._made.values()})

    def __getitem__(self, given: object) -> Kernel:
        """The kernel for these parameters. Raises TraceError for a wrong number of them, or ones without a name."""
        values = self._values(given if isinstance(given, tuple) else (given,))
        name = "_".join([self.name, *(self._text(value) for value in values)])
        known = self._made.get(name)
        if known is None:
            known = self._made[name] = (values, self._make(name, values))
        if not all(map(_same, known[0], values)):
            raise TraceError(
                f"{self.source}: {self._shown(known[0])} and {self._shown(values)} would both be named {name}; "
                "pass one of the differing parameters as another type, size or layout"
            )
        return known[1]

    def _values(self, given: tuple[object, ...]) -> tuple[object, ...]:
        try:
            bound = self.signature.bind(*given)
        except TypeError as error:
            raise TraceError(
                f"{self.source}: {self.name}[{', '.join(map(_shown, given))}]: {error}; it is {self}"
            ) from error
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def _make(self, name: str, values: tuple[object, ...]) -> Kernel:
        kernel = self.function(*values)
        if not isinstance(kernel, Kernel):
            raise TraceError(
                f"{self.source}: {self._shown(values)} must return a kernel, a function decorated with "
                f"@lego.kernel(..), got {kernel!r}"
            )
        if kernel in (made for _, made in self._made.values()):
            raise TraceError(
                f"{self.source}: {self._shown(values)} returns {kernel.name} again; define the kernel inside "
                f"{self.name}, so that each set of parameters has one"
            )
        kernel.name = name
        return kernel

    def _text(self, value: object) -> str:
        """A parameter as part of a name."""
        shown = _shown(value)
        if " at 0x" in shown:
            raise TraceError(
                f"{self.source}: a parameter of {self.name} is part of the kernel's name, and {brief(shown, 60)} has "
                "no name; pass a type, a number, a string, a size, a layout or a named function"
            )
        text = re.sub(r"\W+", "_", shown.replace("-", "m"), flags=re.ASCII).strip("_")
        if len(text) <= LONGEST and text:
            return text
        return f"{text[: LONGEST - 9]}_{sha256(shown.encode()).hexdigest()[:8]}"

    def _shown(self, values: tuple[object, ...]) -> str:
        return f"{self.name}[{', '.join(map(_shown, values))}]"


def _shown(value: object) -> str:
    """A parameter as a spec writes it."""
    if isinstance(value, (type, FunctionType)) and "<" not in value.__name__:
        return str(value.__name__)
    return repr(value)


def _same(a: object, b: object) -> bool:
    """Whether two parameters of equal text are equal: sizes may differ in their facts, functions in their code."""
    if isinstance(a, Index) and isinstance(b, Index):
        return bool(a.expr == b.expr)
    return a is b or (type(a) is type(b) and not isinstance(a, FunctionType) and repr(a) == repr(b))


def generic(function: Callable[..., Kernel]) -> GenericKernel:
    """Decorate a function that takes types, sizes or layouts and returns a kernel: `g[f16, 128]` is one of them.

    Such a kernel is named after the function and its parameters, `g_f16_128`. Raises TraceError for other objects.
    """
    return GenericKernel(function)
