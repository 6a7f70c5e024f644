"""Slices in NumPy's notation: the index pattern over the ranges of the colons (LEGO, section 4.1).

`L[k, :, :]` fixes the first coordinate and ranges over the others. The result is a `Slice`: an expression over one
fresh symbol per colon with its range, which a template renders with `tl.arange`, and which can be evaluated to an
array.

>>> from lego_mlir.layout import Row
>>> Row(4, 6)[1, ::2].positions().tolist()
[6, 8, 10]
>>> Row(4, 6)[1, :]
Slice(s1 + 6, s1 in Range(0, 6))

A slice whose elements fill consecutive positions is itself a bijection, and so a layout. A row of a row-major matrix is
one, a column is not; a row of an exclusive-or swizzle is a permutation of its row.

>>> from lego_mlir import Row, gallery
>>> Row(4, 6)[2, :].as_layout(), Row(4, 6)[2, :].offset
(Row(6), 12)
>>> [gallery.xor_swizzle(4, 4)[1, :].as_layout().apply(j) for j in range(4)]
[1, 0, 3, 2]
>>> Row(4, 6)[:, 2].as_layout()
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: Row(4, 6)[:, 2] is not a layout: its 4 elements lie between the positions 2 and 20
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from lego_mlir.aliases import Array, Cond, IndexLike, Symbol
from lego_mlir.errors import LayoutError, LayoutIndexError
from lego_mlir.expr.index import Index, as_expr, cdiv, index_symbol, is_array, is_symbolic, maximum
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.base import Layout, key_of
from lego_mlir.layout.canonical import Size, is_static, product
from lego_mlir.layout.chain import same_number
from lego_mlir.layout.padded import at_most, conjunction
from lego_mlir.layout.permutations import GenP, RegP
from lego_mlir.layout.values import coerce_index, end_of, show

if TYPE_CHECKING:
    import numpy.typing as npt

    from lego_mlir.expr.simplify import Derivation


MOST_POSITIONS: Final = 2**28
"""Positions in one array, which takes 2 GiB."""
Subscript: TypeAlias = IndexLike | slice
"""One entry of `L[...]`."""


@dataclass(frozen=True, slots=True)
class Colon:
    """One sliced axis: its indices are `start + step * symbol` for the symbol in 0..count-1.

    `inside` if its last index is proved to be below the axis size.
    """

    symbol: Index
    start: IndexLike
    step: int
    count: Size
    inside: bool = True

    def at(self, offset: IndexLike) -> IndexLike:
        """The index at an offset from the slice's start."""
        return self.start + offset * self.step

    def text(self, n: Size) -> str:
        """NumPy's notation for an axis of `n` elements."""
        if self.start == 0 and self.step == 1 and key_of([self.count]) == key_of([n]):
            return ":"
        end = self.at(self.count)
        stop = "" if isinstance(end, int) and end < 0 else repr(end)
        return f"{self.start!r}:{stop}" + (f":{self.step}" if self.step != 1 else "")


@dataclass(frozen=True, eq=False, repr=False)
class Slice:
    """Positions of a layout over the ranges of its colons.

    `places` holds, for each axis, the fixed index or the `Colon`; the colons are the dimensions of the result.
    """

    layout: Layout
    places: tuple[IndexLike | Colon, ...]

    @property
    def colons(self) -> tuple[Colon, ...]:
        return tuple(p for p in self.places if isinstance(p, Colon))

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the layout that have a colon."""
        return tuple(axis for axis, p in enumerate(self.places) if isinstance(p, Colon))

    @property
    def index(self) -> tuple[IndexLike, ...]:
        """The whole logical index, with a symbol for each colon."""
        return self.at(*(c.symbol for c in self.colons))

    def at(self, *offsets: IndexLike) -> tuple[IndexLike, ...]:
        """The whole logical index at these offsets, one for each colon."""
        given = iter(offsets)
        return tuple(p.at(next(given)) if isinstance(p, Colon) else p for p in self.places)

    @property
    def shape(self) -> tuple[Size, ...]:
        return tuple(c.count for c in self.colons)

    @property
    def ranges(self) -> dict[Symbol, Range]:
        """The range of each colon's symbol."""
        return {c.symbol.expr: Range(0, end_of(c.count)) for c in self.colons}

    @property
    def expr(self) -> Index:
        """The physical position, not simplified."""
        return Index(self.layout.apply(*self.index))

    @property
    def mask(self) -> Cond:
        """True, or the condition under which the position names an element."""
        return mask_of(self.layout, self.places)

    def derive(self, ranges: dict[Symbol, Range] | None = None) -> Derivation:
        """The simplified position, given the ranges of the other symbols in it."""
        from lego_mlir.expr.simplify import simplify

        return simplify(self.expr.expr, {**(ranges or {}), **self.ranges})

    def positions(self) -> Array:
        """The positions as an int64 array of `shape`. Raises LayoutError if anything is still symbolic."""
        import numpy as np

        known = is_static(self.shape) and not any(
            is_symbolic(p.start if isinstance(p, Colon) else p) for p in self.places
        )
        if known:
            shape = tuple(int(n) for n in self.shape)
            if prod(shape) > MOST_POSITIONS:
                raise LayoutError(
                    f"{self!r} has {prod(shape)} positions; an array has at most {MOST_POSITIONS}: slice fewer"
                )
            grid = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
            position = self.layout.apply(*self.at(*grid))
            if not is_symbolic(position):
                return np.broadcast_to(position, shape)
        raise LayoutError(f"{self!r} has symbols besides its colons; give them values first")

    def as_layout(self) -> Layout:
        """The slice as a layout with positions relative to `offset`.

        Raises LayoutError unless the elements are proved to fill consecutive positions.
        """

        return sublayout(self)[0]

    @property
    def offset(self) -> IndexLike:
        """The first position of `as_layout`."""

        return sublayout(self)[1]

    @property
    def text(self) -> str:
        """The slice in NumPy's notation."""
        places = zip(self.places, self.layout.dims(), strict=True)
        return f"{self.layout!r}[{', '.join(p.text(n) if isinstance(p, Colon) else repr(p) for p, n in places)}]"

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self.positions().astype(dtype or "int64")

    def __repr__(self) -> str:
        over = ", ".join(f"{s} in {r}" for s, r in self.ranges.items())
        return f"Slice({self.derive().expr}, {over})"


def mask_of(layout: Layout, places: tuple[IndexLike | Colon, ...]) -> Cond:
    """True, or the condition under which an index with these entries names an element.

    It includes the bound of each axis that a slice may exceed.
    """
    index = [p.at(p.symbol) if isinstance(p, Colon) else p for p in places]
    mask = layout.mask(*index)
    for place, i, n in zip(places, index, layout.dims(), strict=True):
        if isinstance(place, Colon) and not place.inside:
            mask = conjunction(mask, Index(as_expr(i)) < n)
    return mask


def take(layout: Layout, index: Subscript | tuple[Subscript, ...]) -> Slice | IndexLike:
    """`layout[index]`: a Slice if there is a colon, the position otherwise."""
    dims = layout.dims()
    given = index if isinstance(index, tuple) else (index,)
    places = [k for k, i in enumerate(given) if i is Ellipsis]
    if len(places) > 1:
        raise LayoutIndexError("an index may have one ellipsis (...)")
    if places:
        k = places[0]
        given = (*given[:k], *[slice(None)] * (len(dims) - len(given) + 1), *given[k + 1 :])
    if len(given) != len(dims):
        raise LayoutIndexError(f"{len(dims)} indices are needed for the sizes {show(dims)}, got {len(given)}")
    if not any(isinstance(i, slice) for i in given):
        return layout.apply(*given)
    given = tuple(_coerced(i, axis) for axis, i in enumerate(given))
    layout.require()
    taken = _names(given, dims)
    return Slice(
        layout,
        tuple(
            _colon(i, n, axis, taken) if isinstance(i, slice) else i
            for axis, (i, n) in enumerate(zip(given, dims, strict=True))
        ),
    )


def _coerced(given: Subscript, axis: int) -> Subscript:
    """An entry with its numbers as Python's ints. Raises LayoutIndexError for an array beside a colon."""
    parts = (given.start, given.stop, given.step) if isinstance(given, slice) else (given,)
    found = [None if part is None and isinstance(given, slice) else coerce_index(part) for part in parts]
    if any(map(is_array, found)):
        raise LayoutIndexError(f"axis {axis}: an index with a colon takes ints and symbols, not arrays; call apply")
    return slice(*found) if isinstance(given, slice) else found[0]


def _names(given: tuple[Subscript, ...], dims: tuple[Size, ...]) -> set[str]:
    """The names of the symbols in an index and in the sizes."""
    parts = [part for i in given for part in ((i.start, i.stop) if isinstance(i, slice) else (i,))]
    return {str(symbol) for part in (*parts, *dims) if is_symbolic(part) for symbol in as_expr(part).free_symbols}


def _colon(s: slice, n: Size, axis: int, taken: set[str]) -> Colon:
    """One slice as a Colon. For a symbolic size, only negative bounds, which count from the end, are clipped."""
    name = f"s{axis}"
    while name in taken:
        name += "_"
    symbol = index_symbol(name)
    if isinstance(s.step, int) and s.step == 0:
        raise LayoutIndexError(f"slice of axis {axis}: the step must not be 0")
    if isinstance(n, int) and all(v is None or isinstance(v, int) for v in (s.start, s.stop, s.step)):
        start, stop, step = s.indices(n)
        count = -((start - stop) // step)  # range has no length beyond 2**63
        if count < 1:
            raise LayoutIndexError(f"slice of axis {axis}: {_text(s)} holds no index of 0..{n - 1}")
        return Colon(symbol, start, step, count)
    start, step = _from_the_end(s.start, n, 0), (1 if s.step is None else s.step)
    if not isinstance(step, int) or step < 1:
        raise LayoutIndexError(f"slice of axis {axis}: the step must be an int >= 1 for the size {n!r}, got {step!r}")
    stop = _from_the_end(s.stop, n, n)
    if isinstance(at_most(stop, start), Proved):
        raise LayoutIndexError(f"slice of axis {axis}: {_text(s)} holds no index of 0..{n!r}-1")
    if isinstance(at_most(n + 1, stop), Proved):
        raise LayoutIndexError(f"slice of axis {axis}: {_text(s)} reaches past the end of the size {n!r}")
    count = Index(as_expr(stop)) - start
    count = cdiv(count, step) if step != 1 else count
    inside = s.stop is None or isinstance(at_most(stop, n), Proved)
    return Colon(symbol, start, step, int(count.expr) if count.expr.is_Integer else count, inside)


def _from_the_end(end: IndexLike, n: Size, default: Size) -> IndexLike:
    """A bound of a slice as an index: a negative one counts from the end of the axis, clipped at its start."""
    if end is None:
        return default
    if not isinstance(end, int) or end >= 0:
        return end
    whole = isinstance(at_most(-end, n), Proved)
    return n + end if whole else maximum(n + end, 0)


def _text(s: slice) -> str:
    step = "" if s.step is None else f":{s.step}"
    return f"{'' if s.start is None else s.start}:{'' if s.stop is None else s.stop}{step}"


def sublayout(part: Slice) -> tuple[RegP | GenP, IndexLike]:
    """A slice as a permutation of its positions, and the first of them.

    Raises LayoutError unless they are proved to be consecutive.
    """
    if not is_static(part.shape) or not is_static(part.layout.dims()):
        return _by_strides(part)
    import numpy as np

    if part.mask is not True:
        raise LayoutError(f"{part.text} is not known to be a layout: not every index of it may name an element")
    positions = part.positions()
    first, last, elements = int(positions.min()), int(positions.max()), product(part.shape)
    if last - first + 1 != elements:
        raise LayoutError(
            f"{part.text} is not a layout: its {elements} elements lie between the positions {first} and {last}"
        )
    steps = [int(np.diff(positions, axis=axis).flat[0]) if n > 1 else 0 for axis, n in enumerate(part.shape)]
    grid: Array = np.indices(positions.shape)
    if (first + sum(i * s for i, s in zip(grid, steps, strict=True)) == positions).all():
        regular = _regular(part.shape, steps)
        if regular is not None:
            return regular, first
    return _general(part, first), first


def _regular(shape: Sequence[Size], steps: Sequence[Size]) -> RegP | None:
    """The `RegP` with these strides, if there is one. Axes of one element go outermost."""
    order: list[int] = []
    reach: Size = 1
    ones = [axis for axis, n in enumerate(shape) if isinstance(n, int) and n == 1]
    left = [axis for axis in range(len(shape)) if axis not in ones]
    while left:
        axis = next((a for a in left if isinstance(same_number(steps[a], reach), Proved)), None)
        if axis is None:
            return None
        left.remove(axis)
        order.insert(0, axis)
        reach = reach * shape[axis]
    return RegP(shape, [axis + 1 for axis in (*ones, *order)])


def _general(part: Slice, first: int) -> GenP:
    whole = part.layout

    def f(*at: IndexLike) -> IndexLike:
        return whole.apply(*part.at(*at)) - first

    def f_inv(p: IndexLike) -> tuple[IndexLike, ...]:
        index = whole.inv(p + first)
        return tuple((index[axis] - c.start) // c.step for axis, c in zip(part.axes, part.colons, strict=True))

    return GenP(part.shape, f, f_inv, text=f"{part.text}.as_layout()", identity=("slice", whole, part.text))


def _by_strides(part: Slice) -> tuple[RegP, IndexLike]:
    """A slice of symbolic sizes, from the strides of its layout."""
    if not all(colon.inside for colon in part.colons):
        raise LayoutError(f"{part.text} is not known to be a layout: it may reach past the end of its axis")
    strides = part.layout.strides()
    if strides is None:
        raise LayoutError(f"{part.text} is not known to be a layout: {part.layout!r} has no strides")
    steps = [strides[axis] * colon.step for axis, colon in zip(part.axes, part.colons, strict=True)]
    regular = _regular(part.shape, steps)
    if regular is None:
        raise LayoutError(
            f"{part.text} is not known to be a layout: the strides {show(steps)} of the sizes {show(part.shape)} leave "
            "gaps"
        )
    return regular, part.layout.apply(*part.at(*[0] * len(part.colons)))
