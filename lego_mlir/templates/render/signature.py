"""The size parameters of a kernel and their order.

Callers depend on the signature, so it follows from the logical sizes, which they know, and not from the storage: the
sizes in the logical dims of every layout that the template mentions, in the order of the spec's names and each layout's
dims from left to right, whether or not the text uses them. A size named in the spec counts as a layout with that one
dim.

>>> from lego_mlir.expr.sizes import size
>>> from lego_mlir.layout import Col, Padded, Row
>>> from lego_mlir.templates import Template, indices
>>> m, k = indices("m k")
>>> M, N, pitch = size("M", max=4096), size("N", max=4096), size("pitch", max=4096)
>>> def signature(layout):
...     text = "def f(a{{ sizes }}): return a + {{ A[m, k] }}"
...     return Template.of(text, "f.py.jinja", A=layout, m=m, k=k).render().text
>>> print(signature(Row(M, N)), signature(Col(M, N)), signature(Padded(Row(M, N + pitch), [M, N])), sep="\\n")
def f(a, M, N): return a + (N * m + k)
def f(a, M, N): return a + (M * k + m)
def f(a, M, N, pitch): return a + (k + (N + pitch) * m)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Size
from lego_mlir.templates.render.names import Language
from lego_mlir.templates.render.values import NamedLayout

_BRACKETS: Final = {")": 1, "]": 1, "}": 1, "(": -1, "[": -1, "{": -1}


def sizes_of(value: object) -> dict[str, Size]:
    """The sizes in a layout's logical dims, or in an expression of the spec; within one dim sorted by name."""
    dims = value.layout.dims() if isinstance(value, NamedLayout) else (value,) if isinstance(value, Index) else ()
    symbols = (s for n in dims for s in sorted(as_expr(n).free_symbols, key=str))
    return {str(s): s for s in symbols if isinstance(s, Size)}


def ordered(declared: Mapping[str, Size], used: Mapping[str, Size], constexprs: Collection[str]) -> dict[str, Size]:
    """Parameters: logical sizes first, other used sizes by name, and constexprs last."""
    every = {**declared, **{name: used[name] for name in sorted(used)}}
    return {name: every[name] for name in sorted(every, key=lambda name: name in constexprs)}


def require_room(before: str, sizes: Iterable[str], language: Language) -> None:
    """Reject `{{ sizes }}` unless it directly follows a parameter, and a parameter with the name of a size."""
    if before.rstrip().endswith(("(", ",")):
        raise TemplateError(
            "{{ sizes }} begins with a comma if there are sizes, and is empty otherwise; write it "
            "directly after the last parameter, as in f(x_ptr{{ sizes }})"
        )
    if taken := sorted(set(_parameters(before, language)) & set(sizes)):
        raise TemplateError(
            f"the parameter {taken[0]} has the name of a size, and {{{{ sizes }}}} already adds it; remove yours, "
            "or rename one of them"
        )


def _parameters(before: str, language: Language) -> list[str]:
    """The parameter names at the end of a text, after the last unclosed parenthesis."""
    parts, depth = [""], 0
    for letter in reversed(before):
        depth += _BRACKETS.get(letter, 0)
        if depth < 0:
            names = (re.findall(r"[^\W\d]\w*", part.partition("=")[0].partition("[")[0]) for part in parts)
            return [found[0 if language == "triton" else -1] for found in names if found]
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] = letter + parts[-1]
    return []
