"""A layout with its indices moved by constants, and a boundary for those that leave the matrix: the reads of a stencil.

Index (i, j) of `Shifted(A, (-1, 0), "clamp")` is the element (i-1, j) of A, the nearest one at the edge. The map is not
one-to-one, so it is for reading only, and has no inverse. Of a tiled layout the index of the matrix is moved, after the
coordinates of its tiles have been flattened.

>>> from lego_mlir.layout import Row
>>> above = Shifted(Row(4, 6), (-1, 0), "clamp")
>>> above.apply(3, 2), above.apply(0, 2), Shifted(Row(4, 6), (-1, 0), "zero").mask(0, 2)
(14, 2, False)
>>> Shifted(Row(4, 6).tile_by([2, 2], [2, 3]), (1, 1), "wrap").apply(1, 1, 1, 2)
0
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from lego_mlir.aliases import Cond, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Proved, Verdict
from lego_mlir.layout.base import Layout
from lego_mlir.layout.boundaries import BOUNDARIES, Boundary, mapped
from lego_mlir.layout.canonical import Size
from lego_mlir.layout.chain import as_layout
from lego_mlir.layout.padded import at_most, conjunction
from lego_mlir.layout.tiled import Tiled
from lego_mlir.layout.values import show


class Shifted(Layout):
    """Raises LayoutError for offsets that are not one int for each axis of the matrix, and for another boundary."""

    __slots__ = ("_exact", "_near", "boundary", "inner", "matrix", "offsets")
    inner: Layout
    matrix: Layout
    offsets: tuple[int, ...]
    boundary: Boundary
    _exact: tuple[bool, ...]
    _near: tuple[bool, ...]

    def __init__(self, inner: Layout, offsets: Sequence[int], boundary: Boundary = "zero") -> None:
        self._set(inner=as_layout(inner), offsets=tuple(offsets), boundary=boundary)
        if boundary not in BOUNDARIES:
            raise LayoutError(f"shifted: the boundary is one of {', '.join(BOUNDARIES)}, got {boundary!r}")
        matrix, exact = self.inner, True
        while isinstance(matrix, Tiled):
            exact = exact and matrix.is_exact
            matrix = matrix.inner
        dims = matrix.dims()
        if len(self.offsets) != len(dims) or not all(type(d) is int for d in self.offsets):
            raise LayoutError(f"shifted takes an int for each of the sizes {show(dims)}, got {show(self.offsets)}")
        spare = 1 if boundary == "mirror" else 0
        near = (
            exact and isinstance(at_most(abs(d) + spare, n), Proved) for d, n in zip(self.offsets, dims, strict=True)
        )
        self._set(matrix=matrix, _exact=(exact,) * len(dims), _near=tuple(near))

    def _arguments(self) -> tuple[object, ...]:
        return self.inner, self.offsets, self.boundary

    def dims(self) -> tuple[Size, ...]:
        return self.inner.dims()

    def physical_size(self) -> Size:
        return self.inner.physical_size()

    def _moved(self, index: tuple[IndexLike, ...]) -> Iterator[tuple[IndexLike, Size, bool, bool, bool]]:
        """For each axis of the matrix: the moved coordinate, the size, the sides that it may leave, whether near."""
        layout = self.inner
        while isinstance(layout, Tiled):
            index, layout = layout.logical(*index), layout.inner
        axes = zip(index, self.matrix.dims(), self.offsets, self._exact, self._near, strict=True)
        for i, n, by, exact, near in axes:
            yield i + by, n, by < 0, by > 0 or not exact, near

    def _inside(self, index: tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
        """The index in the matrix; for `zero` outside it, where the position is defined there."""
        free = self.boundary == "zero" and self.matrix._regular()
        return tuple(
            i if free or not (low or high) else mapped(self.boundary, i, n, low, high, near=near)
            for i, n, low, high, near in self._moved(index)
        )

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        return self.matrix._apply(self._inside(index))

    def _mask(self, index: tuple[IndexLike, ...]) -> Cond:
        named: Cond = True
        if self.boundary == "zero":
            for i, n, low, high, _ in self._moved(index):
                named = conjunction(named, i >= 0) if low else named
                named = conjunction(named, i < n) if high else named
        return conjunction(named, self.matrix._mask(self._inside(index)))

    def _past_the_end(self, index: tuple[int, ...]) -> str:
        return f"index {show(index)} of {self!r} is outside the matrix, and masked"

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        raise LayoutError(f"{self!r} has no inverse: several indices may be at one position")

    def check(self) -> Verdict:
        return self.inner.check()

    def strides(self) -> None:
        return None

    def _key(self) -> tuple[Hashable, ...]:
        return ("Shifted", self.inner, self.offsets, self.boundary)

    def __repr__(self) -> str:
        moved = ", ".join(map(str, self.offsets))
        return f"{self.inner!r}.shifted({moved}, boundary={self.boundary!r})"


def is_read_only(layout: Layout) -> bool:
    """Whether several indices may be at one position, so that a store would be a race."""
    return isinstance(layout, Shifted) and layout.boundary != "zero"
