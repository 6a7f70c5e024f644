"""Block indices: variables of a Triton kernel that hold a vector of indices, as a gather loads them.

`block("rows", 16)` declares that `rows` has 16 elements. An index of a layout may be computed from it; the result is a
block of positions with one axis for the vector and one for each colon, in index order:

>>> from lego_mlir.layout import Row
>>> from lego_mlir.templates import Template, block
>>> X = Row(100, 64)
>>> print(Template.of("{{ X[rows, :] }}", "x.py.jinja", X=X, rows=block("rows", 16)).render().text)
(rows * 64)[:, None] + tl.arange(0, 64)[None, :]

Two vectors give two axes unless one is declared along the other: then they are paired element by element, as for a
page table, where `page` belongs to the position it was looked up for:

>>> p = block("p", 16, 4096)
>>> K = Row(256, 8, 64)
>>> text = "{{ K[page, p % 8, :] }}"
>>> print(Template.of(text, "k.py.jinja", K=K, p=p, page=block("page", 16, along=p)).render().text)
(page * 512 + p % 8 * 64)[:, None] + tl.arange(0, 64)[None, :]

In C such a variable is a scalar, like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy

from lego_mlir.aliases import Expr, IndexLike, Symbol
from lego_mlir.errors import TemplateError, brief
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.layout.canonical import Size
from lego_mlir.layout.slices import Colon
from lego_mlir.templates.render.indices import Bounded, index


class BlockSymbol(sympy.Symbol):
    """A variable that holds a vector of `count` indices along the axis of the variable `along`."""

    __slots__ = ("along", "count")
    count: Any
    along: str

    def __new__(cls, name: str, count: Expr = 1, along: str | None = None) -> BlockSymbol:
        obj: BlockSymbol = sympy.Symbol.__xnew__(cls, name, integer=True)
        obj.count, obj.along = count, along or name
        return obj

    @property
    def axis(self) -> Symbol:
        """The symbol of the vector's axis."""
        return sympy.Symbol(f"along {self.along}", integer=True)

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Expr]]:
        return ((self.name,), {"count": self.count, "along": self.along})

    def __getstate__(self) -> None:
        return None

    def _hashable_content(self) -> Any:
        return (*super()._hashable_content(), self.count, self.along)


def block(
    name: str, count: Size, stop: Size | None = None, start: Size = 0, step: int = 1, *, along: Index | None = None
) -> Bounded:
    """A kernel variable that holds a vector of `count` indices; its range is given as for `index`.

    `count` is a power of two or a size. `along` is another block variable of the same length, whose axis this one
    shares. Raises TemplateError for anything else.
    """
    scalar = index(name, stop, start, step)
    counted = as_expr(count) if isinstance(count, Index) else count
    if not ((type(count) is int and count >= 1 and count & (count - 1) == 0) or isinstance(count, Index)):
        raise TemplateError(f"block {name}: Triton's vectors have a power of two of elements or a size, got {count!r}")
    leader = None if along is None else _declared(along)
    if along is not None and (leader is None or leader.count != counted):
        raise TemplateError(
            f"block {name}: along= is another block variable of {count} elements, got {brief(repr(along))}"
            + (f" of {leader.count}" if leader is not None else "")
        )
    symbol = BlockSymbol(name, counted, leader.along if leader is not None else None)
    return Bounded(symbol, dict.fromkeys([symbol], *scalar.ranges.values()) if scalar.ranges else {})


def _declared(value: IndexLike) -> BlockSymbol | None:
    """The symbol of a block variable."""
    symbol = value.expr if isinstance(value, Index) else None
    return symbol if isinstance(symbol, BlockSymbol) else None


def blocks_in(*values: Expr) -> list[BlockSymbol]:
    """The block variables in expressions, by name."""
    found = {s for v in values if not isinstance(v, Colon) for s in as_expr(v).free_symbols}
    return sorted((s for s in found if isinstance(s, BlockSymbol)), key=str)


def axes_of(places: Iterable[IndexLike]) -> dict[Symbol, Size]:
    """The axes of a block of positions, in index order: symbol -> number of values."""
    axes: dict[Any, Any] = {}
    for place in places:
        if isinstance(place, Colon):
            if varying := blocks_in(place.start):
                raise TemplateError(
                    f"a slice begins at one place, and {varying[0]} holds {varying[0].count}; add a tl.arange to it in "
                    "the kernel and declare that as a block variable"
                )
            axes[place.symbol.expr] = place.count
            continue
        found = {s.axis: s for s in blocks_in(place)}
        if len(found) > 1:
            names = " and ".join(map(str, found.values()))
            raise TemplateError(
                f"{brief(repr(place))} computes with {names}, which are blocks along different axes; declare one along "
                "the other, block(.., along=..), to take them element by element"
            )
        for axis, symbol in found.items():
            if axes.setdefault(axis, symbol.count) != symbol.count:
                raise TemplateError(f"{symbol} has {symbol.count} elements, and others along {symbol.along} do not")
    return axes


def lanes(exprs: Sequence[Expr], axes: Iterable[Symbol]) -> dict[BlockSymbol, Symbol]:
    """The block variables in expressions that lie along one of these axes."""
    known = set(axes)
    return {s: s.axis for s in blocks_in(*exprs) if s.axis in known}
