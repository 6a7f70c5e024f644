"""Places of a product's operands: registers or shared memory, each where it is cheapest.

| unit | a | b |
|---|---|---|
| `mma.sync` | registers, or a shared tile from which warps load fragments | the same |
| `wgmma` | a shared tile; of 16 bits also registers | a shared tile |

`wgmma` has 64 rows of the result for each 4 warps, in the layout of `f2.MmaSync((warps, 1))`, and takes K contiguous,
but of 16 bits. A tile that is loaded from a tensor is staged by copies (`lego.stage`), which schedules make rings of.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as pairs
from typing import Final

from lego_mlir.engine.shared_placements import contiguous_axis, is_shared, swizzled
from lego_mlir.engine.tile_graph import (
    RELABELS,
    AssignTile,
    LoadTile,
    MultiplyTiles,
    ReadTile,
    TileGraph,
    TileNode,
    TransposeTile,
    accumulators,
    carried,
    carried_back,
    multiplied_in,
    required,
)
from lego_mlir.engine.tile_memory import TileMemory
from lego_mlir.f2.banks import WORD_BITS
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.queries import canonical

MMA_SYNC: Final = "mma.sync"
WGMMA: Final = "wgmma"
GROUP_WARPS: Final = 4
"""Warps of a group, each with 16 rows of 64."""
MOST_COLUMNS: Final = 256
TRANSPOSABLE_BITS: Final = 16
"""Bits of operands that may have M or N contiguous, and be in registers."""


def memory_axis(memory: TileMemory) -> int:
    """The axis of a tile of two dimensions along which memory is contiguous."""
    return 0 if memory.order and memory.order[0][0] else 1


def staged_place(node: TileNode) -> LinearLayout | None:
    """The placement of a tile in shared memory as a copy makes it; None where it is not loaded from a tensor."""
    match node.operation:
        case LoadTile(memory=memory, staged=True) if memory is not None:
            rows, columns = node.padded
            return swizzled((rows, columns), node.bits, memory_axis(memory))
        case TransposeTile():
            inner = staged_place(node.operands[0])
            return None if inner is None else carried(node, inner)
    return None


def places_of_operands(graph: TileGraph, node: TileNode, state: LinearLayout) -> Iterator[tuple[LinearLayout, ...]]:
    """The layouts of the operands with which a node computes in a state, one for each way."""
    operation = node.operation
    if graph.unit is None and isinstance(operation, MultiplyTiles):
        yield from multiplied_in(node, operation, state, graph.warps)
        return
    needed = required(node, state, graph.warps)
    if needed is None:
        return
    if not isinstance(operation, MultiplyTiles):
        yield needed
        return
    ways = []
    for k in range(len(operation.tiles)):
        place = staged_place(node.operands[k])
        ways.append([needed[k]] if place is None else [needed[k], place])
    for found in pairs(*ways):
        yield (*found, state)


def is_of_groups(graph: TileGraph, node: TileNode, state: LinearLayout, needed: tuple[LinearLayout, ...]) -> bool:
    """Whether `wgmma` computes a product with its operands in these places."""
    operation = node.operation
    if graph.unit != WGMMA or not isinstance(operation, MultiplyTiles) or not operation.by_groups:
        return False
    parent, (_, columns) = accumulators(node.shape, graph.warps).get(state), node.shape
    if parent is None or parent.warps != (graph.warps, 1) or graph.warps % GROUP_WARPS or columns > MOST_COLUMNS:
        return False
    if node.shape[0] % (16 * graph.warps):
        return False
    places = dict(zip(operation.tiles, needed, strict=False))  # those that are not tiles are in shared memory
    if 1 in places and not is_shared(places[1]):
        return False
    if operation.bits[0] == TRANSPOSABLE_BITS:
        return True
    along_k = {0: 1, 1: 0}
    return all(is_shared(place) and contiguous_axis(place) == along_k[k] for k, place in places.items())


def added_in_place(product: TileNode) -> TileNode | None:
    """The variable to which a product adds and nothing else touches in between: `acc.set(lego.mma(a, b, acc))`."""
    read = product.operands[-1]
    if not isinstance(product.operation, MultiplyTiles) or not isinstance(read.operation, ReadTile):
        return None
    (variable,) = read.operands
    if read.users != [product] or len(product.users) != 1:
        return None
    (assign,) = product.users
    if not isinstance(assign.operation, AssignTile) or assign.operands[0] is not variable:
        return None
    between = [u for u in variable.users if read.number < u.number < assign.number]
    return variable if not between and read.path == product.path == assign.path else None


def ordered_operands(
    node: TileNode, product: MultiplyTiles, needed: tuple[LinearLayout, ...]
) -> dict[tuple[TileNode, LinearLayout], LinearLayout]:
    """Layouts in which operands reach a product, registers in its order, by node below new labels and layout."""
    found = {}
    for index, operand, place in zip(product.tiles, node.operands, needed, strict=False):
        ordered = None if is_shared(place) else fragment_order(product, index, place)
        while ordered is not None and isinstance(operand.operation, RELABELS):
            operand, ordered = operand.operands[0], carried_back(operand, ordered)
        if ordered is not None:
            found[operand, canonical(ordered)] = ordered
    return found


def fragment_order(product: MultiplyTiles, index: int, place: LinearLayout) -> LinearLayout | None:
    """The layout of operand `index`, registers in the order in which `mma.sync` takes them; None where any order is.

    Loads of several registers then leave them where an instruction reads them: a word, in `a` also that of 8 rows
    below, and the next one along K.
    """
    if product.bits[index] != product.multiplied or product.multiplied > WORD_BITS:
        return None  # made by conversions, or of an instruction for each register
    axis, base = (1, 0)[index], WORD_BITS // product.multiplied
    registers = place.bases["register"]
    along_k = [basis[axis] for basis in registers if not basis[1 - axis]]
    next_word = base if base in along_k else 4 * base
    first = [_along(axis, 1 << k) for k in range(base.bit_length() - 1)]
    first += [_along(1 - axis, 8)] * (index == 0) + [_along(axis, next_word)]
    if any(basis not in registers for basis in first):
        return None
    ordered = [*first, *(basis for basis in registers if basis not in first)]
    return LinearLayout({**place.bases, "register": ordered}, place.out_sizes)


def _along(axis: int, n: int) -> tuple[int, int]:
    return (n, 0) if axis == 0 else (0, n)
