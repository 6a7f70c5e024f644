"""A NumPy function as text that runs without its module: the reference of a kernel travels with its packed code.

The text has the function and what it uses: other functions likewise, numbers and small arrays with their values, NumPy
and the standard library as imports. Decorators and annotations are left out.

>>> import numpy as np
>>> scale = 3
>>> def expected(x):
...     return np.abs(scale * x)
>>> print(text_of(expected, "expected"), end="")
import numpy as np
scale = 3
def expected(x):
    return np.abs(scale * x)

`loaded` makes the function again; it runs with the rights of its reader, as packed code does.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
import math
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Final

from lego_mlir.aliases import Foreign
from lego_mlir.errors import SpecError, UsageError, brief
from lego_mlir.tracing.definition.fingerprint import codes_of

MOST_NUMBERS: Final = 4096
"""Elements of an array that is written as text."""
CONTAINERS: Final = (tuple, list, set, frozenset)
PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))


def text_of(function: Callable[..., object], name: str) -> str:
    """The text of a function under this name. Raises UsageError, with the reason, for one that cannot travel."""
    writer = _Writer()
    own = getattr(function, "__name__", name)
    own = own if own.isidentifier() else name  # a lambda has no name to call itself by
    writer.function(function, own)
    if own != name:
        if name in writer.parts:
            raise UsageError(f"{name} has two meanings in the functions that are used")
        writer.parts[name] = f"{name} = {own}"
    return "\n".join(writer.parts.values()) + "\n"


def loaded(text: str, name: str) -> Callable[..., object]:
    """The function of a text. Raises SpecError for a text that does not define it here."""
    namespace: dict[str, Foreign] = {"__name__": "carried"}
    try:
        exec(compile(text, f"<{name}>", "exec"), namespace)
        found: Callable[..., object] = namespace[name]
    except (ImportError, SyntaxError, LookupError, NameError, TypeError, ValueError) as error:
        raise SpecError(
            f"the reference {name} of the pack cannot be loaded ({error}); pack the candidates again"
        ) from (error)
    return found


class _Writer:
    """The definitions of a text by name, those that others need first."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._values: dict[str, object] = {}

    def function(self, given: object, name: str) -> None:
        """Add a function and what it uses."""
        if not isinstance(given, FunctionType):
            raise UsageError(f"{name} is {brief(given, 60)}, not a function written in Python")
        self._values[name] = given
        for other, value in [*_globals(given), *_closure(given)]:
            self._define(other, value)
        self.parts[name] = _source(given, name)

    def _define(self, name: str, value: object) -> None:
        if name in self._values:
            if self._values[name] is not value and not _same(self._values[name], value):
                raise UsageError(f"{name} has two meanings in the functions that are used")
            return
        self._values[name] = value
        if isinstance(value, ModuleType):
            self.parts[name] = f"import {_allowed(value.__name__)} as {name}"
        elif isinstance(value, FunctionType) and not _importable(value):
            self.function(value, name)
        else:
            self.parts[name] = _imported(value, name) or f"{name} = {_literal(name, value)}"


def _same(a: object, b: object) -> bool:
    return type(a) is type(b) and isinstance(a, (*PLAIN, tuple)) and bool(a == b)


def _globals(function: FunctionType) -> Iterator[tuple[str, object]]:
    """The names of the module that a function and those inside it read; builtin ones need no definition."""
    import builtins

    for code in codes_of(function.__code__):
        for step in dis.get_instructions(code):
            if step.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
                continue
            if step.argval in function.__globals__:
                yield step.argval, function.__globals__[step.argval]
            elif not hasattr(builtins, step.argval):
                raise UsageError(f"{function.__name__} uses {step.argval}, which is not defined")


def _closure(function: FunctionType) -> Iterator[tuple[str, object]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            raise UsageError(f"{function.__name__} uses {name}, which has no value yet") from None


def _importable(value: object) -> bool:
    """Whether the device's machine has it: the top module is NumPy or of the standard library."""
    top = (getattr(value, "__module__", None) or "").partition(".")[0]
    return top == "numpy" or (top in sys.stdlib_module_names and top != "__main__")


def _allowed(module: str) -> str:
    top = module.partition(".")[0]
    if top != "numpy" and top not in sys.stdlib_module_names:
        raise UsageError(f"it uses the module {module}; the machine of the device has NumPy and the standard library")
    return module


def _imported(value: Foreign, name: str) -> str | None:
    """The import of a public name of NumPy or the standard library."""
    module, own = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not _importable(value) or not isinstance(own, str):
        ufunc = type(value).__name__ == "ufunc"
        module, own = ("numpy", value.__name__) if ufunc else (None, None)
    if module is None or getattr(importlib.import_module(module), own or "", None) is not value:
        return None
    return f"from {module} import {own} as {name}"


def _literal(name: str, value: object) -> str:
    """A value as an expression."""
    import numpy

    if isinstance(value, numpy.ndarray | numpy.generic):
        array = numpy.asarray(value)
        if array.size > MOST_NUMBERS or array.dtype.kind not in "biuf":
            raise UsageError(f"{name} is an array of {array.size} elements of {array.dtype}; a text has few numbers")
        shown = _literal(name, array.tolist())
        return f"__import__('numpy').array({shown}, {array.dtype.str!r})[()]"
    if isinstance(value, tuple | list | set | frozenset) and type(value) in CONTAINERS:
        parts = "".join(f"{_literal(name, part)}, " for part in value)
        return f"{type(value).__name__}(({parts}))"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(name, k)}: {_literal(name, v)}" for k, v in value.items()) + "}"
    if type(value) is float and not math.isfinite(value):
        return f"float({str(value)!r})"
    if type(value) in PLAIN:
        return repr(value)
    raise UsageError(f"it uses {name}, {brief(value, 60)}; numbers, texts, small arrays and functions can travel")


def _source(function: FunctionType, name: str) -> str:
    """The definition of a function under a name: its source without decorators and annotations."""
    code = function.__code__
    anonymous = code.co_name == "<lambda>"
    try:
        text = "".join(inspect.findsource(function)[0]) if anonymous else inspect.getsource(function)
        tree = ast.parse(textwrap.dedent(text))
    except (OSError, SyntaxError, TypeError) as error:
        raise UsageError(f"{name}: its source cannot be read ({error}); define it in a file") from None
    found: ast.FunctionDef | ast.Assign
    if anonymous:
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and _is_of(node, code)]
        if len(lambdas) != 1:
            raise UsageError(f"{name}: {len(lambdas)} functions of its line may be meant; define it with def")
        found = ast.Assign([ast.Name(name, ast.Store())], lambdas[0], lineno=1)
        arguments = lambdas[0].args
    else:
        (found,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        found.decorator_list, found.returns, found.name = [], None, name
        arguments = found.args
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    arguments.defaults = [_default(name, value) for value in function.__defaults__ or ()]
    keyword = function.__kwdefaults__ or {}
    arguments.kw_defaults = [_default(name, keyword[a.arg]) if a.arg in keyword else None for a in arguments.kwonlyargs]
    return ast.unparse(ast.fix_missing_locations(found))


def _is_of(node: ast.Lambda, code: CodeType) -> bool:
    """Whether a lambda has the line and the arguments of this code."""
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    taken = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return (node.lineno, names) == (code.co_firstlineno, taken)


def _default(name: str, value: object) -> ast.expr:
    return ast.parse(_literal(f"a default of {name}", value), mode="eval").body
