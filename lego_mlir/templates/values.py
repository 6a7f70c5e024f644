"""What a placeholder sees: indices that know their range, layouts that can be indexed and sliced, and masks.

An index of a layout is in range by definition, so `A[lpid_m, k, :, :]` says that lpid_m and k lie below A's first two
sizes: nobody has to declare it. What has no layout to tell its range says it itself:

>>> k = index("k", 64)
>>> (k + 1).ranges
{k: Range(0, 64)}
>>> from lego_mlir.layout import Row
>>> Placed("A", Row(8, 4))[k // 8, :].ranges
{k: Range(0, 64), s1: Range(0, 4)}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import sympy

from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import Condition, Index, as_expr, index_symbol
from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Refuted
from lego_mlir.layout.base import Layout
from lego_mlir.layout.slices import Colon, Slice
from lego_mlir.layout.values import end_of

Ranges = Mapping[Any, Range]

printing: ContextVar[Callable[[Any], str] | None] = ContextVar("printing", default=None)
"""How a value becomes text while a template is filled in: what `~`, `join` and `format` get of it."""


class _Shown:
    """A value whose `str` is its text in the target's language while a template is filled in, else its repr."""

    __slots__ = ()

    def __str__(self) -> str:
        show = printing.get()
        return repr(self) if show is None else show(self)


class Bounded(_Shown, Index):
    """An index expression with the ranges of the symbols in it, which every result keeps."""

    __slots__ = ("ranges",)
    ranges: dict[Any, Range]

    def __init__(self, expr: Any, ranges: Ranges | None = None) -> None:
        super().__init__(expr)
        self.ranges = dict(ranges or {})

    def __hash__(self) -> int:
        return super().__hash__()


def _keeping_ranges(name: str) -> Any:
    plain = getattr(Index, name)

    def operator(self: Bounded, *others: Any) -> Any:
        result = plain(self, *others)
        return Bounded(result, ranges_of(self, *others)) if isinstance(result, Index) else result

    operator.__name__ = name
    return operator


for _name in [
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "neg",
    "pow",
    "floordiv",
    "rfloordiv",
    "mod",
    "rmod",
    "xor",
    "rxor",
    "and",
    "rand",
    "or",
    "ror",
    "lshift",
    "rlshift",
    "rshift",
    "rrshift",
]:
    setattr(Bounded, f"__{_name}__", _keeping_ranges(f"__{_name}__"))


class Coordinate(Bounded):
    """One coordinate of an inverse: below the layout's size along its axis."""

    __slots__ = ("stop",)
    stop: Any

    def __init__(self, expr: Any, ranges: Ranges, stop: Any) -> None:
        super().__init__(expr, ranges)
        self.stop = stop

    def __hash__(self) -> int:
        return super().__hash__()


def index(name: str, stop: Any = None, start: Any = 0) -> Bounded:
    """An index variable of a template: a program id, a loop variable. Without `stop`, layouts tell its range."""
    symbol = index_symbol(name)
    return Bounded(symbol, {} if stop is None else {symbol.expr: Range(as_expr(start), as_expr(stop))})


def indices(names: str) -> tuple[Bounded, ...]:
    """Index variables whose range the layouts tell: `lpid_m, lpid_n, k = indices("lpid_m lpid_n k")`."""
    return tuple(index(name) for name in names.replace(",", " ").split())


def ranges_of(*values: Any) -> dict[Any, Range]:
    """The ranges that these values carry."""
    found: dict[Any, Range] = {}
    for value in values:
        found.update(getattr(value, "ranges", None) or {})
    return found


@dataclass(frozen=True, eq=False)
class Predicate(_Shown):
    """A condition, or True, with the ranges of its symbols and the axes that it runs over."""

    condition: Any
    ranges: dict[Any, Range]
    colons: tuple[Colon, ...] = ()
    origin: Any = None


@dataclass(frozen=True, eq=False)
class Offsets(_Shown):
    """A slice of a layout: a block of positions, or, `relative`, how far they lie from the block's first."""

    name: str
    slice: Slice
    ranges: dict[Any, Range]
    relative: bool = False

    @property
    def expr(self) -> Any:
        """The positions as an expression of the indices and of the symbols that run along the axes."""
        positions = self.slice.expr.expr
        return positions - self._first() if self.relative else positions

    @property
    def base(self) -> Bounded:
        """Where the block begins: the position of its first element, one number for the whole block."""
        first = self._first()
        return Bounded(first, {s: r for s, r in self.ranges.items() if s in first.free_symbols})

    @property
    def offsets(self) -> Offsets:
        """How far each element lies from the block's first."""
        return replace(self, relative=True)

    def _first(self) -> Any:
        return self.slice.expr.expr.subs({colon.symbol.expr: 0 for colon in self.slice.colons})

    @property
    def mask(self) -> Predicate:
        """Which positions of the block name an element; True where all do."""
        return Predicate(self.slice.mask, self.ranges, self.slice.colons, self)

    def steps(self, by: Any) -> bool:
        """Whether every position moves equally far from one `by` to the next."""
        return not self._moving(self._distance(as_expr(by)), as_expr(by))

    def step(self, by: Any) -> Bounded:
        """How far every position moves when the index `by` grows by one. Refused where they move differently."""
        symbol = as_expr(by)
        distance = self._distance(symbol)
        if self._moving(distance, symbol):
            raise TemplateError(
                f"{self.name}: from one {symbol} to the next the positions move by {distance}, which is not the same "
                f"for all of them; index the layout with {symbol} inside the loop instead of stepping"
            )
        return Bounded(distance, {s: r for s, r in self.ranges.items() if s in distance.free_symbols})

    def _distance(self, symbol: Any) -> Any:
        from lego_mlir.expr.simplify import simplify

        raw = self.expr
        moved = raw.xreplace({symbol: symbol + 1}) - raw
        known = self.ranges.get(symbol)
        last = {} if known is None else {symbol: Range(known.lo, known.hi - 1)}  # symbol + 1 is an index too
        return simplify(moved, {**self.ranges, **last}).expr

    def _moving(self, distance: Any, symbol: Any) -> set[Any]:
        return distance.free_symbols & ({c.symbol.expr for c in self.slice.colons} | {symbol})


class Placed(_Shown):
    """A layout under its name in the template."""

    explains_its_index = True

    def __init__(self, name: str, layout: Layout) -> None:
        self.name = name
        self.layout = layout

    def __repr__(self) -> str:
        return f"{self.name} = {self.layout!r}"

    @property
    def shape(self) -> tuple[Any, ...]:
        """The logical sizes."""
        return tuple(Bounded(n) if isinstance(n, Index) else n for n in self.layout.dims())

    @property
    def numel(self) -> Any:
        """The number of logical elements."""
        return self.layout.numel()

    @property
    def size(self) -> Any:
        """The number of physical positions."""
        return self.layout.physical_size()

    def __getitem__(self, at: Any) -> Any:
        found = self.layout[at]
        self._require_inside(found.places if isinstance(found, Slice) else at if isinstance(at, tuple) else (at,))
        if isinstance(found, Slice):
            return Offsets(self.name, found, self._ranges(found.places) | found.ranges)
        given = at if isinstance(at, tuple) else (at,)
        return Bounded(found, self._ranges(given)) if isinstance(found, Index) else found

    def apply(self, *at: Any) -> Any:
        """The position of an index."""
        return self[at]

    def inv(self, position: Any) -> tuple[Any, ...]:
        """The index of a position."""
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

    def holds(self, position: Any) -> Predicate:
        """Whether a physical position of a padded layout holds an element."""
        known = ranges_of(position) or {as_expr(position): Range(0, end_of(self.layout.physical_size()))}
        return Predicate(self.layout.holds(position), known)  # type: ignore[attr-defined]

    def _require_inside(self, places: tuple[Any, ...]) -> None:
        """Refuse an index whose own range is shown to leave the axis it is used for."""
        for axis, (place, n) in enumerate(zip(places, self.layout.dims(), strict=True)):
            known = ranges_of(place)
            if not known or isinstance(place, Colon):
                continue
            expr = as_expr(place)
            verdict = prove(sympy.And(Le(0, expr), Lt(expr, as_expr(n))), known)
            if isinstance(verdict, Refuted):
                values = ", ".join(f"{name} = {value}" for name, value in verdict.counter_example.items())
                raise TemplateError(f"index {axis} of {self.name} is {place!r}, outside 0..{n}-1 for {values}")

    def _ranges(self, places: tuple[Any, ...]) -> dict[Any, Range]:
        """The ranges that an index carries, and those that it has because it is one."""
        known = ranges_of(*(p for p in places if not isinstance(p, Colon)))
        for place, n in zip(places, self.layout.dims(), strict=True):
            symbol = None if isinstance(place, Colon) else as_expr(place)
            if symbol is not None and symbol.is_Symbol and symbol not in known and not hasattr(symbol, "multiple_of"):
                known[symbol] = Range(0, end_of(n))
        return known


@dataclass(frozen=True, eq=False)
class Mask:
    """The masks of a layout: called with indices, or indexed with slices."""

    of: Placed = field(repr=False)
    explains_its_index: ClassVar[bool] = True

    def __call__(self, *at: Any) -> Predicate:
        return self[at]

    def __getitem__(self, at: Any) -> Predicate:
        given = at if isinstance(at, tuple) else (at,)
        if any(isinstance(i, slice) or i is Ellipsis for i in given):
            found: Offsets = self.of[at]
            return found.mask
        condition = self.of.layout.mask(*given)
        return Predicate(condition, self.of._ranges(given), origin=(self.of.layout, given))


def visible(name: str, value: Any) -> Any:
    """A value of a spec as a template sees it: layouts by their names, indices with room for ranges."""
    if isinstance(value, Layout):
        return Placed(name, value)
    if isinstance(value, Index) and not isinstance(value, Bounded):
        return Bounded(value)
    if isinstance(value, Condition):
        return Predicate(value, {})
    return value
