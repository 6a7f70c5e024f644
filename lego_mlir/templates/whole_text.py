"""What a whole rendered text must be: Python, where it is Triton. Otherwise it is refused, where it went wrong.

>>> require_python("f.py.jinja", "def f(x):\\n    return x +\\n", [4, None], "")
Traceback (most recent call last):
lego_mlir.errors.TemplateError: f.py.jinja: line 2 of the rendered text is not Python (invalid syntax): return x +
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lego_mlir.errors import TemplateError


def require_python(name: str, text: str, lines: Sequence[int | None], source: str) -> None:
    """Raise TemplateError with the line of the template, as far as `lines` or the line itself tells, for no Python."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        number = (error.lineno if isinstance(error, SyntaxError) else None) or 1
        given = text.split("\n")
        wrong = given[min(number, len(given)) - 1].strip()
        line = (lines[number - 1] if number <= len(lines) else None) or _only_line(source, wrong)
        where = f"{name}: line {number} of the rendered text" if line is None else f"{name}:{line}: the rendered text"
        raise TemplateError(f"{where} is not Python ({said}): {wrong}") from error


def _only_line(source: str, text: str) -> int | None:
    """The line of the template that reads so, where there is exactly one."""
    found = [number for number, line in enumerate(source.split("\n"), 1) if text and line.strip() == text]
    return found[0] if len(found) == 1 else None
