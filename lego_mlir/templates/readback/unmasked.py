"""Warn, without failing, when an unmasked block runs past the end of its layout.

Tiles that do not divide their sizes have indices without an element. `load`, `store`, `masked` and `.mask` handle
them; bare positions, `tl.load(p + {{ A[i, :] }})`, do not. The rendered text is analysed: a block is followed, through
variables too, into the `tl.load` and `tl.store` calls whose pointer contains it, and calls without a mask are reported.
A handwritten mask, `mask=at < n`, is trusted, and a block within the memory of its layout needs none. A block that
reaches no such call is reported if the template prints no mask of it.

>>> from lego_mlir.layout import Row
>>> from lego_mlir.templates import Template, index
>>> X = Row(100).tile_by([4], [32])
>>> for access in ("tl.load(p + {{ X[i, :] }})", '{{ load("p", X[i, :]) }}'):
...     print(unmasked(Template.of(f"x = {access}", "x.py.jinja", X=X, i=index("i")).render()))
[(1, 'i * 32 + tl.arange(0, 32)')]
[]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import sympy
from sympy.logic.boolalg import Boolean

from lego_mlir import syntax_tree
from lego_mlir.aliases import Cond
from lego_mlir.expr.index import as_condition, as_expr
from lego_mlir.expr.nodes import Lt
from lego_mlir.expr.prove import prove
from lego_mlir.expr.simplify import simplify
from lego_mlir.templates.readback.points import mask_of

if TYPE_CHECKING:
    from lego_mlir.templates.render.placeholders import Placeholder
    from lego_mlir.templates.render.template import Rendered

REMEDY: Final = (
    "reaches past the end of its layout, and nothing masks it; read and write it with load(..) and store(..), add "
    "{{ masked(..) }} to a handwritten access, or use tile sizes that divide"
)
_OF_ITS_OWN: Final = re.compile(r"\bmask\s*=(?!=)\s*(?!\{\{)\S")
_WITHOUT_MASK: Final = {"load": 1, "store": 2}  # positional arguments; a further one is the mask


def unmasked(rendered: Rendered) -> list[tuple[int, str]]:
    """The template's line and the text of every unmasked block, in text order."""
    if rendered.template.language != "triton":
        return []
    printed = {part for p in rendered.placeholders if _is_condition(p) for part in _parts(p.simplified)}
    own = _OF_ITS_OWN.search(rendered.template.text)
    accesses = _Accesses(syntax_tree.parse(rendered.text))
    found = []
    for p in rendered.placeholders:
        if not _is_block(p) or not (needed := _needed(p)):
            continue
        masks = accesses.masks(p)
        if (not all(masks) if masks else not own and needed - printed) and not _inside(p):
            found.append((p.line, p.text))
    return found


class _Accesses:
    """The loads and stores of a rendered text."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions: list[ast.AST] = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)] or [tree]

    def masks(self, placeholder: Placeholder) -> list[bool]:
        """For each access whose pointer depends on the placeholder, whether it has a mask."""
        text = placeholder.text.strip()
        wanted = ast.dump(syntax_tree.parse(text, mode="eval").body)
        return [mask for f in self.functions for mask in _Flow(f, text, wanted, placeholder.written).masks()]


class _Flow:
    """The uses of one placeholder's value in one function: `text` at a line or, at line 0, a variable."""

    def __init__(self, function: ast.AST, text: str, wanted: str, line: int) -> None:
        self.function, self.wanted, self.line = function, wanted, line
        self.names = set() if line else {text}

    def masks(self) -> Iterator[bool]:
        """For each access at its positions, whether it has a mask."""
        statements = sorted((n for n in ast.walk(self.function) if isinstance(n, ast.stmt)), key=lambda n: n.lineno)
        for node in statements:
            if isinstance(node, (ast.Assign, ast.AugAssign)) and self._contains(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.names |= {t.id for t in targets if isinstance(t, ast.Name)}
        for call in ast.walk(self.function):
            if (word := _access(call)) and isinstance(call, ast.Call) and self._contains(call.args[0]):
                yield len(call.args) > _WITHOUT_MASK[word] or any(k.arg == "mask" for k in call.keywords)

    def _contains(self, node: ast.AST) -> bool:
        """Whether a value is computed from the positions, other than by loading from them."""
        if _access(node):
            return False
        if isinstance(node, ast.Name) and node.id in self.names:
            return True
        here = isinstance(node, ast.expr) and node.lineno <= self.line <= (node.end_lineno or node.lineno)
        if here and ast.dump(node) == self.wanted:
            return True
        return any(map(self._contains, ast.iter_child_nodes(node)))


def _access(node: ast.AST) -> str | None:
    """'load' or 'store' for a call of `tl.load` or `tl.store`, otherwise None."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr=word), args=[_, *_]) if word in _WITHOUT_MASK:
            return word
    return None


def _is_condition(placeholder: Placeholder) -> bool:
    return isinstance(placeholder.raw, Boolean) and not placeholder.raw.is_Symbol  # a SymPy symbol could be either


def _is_block(placeholder: Placeholder) -> bool:
    return bool(placeholder.axes) and placeholder.origin is not None and not _is_condition(placeholder)


def _parts(condition: Cond) -> set[Cond]:
    """The operands of a conjunction."""
    return {part for part in sympy.And.make_args(condition) if part != sympy.true}


def _needed(placeholder: Placeholder) -> set[Cond]:
    """The unproved conditions of the mask."""
    mask = mask_of(placeholder)
    return set() if mask is True else _parts(simplify(as_condition(mask), placeholder.ranges).expr)


def _inside(placeholder: Placeholder) -> bool:
    """Whether all positions are within the layout's memory, whether or not they hold elements."""
    layout, _ = placeholder.origin
    return bool(prove(Lt(placeholder.raw, as_expr(layout.physical_size())), placeholder.ranges))
