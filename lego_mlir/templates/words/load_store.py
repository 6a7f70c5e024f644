"""Loads and stores of a slice in Triton, masked only where necessary.

>>> from lego_mlir.layout import Row
>>> from lego_mlir.templates import Template, index
>>> text = '{{ load("x_ptr", X[m, 0, 0, :], other="-1.0", cache_modifier=".cg") }}'
>>> for width in (32, 30):
...     X = Row(4, width).tile_by([4, 1], [1, 32])
...     print(Template.of(text, "x.py.jinja", X=X, m=index("m")).render().text)
tl.load(x_ptr + (m * 32 + tl.arange(0, 32)), cache_modifier='.cg')
tl.load(x_ptr + (m * 30 + tl.arange(0, 32)), mask=tl.arange(0, 32) < 30, other=-1.0, cache_modifier='.cg')

The pointer, `value` and `other` are Triton expressions, given as text; any other string option is a string in the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Cond
from lego_mlir.errors import TemplateError, brief, did_you_mean
from lego_mlir.expr.index import Condition, Index, as_condition
from lego_mlir.layout.shifted import is_read_only
from lego_mlir.templates.render.blocks import blocks_in
from lego_mlir.templates.render.indices import ranges_of
from lego_mlir.templates.render.require import require_language
from lego_mlir.templates.render.values import BlockCondition, Offsets

if TYPE_CHECKING:
    from lego_mlir.templates.render.placeholders import Filling


OPTIONS: Final = {
    "load": ("boundary_check", "padding_option", "cache_modifier", "eviction_policy", "volatile"),
    "store": ("boundary_check", "cache_modifier", "eviction_policy"),
}
"""Options of `tl.load` and `tl.store`, Triton 3.9, other than those generated here."""
ACCEPTED: Final = {"load": ("other", "where", *OPTIONS["load"]), "store": ("where", *OPTIONS["store"])}


class Accesses:
    """Template functions that load and store a slice."""

    def __init__(self, filling: Filling) -> None:
        self.filling = filling

    def globals(self) -> dict[str, object]:
        return {f.__name__: f for f in (self.load, self.store, self.masked)}

    def load(self, pointer: str, block: Any, other: Any = None, *, where: Cond = True, **options: Any) -> str:
        """`tl.load` of a slice, masked where necessary; `other` is a Triton expression."""
        self._accessible("load", pointer, block, options)
        mask = self.masked(block, other, where=where)
        return f"tl.load({pointer} + {self.filling.finalize(block)}{mask}{_keywords(options)})"

    def store(self, pointer: str, block: Any, value: str, *, where: Cond = True, **options: Any) -> str:
        """`tl.store` to a slice, masked where necessary; `value` is a Triton expression."""
        self._accessible("store", pointer, block, options)
        if not isinstance(value, str):
            raise TemplateError(
                f'store: the value is an expression of Triton, as text, store("c_ptr", C[i, :], "value"), got '
                f"{brief(repr(value))}"
            )
        if is_read_only(block.slice.layout):
            raise TemplateError(
                f"store: {block!r} maps indices outside to elements inside, which several lanes would write; store "
                "through the layout itself"
            )
        mask = self.masked(block, where=where)
        return f"tl.store({pointer} + {self.filling.finalize(block)}, {value}{mask}{_keywords(options)})"

    def masked(self, block: Any, other: Any = None, *, where: Cond = True) -> str:
        """`, mask=..., other=...` where the slice needs a mask, otherwise empty: for a handwritten `tl.load`.

        `where` is a further condition on its indices, or a tuple of them.
        """
        self._require_slice("masked", block)
        mask = _both(block, where)
        if self.filling.always(mask):
            return ""
        return f", mask={self.filling.predicate(mask)}" + ("" if other is None else f", other={other}")

    def _accessible(self, word: str, pointer: Any, block: Any, options: dict[str, Any]) -> None:
        """Validate the arguments of `load` and `store`."""
        if not isinstance(pointer, str):
            raise TemplateError(
                f'{word}: the pointer comes first, as text, {word}("a_ptr", A[i, :], ..), got {brief(repr(pointer))}'
            )
        self._require_slice(word, block)
        if "mask" in options:
            raise TemplateError(
                f"{word}: the mask is the layout's; add a condition on indices, where=i < n, or with a mask of your "
                f"own write tl.{word}({pointer} + {{{{ A[i, :] }}}}, .., mask={{{{ A.mask[i, :] }}}} & (..))"
            )
        for name in options.keys() - set(OPTIONS[word]):
            meant = did_you_mean(name, ACCEPTED[word]) or f"; there are: {', '.join(ACCEPTED[word])}"
            raise TemplateError(f"{word} has no option {name!r}{meant}")

    def _require_slice(self, word: str, block: object) -> None:
        require_language(f"{word} is Triton's", "triton", self.filling.language, "write a[{{ A[i, j] }}] itself")
        if isinstance(block, (int, Index)):
            raise TemplateError(
                f"{word}: a slice such as A[i, :, :] is needed, got the one position {brief(repr(block))}; for one "
                "element write tl.load(a_ptr + {{ A[i, j] }}) or tl.store(a_ptr + {{ A[i, j] }}, value)"
            )
        if not isinstance(block, Offsets):
            raise TemplateError(f"{word}: a slice such as A[i, :, :] is needed, got {brief(repr(block))}")


def _both(block: Offsets, where: Cond) -> BlockCondition:
    """The mask of a slice and further conditions. Raises TemplateError for a condition over another axis."""
    mask = block.mask
    ranges, both = dict(mask.ranges), as_condition(mask.condition)
    for given in where if isinstance(where, (tuple, list)) else (where,):
        if not isinstance(given, (bool, Condition)):
            raise TemplateError(
                "where= is a condition on the indices of the slice, such as where=rows < n, or several, "
                f"(rows < n, i < m); got {brief(repr(given))}; for run-time conditions write the mask yourself, "
                "mask={{ A.mask[i, :] }} & (..)"
            )
        both &= as_condition(given)
        ranges |= ranges_of(given)
        if other := [s for s in blocks_in(both) if s.axis not in mask.axes]:
            raise TemplateError(f"where= compares {other[0]}, a block variable that is not an index of {block!r}")
    return BlockCondition(both, ranges, mask.places)


def _keywords(options: dict[str, Any]) -> str:
    """Keyword arguments of a call; strings are quoted."""
    shown = {name: repr(value) if isinstance(value, str) else str(value) for name, value in options.items()}
    return "".join(f", {name}={value}" for name, value in shown.items())
