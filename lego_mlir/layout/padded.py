"""A layout with unused positions: a small box of indices inside a larger bijection.

Padding is not a new kind of map. `Padded(inner, dims)` is the bijection `inner` restricted to the indices of the
smaller box `dims`: still one-to-one, no longer onto. A shared-memory tile with one unused column is `Padded(Row(32,
33), [32, 32])`; a matrix stored in whole tiles that do not divide its sizes is the same with a tiled `inner` (LEGO, end
of section 3.3).

>>> from lego_mlir.layout import Row
>>> tile = Padded(Row(32, 33), [32, 32])
>>> tile.apply(1, 0), tile.numel(), tile.physical_size()
(33, 1024, 1056)
>>> tile.holds(32), tile.holds(33)
(False, True)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from lego_mlir.aliases import Cond, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import as_expr, is_array
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.base import Layout, all_of, key_of
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes
from lego_mlir.layout.chain import as_layout
from lego_mlir.layout.counting import WHOLE, Below, Whole
from lego_mlir.layout.values import show


class Padded(Layout):
    """The bijection `inner` restricted to the indices below `dims`; its other positions are unused.

    Raises LayoutError if `dims` exceeds the sizes of `inner`.
    """

    __slots__ = ("_dims", "_fits", "_whole", "inner")
    inner: Layout
    _dims: tuple[Size, ...]
    _fits: Verdict
    _whole: tuple[bool, ...]

    def __init__(self, inner: Layout, dims: Sequence[SizeLike]) -> None:
        self._set(inner=as_layout(inner), _dims=as_sizes("Padded", dims))
        outer = self.inner.dims()
        if len(outer) != len(self._dims):
            raise LayoutError(f"Padded: {show(self._dims)} must have as many sizes as {inner!r}: {show(outer)}")
        verdicts = [at_most(n, limit) for n, limit in zip(self._dims, outer, strict=True)]
        for n, limit, verdict in zip(self._dims, outer, verdicts, strict=True):
            if isinstance(verdict, Refuted):
                raise LayoutError(
                    f"Padded: {show(self._dims)} does not fit into {show(outer)}: {_larger(n, limit, verdict)}"
                )
        whole = tuple(isinstance(at_most(limit, n), Proved) for n, limit in zip(self._dims, outer, strict=True))
        self._set(_fits=all_of(verdicts), _whole=whole)

    def _arguments(self) -> tuple[object, ...]:
        return self.inner, self._dims

    def dims(self) -> tuple[Size, ...]:
        return self._dims

    def physical_size(self) -> Size:
        return self.inner.physical_size()

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        return self.inner._apply(index)

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        return self.inner._inv(position)

    def numel(self) -> Size:
        return self._elements([WHOLE] * len(self._dims))

    def _elements(self, axes: Sequence[Whole]) -> Size:
        limited = zip(axes, self._dims, self._whole, strict=True)
        return self.inner._elements([axis if whole else Below(axis, n) for axis, n, whole in limited])

    def _mask(self, index: tuple[IndexLike, ...]) -> Cond:
        return self.inner._mask(index)

    def _past_the_end(self, index: tuple[int, ...]) -> str:
        return self.inner._past_the_end(index)

    def _regular(self) -> bool:
        return self.inner._regular()

    def _holds(self, position: IndexLike) -> Cond:
        return conjunction(self.inner._holds(position), self._inside(self.inner._inv(position)))

    def _inside(self, index: Sequence[IndexLike]) -> Cond:
        inside: Cond = True
        for i, n, whole in zip(index, self._dims, self._whole, strict=True):
            if not whole:
                inside = conjunction(inside, i < n)
        return inside

    def check(self) -> Verdict:
        return all_of([self._fits, self.inner.check()])

    def _key(self) -> tuple[Hashable, ...]:
        return ("Padded", self.inner, key_of(self._dims))

    def __repr__(self) -> str:
        return f"Padded({self.inner!r}, {show(self._dims)})"


def conjunction(a: Cond, b: Cond) -> Cond:
    """`a and b` for bools, arrays and conditions, with True as the neutral element."""
    if a is True:
        return b
    if b is True:
        return a
    if isinstance(a, bool) and isinstance(b, bool):
        return a and b
    return b & a if is_array(b) else a & b


def _larger(n: Size, limit: Size, found: Refuted) -> str:
    """The sizes for which `n` exceeds `limit`, and how to relate the two so that it cannot."""
    if isinstance(limit, int) or not found.counter_example:
        return f"{n!r} > {limit!r}"
    values = ", ".join(f"{name} = {value}" for name, value in found.counter_example.items())
    return (
        f"{n!r} > {limit!r} for {values}; make the larger a sum, {n!r} + P with P = lego.size('P', min=0), instead of "
        f"{limit!r}"
    )


def at_most(n: Size, limit: Size) -> Verdict:
    """Whether n <= limit for all values of the sizes."""
    if isinstance(n, int) and isinstance(limit, int):
        return Proved("sizes") if n <= limit else Refuted({}, f"{n} > {limit}")
    from lego_mlir.expr.nodes import Le
    from lego_mlir.expr.prove import prove

    claim = Le(as_expr(n), as_expr(limit))
    if claim in (True, False):
        return Proved("sizes") if claim == True else Refuted({}, f"{n!r} > {limit!r}")  # noqa: E712
    verdict = prove(claim, {})
    return Unknown(f"not proved: {n!r} <= {limit!r} ({verdict.reason})") if isinstance(verdict, Unknown) else verdict
