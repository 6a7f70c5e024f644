"""Distributions made of others: products, refinements, views, joined and renumbered axes.

Each is a composition of bijections, so it is one, and its verdict is that of its parts. An 8 x 8 tile of each GPU's
part over the lanes and registers of a warp:

>>> from lego_mlir import Row
>>> from lego_mlir.distributions.placed import PlacedLayout
>>> gpus = PlacedLayout(Row(2, 64), {"gpu": 2, "offset": 64})
>>> D = gpus.refine("offset", PlacedLayout(Row(64), {"lane": 32, "register": 2}))
>>> D.place(1, 5), D.inv(gpu=1, lane=2, register=1)
({'gpu': 1, 'lane': 2, 'register': 1}, (1, 5))
>>> gpus.join(["gpu", "offset"], "address").place(1, 5)
{'address': 69}
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.aliases import Cond
from lego_mlir.distributions.base import CopyAxis, Distribution, Index
from lego_mlir.distributions.placed import require_filled
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Refuted, Verdict
from lego_mlir.layout.base import Layout, all_of
from lego_mlir.layout.canonical import Size, flatten, product, unflatten
from lego_mlir.layout.chain import as_layout, same_number
from lego_mlir.layout.padded import conjunction


def _require_same(what: str, a: Size, b: Size) -> Verdict:
    verdict = same_number(a, b)
    if isinstance(verdict, Refuted):
        raise LayoutError(f"{what}: {a!r} and {b!r} must be the same number")
    return verdict


class ProductDistribution(Distribution):
    """Two arrays as one: indices and copies side by side; on a common axis the digits of `outer` are outside.

    Both must fill a common axis. Raises LayoutError where one does not, and for copies of the same name.
    """

    __slots__ = ("inner", "outer")
    outer: Distribution
    inner: Distribution

    def __init__(self, outer: Distribution, inner: Distribution) -> None:
        self._set(outer=outer, inner=inner)
        names = [c.name for c in self.copies]
        if len(set(names)) < len(names):
            raise LayoutError(f"ProductDistribution: an axis of copies has one name, got {names}")
        if outer.axes.keys() & inner.axes.keys():
            for part in (outer, inner):
                require_filled(
                    part, f"ProductDistribution over the common axes {sorted(outer.axes.keys() & inner.axes.keys())}"
                )

    def _arguments(self) -> tuple[object, ...]:
        return self.outer, self.inner

    @property
    def shape(self) -> tuple[Size, ...]:
        return (*self.outer.shape, *self.inner.shape)

    @property
    def axes(self) -> dict[str, Size]:
        outer, inner = self.outer.axes, self.inner.axes
        alone = {name: n for name, n in outer.items() if name not in inner}
        return alone | {name: outer[name] * n if name in outer else n for name, n in inner.items()}

    @property
    def copies(self) -> tuple[CopyAxis, ...]:
        return (*self.outer.copies, *self.inner.copies)

    def _place(self, index: Index, copy: Index) -> Index:
        rank, own = len(self.outer.shape), len(self.outer.copies)
        outer = dict(zip(self.outer.axes, self.outer._place(index[:rank], copy[:own]), strict=True))
        inner = dict(zip(self.inner.axes, self.inner._place(index[rank:], copy[own:]), strict=True))
        sizes = self.inner.axes
        joined = {name: outer[name] * sizes[name] + inner[name] for name in outer.keys() & inner.keys()}
        return tuple((outer | inner | joined)[name] for name in self.axes)

    def _parts(self, place: Index) -> tuple[Index, Index]:
        """The places of the two factors."""
        at, outer, inner = dict(zip(self.axes, place, strict=True)), self.outer.axes, self.inner.axes
        return (
            tuple(at[name] // inner[name] if name in inner else at[name] for name in outer),
            tuple(at[name] % inner[name] if name in outer else at[name] for name in inner),
        )

    def _element(self, place: Index) -> tuple[Index, Index]:
        (i, c), (j, d) = (f._element(p) for f, p in zip((self.outer, self.inner), self._parts(place), strict=True))
        return (*i, *j), (*c, *d)

    def _holds(self, place: Index) -> Cond:
        outer, inner = self._parts(place)
        return conjunction(self.outer._holds(outer), self.inner._holds(inner))

    def check(self) -> Verdict:
        return all_of([self.outer.check(), self.inner.check()])

    def __repr__(self) -> str:
        return f"{self.outer!r} * {self.inner!r}"


class Refined(Distribution):
    """The values of one axis of `outer` are the elements of `inner`, in row-major order of its shape.

    Raises LayoutError for another number of them, or for names that both have.
    """

    __slots__ = ("_fits", "axis", "inner", "outer")
    outer: Distribution
    axis: str
    inner: Distribution
    _fits: Verdict

    def __init__(self, outer: Distribution, axis: str, inner: Distribution) -> None:
        if axis not in outer.axes:
            raise LayoutError(f"refine: {axis!r} is none of the axes {list(outer.axes)}")
        self._set(outer=outer, axis=axis, inner=inner)
        self._set(_fits=_require_same(f"refine: the axis {axis} and {inner!r}", outer.axes[axis], product(inner.shape)))
        others = [name for name in outer.axes if name != axis]
        for mine, theirs in ((others, inner.axes), ([c.name for c in outer.copies], [c.name for c in inner.copies])):
            if common := set(mine) & set(theirs):
                raise LayoutError(f"refine: both distributions have {sorted(common)}; rename one by `join`")

    def _arguments(self) -> tuple[object, ...]:
        return self.outer, self.axis, self.inner

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.outer.shape

    @property
    def axes(self) -> dict[str, Size]:
        found: dict[str, Size] = {}
        for name, n in self.outer.axes.items():
            found |= self.inner.axes if name == self.axis else {name: n}
        return found

    @property
    def copies(self) -> tuple[CopyAxis, ...]:
        return (*self.outer.copies, *self.inner.copies)

    def _at(self) -> int:
        return list(self.outer.axes).index(self.axis)

    def _place(self, index: Index, copy: Index) -> Index:
        own, at = len(self.outer.copies), self._at()
        outer = self.outer._place(index, copy[:own])
        inner = self.inner._place(unflatten(outer[at], self.inner.shape), copy[own:])
        return (*outer[:at], *inner, *outer[at + 1 :])

    def _coarse(self, place: Index) -> tuple[Index, Index]:
        """The place in `outer`, and the copy in `inner`."""
        at, end = self._at(), self._at() + len(self.inner.axes)
        index, copy = self.inner._element(place[at:end])
        return (*place[:at], flatten(index, self.inner.shape), *place[end:]), copy

    def _element(self, place: Index) -> tuple[Index, Index]:
        coarse, inner = self._coarse(place)
        index, outer = self.outer._element(coarse)
        return index, (*outer, *inner)

    def _holds(self, place: Index) -> Cond:
        held = self.inner._holds(place[self._at() : self._at() + len(self.inner.axes)])
        return held if held is False else conjunction(held, self.outer._holds(self._coarse(place)[0]))

    def check(self) -> Verdict:
        return all_of([self._fits, self.outer.check(), self.inner.check()])

    def __repr__(self) -> str:
        return f"{self.outer!r}.refine({self.axis!r}, {self.inner!r})"


class Viewed(Distribution):
    """Other indices for the same elements: `view` maps them to row-major numbers of the distribution's shape.

    Raises LayoutError unless the view has as many elements as the distribution, and fills its positions.
    """

    __slots__ = ("_fits", "distribution", "view")
    distribution: Distribution
    view: Layout
    _fits: Verdict

    def __init__(self, distribution: Distribution, view: Layout) -> None:
        view, elements = as_layout(view), product(distribution.shape)
        sizes = [
            _require_same(f"{distribution!r} @ {view!r}", elements, n) for n in (view.numel(), view.physical_size())
        ]
        self._set(distribution=distribution, view=view, _fits=all_of(sizes))

    def _arguments(self) -> tuple[object, ...]:
        return self.distribution, self.view

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.view.dims()

    @property
    def axes(self) -> dict[str, Size]:
        return self.distribution.axes

    @property
    def copies(self) -> tuple[CopyAxis, ...]:
        return self.distribution.copies

    def _place(self, index: Index, copy: Index) -> Index:
        return self.distribution._place(unflatten(self.view._apply(index), self.distribution.shape), copy)

    def _element(self, place: Index) -> tuple[Index, Index]:
        index, copy = self.distribution._element(place)
        return self.view._inv(flatten(index, self.distribution.shape)), copy

    def _holds(self, place: Index) -> Cond:
        return self.distribution._holds(place)

    def check(self) -> Verdict:
        return all_of([self._fits, self.distribution.check(), self.view.check()])

    def __repr__(self) -> str:
        return f"({self.distribution!r}) @ {self.view!r}"


class _Renamed(Distribution):
    """A distribution whose places have other coordinates; the elements and copies are the same."""

    __slots__ = ("distribution",)
    distribution: Distribution

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.distribution.shape

    @property
    def copies(self) -> tuple[CopyAxis, ...]:
        return self.distribution.copies

    def _forth(self, place: Index) -> Index:
        raise NotImplementedError  # every subclass defines it

    def _back(self, place: Index) -> Index:
        raise NotImplementedError  # every subclass defines it

    def _place(self, index: Index, copy: Index) -> Index:
        return self._forth(self.distribution._place(index, copy))

    def _element(self, place: Index) -> tuple[Index, Index]:
        return self.distribution._element(self._back(place))

    def _holds(self, place: Index) -> Cond:
        return self.distribution._holds(self._back(place))

    def check(self) -> Verdict:
        return self.distribution.check()


class Joined(_Renamed):
    """Adjacent axes as one axis, numbered in row-major order. Raises LayoutError for others."""

    __slots__ = ("name", "names")
    names: tuple[str, ...]
    name: str

    def __init__(self, distribution: Distribution, names: Sequence[str], name: str) -> None:
        self._set(distribution=distribution, names=tuple(names), name=name)
        known = list(distribution.axes)
        at = known.index(names[0]) if names and names[0] in known else len(known)
        if tuple(known[at : at + len(names)]) != self.names or name in set(known) - set(names):
            raise LayoutError(f"join: {list(names)} must be adjacent in {known}, and {name!r} a new name")

    def _arguments(self) -> tuple[object, ...]:
        return self.distribution, self.names, self.name

    def _at(self) -> int:
        return list(self.distribution.axes).index(self.names[0])

    def _sizes(self) -> list[Size]:
        return [self.distribution.axes[name] for name in self.names]

    @property
    def axes(self) -> dict[str, Size]:
        found: dict[str, Size] = {}
        for name, n in self.distribution.axes.items():
            if name == self.names[0]:
                found[self.name] = product(self._sizes())
            elif name not in self.names:
                found[name] = n
        return found

    def _forth(self, place: Index) -> Index:
        at, end = self._at(), self._at() + len(self.names)
        return (*place[:at], flatten(place[at:end], self._sizes()), *place[end:])

    def _back(self, place: Index) -> Index:
        at = self._at()
        return (*place[:at], *unflatten(place[at], self._sizes()), *place[at + 1 :])

    def __repr__(self) -> str:
        return f"{self.distribution!r}.join({list(self.names)}, {self.name!r})"


class Relabelled(_Renamed):
    """The values of one axis renumbered: value v becomes `layout.apply(v)`. Raises LayoutError for another size."""

    __slots__ = ("_fits", "axis", "layout")
    axis: str
    layout: Layout
    _fits: Verdict

    def __init__(self, distribution: Distribution, axis: str, layout: Layout) -> None:
        layout = as_layout(layout)
        if axis not in distribution.axes or len(layout.dims()) != 1:
            raise LayoutError(f"relabel: {axis!r} of {list(distribution.axes)} by a layout of one axis, got {layout!r}")
        sizes = (layout.numel(), layout.physical_size())
        fits = [_require_same(f"relabel: the axis {axis} and {layout!r}", distribution.axes[axis], n) for n in sizes]
        self._set(distribution=distribution, axis=axis, layout=layout, _fits=all_of(fits))

    def _arguments(self) -> tuple[object, ...]:
        return self.distribution, self.axis, self.layout

    @property
    def axes(self) -> dict[str, Size]:
        return self.distribution.axes

    def _at(self) -> int:
        return list(self.distribution.axes).index(self.axis)

    def _forth(self, place: Index) -> Index:
        at = self._at()
        return (*place[:at], self.layout._apply((place[at],)), *place[at + 1 :])

    def _back(self, place: Index) -> Index:
        at = self._at()
        return (*place[:at], self.layout._inv(place[at])[0], *place[at + 1 :])

    def check(self) -> Verdict:
        return all_of([self._fits, self.distribution.check(), self.layout.check()])

    def __repr__(self) -> str:
        return f"{self.distribution!r}.relabel({self.axis!r}, {self.layout!r})"
