"""`lego.printf` and `lego.assert_`: looking inside a kernel while it runs.

    lego.printf("thread %d: %f\\n", t, x)     every thread prints a line
    lego.assert_(x >= 0, "x is negative")    a thread for which it is false stops the kernel

A GPU collects what threads print and writes it to the output of the process when the kernel has ended; the order of the
threads is not defined. A CPU prints thread by thread, through the C library. The interpreter prints statement by
statement, and for each one block by block and thread by thread. It reports a failed assertion with its line and first
thread, and goes on; a GPU stops the kernel with an error.
(CUDA C++ Programming Guide, "Formatted Output", "Assertion".)
"""

from __future__ import annotations

import re
from typing import Final

from lego_mlir.aliases import Operand
from lego_mlir.expr.index import Condition, is_symbolic
from lego_mlir.tracing.trace.dtypes import DType, f64, i1, i32, i64, u32, u64
from lego_mlir.tracing.trace.trace import MlirOperation, Value
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.scalar import Scalar, as_value, convert

MOST_ARGUMENTS: Final = 32  # of one call; CUDA C++ Programming Guide, "Formatted Output"
CONVERSION: Final = re.compile(r"%(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?P<length>hh|h|ll|l|z)?(?P<kind>[A-Za-z%])")
_SIGNED, _UNSIGNED, _FLOATS = "di", "uxXo", "fFeEgG"


def printf(text: str, *arguments: Operand) -> None:
    """Print as C does: `%d` and `%u`, `%x`, `%o` for integers and indices, `%f`, `%e`, `%g` for floats, `%s` for a str.

    Lengths such as `%lld` are not needed: they follow from the element types. No newline is added.
    """
    tracer = current("lego.printf")
    if not isinstance(text, str):
        raise tracer.error(f"lego.printf takes the text first, such as lego.printf('i = %d\\n', i), got {text!r}")
    pending, values = list(arguments), []
    if len(pending) > MOST_ARGUMENTS:
        raise tracer.error(f"lego.printf prints at most {MOST_ARGUMENTS} values at once, got {len(pending)}")

    def converted(found: re.Match[str]) -> str:
        kind, flags = found["kind"], found["flags"]
        if kind == "%":
            return "%%"
        if not pending:
            raise tracer.error(f"lego.printf: no value is left for {found[0]} in {text!r}")
        given = pending.pop(0)
        if kind == "s" and isinstance(given, str):
            return (f"%{flags}s" % given).replace("%", "%%")
        value = _argument(tracer, found[0], kind, given)
        values.append(value)
        return f"%{flags}{'ll' if not value.dtype.is_float and value.dtype.bits == 64 else ''}{kind}"

    rest = CONVERSION.sub("", text)
    if "%" in rest:
        raise tracer.error(
            f"lego.printf: a % in {text!r} begins no conversion such as %d; write %% for the sign itself"
        )
    written = CONVERSION.sub(converted, text)
    if pending:
        raise tracer.error(f"lego.printf: {len(pending)} more values than conversions in {text!r}")
    attributes = (("format", quoted(written)),)
    tracer.append(MlirOperation((), "gpu.printf", tuple(values), attributes, tracer.here()))


def assert_(condition: Operand, message: str = "assertion") -> None:
    """Stop the kernel with an error where a condition is false for some thread.

    A GPU reports the message and leaves the context unusable, as `assert` of CUDA does; the interpreter reports it as a
    fault with its thread and line.
    """
    tracer = current("lego.assert_")
    if isinstance(condition, Scalar) and condition.dtype.family != "bool":
        raise tracer.error(f"lego.assert_ takes a condition, got {condition!r}; compare it with a number")
    if not isinstance(message, str):
        raise tracer.error(f"lego.assert_ takes the message as a str, got {message!r}")
    if not isinstance(condition, Scalar | Condition | bool):
        condition = Condition(condition)
    holds = as_value(condition, i1)
    tracer.append(MlirOperation((), "cf.assert", (holds,), (("msg", quoted(message)),), tracer.here()))


def quoted(text: str) -> str:
    """A string as an MLIR attribute: bytes that are not printable are two hexadecimal digits.

    >>> quoted('a "b"' + chr(10))
    '"a \\\\22b\\\\22\\\\0A"'
    """
    plain = (chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in text.encode())
    return f'"{"".join(plain)}"'


def _argument(tracer: Tracer, written: str, kind: str, given: Operand) -> Value:
    """A value as C passes it: 32 or 64 bits, and floats as f64."""
    if isinstance(given, Scalar) and given.width is not None:
        raise tracer.error(f"lego.printf prints numbers, got {given!r}; print its elements, v[0], v[1], ..")
    is_float = isinstance(given, float) or (isinstance(given, Scalar) and given.dtype.is_float)
    if kind not in _SIGNED + _UNSIGNED + _FLOATS or is_float != (kind in _FLOATS):
        right = "%f, %e or %g" if is_float else "%d, %u, %x or %o"
        raise tracer.error(f"lego.printf: {written} cannot print {given!r}; write {right}")
    if is_float:
        return as_value(convert(given, f64), f64)
    dtype = _integer(given, kind in _UNSIGNED)
    return as_value(convert(given, dtype), dtype)


def _integer(given: Operand, unsigned: bool) -> DType:
    """The type in which C passes an integer."""
    if isinstance(given, Scalar):
        wide, unsigned = given.dtype.bits > 32, given.dtype.is_unsigned and given.dtype.family != "bool"
    elif isinstance(given, Condition):
        wide, unsigned = False, False
    else:
        wide = is_symbolic(given) or not -(2**31) <= given < 2**31
        unsigned = False
    return (u64 if wide else u32) if unsigned else (i64 if wide else i32)
