"""The points at which a text is compared with its layout: values of the sizes, then of the indices in their ranges.

Sizes come first, because a range may depend on them: 0 <= k < K // 32. If the points can be counted, and are few or
have no sizes, each is visited once, in a scattered order. Otherwise sizes and indices are drawn at random with
replacement: corners first, then sizes of every magnitude, with extra weight on the ends of index ranges. Sizes that are
lengths of `tl.arange` are fixed first; each of a few choices gets a share of the points (`lengths`).

A batch is a column of values for every symbol, and the lengths of the block's axes:

>>> from lego_mlir.expr.sizes import size
>>> from lego_mlir.layout import Row
>>> from lego_mlir.templates import Template, indices
>>> m, k = indices("m k")
>>> A = Row(2, size("K", min=2, max=3))
>>> (at,) = Template.of("{{ A[m, k] }}{{ sizes }}", "t.py.jinja", A=A, m=m, k=k).render().placeholders
>>> points = Points.of(at, sampled=100)
>>> points.total
10
>>> for values, axes in points.batches():
...     print({name: column.tolist() for name, column in values.items()}, axes)
{'K': [2, 2, 2, 2, 3, 3, 3, 3, 3, 3], 'k': [0, 0, 1, 1, 0, 0, 1, 1, 2, 2], 'm': [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]} {}
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd, prod
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Array, Cond, Symbol
from lego_mlir.errors import TemplateError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Size, tables_of
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.related import in_order, relations, with_related
from lego_mlir.layout import slices
from lego_mlir.layout.slices import Colon
from lego_mlir.templates.render.blocks import blocks_in, lanes
from lego_mlir.templates.render.placeholders import Placeholder

LARGEST_DRAWN: Final = 2**20  # for a size without a maximum: large enough for products beyond 32 bits
LARGEST_AXIS: Final = 64  # for a constexpr length of tl.arange, if its minimum allows
CHOICES: Final = 6  # of the lengths of these axes
COUNTED: Final = 8  # points with sizes are enumerated up to this multiple of the requested number
TOO_LARGE: Final = 2**62  # values of one index: larger sizes are redrawn, as their layout exceeds any memory
SCATTERED: Final = 2**32  # rows, which int64 arithmetic can scatter
EDGES: Final = 0.25  # probability that a drawn index is at its first or last value
MOST_TRIED: Final = 256  # times the requested points, if masks exclude most of them

WITHOUT_RANGE: Final = Range(-(2**31), 2**31)  # of a name on its own; computed values always have a range

NONE: Final[Mapping[str, int]] = {}

Batch = tuple[dict[str, Any], dict[str, int]]


@dataclass(frozen=True)
class Points:
    """The points of a placeholder: `sampled` per batch, over its sizes, indices and axes, for chosen lengths."""

    placeholder: Placeholder
    sampled: int
    seed: int
    chosen: dict[str, int]
    sizes: tuple[Any, ...]
    symbols: tuple[Any, ...]

    @classmethod
    def of(cls, placeholder: Placeholder, *, sampled: int, seed: int = 0, chosen: Mapping[str, int] = NONE) -> Points:
        """The points of a placeholder, for one of the `lengths` of its axes."""
        free = sorted(_symbols(placeholder) - {s for s, _ in placeholder.axes}, key=str)
        sizes = tuple(s for s in with_related(s for s in free if isinstance(s, Size)) if str(s) not in chosen)
        return cls(placeholder, sampled, seed, dict(chosen), sizes, tuple(s for s in free if not isinstance(s, Size)))

    @property
    def total(self) -> int | None:
        """The number of points if each is visited at most once; None if they are drawn."""
        return None if self._table is None else self._table.total * prod(self.axes.values())

    @property
    def axes(self) -> dict[str, int]:
        """The block's axes and their lengths."""
        return {str(s): self.chosen[n] if isinstance(n, str) else n for s, n in self.placeholder.axes}

    def batches(self) -> Iterator[Batch]:
        """Batches until no point is left, or MOST_TRIED times the requested number has been tried."""
        rng = np.random.default_rng(self.seed)
        room = -(-self.sampled // prod(self.axes.values()))
        table = self._table
        found = self._drawn(room, rng) if table is None else map(table.rows, _scattered(table.total, room, rng))
        for values in found:
            yield {**self.chosen, **values, **self._vectors(values)}, self.axes

    def _vectors(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Block variables, one row per point: the drawn value and its successors in the range, cyclically."""
        vectors = {}
        for symbol, axis in lanes(self.symbols, (s for s, _ in self.placeholder.axes)).items():
            drawn = values[str(symbol)]
            low, step, extent = self._run(symbol, {str(s): values[str(s)] for s in self.sizes}, drawn.size)
            lane = np.arange(self.axes[str(axis)])
            vectors[str(symbol)] = low[:, None] + step * ((((drawn - low) // step)[:, None] + lane) % extent[:, None])
        return vectors

    @cached_property
    def _table(self) -> _Table | None:
        """All rows, if they can be counted, and are few or have no sizes."""
        known = [self.placeholder.tuned.get(s, s) for s in self.sizes]
        if any(s.max is None for s in known) or relations(self.sizes):
            return None
        values = [range(s.least, s.max + 1, s.multiple_of) for s in known]
        choices = prod(map(len, values))
        if choices > self.sampled:
            return None
        grid = np.meshgrid(*(np.array(v, dtype=np.int64) for v in values), indexing="ij")
        sizes = {str(s): column.reshape(-1) for s, column in zip(self.sizes, grid, strict=True)}
        indices = [(str(s), *self._run(s, sizes, choices)) for s in self.symbols]
        rows = float(np.sum(prod((extents.astype(float) for *_, extents in indices), start=np.ones(choices))))
        if rows >= SCATTERED or (self.sizes and rows * prod(self.axes.values()) > COUNTED * self.sampled):
            return None
        return _Table(sizes, indices, choices)

    def _run(self, symbol: Symbol, sizes: Mapping[str, Array], count: int) -> tuple[Array, int, Array]:
        """For every choice of the sizes: the first value of an index, its step and its number of values."""
        values = {**self.chosen, **sizes}
        known = self.placeholder.ranges.get(symbol, WITHOUT_RANGE)
        low, high = (np.broadcast_to(evaluate(as_expr(end), values), count) for end in (known.lo, known.hi))
        return low, known.step, np.clip(-(-(high - low) // known.step), 0, TOO_LARGE).astype(np.int64)

    def _drawn(self, room: int, rng: np.random.Generator) -> Iterator[dict[str, Array]]:
        yield from self._draw(room, rng, corners=room // 2)
        part = max(1, room // 4)
        for _ in range(MOST_TRIED * room // part):
            yield from self._draw(part, rng)

    def _draw(self, room: int, rng: np.random.Generator, *, corners: int = 0) -> Iterator[dict[str, Array]]:
        """Draw sizes, then indices in the resulting ranges; points with an empty range are dropped."""
        ends = _corners(len(self.sizes) + len(self.symbols), corners)
        sizes = {str(s): self._draw_size(s, room, at, rng) for s, at in zip(self.sizes, ends, strict=False)}
        kept = self._relate(sizes, room)
        values = dict(sizes)
        for s, at in zip(self.symbols, ends[len(sizes) :], strict=True):
            low, step, extent = self._run(s, sizes, room)
            drawn = rng.integers(0, np.maximum(extent, 1))
            at_an_end = rng.random(room) < EDGES  # of any sizes: there tiles are partial
            drawn[at_an_end] = np.where(rng.random(room) < 0.5, 0, extent - 1)[at_an_end]
            drawn[: at.size] = np.where(at, extent[: at.size] - 1, 0)
            values[str(s)] = low + step * drawn
            kept &= (extent > 0) & (extent < TOO_LARGE)
        if kept.any():
            yield {name: column[kept] for name, column in values.items()}

    def _relate(self, sizes: dict[str, Array], room: int) -> Array:
        """Give the sizes their relations to each other; true where every one satisfies its facts."""
        kept = np.ones(room, dtype=bool)
        for size in in_order(s for s in self.sizes if s.below is not None or s.equals is not None):
            if size.equals is not None:
                sizes[str(size)] = np.broadcast_to(evaluate(size.equals, {**self.chosen, **sizes}), kept.shape)
            elif size.below is not None:
                limit = evaluate(size.below, {**self.chosen, **sizes}) // size.multiple_of * size.multiple_of
                sizes[str(size)] = np.minimum(sizes[str(size)], limit)
                kept &= sizes[str(size)] >= size.least
        return kept

    def _draw_size(self, size: Size, room: int, ends: Array, rng: np.random.Generator) -> Array:
        """Values of a size: every fourth log-uniform, the others uniform."""
        size = self.placeholder.tuned.get(size, size)
        largest = LARGEST_DRAWN if len(self.sizes) < 4 else 2 ** (60 // len(self.sizes))  # a product fits in int64
        greatest = max(size.least, size.max if size.max is not None else max(largest, size.min))
        count = (greatest - size.least) // size.multiple_of + 1
        drawn = rng.integers(0, count, size=room)
        drawn[::4] = float(count) ** rng.random(drawn[::4].size) - 1
        drawn[: ends.size] = np.where(ends, count - 1, 0)
        return size.least + size.multiple_of * drawn


@dataclass(frozen=True)
class _Table:
    """All rows by number: every choice of the sizes, and for each index its name, first values, step and extents."""

    sizes: dict[str, Any]
    indices: list[tuple[str, Any, int, Any]]
    choices: int

    @cached_property
    def ends(self) -> Array:
        """The end of the row numbers of each choice of the sizes."""
        rows = np.ones(self.choices, dtype=np.int64)
        for *_, extents in self.indices:
            rows = rows * extents
        return np.cumsum(rows)

    @property
    def total(self) -> int:
        return int(self.ends[-1]) if self.choices else 0

    def rows(self, numbers: Array) -> dict[str, Array]:
        """The values in the rows of these numbers; the last index varies fastest."""
        choice = np.searchsorted(self.ends, numbers, side="right")
        rest = numbers - np.append(0, self.ends)[choice]
        sizes = {name: column[choice] for name, column in self.sizes.items()}
        indices = {}
        for name, low, step, extents in reversed(self.indices):
            rest, place = np.divmod(rest, extents[choice])
            indices[name] = low[choice] + step * place
        return sizes | dict(reversed(indices.items()))


def _scattered(total: int, room: int, rng: np.random.Generator) -> Iterator[Array]:
    """The numbers below `total` in batches, each once: if there are many, both ends first, then with a stride that is
    coprime to `total`."""
    if total <= room:
        yield from [np.arange(total)] if total else []
        return
    yield np.unique([0, total - 1])
    start, step, taken, count = int(rng.integers(total)), round(0.618 * total), 0, max(1, room - 2)
    while gcd(step, total) > 1:
        step += 1
    while taken < min(total, MOST_TRIED * room):
        numbers = ((start + step * taken) % total + step * np.arange(min(count, total - taken))) % total
        taken, count = taken + numbers.size, max(1, room // 4)
        numbers = numbers[(numbers > 0) & (numbers < total - 1)]
        if numbers.size:
            yield numbers


def _corners(columns: int, most: int) -> list[Array]:
    """For each column whether a row has its last or first value: opposite corners first."""
    rows = np.arange(min(2 ** min(columns, 62), most))
    return [((rows >> (1 + column)) ^ rows) & 1 == 1 for column in range(columns)]


def lengths(placeholder: Placeholder, seed: int = 0) -> list[dict[str, int]]:
    """Choices of the sizes that are lengths of `tl.arange`: least, greatest and others; one if there are none."""
    named = {n for _, n in placeholder.axes}
    sizes = sorted((s for s in _symbols(placeholder) if isinstance(s, Size) and str(s) in named), key=str)
    powers = [_powers(placeholder.tuned.get(s, s)) for s in sizes]
    every = [dict(zip(map(str, sizes), values, strict=True)) for values in product(*powers)]
    inner = every[1:-1]
    return [*every[:1], *random.Random(seed).sample(inner, min(len(inner), CHOICES - 2)), *every[1:][-1:]]


def _powers(size: Size) -> list[int]:
    """The powers of two among a size's values, as `tl.arange` requires; large ones only if necessary."""
    greatest = size.max if size.max is not None else max(LARGEST_DRAWN, 2 * size.min)
    powers = [1 << k for k in range(greatest.bit_length()) if max(1, size.min) <= 1 << k <= greatest]
    powers = [p for p in powers if p % size.multiple_of == 0]
    if not powers:
        raise TemplateError(f"tl.arange({size}) requires a power of two, and no value of {size} is one")
    return [p for p in powers if p <= LARGEST_AXIS] or powers[:1]


# -- which symbols


def mask_of(placeholder: Placeholder) -> Cond:
    """The condition under which a placeholder's index names an element: a bool or a condition."""
    layout, places = placeholder.origin
    return slices.mask_of(layout, places)


def _symbols(placeholder: Placeholder) -> set[Symbol]:
    """Every relevant symbol: in the text, in the index and its mask, and the sizes that bound these."""
    tables = {table.args[0] for table in tables_of(placeholder.raw)}
    named = (placeholder.raw.free_symbols - tables) | _origin_symbols(placeholder) | _binding_symbols(placeholder)
    lengths_of_vectors = {s.count for s in blocks_in(*named) if isinstance(s.count, Size)}
    return (
        named
        | lengths_of_vectors
        | {
            s
            for symbol, r in placeholder.ranges.items()
            if symbol in named
            for end in (r.lo, r.hi)
            for s in getattr(as_expr(end), "free_symbols", ())
        }
    )


def _origin_symbols(placeholder: Placeholder) -> set[Symbol]:
    """The symbols of the index and its mask."""
    if placeholder.origin is None:
        return set()
    mask, places = mask_of(placeholder), placeholder.origin[1]
    exprs = [as_expr(p.at(p.symbol) if isinstance(p, Colon) else p) for p in places]
    return {s for e in [*exprs, *([] if isinstance(mask, bool) else [mask.expr])] for s in e.free_symbols}


def _binding_symbols(placeholder: Placeholder) -> set[Symbol]:
    """The symbols of the bindings, which the text need not mention (a coordinate that is 0)."""
    words = {word for _, text in placeholder.bindings for word in re.findall(r"\w+", text)}
    return {s for s in placeholder.ranges if str(s) in words}
