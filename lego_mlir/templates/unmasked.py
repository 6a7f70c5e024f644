"""Blocks that reach past the end of their layout in a template that never masks them: a note, and no error.

Tiles that do not divide their sizes have indices that name no element. `load`, `store`, `masked` and `.mask` see to
that; positions alone, `tl.load(p + {{ A[i, :] }})`, are taken as they are. Whether the author masks them some other way
cannot be known: a template with a mask of its own writing, `mask=at < n`, is left alone, and so is a block that stays
within the memory of its layout.

>>> from lego_mlir.layout import Row
>>> from lego_mlir.templates import Template, index
>>> X = Row(100).tile_by([4], [32])
>>> for access in ("tl.load(p + {{ X[i, :] }})", '{{ load("p", X[i, :]) }}'):
...     print(unmasked(Template.of(f"x = {access}", "x.py.jinja", X=X, i=index("i")).render()))
[(1, 'i * 32 + tl.arange(0, 32)')]
[]
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import sympy
from sympy.logic.boolalg import Boolean

from lego_mlir.expr.index import as_condition, as_expr
from lego_mlir.expr.nodes import Lt
from lego_mlir.expr.prove import prove
from lego_mlir.expr.simplify import simplify
from lego_mlir.templates.points import mask_of

if TYPE_CHECKING:
    from lego_mlir.templates.placeholders import Placeholder
    from lego_mlir.templates.template import Rendered

REMEDY: Final = (
    "reaches past the end of its layout, and nothing masks it; read and write it with load(..) and store(..), add "
    "{{ masked(..) }} to an access of your own, or tile by sizes that divide"
)
_OF_ITS_OWN: Final = re.compile(r"\bmask\s*=(?!=)\s*(?!\{\{)\S")


def unmasked(rendered: Rendered) -> list[tuple[int, str]]:
    """The template's line and the text of every such block."""
    if rendered.template.language != "triton" or _OF_ITS_OWN.search(rendered.template.text):
        return []
    printed = {part for p in rendered.placeholders if _is_condition(p) for part in _parts(p.simplified)}
    return [(p.line, p.text) for p in rendered.placeholders if _is_block(p) and _needed(p) - printed and not _inside(p)]


def _is_condition(placeholder: Placeholder) -> bool:
    return isinstance(placeholder.raw, Boolean) and not placeholder.raw.is_Symbol  # a symbol of SymPy could be either


def _is_block(placeholder: Placeholder) -> bool:
    return bool(placeholder.axes) and placeholder.origin is not None and not _is_condition(placeholder)


def _parts(condition: Any) -> set[Any]:
    """The conditions that must all hold."""
    return {part for part in sympy.And.make_args(condition) if part != sympy.true}


def _needed(placeholder: Placeholder) -> set[Any]:
    """What is not proved of the mask."""
    mask = mask_of(placeholder)
    return set() if mask is True else _parts(simplify(as_condition(mask), placeholder.ranges).expr)


def _inside(placeholder: Placeholder) -> bool:
    """Whether all positions lie in the layout's memory, elements or not."""
    layout, _ = placeholder.origin
    return bool(prove(Lt(placeholder.raw, as_expr(layout.physical_size())), placeholder.ranges))
