"""Layouts as placeholders see them: positions, blocks of positions and masks, with the ranges of their symbols.

An index of a layout is in range by definition, so `A[lpid_m, k, :, :]` implies that lpid_m and k are below A's first
two sizes, without a declaration.

>>> from lego_mlir.layout import Row
>>> from lego_mlir.templates.render.indices import index
>>> k = index("k", 64)
>>> NamedLayout("A", Row(8, 4))[k // 8, :].ranges
{k: Range(0, 64), s1: Range(0, 4)}
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn

import sympy

from lego_mlir.aliases import Cond, Expr, IndexLike, Symbol
from lego_mlir.errors import LayoutError, TemplateError, brief
from lego_mlir.expr.index import Condition, Index, as_condition, as_expr
from lego_mlir.expr.nodes import Le, Lt, Size
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.layout.base import Layout
from lego_mlir.layout.boundaries import Boundary
from lego_mlir.layout.canonical import Size as Extent
from lego_mlir.layout.padded import conjunction
from lego_mlir.layout.shifted import Shifted
from lego_mlir.layout.slices import Colon, Slice
from lego_mlir.layout.values import ARRAY_LIMIT, check_range, end_of, show
from lego_mlir.templates.render.blocks import axes_of, blocks_in
from lego_mlir.templates.render.indices import Bounded, BoundedCondition, Coordinate, Shown, ranges_of
from lego_mlir.templates.render.require import is_number


class _OfTheKernel(Shown):
    """A value known only at run time: a template can print it but not compute with it."""

    __slots__ = ()

    def _refuse(self, *others: Any) -> NoReturn:
        what = "a block of positions" if isinstance(self, Offsets) else "a condition"
        raise TemplateError(
            f"{what} is known only at run time; write operators after it, {{{{ A[i, :] }}}} + 1; "
            "{% if always(A.mask[i, :]) %} tests whether a mask is proved"
        )

    __bool__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _refuse
    __mod__ = __rmod__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class BlockCondition(_OfTheKernel):
    """A condition, or True, with the ranges of its symbols and the index it tests, which determines its axes."""

    condition: Any
    ranges: dict[Any, Range]
    places: tuple[Any, ...] = ()

    @property
    def axes(self) -> dict[Symbol, IndexLike]:
        """The symbols that it runs over, and how many values each takes."""
        raw = as_condition(self.condition)
        return axes_of(self.places or ((raw,) if blocks_in(raw) else ()))


@dataclass(frozen=True, eq=False)
class Offsets(_OfTheKernel):
    """A slice of a layout: a block of positions or, if `relative`, their distances from the block's first."""

    offers: ClassVar[tuple[str, ...]] = ("base", "mask", "offsets", "step", "steps")

    name: str
    slice: Slice
    ranges: dict[Any, Range]
    relative: bool = False

    def __repr__(self) -> str:
        places = zip(self.slice.places, self.slice.layout.dims(), strict=True)
        index = ", ".join(_colon(p, n) if isinstance(p, Colon) else brief(repr(p), 40) for p, n in places)
        return f"{self.name}[{index}]{'.offsets' if self.relative else ''}"

    @property
    def expr(self) -> Expr:
        """The positions as an expression over the indices and the symbols of the axes."""
        positions = self.slice.expr.expr
        return positions - self._first() if self.relative else positions

    @property
    def base(self) -> Bounded:
        """The position of the block's first element, a scalar."""
        first = self._first()
        return Bounded(first, {s: r for s, r in self.ranges.items() if s in first.free_symbols})

    @property
    def offsets(self) -> Offsets:
        """The distance of each element from the block's first."""
        return replace(self, relative=True)

    def _first(self) -> Expr:
        if varying := blocks_in(*self.slice.places):
            raise TemplateError(
                f"{self!r} has no base: {varying[0]} holds a vector, so its positions have no common start; write the "
                "slice itself, {{ A[rows, :] }}"
            )
        return self.slice.expr.expr.subs({colon.symbol.expr: 0 for colon in self.slice.colons})

    @property
    def mask(self) -> BlockCondition:
        """The condition under which a position of the block names an element; True if all do."""
        return BlockCondition(self.slice.mask, self.ranges, self.slice.places)

    @property
    def axes(self) -> dict[Symbol, IndexLike]:
        """The symbols that it runs over, and how many values each takes."""
        return axes_of(self.slice.places)

    def steps(self, by: IndexLike) -> bool:
        """Whether all positions advance by the same distance when the index `by` increases by one."""
        symbol = self._stepped(by)
        return not self._moving(self._distance(symbol), symbol)

    def step(self, by: IndexLike) -> Bounded:
        """The distance by which all positions advance when the index `by` increases by one. Rejected if it differs."""
        symbol = self._stepped(by)
        distance = self._distance(symbol)
        if self._moving(distance, symbol):
            raise TemplateError(
                f"{self!r}: index the layout with {symbol} inside the loop instead of stepping: from one {symbol} to "
                f"the next its positions move by {brief(distance)}, which is not the same for all of them"
            )
        return Bounded(distance, {s: r for s, r in self.ranges.items() if s in distance.free_symbols})

    def _stepped(self, by: IndexLike) -> Symbol:
        """The symbol of an index of the slice. Rejects any other, such as a misspelt loop variable."""
        places = (p.start if isinstance(p, Colon) else p for p in self.slice.places)
        known = {s for p in places for s in as_expr(p).free_symbols if not isinstance(s, Size)}
        if not isinstance(by, Index) or by.expr not in known:
            indices = (
                f"its indices are {', '.join(sorted(map(str, known)))}"
                if known
                else "none of its indices is a variable"
            )
            raise TemplateError(
                f"{self!r} cannot step by {brief(repr(by))}, which is not one of its indices; {indices}"
            )
        return by.expr

    def _distance(self, symbol: Symbol) -> Expr:
        raw = self.expr
        moved = raw.xreplace({symbol: symbol + 1}) - raw
        known = self.ranges.get(symbol)
        last = {} if known is None else {symbol: Range(known.lo, known.hi - 1)}  # symbol + 1 is an index too
        return simplify(moved, {**self.ranges, **last}).expr

    def _moving(self, distance: Expr, symbol: Symbol) -> set[Symbol]:
        return distance.free_symbols & ({c.symbol.expr for c in self.slice.colons} | {symbol, *blocks_in(distance)})


def _colon(colon: Colon, n: IndexLike) -> str:
    """A sliced axis as it was written, where that can be reconstructed."""
    if isinstance(colon.count, int) and isinstance(colon.start, int):
        stop = colon.start + colon.step * colon.count
        whole = (colon.start, colon.step, colon.count) == (0, 1, n)
        return ":" if whole else f"{colon.start}:{stop}" + ("" if colon.step == 1 else f":{colon.step}")
    return ":" if isinstance(colon.start, int) and colon.start == 0 else f"{brief(repr(colon.start), 40)}:"


class NamedLayout(Shown):
    """A layout and its name in the template."""

    explains_its_index = True
    offers: ClassVar[tuple[str, ...]] = ("apply", "holds", "inv", "mask", "numel", "shape", "shifted", "size")

    def __init__(self, name: str, layout: Layout, blocks: bool = True) -> None:
        size = layout.physical_size()
        if isinstance(size, int) and size > ARRAY_LIMIT:
            raise TemplateError(
                f"{name}: {layout!r} has {size} positions, more than the 64-bit integers of generated code count"
            )
        self.name = name
        self.layout = layout
        self.blocks = blocks  # whether the language has vectors

    @property
    def called(self) -> str:
        """Its name in messages."""
        return self.name

    def __repr__(self) -> str:
        return f"{self.name} = {self.layout!r}"

    @property
    def shape(self) -> tuple[IndexLike, ...]:
        """The logical sizes."""
        return tuple(Bounded(n) if isinstance(n, Index) else n for n in self.layout.dims())

    @property
    def numel(self) -> Extent:
        """The number of logical elements."""
        return self.layout.numel()

    @property
    def size(self) -> Extent:
        """The number of physical positions."""
        return self.layout.physical_size()

    def __getitem__(self, at: IndexLike) -> IndexLike:
        given = self._one_by_one(at)
        with self._named():
            found = self.layout[given]
        places = self._checked(found, given)
        self._require_inside(places)
        if isinstance(found, Slice):
            return Offsets(self.name, found, self._ranges(found.places) | found.ranges)
        if self.blocks and blocks_in(*given):
            return Offsets(self.name, Slice(self.layout, given), self._ranges(given))
        return Bounded(found, self._ranges(given)) if isinstance(found, Index) else found

    def _checked(self, found: IndexLike, given: tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
        """The places of an index, with constants range-checked: a slice does not check its own."""
        dims = self.layout.dims()
        places = found.places if isinstance(found, Slice) else given
        with self._named():
            for axis, (place, n) in enumerate(zip(places, dims, strict=True)):
                check_range(place, n, f"index {axis} of {show(dims)}")
        return places

    def apply(self, *at: IndexLike) -> IndexLike:
        """The position of an index."""
        return self[at]

    def shifted(self, *offsets: int, boundary: Boundary = "zero") -> NamedLayout:
        """The layout with its indices moved by ints, one for each axis of the matrix; see `layout.shifted`."""
        with self._named():
            moved = Shifted(self.layout, offsets, boundary)
        return NamedLayout(f"{self.name}.shifted({', '.join(map(str, offsets))})", moved, self.blocks)

    def inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        """The index of a position."""
        self._require_position("inv", position)
        known = ranges_of(position)
        symbol = as_expr(position)
        if symbol.is_Symbol and symbol not in known:
            known[symbol] = Range(0, end_of(self.layout.physical_size()))
        coordinates = zip(self.layout.inv(position), self.layout.dims(), strict=True)
        return tuple(Coordinate(i, known, n) if isinstance(i, Index) else i for i, n in coordinates)

    @property
    def mask(self) -> Mask:
        """`A.mask(i, j)`, or with slices `A.mask[i, k, :, :]`: whether an index names an element."""
        return Mask(self)

    def holds(self, position: IndexLike) -> BlockCondition:
        """Whether a physical position of a padded layout holds an element."""
        self._require_position("holds", position)
        known = ranges_of(position) or {as_expr(position): Range(0, end_of(self.layout.physical_size()))}
        return BlockCondition(self.layout.holds(position), known)

    def _require_position(self, word: str, position: IndexLike) -> None:
        """Reject anything but a single position."""
        if not is_number(position):
            raise TemplateError(f"{self.name}.{word} takes the number of one position, got {brief(repr(position))}")

    def _one_by_one(self, at: IndexLike) -> tuple[IndexLike, ...]:
        """An index as a tuple. Rejects non-indices, such as a block of positions of another layout."""
        given = at if isinstance(at, tuple) else (at,)
        for axis, i in enumerate(given):
            parts = (i.start, i.stop, i.step) if isinstance(i, slice) else (i,)
            if not all(is_number(p) or (isinstance(i, slice) and p is None) or p is Ellipsis for p in parts):
                raise TemplateError(
                    f"index {axis} of {self.name} is {brief(repr(i))}; an index is a number, an index variable or an "
                    "expression of them, and ':' takes a whole axis"
                )
        dims = self.layout.dims()
        if len(given) != len(dims) and not any(i is Ellipsis for i in given):
            raise TemplateError(
                f"{self.name}: {len(dims)} indices are needed for its sizes {show(dims)}, got {len(given)}"
            )
        return given

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Prefix the layout's index errors with its name."""
        try:
            yield
        except LayoutError as error:
            raise TemplateError(f"{self.name}: {error}") from error

    def _require_inside(self, places: tuple[IndexLike, ...]) -> None:
        """Reject an index whose range is refuted to fit its axis."""
        for axis, (_, verdict) in self._claims_inside(places):
            if isinstance(verdict, Refuted):
                values = ", ".join(f"{name} = {value}" for name, value in verdict.counter_example.items())
                raise TemplateError(
                    f"index {axis} of {self.name} is {brief(repr(places[axis]))}, outside "
                    f"0..{self.layout.dims()[axis]}-1 for {values}"
                )

    def _claims_inside(self, places: tuple[IndexLike, ...]) -> Iterator[tuple[int, tuple[Cond, Verdict]]]:
        """For each index with ranges: the claim that it is inside its axis, and the prover's verdict."""
        for axis, (place, n) in enumerate(zip(places, self.layout.dims(), strict=True)):
            known = ranges_of(place)
            if known and not isinstance(place, Colon):
                expr = as_expr(place)
                claim = sympy.And(Le(0, expr), Lt(expr, as_expr(n)))
                yield axis, (claim, prove(claim, known))

    def _ranges(self, places: tuple[IndexLike, ...]) -> dict[Symbol, Range]:
        """The ranges that an index carries, and those implied by its axes."""
        known = ranges_of(*(p for p in places if not isinstance(p, Colon)))
        for place, n in zip(places, self.layout.dims(), strict=True):
            symbol = None if isinstance(place, Colon) else as_expr(place)
            if symbol is not None and symbol.is_Symbol and symbol not in known and not isinstance(symbol, Size):
                known[symbol] = Range(0, end_of(n))
        return known


@dataclass(frozen=True, eq=False)
class Mask:
    """The masks of a layout: called with indices, or indexed with slices."""

    of: NamedLayout = field(repr=False)
    explains_its_index: ClassVar[bool] = True
    offers: ClassVar[tuple[str, ...]] = ()

    @property
    def called(self) -> str:
        """Its name in messages."""
        return f"{self.of.name}.mask"

    def __call__(self, *at: IndexLike) -> BlockCondition:
        return self[at]

    def __getitem__(self, at: IndexLike) -> BlockCondition:
        of = self.of
        given = of._one_by_one(at)
        whole = any(isinstance(i, slice) or i is Ellipsis for i in given)
        with of._named():
            found = of.layout[given] if whole else None
            places = of._checked(found, given)
            mask = of.layout.mask(*given) if found is None else found.mask
        for _, (claim, verdict) in of._claims_inside(places):
            if not isinstance(verdict, Proved):  # an index that may leave the layout does not name an element there
                mask = conjunction(mask, Condition(claim))
        if found is None:
            return BlockCondition(mask, of._ranges(given), given if of.blocks and blocks_in(*given) else ())
        return BlockCondition(mask, of._ranges(places) | found.ranges, found.places)


def visible(name: str, value: Any, blocks: bool = True) -> Any:
    """A value of a spec as a template sees it: layouts with their names, indices with ranges."""
    if isinstance(value, Layout):
        return NamedLayout(name, value, blocks)
    if isinstance(value, Index) and not isinstance(value, Bounded):
        return Bounded(value)
    if isinstance(value, Condition):
        return BoundedCondition(value, ranges_of(value))
    return value
