"""Indices outside a tensor: masked, or mapped to an element inside.

`x.halo("clamp")` is a view of the same memory whose indices may be negative or beyond the sizes, as those of a stencil
at the edge are; `layout.boundaries` has a table of what they mean.

The map is applied to the index of the matrix, after the coordinates of tiles have been flattened. A side that no index
leaves, by proof, takes no operation. `"wrap"` and `"mirror"` are comparisons where the index is proved to be at most n,
or n-1, elements outside; otherwise they take a remainder, as for the idle threads of a partial tile. A guard,
`with lego.when(i < N):`, and a size with a minimum, `lego.size("N", min=2)`, help the proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.index import Index, as_condition, as_expr
from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.expr.ranges import Range
from lego_mlir.layout.base import Layout
from lego_mlir.layout.boundaries import Boundary, mapped
from lego_mlir.layout.tiled import Tiled

if TYPE_CHECKING:
    from lego_mlir.tracing.trace.tracer import Tracer

Lanes = Mapping[Symbol, Range] | None
"""Ranges of symbols besides those of the kernel: the element of a vector."""


class Halo:
    """The map of one view's indices to the elements of its matrix."""

    def __init__(self, tracer: Tracer, layout: Layout, boundary: Boundary) -> None:
        self.tracer, self.layout, self.boundary = tracer, layout, boundary
        while isinstance(layout, Tiled):
            layout = layout.inner
        self.matrix = layout  # without tiles
        self.dims = tuple(as_expr(n) for n in layout.dims())

    @property
    def is_transparent(self) -> bool:
        """Whether positions are those of the layout, but for indices that are numbers."""
        return self.boundary == "zero" and self.matrix is self.layout and self.matrix._regular()

    def position(self, index: Sequence[Expr], lanes: Lanes) -> Expr:
        """The physical position of an index; unspecified where it is masked off."""
        inside = [self._inside(i, n, lanes) for i, n in zip(self._element(index), self.dims, strict=True)]
        return as_expr(self.matrix.apply(*map(Index, inside)))

    def mask(self, index: Sequence[Expr], lanes: Lanes) -> Cond:
        """The condition under which an index names an element."""
        element = self._element(index)
        masked: Cond = sympy.true
        if self.boundary == "zero":
            masked = sympy.And(*(sympy.And(Le(0, i), Lt(i, n)) for i, n in zip(element, self.dims, strict=True)))
        inside = [self._inside(i, n, lanes) for i, n in zip(element, self.dims, strict=True)]
        return sympy.And(masked, as_condition(self.matrix.mask(*map(Index, inside))))

    def _element(self, index: Sequence[Expr]) -> list[Expr]:
        """The index in the matrix: the coordinates of nested tiles flattened."""
        found, layout = tuple(map(Index, index)), self.layout
        while isinstance(layout, Tiled):
            found, layout = layout.logical(*found), layout.inner
        return [self.tracer.simplified(as_expr(i)) for i in found]

    def _inside(self, i: Expr, n: Expr, lanes: Lanes) -> Expr:
        """One coordinate mapped into 0 .. n-1; for `zero` only where the layout is not defined outside."""
        if self.boundary == "zero" and self.matrix._regular() and not i.is_Integer:
            return i
        low, high = not self._proved(Le(0, i), lanes), not self._proved(Lt(i, n), lanes)
        if not (low or high):
            return i
        ends = {"wrap": (Le(-n, i), Lt(i, 2 * n)), "mirror": (Lt(-n, i), Lt(i, 2 * n - 1))}.get(self.boundary, ())
        near = self._proved(sympy.And(*ends), lanes)
        return as_expr(mapped(self.boundary, Index(i), Index(n), low, high, near=near))

    def _proved(self, claim: Cond, lanes: Lanes) -> bool:
        return self.tracer.holds(claim, lanes)
