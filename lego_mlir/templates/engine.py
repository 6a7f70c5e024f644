"""Jinja2 as the project uses it: strict, with slices, and with the template's line in every message.

Jinja2 already parses `A[i, :, :]` but compiles a slice within a tuple to a syntax error; the code generator here writes
it as `slice(...)`. An undefined name is an error wherever it is used. What goes wrong while a template is filled in is
reported at the template's own line:

>>> import numpy
>>> a = numpy.arange(6).reshape(2, 3)
>>> fill(compile_text("x = {{ a[1, ::2] }}", "tile.py.jinja"), {"a": a})
'x = [3 5]'
>>> fill(compile_text("x = {{ a[1, ::2] }}\\ny = {{ b }}", "tile.py.jinja"), {"a": a})
Traceback (most recent call last):
    ...
lego_mlir.errors.TemplateError: tile.py.jinja:2: 'b' is undefined; the spec gives: a
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

from lego_mlir.errors import TemplateError


class _Generator(CodeGenerator):
    """Writes slices in a form that is an expression everywhere."""

    def visit_Slice(self, node: nodes.Slice, frame: Frame) -> None:
        self.write("slice(")
        for place, part in enumerate((node.start, node.stop, node.step)):
            self.write(", " if place else "")
            if part is None:
                self.write("None")
            else:
                self.visit(part, frame)
        self.write(")")


class _Environment(jinja2.Environment):
    """Lets a layout say itself what is wrong with an index, where Jinja2 would say that the element is undefined."""

    code_generator_class = _Generator

    def getitem(self, obj: Any, argument: Any) -> Any:
        if getattr(obj, "explains_its_index", False):
            return obj[argument]
        return super().getitem(obj, argument)


def compile_text(text: str, name: str, finalize: Callable[[Any], Any] | None = None) -> jinja2.Template:
    """A template from its text; `name` is what messages call it. Raises TemplateError with the line of a mistake."""
    environment = _Environment(
        undefined=jinja2.StrictUndefined,
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
    return environment.template_class.from_code(environment, code, environment.make_globals(None))


def is_undefined(value: Any) -> bool:
    """Whether a placeholder's value is a name, attribute or element that does not exist."""
    return isinstance(value, jinja2.Undefined)


def fill(template: jinja2.Template, names: Mapping[str, Any], words: Mapping[str, Any] | None = None) -> str:
    """The text that a template gives, filled in with a spec's names and the words that every template has.

    Raises TemplateError at the template's line for whatever goes wrong in it.
    """
    try:
        return template.render({**(words or {}), **names})
    except Exception as error:
        line = _line(error, template.name or "")
        if line is None:
            raise
        raise TemplateError(f"{template.name}:{line}: {_said(error, names)}") from error


def _line(error: Exception, name: str) -> int | None:
    """The line of the template that was being filled in."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == name]
    return lines[-1] if lines else None


def _said(error: Exception, names: Mapping[str, Any]) -> str:
    if isinstance(error, jinja2.UndefinedError):
        given = sorted(n for n in names if not n.startswith("_"))
        missing = str(error.message or "").partition("'")[2].partition("'")[0]
        close = difflib.get_close_matches(missing, given, 1)
        guess = f"; did you mean {close[0]}?" if close else ""
        return f"{error.message}{guess or '; the spec gives: ' + (', '.join(given) or 'nothing')}"
    from lego_mlir.errors import LegoError

    return str(error) if isinstance(error, LegoError) else f"{type(error).__name__}: {error}"
