"""Distributions: where the elements of an array are, with copies, partial sums and ranks without elements.

A *place* is a point of named axes: `node`, `gpu`, `warp`, `lane`, `register`, `offset`. Each place holds one element or
none, an element may be at several places. So a distribution is a bijection

    elements x copies  <->  the places that hold something

where `copies` are further axes: replicas, which are equal, or partial results, which `combined` adds up to the element.
`place` is the map for one copy, `apply` the set of places of an element, `inv` the element of a place, which is the
same for all its copies because the bijection forgets the copy. `check` proves it. A distribution over ranks has the
axes (rank, offset).

>>> from lego_mlir.distributions import Chunks, Replicas, Sharded
>>> D = Replicas("dp", 2) * Sharded([9], {"tp": 4}, [[("tp", Chunks(4))]])
>>> D.apply(5)
({'dp': 0, 'tp': 1, 'offset': 2}, {'dp': 1, 'tp': 1, 'offset': 2})
>>> D.inv(dp=1, tp=1, offset=2), D.holds(dp=1, tp=3, offset=0)
((5,), False)

Why a bijection with an axis of copies, and not a relation? Products, refinements and compositions of bijections are
bijections, so each is proved by its parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Cond, IndexLike
from lego_mlir.errors import LayoutError, LayoutIndexError
from lego_mlir.expr.frozen import Frozen
from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, product
from lego_mlir.layout.values import check_range, coerce_indices, flat_index, restore_kind, show

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout

Index = tuple[IndexLike, ...]
Place = dict[str, IndexLike]
"""A point of the named axes, such as `{"rank": 1, "offset": 6}`."""
MOST_COPIES: Final = 2**16
"""Places of one element that `apply` lists."""


@dataclass(frozen=True, slots=True)
class CopyAxis:
    """An axis of copies of each element: equal ones, or with `combined` ("sum", "max", ..) parts of the element."""

    name: str
    size: Size
    combined: str | None = None


class Distribution(Frozen):
    """A bijection of elements and copies onto the places that hold something. Immutable, compared by value.

    Subclasses define the maps for values known to be in range (`_place`, `_element`, `_holds`); this class validates.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[Size, ...]:
        """The logical sizes of the array; none for copies of a scalar."""
        raise NotImplementedError  # every subclass defines it

    @property
    def axes(self) -> dict[str, Size]:
        """Names and sizes of the axes of places, outermost first."""
        raise NotImplementedError  # every subclass defines it

    @property
    def copies(self) -> tuple[CopyAxis, ...]:
        """The axes of copies, outermost first; none where every element has one place."""
        return ()

    def _place(self, index: Index, copy: Index) -> Index:
        """The coordinates of one copy of an element, in the order of `axes`."""
        raise NotImplementedError  # every subclass defines it

    def _element(self, place: Index) -> tuple[Index, Index]:
        """The index and the copy at a place that holds something."""
        raise NotImplementedError  # every subclass defines it

    def _holds(self, place: Index) -> Cond:
        """Whether a place holds something; True if all do."""
        return True

    def check(self) -> Verdict:
        """Whether elements and copies are in bijection with the places that hold something."""
        raise NotImplementedError  # every subclass defines it

    # -- application

    def _index(self, given: Sequence[IndexLike]) -> Index:
        values = flat_index(given)
        if len(values) != len(self.shape):
            raise LayoutError(
                f"{self!r} takes {len(self.shape)} indices for the shape {show(self.shape)}, got {values}"
            )
        coerced = coerce_indices(values, 1)
        for axis, (i, n) in enumerate(zip(coerced, self.shape, strict=True)):
            check_range(i, n, f"index {axis} of {show(self.shape)}")
        return coerced

    def place(self, *index: IndexLike, **copy: IndexLike) -> Place:
        """The place of one copy of an element: `place(i, j, dp=1)`; copies that are not named are the first.

        Ints, arrays or symbols in, the same kind out. Raises LayoutError for an unknown copy, LayoutIndexError for an
        index out of range.
        """
        values, names = self._index(index), {c.name: c.size for c in self.copies}
        if unknown := copy.keys() - names.keys():
            raise LayoutError(f"{self!r} has the axes of copies {list(names)}, not {sorted(unknown)}")
        chosen = coerce_indices(tuple(copy.get(name, 0) for name in names), 1)
        for value, (name, n) in zip(chosen, names.items(), strict=True):
            check_range(value, n, f"copy {name}")
        given = (*flat_index(index), *copy.values())
        found = self._place(values, chosen)
        return {name: restore_kind(v, given) for name, v in zip(self.axes, found, strict=True)}

    def apply(self, *index: IndexLike) -> tuple[Place, ...]:
        """All places of an element, in the order of the copies. Raises LayoutError for a symbolic number of copies."""
        sizes = [c.size for c in self.copies]
        if not all(isinstance(n, int) for n in sizes) or product(sizes) > MOST_COPIES:
            raise LayoutError(f"apply lists at most {MOST_COPIES} copies, and there are {show(sizes)}; use `place`")
        names = [c.name for c in self.copies]
        every = itertools.product(*(range(int(n)) for n in sizes))
        return tuple(self.place(*index, **dict(zip(names, copy, strict=True))) for copy in every)

    def _coordinates(self, place: Mapping[str, IndexLike]) -> Index:
        axes = self.axes
        if place.keys() != axes.keys():
            raise LayoutError(f"a place of {self!r} has the axes {list(axes)}, got {list(place)}")
        values = coerce_indices(tuple(place[name] for name in axes), 1)
        for value, (name, n) in zip(values, axes.items(), strict=True):
            check_range(value, n, name)
        return values

    def inv(self, **place: IndexLike) -> Index:
        """The element at a place, the same for all its copies. Raises LayoutIndexError for a place without one."""
        return tuple(restore_kind(i, tuple(place.values())) for i in self._found(place)[0])

    def copy_of(self, **place: IndexLike) -> Place:
        """Which copy is at a place."""
        return {c.name: i for c, i in zip(self.copies, self._found(place)[1], strict=True)}

    def _found(self, place: Mapping[str, IndexLike]) -> tuple[Index, Index]:
        coordinates = self._coordinates(place)
        held = self._holds(coordinates)
        if held is False or (hasattr(held, "all") and not held.all()):
            raise LayoutIndexError(f"{_shown(place)} of {self!r} holds no element")
        return self._element(coordinates)

    def holds(self, **place: IndexLike) -> Cond:
        """Whether a place holds an element: a bool, an array of bools, or a condition."""
        return self._holds(self._coordinates(place))

    def nearest(self, *index: IndexLike, near: Mapping[str, int]) -> Place:
        """The place of the copy that shares most of the outer axes with `near`, such as `{"node": 1, "gpu": 3}`.

        Axes are compared in their order, so a copy on the same node comes before one on another. Raises LayoutError
        for parts of a sum, none of which is the element.
        """
        for c in self.copies:
            if c.combined:
                raise LayoutError(f"{self!r}: the places along {c.name} hold parts; {c.combined} them before a read")
        wanted = [(name, near[name]) for name in self.axes if name in near]
        if len(wanted) != len(near):
            raise LayoutError(f"near={dict(near)} names an axis that is none of {list(self.axes)}")
        return min(self.apply(*index), key=lambda place: [place[name] != at for name, at in wanted])

    # -- the algebra

    def __mul__(self, other: Distribution) -> Distribution:
        """The product: shapes and copies side by side; an axis of both has the digits of `self` outside."""
        from lego_mlir.distributions.combined import ProductDistribution

        return ProductDistribution(self, other) if isinstance(other, Distribution) else NotImplemented

    def __matmul__(self, view: Layout) -> Distribution:
        """The same places for other indices: `view` maps them to row-major numbers of the shape."""
        from lego_mlir.distributions.combined import Viewed

        return Viewed(self, view)

    def refine(self, axis: str, inner: Distribution) -> Distribution:
        """Places of finer axes: the values of `axis` are distributed by `inner`, such as offsets over lanes."""
        from lego_mlir.distributions.combined import Refined

        return Refined(self, axis, inner)

    def join(self, names: Sequence[str], name: str) -> Distribution:
        """Adjacent axes as one, in row-major order: `join(["node", "gpu"], "rank")`."""
        from lego_mlir.distributions.combined import Joined

        return Joined(self, names, name)

    def relabel(self, axis: str, layout: Layout) -> Distribution:
        """The values of an axis renumbered by a layout of one axis, such as ranks."""
        from lego_mlir.distributions.combined import Relabelled

        return Relabelled(self, axis, layout)

    def places(self) -> Iterator[Place]:
        """Every place that holds an element, by concrete axes."""
        for at in itertools.product(*(range(int(n)) for n in self.axes.values())):
            place: Place = dict(zip(self.axes, at, strict=True))
            if self.holds(**place):
                yield place

    def equivalent(self, other: Distribution) -> Verdict:
        """Whether every place holds the same element in both; the refutation names the element and its two places."""
        from lego_mlir.distributions.comparison import equivalent

        return equivalent(self, other)

    def require(self) -> Distribution:
        """Itself. Raises LayoutError with the counter-example if it is refuted."""
        verdict = self.check()
        if isinstance(verdict, Refuted):
            raise LayoutError(f"{self!r} is no distribution: {verdict.explanation}")
        return self

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash((type(self).__name__, repr(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._arguments()))})"


def _shown(place: Mapping[str, IndexLike]) -> str:
    return " ".join(f"{name}={value}" for name, value in place.items())


def sizes_of(owner: str, axes: Mapping[str, SizeLike]) -> dict[str, Size]:
    """Named sizes, checked. Raises LayoutError for a name that is no identifier."""
    for name in axes:
        if not isinstance(name, str) or not name.isidentifier():
            raise LayoutError(f"{owner}: an axis is named by an identifier, such as rank, got {name!r}")
    return dict(zip(axes, as_sizes(owner, list(axes.values())), strict=True)) if axes else {}


class Replicas(Distribution):
    """Copies of a scalar along one axis: a factor of products. `combined` makes them parts, which it adds up.

    >>> (Replicas("tp", 2, "sum")).copies
    (CopyAxis(name='tp', size=2, combined='sum'),)
    """

    __slots__ = ("combined", "name", "size")
    name: str
    size: Size
    combined: str | None

    def __init__(self, name: str, size: SizeLike, combined: str | None = None) -> None:
        self._set(name=name, size=sizes_of("Replicas", {name: size})[name], combined=combined)

    def _arguments(self) -> tuple[object, ...]:
        return self.name, self.size, self.combined

    @property
    def shape(self) -> tuple[Size, ...]:
        return ()

    @property
    def axes(self) -> dict[str, Size]:
        return {self.name: self.size}

    @property
    def copies(self) -> tuple[CopyAxis, ...]:
        return (CopyAxis(self.name, self.size, self.combined),)

    def _place(self, index: Index, copy: Index) -> Index:
        return copy

    def _element(self, place: Index) -> tuple[Index, Index]:
        return (), place

    def check(self) -> Verdict:
        return Proved("copies of a scalar, one a place")
