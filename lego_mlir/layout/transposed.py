"""The transpose of any two-dimensional layout, padding and partial tiles included.

A layout without unused positions is transposed within the algebra (`group.transpose`). A layout with partial tiles has
no such form: `Transposed` interchanges the two indices and takes masks, sizes and proofs from the inner layout.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from lego_mlir.aliases import Cond, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Verdict
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size
from lego_mlir.layout.counting import Whole


class Transposed(Layout):
    """The transpose of a two-dimensional layout: index (j, i) has the position of the inner layout's (i, j).

    >>> from lego_mlir import Row, as_layout
    >>> Transposed(as_layout(Row(2, 3))).apply(2, 1), Transposed(as_layout(Row(2, 3))).dims()
    (5, (3, 2))
    """

    __slots__ = ("inner",)
    inner: Layout

    def __init__(self, inner: Layout) -> None:
        if len(inner.dims()) != 2:
            raise LayoutError(f"Transposed takes a layout of two axes, got {inner!r}")
        self._set(inner=inner)

    def _arguments(self) -> tuple[object, ...]:
        return (self.inner,)

    def dims(self) -> tuple[Size, ...]:
        return tuple(reversed(self.inner.dims()))

    def physical_size(self) -> Size:
        return self.inner.physical_size()

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        return self.inner._apply(index[::-1])

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        return tuple(reversed(self.inner._inv(position)))

    def numel(self) -> Size:
        return self.inner.numel()

    def _elements(self, axes: Sequence[Whole]) -> Size:
        return self.inner._elements(axes[::-1])

    def _mask(self, index: tuple[IndexLike, ...]) -> Cond:
        return self.inner._mask(index[::-1])

    def _holds(self, position: IndexLike) -> Cond:
        return self.inner._holds(position)

    def _past_the_end(self, index: tuple[int, ...]) -> str:
        return self.inner._past_the_end(index[::-1])

    def _regular(self) -> bool:
        return self.inner._regular()

    def check(self) -> Verdict:
        return self.inner.check()

    def _key(self) -> tuple[Hashable, ...]:
        return ("Transposed", self.inner)

    def __repr__(self) -> str:
        return f"Transposed({self.inner!r})"
