"""Anchors: layouts that access memory well, built from the order of a tile's bits in memory.

Registers hold a vector, three lanes complete a line of 128 bytes, two further lanes and the warps are taken by several
rules, and the other bits go to registers. Where a value meets two orders of memory, as y in `x + y.T`, further anchors
serve both: the registers hold a vector of each, lanes are taken from both in turns. Scans and sorts have layouts in
which threads hold neighbours along their axis.

`orders_of` finds the orders that meet each value: an order is a layout of registers only, which the transfer functions
carry through the graph like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lego_mlir.engine.tile_graph import (
    IN_PLACE,
    GatherTile,
    GrowTile,
    HalfTile,
    IndexedTile,
    JoinTiles,
    LoadTile,
    MultiplyTiles,
    ReduceTile,
    ScatterTile,
    StoreTile,
    TileGraph,
    TileNode,
    carried,
    carried_back,
    fits,
)
from lego_mlir.engine.tile_memory import Coordinate, TileMemory
from lego_mlir.f2 import shape_ops
from lego_mlir.f2.banks import LANE_BITS
from lego_mlir.f2.boxed import padded
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.queries import canonical

LINE_LANES: Final = 3
"""Lanes that complete a line of 128 bytes with vectors of 16."""
MOST_NEIGHBOURS: Final = 4
"""Bits of an axis that a thread holds, of the layouts for scans and sorts."""
MOST_ORDERS: Final = 4
"""Orders of memory that are kept for a value."""

Order = tuple[Coordinate, ...]


def anchors(shape: Sequence[int], orders: Sequence[Order], vectors: Sequence[int], warps: int) -> list[LinearLayout]:
    """Layouts of a tile for one or two orders of memory, these vector widths, and the number of warps of a block."""
    found: dict[LinearLayout, None] = {}
    for vector in vectors:
        count = vector.bit_length() - 1
        registers = list(dict.fromkeys(b for order in orders for b in order[:count]))
        rest = [[b for b in order if b not in registers and _is_low(b, shape)] for order in orders]
        registers += [b for b in orders[0] if not _is_low(b, shape)]
        for lanes in _lanes(rest, len(shape)):
            left = [b for b in rest[0] if b not in lanes]
            for taken in _warps(left, orders[0], shape, warps):
                kept = [b for b in (*registers, *left) if b not in taken]
                layout = _layout(padded(shape), kept, lanes, taken, (warps - 1).bit_length())
                if fits(layout, tuple(shape), warps):
                    found[layout] = None
    return list(found)


def anchors_along(shape: Sequence[int], axis: int, warps: int) -> list[LinearLayout]:
    """Layouts for a scan or a sort along an axis: neighbours in registers, then the axis or the others in lanes."""
    whole = padded(shape)
    units = [
        [tuple(1 << k if d == dim else 0 for d in range(len(whole))) for k in range(n.bit_length() - 1)]
        for dim, n in enumerate(whole)
    ]
    own, others = units[axis], [b for dim in reversed(range(len(whole))) if dim != axis for b in units[dim]]
    found: dict[LinearLayout, None] = {}
    count = (warps - 1).bit_length()
    for neighbours in range(1, min(len(own), MOST_NEIGHBOURS) + 1):
        for rest in ([*own[neighbours:], *others], [*others, *own[neighbours:]]):
            low = [b for b in rest if _is_low(b, shape)]
            lanes, taken = tuple(low[:LANE_BITS]), tuple(low[LANE_BITS : LANE_BITS + count])
            kept = [b for b in (*own[:neighbours], *rest) if b not in lanes and b not in taken]
            layout = _layout(whole, kept, lanes, taken, count)
            if fits(layout, tuple(shape), warps):
                found[layout] = None
    return list(found)


def _warps(left: Sequence[Coordinate], order: Order, shape: Sequence[int], warps: int) -> Iterator[Order]:
    """Ways to take the bits of the warps, the lowest first.

    Of six warps two halves and three parts of an axis whose odd factor is three; or four parts, and two copies.
    """
    for axis, n in enumerate(shape):
        whole, rest = divmod(warps, n // (n & -n))
        if n & (n - 1) and not rest and not whole & (whole - 1):
            parts = sorted(b for b in order if b[axis] >= n & -n)
            yield from ((*low, *parts) for low in _choices(left, whole.bit_length() - 1, len(shape)))
    yield from _choices(left, warps.bit_length() - 1, len(shape))


def _lanes(rest: Sequence[list[Coordinate]], axes: int) -> Iterator[Order]:
    """Ways to take the bits of the lanes."""
    if len(rest) == 1:
        first = rest[0][:LINE_LANES]
        yield tuple(rest[0][:LANE_BITS])
        for more in _choices(rest[0][LINE_LANES:], LANE_BITS - LINE_LANES, axes):
            yield (*first, *more)
        return
    yield tuple(dict.fromkeys(b for pair in zip(*rest, strict=True) for b in pair))[:LANE_BITS]
    for first, second in (rest, rest[::-1]):
        yield tuple(dict.fromkeys([*first[:LINE_LANES], *second]))[:LANE_BITS]


def _choices(rest: Sequence[Coordinate], count: int, axes: int) -> list[Order]:
    """Ways to take bits: the lowest, the highest, the lowest and the highest of each axis."""
    ways = [rest[:count], rest[max(0, len(rest) - count) :]]
    for axis in range(axes):
        own = [b for b in rest if b[axis]]
        others = [b for b in rest if not b[axis]]
        ways += [(own + others)[:count], (own[::-1] + others)[:count]]
    return list(dict.fromkeys(map(tuple, ways)))


def _layout(
    shape: Sequence[int], registers: Order | list[Coordinate], lanes: Order, warps: Order, warp_bits: int
) -> LinearLayout:
    """The layout of bits in places; lanes and warps without one hold copies. Bits past a box are registers."""
    zero = (0,) * len(shape)
    places = {
        "register": list(registers),
        "lane": [*lanes, *[zero] * (LANE_BITS - len(lanes))],
        "warp": [*warps, *[zero] * (warp_bits - len(warps))],
    }
    return canonical(LinearLayout(places, dict(zip(shape_ops.standard_dims(len(shape)), shape, strict=True))))


def inside_first(memory: TileMemory, shape: Sequence[int]) -> Order:
    """The order of memory with the bits at and above an odd factor of a size last, so that registers hold them."""
    return tuple(sorted(memory.order, key=lambda bit: not _is_low(bit, shape)))


def _is_low(bit: Coordinate, shape: Sequence[int]) -> bool:
    """Whether the elements that a bit tells apart are inside a box together, so that lanes and warps may hold it."""
    return all(value < (n & -n) or n & (n - 1) == 0 for value, n in zip(bit, shape, strict=True))


def orders_of(graph: TileGraph) -> dict[TileNode, list[Order]]:
    """The orders of memory that meet each value, at most MOST_ORDERS, its own first."""
    found: dict[TileNode, dict[Order, None]] = {n: {} for n in graph.nodes}
    for n in graph.nodes:
        if isinstance(n.operation, LoadTile | IndexedTile | StoreTile | ScatterTile) and n.operation.memory is not None:
            found[n][inside_first(n.operation.memory, n.shape)] = None
    changed = True
    while changed:
        changed = False
        for n in graph.nodes:
            if isinstance(n.operation, MultiplyTiles | GatherTile):
                continue
            for u in n.operands:
                for here, there, move in ((u, n, _forward), (n, u, _backward)):
                    for order in list(found[here]):
                        moved = move(n, order, u)
                        if moved and moved not in found[there] and len(found[there]) < MOST_ORDERS:
                            found[there][moved] = None
                            changed = True
    return {n: list(orders) for n, orders in found.items()}


def _forward(node: TileNode, order: Order, operand: TileNode) -> Order | None:
    if isinstance(node.operation, IN_PLACE):
        return order
    if isinstance(node.operation, GrowTile) or (isinstance(node.operation, ReduceTile) and len(operand.shape) == 1):
        return None
    if isinstance(node.operation, HalfTile):
        return tuple(b[:-1] for b in order if not b[-1])
    return _order(carried(node, _registers(order, operand.padded)))


def _backward(node: TileNode, order: Order, operand: TileNode) -> Order | None:
    if isinstance(node.operation, IN_PLACE):
        return order
    if node.narrows:
        return None
    if isinstance(node.operation, JoinTiles):
        return tuple(b[:-1] for b in order if not b[-1])
    return _order(carried_back(node, _registers(order, node.padded)))


def _registers(order: Order, shape: Sequence[int]) -> LinearLayout:
    """An order as a layout of registers alone."""
    return LinearLayout({"register": list(order)}, dict(zip(shape_ops.standard_dims(len(shape)), shape, strict=True)))


def _order(layout: LinearLayout) -> Order:
    return tuple(b for b in layout.bases["register"] if any(b))
