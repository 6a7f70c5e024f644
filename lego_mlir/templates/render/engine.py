"""A strict Jinja2 environment with slices, whose errors carry the template's line.

Jinja2 parses `A[i, :, :]` but compiles a slice within a tuple to a syntax error; the code generator here emits
`slice(...)`. Undefined names are errors. A failure while a template is rendered is reported at the template's line:

>>> import numpy
>>> a = numpy.arange(6).reshape(2, 3)
>>> fill(compile_text("x = {{ a[1, ::2] }}", "tile.py.jinja"), {"a": a})
'x = [3 5]'
>>> fill(compile_text("x = {{ a[1, ::2] }}\\ny = {{ b }}", "tile.py.jinja"), {"a": a})
Traceback (most recent call last):
    ...
lego_mlir.errors.TemplateError: tile.py.jinja:2: 'b' is undefined; the spec gives: a

A value of a spec may list its attributes for templates (`offers`) and its name in messages (`called`).
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context

from lego_mlir.errors import LegoError, TemplateError, brief, did_you_mean


class _Generator(CodeGenerator):
    """Emits slices as calls of `slice`, which are valid everywhere."""

    def visit_Slice(self, node: nodes.Slice, frame: Frame) -> None:
        self.write("slice(")
        for place, part in enumerate((node.start, node.stop, node.step)):
            self.write(", " if place else "")
            if part is None:
                self.write("None")
            else:
                self.visit(part, frame)
        self.write(")")


class _Undefined(jinja2.StrictUndefined):
    """An undefined value whose message uses the template's names instead of Python class names."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)  # raises, so that any message that shows the value is this one

    @property
    def _undefined_message(self) -> str:
        name, of = self._undefined_name, self._undefined_obj
        offered = getattr(of, "offers", None)
        if offered is None or name is None:
            return str(super()._undefined_message)
        return f"{_called(of)} has no {name!r}" + (
            did_you_mean(name, offered) or f"; it has: {_listed(offered) or 'nothing'}"
        )


class _Context(Context):
    """Reports failed calls with the callee and its signature."""

    def call(self, given: Any, /, *args: Any, **options: Any) -> Any:
        if not callable(given):
            raise TemplateError(
                f"{_called(given)} is not a function and cannot be called; index a layout with brackets, "
                "A[i, j], and write an operator between two values"
            )
        try:
            return super().call(given, *args, **options)
        except TypeError as error:
            _require_arguments(given, args, options, error)
            raise


def _require_arguments(given: Any, args: tuple[Any, ...], options: Mapping[str, Any], error: TypeError) -> None:
    """Raise TemplateError if the arguments do not match the function's signature."""
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # built in
        return
    loop = {"_loop_vars", "_block_vars"}  # passed and removed by Jinja2
    try:
        signature.bind(*args, **{name: value for name, value in options.items() if name not in loop})
    except TypeError as mismatch:
        shown = ", ".join(_shown(parameter) for parameter in signature.parameters.values())
        name = getattr(given, "__name__", type(given).__name__)
        raise TemplateError(f"{name}({shown}): {mismatch}") from error


def _shown(parameter: inspect.Parameter) -> str:
    stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else stars
    default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
    return f"{stars}{parameter.name}{default}"


class _OneFile(jinja2.BaseLoader):
    """A loader that rejects includes: a template is a single file."""

    def get_source(self, environment: jinja2.Environment, template: str) -> NoReturn:
        raise TemplateError(
            f"include, import and extends need another file, {template!r}, and a template is a single one; write its "
            "text here, in a macro where it is needed twice"
        )


class _Environment(jinja2.Environment):
    """Propagates a layout's index errors, which Jinja2 would turn into undefined elements."""

    code_generator_class = _Generator
    context_class = _Context

    def getattr(self, obj: Any, attribute: str) -> Any:
        if getattr(obj, "offers", None) is None:
            return super().getattr(obj, attribute)
        try:
            return getattr(obj, attribute)
        except AttributeError:
            return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if getattr(obj, "explains_its_index", False):
            return obj[argument]
        return super().getitem(obj, argument)


def compile_text(text: str, name: str, finalize: Callable[[Any], Any] | None = None) -> jinja2.Template:
    """Compile a template; `name` appears in messages. Raises TemplateError with the line of a syntax error."""
    environment = _Environment(
        undefined=_Undefined,
        loader=_OneFile(),
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    try:
        code = environment.compile(text, name, name)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"{name}:{error.lineno}: {error.message}") from error
    except (RecursionError, MemoryError, SyntaxError) as error:  # the latter two are the Python compiler's
        raise TemplateError(
            f"{name}: braces, brackets or blocks are nested too deeply to be compiled; "
            "name the inner ones by {% set .. %}, or write a macro"
        ) from error
    return environment.template_class.from_code(environment, code, environment.make_globals(None))


@lru_cache(maxsize=64)
def mentioned(text: str) -> frozenset[str]:
    """The names that a template's text uses from its spec, in any branch."""
    return frozenset(find_undeclared_variables(_Environment().parse(text)))


def is_undefined(value: object) -> bool:
    """Whether a placeholder's value is an undefined name, attribute or element."""
    return isinstance(value, jinja2.Undefined)


def fill(template: jinja2.Template, names: Mapping[str, object], words: Mapping[str, object] | None = None) -> str:
    """Render a template with a spec's names and the functions that every template has.

    Raises TemplateError, with the template's line, for any failure.
    """
    try:
        return template.render({**(words or {}), **names})
    except Exception as error:
        line = _line(error, template.name or "")
        if line is None:
            raise
        raise TemplateError(f"{template.name}:{line}: {_message(error, names, words or {})}") from _reason(error)


def _reason(error: Exception) -> Exception | None:
    """The cause to chain: none for errors of this project, whose message is complete."""
    return None if isinstance(error, (LegoError, jinja2.UndefinedError)) else error


def _line(error: Exception, name: str) -> int | None:
    """The template line that was being rendered."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == name]
    return lines[-1] if lines else None


def _message(error: Exception, names: Mapping[str, object], words: Mapping[str, object]) -> str:
    """The failure's message; for an unknown name with a suggestion or the known names."""
    if not isinstance(error, jinja2.UndefinedError):
        reason = (str(error).strip() or "no reason given").splitlines()[0]
        return str(error) if isinstance(error, LegoError) else f"cannot be computed ({type(error).__name__}: {reason})"
    message = str(error.message)
    missing = re.fullmatch(r"'(\w+)' is undefined", message)
    if missing is None:
        return message
    given = [n for n in names if not n.startswith("_")]
    every = f"; every template has: {_listed(words)}" if words else ""
    return message + (
        did_you_mean(missing[1], given)
        or did_you_mean(missing[1], words, 0.7)
        or f"; the spec gives: {_listed(given) or 'nothing'}{every}"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _called(value: object) -> str:
    """A value's name in messages."""
    return str(getattr(value, "called", None) or brief(repr(value)))
