"""`@lego.function`: a function that kernels share, inlined into each, or compiled once and called.

    @lego.function                              @lego.function(inline=False)
    def relu(x):                                def gelu(x):
        return lego.maximum(x, 0.0)                 return 0.5 * x * (1 + lego.erf(x * 0.5**0.5))

A plain Python function is inlined as well; the decorator adds a name and a message for recursion. A function that is
called is traced once for each combination of kinds of its arguments in a kernel:

    data, a condition      passed: a number or vector of that element type
    an index               passed: with the range that it has at the call
    a tensor or tile       part of the combination: the code accesses this memory
    anything else          part of the combination: a type, a size, an int, a layout

Results are data, indices, conditions, or a tuple of these. What is known at the call but not passed, such as conditions
of branches around it, does not hold inside. Outside a kernel both are the Python function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper

from lego_mlir.aliases import Operand
from lego_mlir.errors import TraceError
from lego_mlir.tracing.trace.spec_line import Source


class DeviceFunction:
    """A function of kernels. Called in a kernel, it is inlined, or called where `inline` is false."""

    def __init__(self, function: Callable[..., Operand], inline: bool) -> None:
        if not inspect.isfunction(function):
            raise TraceError(f"@lego.function decorates a Python function, got {function!r}")
        update_wrapper(self, function)
        code = function.__code__
        self.function, self.name, self.inline = function, function.__name__, inline
        self.source = Source(code.co_filename, code.co_firstlineno)
        plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
        for parameter in inspect.signature(function).parameters.values() if not inline else ():
            if parameter.kind is not plain:
                raise TraceError(
                    f"{self.source}: parameter '{parameter.name}' of {self.name}, which is called, must be plain, "
                    "without * or /"
                )
        if not inline and not (self.name.isidentifier() and self.name.isascii()):
            raise TraceError(
                f"{self.source}: a function that is called needs a name of ASCII letters, digits and underscores, not "
                f"{self.name}"
            )

    def __repr__(self) -> str:
        return f"<device function {self.name}, {self.source}>"

    def __call__(self, *given: Operand, **named: Operand) -> Operand:
        """The function's results. Raises TraceError where it is recursive, or an argument cannot be passed."""
        from lego_mlir.tracing.definition.traced_functions import Calling
        from lego_mlir.tracing.trace.tracer import active

        tracer = active()
        if tracer is None:
            return self.function(*given, **named)
        if self in tracer.calling:
            chain = " -> ".join(f.name for f in (*tracer.calling[tracer.calling.index(self) :], self))
            raise tracer.error(
                f"{self.name} calls itself ({chain}): a kernel has no stack to recurse on; write a loop, or unroll "
                "in a plain Python function"
            )
        tracer.calling.append(self)
        try:
            return self.function(*given, **named) if self.inline else Calling(tracer, self).call(given, named)
        finally:
            tracer.calling.pop()


def function(given: Callable[..., Operand] | None = None, *, inline: bool = True) -> DeviceFunction | Operand:
    """Decorate a function that kernels share. It is inlined; with `inline=False` compiled once a kernel and called.

    Raises TraceError for other objects. The called form suits long code that is used in several places; arguments are
    data, indices, tensors and Python values, and it declares no shared tiles.
    """
    if given is None:
        return lambda given: DeviceFunction(given, inline)
    return DeviceFunction(given, inline)
