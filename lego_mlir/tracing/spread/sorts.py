"""`lego.sort`: spread values ordered along an axis, by a bitonic network; and the first elements of an order.

The network merges blocks of 2, 4, 8, .. elements. A merge compares each element with its mirror image in the block,
then with those at half, a quarter, .. of the block's size; the lower place keeps what comes first. All comparisons of a
step are independent, and the distances are constants, so that a step is a selection between registers, a shuffle, or an
exchange through shared memory, as the bits of the axis are placed. K. E. Batcher, "Sorting networks and their
applications", 1968, in the form without directions.

Numbers are ordered as NumPy does, with NaN after all others; from the greatest down NaN comes first. Of several tiles
the first is the key, and equal keys keep their order. A key of integers alone is ordered by a minimum and a maximum; so
are floats of at most 32 bits, as integers of the same order: negative ones with all bits but the sign inverted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from lego_mlir.errors import LayoutError
from lego_mlir.f2.axis_bits import resized
from lego_mlir.tracing.spread.axis_exchange import AxisExchange, Held, exchange_along, of_numbers
from lego_mlir.tracing.spread.conversion import convert
from lego_mlir.tracing.spread.distributed import Spread, open_tile
from lego_mlir.tracing.spread.filled import arange, require_axis
from lego_mlir.tracing.spread.gather import gather
from lego_mlir.tracing.spread.scans import chosen
from lego_mlir.tracing.spread.selection import bits_as, prefers_selection, selected
from lego_mlir.tracing.trace.dtypes import f32, i32
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words import functions
from lego_mlir.tracing.words.scalar import Scalar, compute, select

Values: TypeAlias = tuple[Scalar, ...]


def sort(tiles: Spread | Sequence[Spread], axis: int = -1, descending: bool = False) -> Spread | tuple[Spread, ...]:
    """The elements in ascending order along an axis, in the layout of the tile; other tiles move with the first.

    Equal keys keep their order. All threads of the block take part. Raises TraceError for tiles of indices, LayoutError
    for sizes that are no powers of two.
    """
    several = not isinstance(tiles, Spread)
    if open_tile(*(tiles if isinstance(tiles, tuple | list) else (tiles,))) is not None:
        from lego_mlir.tracing.spread import open_orders

        return open_orders.sort(tiles, axis, descending)
    given = of_numbers("lego.sort", tiles)
    if not several:
        return _sorted_alone(given[0], axis, descending)
    place = arange(given[0].layout, axis).to(i32)
    key, _, *others = _network("lego.sort", [given[0], place, *given[1:]], axis, descending)
    return key, *others


def _sorted_alone(x: Spread, axis: int, descending: bool) -> Spread:
    """A tile in order, without others that move with it."""
    if not x.dtype.is_float or x.dtype.bits > f32.bits:
        return _network("lego.sort", [x], axis, descending)[0]
    wide = x.to(f32)
    keys = wide.map(lambda v: _mirrored(bits_as(functions.where(functions.isnan(v), abs(v), v), i32)), wide)
    ordered = _network("lego.sort", [keys], axis, descending)[0]
    return ordered.map(lambda k: bits_as(_mirrored(k), f32), ordered).to(x.dtype)


def _mirrored(bits: Scalar) -> Scalar:
    """The bits of a float as an integer of the same order, and back: the mapping is its own inverse."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def argsort(x: Spread, axis: int, descending: bool) -> Spread:
    """The index of each element of the order along an axis: the method `Spread.argsort`."""
    if open_tile(x) is not None:
        from lego_mlir.tracing.spread import open_orders

        return open_orders.argsort(x, axis, descending)
    x = of_numbers("argsort", x)[0]
    return _network("argsort", [x, arange(x.layout, axis).to(i32)], axis, descending)[1]


def topk(x: Spread, k: int, axis: int) -> tuple[Spread, Spread]:
    """The k greatest elements along an axis and their indices: the method `Spread.topk`."""
    tracer, axis = current("topk"), require_axis("topk", x.shape, axis)
    size = x.shape[axis]
    if type(k) is not int or not 1 <= k <= size or k & (k - 1):
        raise tracer.error(
            f"topk: k={k!r} is a power of two up to {size}, the size of the axis; take the next one and mask the rest",
            LayoutError,
        )
    if open_tile(x) is not None:
        from lego_mlir.tracing.spread import open_orders

        return open_orders.topk(x, k, axis)
    x = of_numbers("topk", x)[0]
    layout = x.layout
    if prefers_selection(layout, axis, k, x.dtype):
        return selected(x, k, axis)
    ordered = _network("topk", [x, arange(layout, axis).to(i32)], axis, True)
    first = resized(layout, axis, k)
    number = arange(first, axis).to(i32)
    values, places = (gather(tile, number, axis) for tile in ordered)
    return values, places


def _network(called: str, tiles: Sequence[Spread], axis: int, descending: bool) -> list[Spread]:
    """The tiles ordered by the first one, then by the second one if there are several."""
    layout = tiles[0].layout
    exchange, moved = exchange_along(called, tiles, axis)
    held = exchange.held(moved)
    for block in range(1, len(exchange.bits.each) + 1):
        held = _compared(exchange, held, (1 << block) - 1, descending)
        for level in range(block - 2, -1, -1):
            held = _compared(exchange, held, 1 << level, descending)
    found = [exchange.tile(tile, held, component) for component, tile in enumerate(moved)]
    return found if exchange.layout == layout else [convert(tile, layout) for tile in found]


def _compared(exchange: AxisExchange, held: Held, levels: int, descending: bool) -> Held:
    """One step: each element and the one at `index ^ levels`, of which the lower place keeps the first."""
    top = levels.bit_length() - 1
    upper = exchange.bit(top)
    others = exchange.across(held, levels)
    in_thread = exchange.register_levels(levels) == levels
    found: Held = {}
    for element, mine in held.items():
        if element in found:
            continue
        other = others[element]
        is_upper = exchange.bits.along(element) >> top & 1
        if len(mine) == 1 and not mine[0].dtype.is_float:
            names = ("maximum", "minimum") if descending else ("minimum", "maximum")
            first, last = (compute(name, mine[0], other[0]) for name in names)
            if in_thread:
                found[element], found[element ^ levels << exchange.bits.start] = (
                    ((last,), (first,)) if is_upper else ((first,), (last,))
                )
            elif upper is None:
                found[element] = (last if is_upper else first,)
            else:
                found[element] = (select(upper, last, first),)
        elif in_thread:
            low, high = (other, mine) if is_upper else (mine, other)
            swap = _precedes(high, low, descending)
            pair = chosen(swap, high, low), chosen(swap, low, high)
            there = element ^ levels << exchange.bits.start
            found[element], found[there] = pair[::-1] if is_upper else pair
        elif upper is None:
            swap = _precedes(mine, other, descending) if is_upper else _precedes(other, mine, descending)
            found[element] = chosen(swap, other, mine)
        else:
            low, high = chosen(upper, other, mine), chosen(upper, mine, other)
            found[element] = chosen(_precedes(high, low, descending), other, mine)
    return found


def _precedes(a: Values, b: Values, descending: bool) -> Scalar:
    """Whether a comes strictly before b: by the key, then by the place."""
    x, y = (b[0], a[0]) if descending else (a[0], b[0])
    less, same = x < y, x == y
    if x.dtype.is_float:
        nan_x, nan_y = functions.isnan(x), functions.isnan(y)
        if len(a) == 1:  # of two NaN alone either may come first
            return cast(Scalar, less | nan_y)
        less, same = less | (nan_y & ~nan_x), same | (nan_x & nan_y)
    return cast(Scalar, less | (same & (a[1] < b[1])) if len(a) > 1 else less)
