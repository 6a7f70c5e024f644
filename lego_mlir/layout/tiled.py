"""The same memory under a tiled index, with a mask for tiles that reach past the end.

`Row(M, N).tile_by([cdiv(M, 32), cdiv(N, 32)], [32, 32])` takes (tile row, tile column, row, column): the coordinates of
an axis, one per level, are flattened to the index of that axis in the inner layout. Where the levels of an axis
multiply to more than its size, the last tile is partial: `mask` is the condition under which an index names an element,
without a term for axes whose tiles are proved to divide their size (LEGO, end of section 3.3).

>>> from lego_mlir.layout import Row
>>> A = Row(100, 64).tile_by([4, 2], [32, 32])
>>> A.apply(1, 1, 0, 3), A.mask(3, 0, 3, 0), A.mask(3, 0, 4, 0)
(2083, True, False)
>>> Row(128, 64).tile_by([4, 2], [32, 32]).mask(3, 0, 31, 0)
True
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

from lego_mlir.aliases import Cond, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import as_expr, is_array, is_symbolic, minimum
from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.layout.base import Layout, all_of, key_of
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, flatten, product, unflatten
from lego_mlir.layout.chain import as_layout, same_number
from lego_mlir.layout.counting import WHOLE, Whole, mixed
from lego_mlir.layout.padded import at_most, conjunction
from lego_mlir.layout.values import show, subexpressions

T = TypeVar("T")


class Tiled(Layout):
    """A layout indexed by the coordinates of nested tiles; one list of sizes per level, outermost first.

    Raises LayoutError if the levels do not reach the end of an axis.
    """

    __slots__ = ("_covers", "_exact", "inner", "levels")
    inner: Layout
    levels: tuple[tuple[Size, ...], ...]
    _covers: Verdict
    _exact: tuple[bool, ...]

    def __init__(self, inner: Layout, levels: Sequence[Sequence[SizeLike]]) -> None:
        self._set(inner=as_layout(inner))
        rank = len(self.inner.dims())
        if not levels:
            raise LayoutError(
                "tile_by needs at least one level of sizes, such as tile_by([M // 32, N // 32], [32, 32])"
            )
        self._set(levels=tuple(as_sizes("tile_by", level) for level in levels))
        for level in self.levels:
            if len(level) != rank:
                raise LayoutError(
                    f"tile_by: each level needs {rank} sizes, one for each axis of {show(self.inner.dims())}, "
                    f"got {show(level)}"
                )
        reach = [product(self._of_axis(self.levels, axis)) for axis in range(rank)]
        covers = []
        exact = (isinstance(same_number(r, n), Proved) for r, n in zip(reach, self.inner.dims(), strict=True))
        self._set(_exact=tuple(exact))
        for axis, (r, n) in enumerate(zip(reach, self.inner.dims(), strict=True)):
            verdict: Verdict = Proved("tiles divide their sizes") if self._exact[axis] else at_most(n, r)
            if isinstance(verdict, Refuted):
                raise LayoutError(
                    f"tile_by({', '.join(map(show, self.levels))}): the tiles of axis {axis} cover {r!r} of its {n!r} "
                    f"elements; round the number of tiles up with lego.cdiv, or declare the size's multiple_of"
                )
            covers.append(verdict)
        self._set(_covers=all_of(covers))

    def _arguments(self) -> tuple[object, ...]:
        return self.inner, self.levels

    @staticmethod
    def _of_axis(levels: Sequence[Sequence[T]], axis: int) -> list[T]:
        return [level[axis] for level in levels]

    def _by_level(self, index: Sequence[T]) -> list[Sequence[T]]:
        rank = len(self.levels[0])
        return [index[k : k + rank] for k in range(0, len(index), rank)]

    @property
    def is_exact(self) -> bool:
        """Whether the tiles are proved to divide their sizes, so that every index names an element."""
        return all(self._exact)

    def dims(self) -> tuple[Size, ...]:
        return tuple(n for level in self.levels for n in level)

    def physical_size(self) -> Size:
        return self.inner.physical_size()

    def logical(self, *index: IndexLike) -> tuple[IndexLike, ...]:
        """The index of the inner layout: the coordinates of each axis flattened over its levels."""
        parts = self._by_level(index)
        rank = len(self.levels[0])
        return tuple(flatten(self._of_axis(parts, k), self._of_axis(self.levels, k)) for k in range(rank))

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        logical = self.logical(*index)
        if all(self._exact) or self.inner._regular():
            return self.inner._apply(logical)
        if any(map(is_array, logical)):
            return self.inner._apply(self._clamped(logical))
        position = self.inner._apply(logical)
        return self.inner._apply(self._clamped(logical)) if _reads_table(position) else position

    def _clamped(self, logical: tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
        """Clamp each coordinate to the end of its axis: tables have no entries beyond."""
        axes = zip(logical, self.inner.dims(), self._exact, strict=True)
        return tuple(i if exact else minimum(i, n - 1) for i, n, exact in axes)

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        logical = self.inner._inv(position)
        axes = [unflatten(i, self._of_axis(self.levels, axis)) for axis, i in enumerate(logical)]
        return tuple(axis[level] for level in range(len(self.levels)) for axis in axes)

    def numel(self) -> Size:
        return self._elements([WHOLE] * len(self.dims()))

    def _elements(self, axes: Sequence[Whole]) -> Size:
        levels = self._by_level(axes)
        return self.inner._elements(
            [
                mixed(self._of_axis(levels, axis), self._of_axis(self.levels, axis), exact)
                for axis, exact in enumerate(self._exact)
            ]
        )

    def _mask(self, index: tuple[IndexLike, ...]) -> Cond:
        logical = self.logical(*index)
        return conjunction(self._reached(logical), self.inner._mask(logical))

    def _reached(self, logical: tuple[IndexLike, ...]) -> Cond:
        """Whether an index of the inner layout is in range."""
        inside: Cond = True
        for i, n, exact in zip(logical, self.inner.dims(), self._exact, strict=True):
            if not exact:
                inside = conjunction(inside, i < n)
        return inside

    def _past_the_end(self, index: tuple[int, ...]) -> str:
        logical = self.logical(*index)
        if self._reached(logical):
            return self.inner._past_the_end(logical)
        return f"index {show(index)} is past the end of {show(self.inner.dims())}: it is element {show(logical)}"

    def _holds(self, position: IndexLike) -> Cond:
        return self.inner._holds(position)

    def _regular(self) -> bool:
        return self.inner._regular()

    def check(self) -> Verdict:
        return all_of([self._covers, self.inner.check()])

    def _key(self) -> tuple[Hashable, ...]:
        return ("Tiled", self.inner, tuple(map(key_of, self.levels)))

    def __repr__(self) -> str:
        return f"{self.inner!r}.tile_by({', '.join(map(show, self.levels))})"


def _reads_table(position: IndexLike) -> bool:
    """Whether a symbolic position contains a table lookup."""
    from lego_mlir.expr.nodes import Table

    return is_symbolic(position) and any(isinstance(part, Table) for part in subexpressions([as_expr(position)]))
