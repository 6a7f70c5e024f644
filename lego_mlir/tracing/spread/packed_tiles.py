"""Tiles of packed numbers between memory and registers: `lego.load(w, layout, at=..)` of a tensor of i4, f4e2m1fn, ..

Registers of a thread whose elements are next to each other along the packed axis are one access, up to 16 bytes, where
its alignment is proved; an element alone is shifted out of its byte. A tile is stored by whole bytes: a layout that
divides a byte between threads is refused, since both would write it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index
from lego_mlir.f2.boxed import whole_bits
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.tracing.spread.accesses import distinct, owners
from lego_mlir.tracing.spread.coordinates import ThreadElements
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words import control
from lego_mlir.tracing.words.packed_values import PackedNumbers, decoded_each, encoded_each
from lego_mlir.tracing.words.packed_views import PackedView
from lego_mlir.tracing.words.scalar import Scalar

if TYPE_CHECKING:
    from lego_mlir.tracing.words.cache_hints import Cache, Evict


def load_packed(
    source: PackedView, layout: LinearLayout, at: Sequence[IndexLike] | None, cache: Cache | None, evict: Evict | None
) -> Spread:
    """The tile of `source` whose first element is at the index `at`; elements outside have codes of 0."""
    tile = _PackedTile("lego.load", source, layout, at)
    found: dict[int, PackedNumbers] = {}
    for group in tile.groups():
        index = tile.index(group[0])
        width = min(len(group), tile.view.widest(*index))
        for first in range(0, len(group), width):
            loaded = tile.view.load(*tile.index(group[first]), width=width, cache=cache, evict=evict)
            for register, number in zip(
                group[first : first + width], [*loaded] if width > 1 else [loaded], strict=True
            ):
                found[tile.elements.offset(register)] = number
    count = layout.in_sizes["register"]
    return Spread(layout, source.dtype, [found.get(tile.elements.offset(register)) for register in range(count)])


def first_numbers(called: str, given: PackedView, layout: LinearLayout, at: Sequence[IndexLike] | None) -> int:
    """How many numbers one access of a tile in this layout is proved to take."""
    tile = _PackedTile(called, given, layout, at)
    group = next(iter(tile.groups()))
    return min(len(group), tile.view.widest(*tile.index(group[0])))


def store_packed(
    target: PackedView,
    value: Spread,
    at: Sequence[IndexLike] | None,
    cache: Cache | None = None,
    evict: Evict | None = None,
) -> None:
    """Store a tile of the memory's type. Raises LayoutError where threads share a byte."""
    tracer = current("the store of a spread value")
    if value.dtype != target.dtype:
        raise tracer.error(
            f"a spread value of {value.dtype} is stored into {target.buffer.name} of {target.dtype}; convert it with "
            f".to(lego.{target.dtype})"
        )
    tile = _PackedTile("the store of a spread value", target, value.layout, at)
    storing, unit = owners(tracer, value.layout), target.packing.bytes.unit
    with nullcontext() if storing is None else control.when(storing):
        for group in tile.groups():
            width = min(len(group), tile.view.widest(*tile.index(group[0])))
            if width % unit:
                raise tracer.error(
                    f"{target.buffer.name}: threads of the layout {value.layout!r} hold parts of a byte, which two of "
                    f"them would write; convert the tile to a layout whose registers have {unit} neighbours along axis "
                    f"{tile.axis}, from a multiple of {unit} on",
                    LayoutError,
                )
            for first in range(0, len(group), width):
                part = [cast(PackedNumbers, value.registers[r]) for r in group[first : first + width]]
                codes = [code for number in part for code in number.codes]
                numbers = PackedNumbers(value.dtype, codes, None if width == 1 else width)
                tile.view.store(numbers, *tile.index(group[first]), cache=cache, evict=evict)


def unpacked(value: Spread, dtype: DType) -> Spread:
    """A tile of packed numbers in a type with arithmetic; those of one word are converted together."""
    made = {id(v): cast(PackedNumbers, v) for v in value.registers if v is not None}
    each = decoded_each(value.dtype, [number.codes[0] for number in made.values()], dtype)
    found: dict[int, Scalar] = dict(zip(made, each, strict=True))
    return Spread(value.layout, dtype, [found.get(id(v)) for v in value.registers])


def packed_up(value: Spread, dtype: DType) -> Spread:
    """A tile rounded to a packed type."""
    made = {id(v): v for v in value.registers if v is not None}
    found = dict(zip(made, encoded_each(list(made.values()), dtype), strict=True))
    return Spread(value.layout, dtype, [found.get(id(v)) for v in value.registers])


class _PackedTile:
    """A tile in packed memory: its view, masked at the end, and the elements that a thread holds."""

    def __init__(self, called: str, given: PackedView, layout: LinearLayout, at: Sequence[IndexLike] | None) -> None:
        tracer, dims, rank = current(called), given.dims(), len(layout.outs)
        first = (at,) if isinstance(at, int | Index) else tuple(at) if at is not None else (0,) * len(dims)
        self.view, self.at, self.axis = given.halo(), tuple(map(Index, first)), given.packing.bytes.axis
        inner = self.axis - (len(dims) - rank)
        if len(first) != len(dims) or inner < 0:
            raise tracer.error(
                f"{called}: {given.buffer.name} has {len(dims)} dimensions, `at` has {len(first)} indices and the "
                f"layout {rank} dimensions; `at` has one index for each dimension, and the layout spans the last ones, "
                f"among them axis {self.axis}, along which numbers are packed",
                LayoutError,
            )
        self.elements = ThreadElements(tracer, layout)
        self._first_bit = sum(bits for _, bits in layout.outs[:inner])

    def index(self, register: int) -> tuple[Index, ...]:
        """The index of a register's element."""
        return self.elements.of_tensor(register, self.at)

    def groups(self) -> Iterator[list[int]]:
        """The registers of neighbours along the packed axis, in order."""
        layout, run = self.elements.layout, 0
        columns, whole = set(layout.columns_of("register")), whole_bits(layout)
        while (bit := 1 << (self._first_bit + run)) in columns and bit & whole and not bit & self.elements.support:
            run += 1
        by_offset = {self.elements.offset(register): register for register in distinct(layout)}
        inside = ((1 << run) - 1) << self._first_bit
        for offset in by_offset:
            if not offset & inside:
                yield [by_offset[offset | k << self._first_bit] for k in range(1 << run)]
