"""The candidate layouts of each value: anchors, and their images under all operations, forward and backward.

An anchor enters with all of its images or not at all, so that every operation has a state for every layout of its
result: a limit for each value alone would leave operations without any. Products, and layouts that a person gave, enter
first and always; then the first anchor of each access, always if it has no candidate yet, or while no value has more
than twice `most`; then the further ones in turns, so that no access starves another, while none has more than `most`.
In each turn the access comes first that moves most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import prod
from typing import Final

from lego_mlir.engine.anchors import Order, anchors, anchors_along, inside_first, orders_of
from lego_mlir.engine.operand_places import staged_place
from lego_mlir.engine.shared_placements import is_shared
from lego_mlir.engine.tile_graph import (
    AlongTile,
    IndexedTile,
    JoinTiles,
    LoadTile,
    MultiplyTiles,
    ScatterTile,
    StoreTile,
    TileGraph,
    TileNode,
    accumulators,
    backward,
    behind,
    fits,
    forward,
    multiplied_in,
    required,
)
from lego_mlir.engine.tile_memory import row_major
from lego_mlir.f2.linear import LinearLayout

OWN_ANCHORS: Final = 12
"""Anchors that an access has of its own order of memory."""
MOST_GROWN: Final = 1
"""Times that an image of an anchor has the new elements of a grown axis in lanes and warps."""
ALONG_ANCHORS: Final = 4
"""Anchors of a scan or a sort."""
JOINT_ANCHORS: Final = 8
"""Anchors that it has of two orders."""

Seed = tuple[TileNode, LinearLayout]


def candidates(
    graph: TileGraph, most: int, cost: Callable[[TileNode, LinearLayout], float]
) -> dict[TileNode, list[LinearLayout]]:
    """The layouts of each value; `cost` orders the anchors of an access, the cheapest first."""
    found: dict[TileNode, dict[LinearLayout, None]] = {n: {} for n in graph.nodes}
    for seeds in _fixed(graph):
        _close(graph, found, seeds, None)
    orders = orders_of(graph)
    refused: set[Seed] = set()  # and with them what they are images of
    ranked = [
        (turn, -n.weight * prod(n.state_shape) * n.bits, n.number, n, layout)
        for n in graph.nodes
        for turn, layout in enumerate(_accesses(graph, n, orders[n], cost))
    ]
    for turn, _, _, n, layout in sorted(ranked, key=lambda seed: seed[:3]):
        limit = most if turn else 2 * most if found[n] else None
        if limit is None or (n, layout) not in refused:
            refused |= _close(graph, found, [(n, layout)], limit)
    for n in graph.chosen:
        if not found[n]:  # of no access, product or given layout: anchors of row-major order
            _close(graph, found, [(n, layout) for layout in _plain(graph, n)[:1]], None)
    for n in graph.nodes:
        if isinstance(n.operation, JoinTiles) and not any(backward(n, layout, graph.warps) for layout in found[n]):
            pairs = anchors_along(n.shape, len(n.shape) - 1, graph.warps)  # a thread holds both of a pair
            _close(graph, found, [(n, layout) for layout in pairs[:1]], None)
    return {n: list(layouts) for n, layouts in found.items()}


def _fixed(graph: TileGraph) -> Iterator[list[Seed]]:
    """Layouts that always enter: those of products, with staged operands, and those that a person gave."""
    for n in graph.nodes:
        if graph.unit is not None and isinstance(n.operation, MultiplyTiles):
            places = [(u, staged_place(u)) for u in n.operands[: len(n.operation.tiles)]]
            yield [seed for u, place in places if place is not None for seed in _staged(u, place)]
        if isinstance(n.operation, MultiplyTiles):
            for layout in accumulators(n.shape, graph.warps):
                yield [(n, layout), *zip(n.operands, required(n, layout, graph.warps) or (), strict=False)]
                if graph.unit is None:
                    for needed in multiplied_in(n, n.operation, layout, graph.warps):
                        yield list(zip(n.operands, needed, strict=True))
        elif n.given_layout is not None:
            yield [(n, n.given_layout)]


def _staged(node: TileNode, place: LinearLayout) -> Iterator[Seed]:
    """The placement of a tile in shared memory, that of the value below new labels."""
    found = behind(node, place)
    if found is not None:
        yield found


def _accesses(
    graph: TileGraph, node: TileNode, orders: Sequence[Order], cost: Callable[[TileNode, LinearLayout], float]
) -> Iterator[LinearLayout]:
    """The anchors of a load or store, the cheapest first: of its own order of memory, then of two orders.

    Those of a scan or a sort have neighbours along its axis in registers.
    """
    if isinstance(node.operation, AlongTile) and node.operation.kind != "flip":
        along = anchors_along(node.operands[0].shape, node.operation.axis, graph.warps)
        yield from sorted(along, key=lambda layout: cost(node, layout))[:ALONG_ANCHORS]
        return
    accesses = LoadTile | IndexedTile | StoreTile | ScatterTile
    if not isinstance(node.operation, accesses) or node.operation.memory is None:
        return
    if node.given_layout is not None:
        return
    vectors = node.operation.memory.vectors()
    own = anchors(node.shape, [inside_first(node.operation.memory, node.shape)], vectors, graph.warps)
    joint = [
        layout
        for pair in combinations(orders, 2)
        for layout in anchors(node.shape, pair, [v for v in vectors[:2] if v > 1], graph.warps)
    ]
    for group, count in ((own, OWN_ANCHORS), (joint, JOINT_ANCHORS)):
        yield from sorted(dict.fromkeys(group), key=lambda layout: cost(node, layout))[:count]


def _plain(graph: TileGraph, node: TileNode) -> list[LinearLayout]:
    memory = row_major(node.padded, node.bits)
    return anchors(node.shape, [inside_first(memory, node.shape)], memory.vectors(), graph.warps)


def _close(
    graph: TileGraph, found: dict[TileNode, dict[LinearLayout, None]], seeds: list[Seed], most: int | None
) -> set[Seed]:
    """Add anchors with all their images; nothing where a value would have more than `most` candidates.

    The images that were refused so are returned.
    """
    new: dict[TileNode, dict[LinearLayout, None]] = {}
    queue = deque((n, layout, 0) for n, layout in seeds)
    while queue:
        n, layout, grown = queue.popleft()
        if (
            layout in found[n]
            or layout in new.get(n, ())
            or not (is_shared(layout) or fits(layout, n.shape, graph.warps))
        ):
            continue
        new.setdefault(n, {})[layout] = None
        if is_shared(layout):
            continue
        if most is not None and len(found[n]) + len(new[n]) > most:
            return {(u, image) for u, images in new.items() for image in images}
        queue += _images(graph, n, layout, grown)
    for n, layouts in new.items():
        found[n].update(layouts)
    return set()


def _images(
    graph: TileGraph, node: TileNode, layout: LinearLayout, grown: int
) -> Iterator[tuple[TileNode, LinearLayout, int]]:
    """The layouts of the neighbours of a value for which nothing moves; `grown` times not by the first way to grow.

    There are two ways where an axis grows, and each further one doubles the images of an anchor.
    """
    images = [[(user, moved) for moved in forward(user, layout)] for user in node.users]
    behind_it = backward(node, layout, graph.warps)
    images += [[seed for seed in behind_it if seed[0] is u] for u in dict.fromkeys(n for n, _ in behind_it)]
    for ways in images:
        yield from ((n, moved, grown) for n, moved in ways[:1])
        if grown < MOST_GROWN:
            yield from ((n, moved, grown + 1) for n, moved in ways[1:])
