"""The maps of layouts by name, without their formulas.

A proof about `b[curve.inv(p)]` needs that the map is a bijection, and not how it permutes. While a `NamedMaps` is
current, `apply` and `inv` of a symbolic index give nodes that name the map and have its range:

>>> from lego_mlir import gallery
>>> from lego_mlir.expr.index import index_symbol
>>> from lego_mlir.layout.naming import NamedMaps
>>> NamedMaps().inv(gallery.hilbert(1024), index_symbol("p"))
(inverse0_0[p], inverse0_1[p])

An index of several axes is one number, its row-major one. Padded layouts and layouts that are not proved keep their
formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sympy

from lego_mlir.aliases import Expr, IndexLike, Symbol
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Le, Lt, Table
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.canonical import flatten
from lego_mlir.layout.named_maps import current_names, formulas

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout


@dataclass(frozen=True, slots=True)
class NamedMap:
    """`apply` of a layout, or its inverse: a bijection from 0 .. size - 1 to a box of these extents."""

    layout: Layout
    name: str
    size: Expr
    extents: tuple[Expr, ...]

    def values(self, at: Expr) -> tuple[Expr, ...]:
        """The map's value at a number, a node for each axis."""
        return tuple(Table(self.node(axis), at, self.size, n) for axis, n in enumerate(self.extents))

    def node(self, axis: int) -> str:
        """The name of the nodes for one axis of the value."""
        return f"{self.name}_{axis}"


@dataclass(slots=True)
class NamedMaps:
    """The maps that were named so far, by the names of their nodes: `maps[node] == (map, axis)`.

    `ranges` has the symbols of the code that uses the maps; it may grow meanwhile. With `declared`, a symbol has the
    range of the axis that it indexes.
    """

    ranges: Mapping[Symbol, Range] = field(default_factory=dict)
    declared: bool = False
    maps: dict[str, tuple[NamedMap, int]] = field(default_factory=dict)
    _of: dict[tuple[str, Layout], NamedMap | None] = field(default_factory=dict)

    @contextmanager
    def current(self) -> Iterator[NamedMaps]:
        """Name the maps that code inside the `with` uses."""
        token = current_names.set(self)
        try:
            yield self
        finally:
            current_names.reset(token)

    def apply(self, layout: Layout, index: tuple[IndexLike, ...]) -> IndexLike | None:
        """The position of an index; None if the map has no name."""
        undone = self._undone(layout, index)
        if undone is not None:
            return Index(undone)
        found = self._named("position", layout)
        if found is None or not self._inside(layout, index):
            return None
        return Index(found.values(as_expr(flatten(index, layout.dims())))[0])

    def inv(self, layout: Layout, position: IndexLike) -> tuple[IndexLike, ...] | None:
        """The index of a position; None if the map has no name."""
        found = self._named("inverse", layout)
        return None if found is None else tuple(map(Index, found.values(as_expr(position))))

    def _inside(self, layout: Layout, index: tuple[IndexLike, ...]) -> bool:
        """Whether an index is inside for all values of its symbols: its row-major number does not tell."""
        if self.declared:
            return all(as_expr(i).is_Symbol or as_expr(i).is_Integer for i in index)
        claim = sympy.And(
            *(
                sympy.And(Le(0, as_expr(i)), Lt(as_expr(i), as_expr(n)))
                for i, n in zip(index, layout.dims(), strict=True)
            )
        )
        return isinstance(prove(claim, {s: self.ranges[s] for s in claim.free_symbols if s in self.ranges}), Proved)

    def _undone(self, layout: Layout, index: tuple[IndexLike, ...]) -> Expr | None:
        """p for the index `inv(p)`."""
        found = self._of.get(("inverse", layout))
        given = tuple(map(as_expr, index))
        if found is None or not all(isinstance(i, Table) for i in given):
            return None
        at = given[0].args[1]
        return at if found.values(at) == given else None

    def _named(self, kind: str, layout: Layout) -> NamedMap | None:
        key = (kind, layout)
        if key not in self._of:
            self._of[key] = found = self._new(kind, layout)
            if found is not None:
                self.maps |= {found.node(axis): (found, axis) for axis in range(len(found.extents))}
        return self._of[key]

    def _new(self, kind: str, layout: Layout) -> NamedMap | None:
        with formulas():
            elements, positions = as_expr(layout.numel()), as_expr(layout.physical_size())
            if sympy.expand(elements - positions) != 0 or not isinstance(layout.check(), Proved):
                return None
        extents = tuple(map(as_expr, layout.dims())) if kind == "inverse" else (positions,)
        return NamedMap(layout, f"{kind}{len(self._of)}", positions, extents)


@dataclass(slots=True)
class NoNames(NamedMaps):
    """Leaves the formulas, and notes the layouts whose maps are used."""

    layouts: dict[Layout, None] = field(default_factory=dict)

    def apply(self, layout: Layout, index: tuple[IndexLike, ...]) -> IndexLike | None:
        self.layouts[layout] = None
        return None

    def inv(self, layout: Layout, position: IndexLike) -> tuple[IndexLike, ...] | None:
        self.layouts[layout] = None
        return None
