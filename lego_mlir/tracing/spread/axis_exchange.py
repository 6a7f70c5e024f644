"""Elements of a spread value with those whose index along an axis differs in given bits; and the value reversed.

`AxisExchange.across(held, mask)` brings the element at `index ^ mask`: from another register of the thread, by
`shuffle_xor`, or, where the mask has bits of warps, through shared memory. `x.flip(axis)` is the mask of all bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from lego_mlir.errors import LayoutError, brief
from lego_mlir.expr.index import Index
from lego_mlir.f2.axis_bits import AxisBits, axis_bits, blocked_along
from lego_mlir.f2.boxed import BoxedLayout
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine
from lego_mlir.f2.queries import free_bits
from lego_mlir.f2.shape_ops import shape_of
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.spread.conversion import convert
from lego_mlir.tracing.spread.distributed import Spread, common_layout, open_tile
from lego_mlir.tracing.spread.filled import require_axis
from lego_mlir.tracing.spread.lane_exchange import lane_of, odd
from lego_mlir.tracing.spread.warp_exchange import exchanged, thread_number
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words import warps
from lego_mlir.tracing.words.reductions import require_uniform
from lego_mlir.tracing.words.scalar import Scalar

Held: TypeAlias = dict[int, tuple[Scalar, ...]]
"""The values of a thread's elements, by the part of the flat element that its registers give."""


@dataclass(frozen=True, slots=True)
class AxisExchange:
    """Exchanges along an axis of a layout whose bits belong to registers, lanes and warps."""

    tracer: Tracer
    layout: LinearLayout
    bits: AxisBits

    def mask_of(self, place: str, levels: int) -> int:
        """The bits of a place that are these levels of the axis."""
        return sum(bit.mask for bit in self.bits.each if bit.place == place and levels >> bit.level & 1)

    def register_levels(self, levels: int) -> int:
        """Those of the levels that belong to registers."""
        return sum(1 << bit.level for bit in self.bits.each if bit.place == "register" and levels >> bit.level & 1)

    def across(self, held: Held, levels: int) -> Held:
        """The element at `index ^ levels` for each element; all threads of the block take part."""
        moved = self.register_levels(levels) << self.bits.start
        lanes, warp_mask = self.mask_of("lane", levels), self.mask_of("warp", levels)
        if warp_mask:
            thread, order = thread_number(self.tracer), list(held)
            warp, copies = thread // WARP, free_bits(self.layout).get("warp", 0)
            if copies:  # of the warps that hold the same, the block has the first
                warp = warp & ((self.layout.in_sizes["warp"] - 1) ^ copies)
            there = Index(warp ^ warp_mask) * WARP + (lane_of(self.tracer) ^ lanes)
            received = exchanged(self.tracer, [held[element] for element in order], thread, [there])
            from_there = {element: each[0] for element, each in zip(order, received, strict=True)}
        elif lanes:
            from_there = {e: tuple(warps.shuffle_xor(v, lanes) for v in values) for e, values in held.items()}
        else:
            from_there = held
        return {element: from_there[element ^ moved] for element in held}

    def bit(self, level: int) -> Scalar | None:
        """Whether the bit of the index is set, for a bit of lanes or warps; None for one of registers."""
        (found,) = [bit for bit in self.bits.each if bit.level == level]
        if found.place == "register":
            return None
        number = lane_of(self.tracer) if found.place == "lane" else thread_number(self.tracer) // WARP
        return odd(number, found.mask)

    def held(self, tiles: Sequence[Spread]) -> Held:
        columns = self.layout.columns_of("register")
        return {
            combine(columns, register): tuple(cast(Scalar, tile.registers[register]) for tile in tiles)
            for register in range(1 << len(columns))
        }

    def tile(self, like: Spread, held: Mapping[int, tuple[Scalar, ...]], component: int = 0) -> Spread:
        columns = self.layout.columns_of("register")
        values = [held[combine(columns, register)][component] for register in range(1 << len(columns))]
        return Spread(self.layout, like.dtype, values)


def of_numbers(called: str, tiles: Spread | Sequence[Spread]) -> list[Spread]:
    """The tiles in their common layout. Raises TraceError for anything but numbers that compute."""
    tracer = current(called)
    given = [tiles] if isinstance(tiles, Spread) else list(tiles) if isinstance(tiles, list | tuple) else []
    if not given or not all(isinstance(tile, Spread) for tile in given):
        raise tracer.error(f"{called} takes a spread value, or a tuple of them, got {brief(repr(tiles))}")
    layout = common_layout([tile.get() for tile in given])
    made = [tile.get().broadcast_to(layout) for tile in given]
    for tile in made:
        if tile.dtype.family in ("index", "bool") or tile.dtype.is_f8:
            raise tracer.error(f"{called} of {tile!r}; convert it, for example with .to(lego.i32)")
    return made


def exchange_along(called: str, tiles: Sequence[Spread], axis: int) -> tuple[AxisExchange, list[Spread]]:
    """The exchanges along an axis, and the tiles in their layout. Raises LayoutError for padded tiles."""
    tracer, layout = current(called), tiles[0].layout
    axis = require_axis(called, shape_of(layout), axis)
    if isinstance(layout, BoxedLayout):
        raise tracer.error(
            f"{called} of a tile of shape {list(tiles[0].shape)}, padded to {list(layout.out_sizes.values())}; load it "
            "in a layout of powers of two, with `other` for what is outside",
            LayoutError,
        )
    bits = axis_bits(layout, axis)
    if bits is None:
        layout = blocked_along(layout, axis)
        bits = axis_bits(layout, axis)
        assert bits is not None
        tiles = [convert(tile, layout) for tile in tiles]
    if any(bit.place == "warp" for bit in bits.each):
        require_uniform(tracer, f"{called} of a spread value over several warps")
    return AxisExchange(tracer, layout, bits), list(tiles)


def flip(x: Spread, axis: int) -> Spread:
    """The tile in reverse order along an axis, in its layout: the method `Spread.flip`."""
    if open_tile(x) is not None:
        from lego_mlir.tracing.spread import open_orders

        return open_orders.flip(x, axis)
    x = x.get()
    exchange, (moved,) = exchange_along("flip", [x], axis)
    found = exchange.tile(moved, exchange.across(exchange.held([moved]), (1 << len(exchange.bits.each)) - 1))
    return found if found.layout == x.layout else convert(found, x.layout)
