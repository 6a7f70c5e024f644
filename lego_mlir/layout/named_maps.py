"""Named maps of layouts, at present or not: layouts ask at every `apply`, and load no prover for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.expr.index import Index, as_expr, is_symbolic

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.layout.naming import NamedMaps

current_names: Final[ContextVar[NamedMaps | None]] = ContextVar("names for the maps of layouts", default=None)


@contextmanager
def formulas() -> Iterator[None]:
    """Use formulas in a `with` inside that of `NamedMaps.current`."""
    token = current_names.set(None)
    try:
        yield
    finally:
        current_names.reset(token)


def position_formula(layout: Layout, index: Iterable[Any]) -> Expr:
    """The formula of the position of an element in memory, which code does not call, even where maps are named."""
    with formulas():
        return as_expr(layout.apply(*map(Index, index)))


def names_for(*values: IndexLike) -> NamedMaps | None:
    """The current names, for a symbolic argument."""
    found = current_names.get()
    return found if found is not None and any(map(is_symbolic, values)) else None
