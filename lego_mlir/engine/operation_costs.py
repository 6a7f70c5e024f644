"""Costs of an operation in a state, and of a conversion, in issue slots of one warp.

A slot is what one arithmetic instruction, one shuffle or one wavefront of shared memory takes, as in `f2.conversion`.

| operation | slots |
|---|---|
| load | 2 a line, 3/2 a request, 1/4 a sector; 4 for a mask |
| store | 3 a line, 1/4 a request, 1/4 a sector; 50 for a sector written in part, 4 for a mask |
| map | its instructions for each register |
| scan, sort, gather | `axis_costs` |
| reduction | combinations, 4 a shuffle, and the exchange between warps by its plan, with addresses |
| product | 8 for each `mma.sync` of 16 x 8, and 3 where words of a are moved to it; wavefronts of shared operands |
| product by `wgmma` | half of both |
| load or store of a shared tile | 1 a request, 3/2 a wavefront |
| load into shared memory | the load of whole lines, and a wavefront a line |
| conversion | its plan: 2 a shuffle, 3/2 a wavefront, 1 an access; 24 for addresses, once; waits in loops |
| value | 1/50 a register, and 2 for each register beyond 64, which may spill |

Loads, stores, shuffles and exchanges were fitted to random programs that were timed with data in memory, in the L2
cache, and with one block on a multiprocessor; other slots were chosen with a prototype. Masks, products and packed
numbers were not timed alone. The slots, and the runs that they come from, are in the reference's file
(`hardware.devices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from math import prod
from typing import Final

import numpy as np

from lego_mlir.engine.axis_costs import (
    SHUFFLE_SLOTS,
    crosses_warps,
    flip_slots,
    gather_slots,
    scan_slots,
    sort_slots,
)
from lego_mlir.engine.conversion_bounds import (
    MOVED_SLOTS,
    SHUFFLED_SLOTS,
    WAVEFRONT_SLOTS,
    conversion_bounds,
    is_free,
)
from lego_mlir.engine.operand_places import is_of_groups
from lego_mlir.engine.shared_placements import bytes_of, is_shared
from lego_mlir.engine.tile_graph import (
    RELABELS,
    AlongTile,
    FreeTile,
    GatherTile,
    IndexedTile,
    LoadTile,
    MapTile,
    MultiplyTiles,
    ReduceTile,
    ScatterTile,
    StoreTile,
    TileGraph,
    TileNode,
    VoteTile,
)
from lego_mlir.engine.tile_memory import LINE_BYTES, SECTOR_BYTES, TileMemory
from lego_mlir.f2 import shape_ops
from lego_mlir.f2.axis_bits import axis_bits, resized
from lego_mlir.f2.banks import WORD_BITS
from lego_mlir.f2.boxed import boxed, registers_of
from lego_mlir.f2.conversion import (
    BARRIER_SLOTS,
    WARP_BARRIER_SLOTS,
    ConversionPlan,
    Renamed,
    Unchanged,
    conversion_plan,
    shuffle_slots,
)
from lego_mlir.f2.fibers import FEWEST_STEPS, Fibers, gathered_parts
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.queries import canonical
from lego_mlir.f2.shuffles import ShufflePlan
from lego_mlir.f2.swizzle import SwizzlePlan, swizzle
from lego_mlir.hardware.devices import reference
from lego_mlir.hardware.memory import WIDEST_ACCESS

FITTED: Final = reference("layouts")
LINE_SLOTS: Final[float] = FITTED["line"]
"""A line of 128 bytes in which a request loads."""
REQUEST_SLOTS: Final[float] = FITTED["request"]
"""A load of a warp."""
SECTOR_SLOTS: Final[float] = FITTED["sector"]
"""A sector of 32 bytes that is loaded."""
STORE_LINE_SLOTS: Final[float] = FITTED["store_line"]
"""A line in which a request stores."""
STORE_REQUEST_SLOTS: Final[float] = FITTED["store_request"]
STORE_SECTOR_SLOTS: Final[float] = FITTED["store_sector"]
PART_SLOTS: Final[float] = FITTED["part"]
"""A sector that is written in part, which meets other writes to it in the L2 cache."""
SCATTER_SLOTS: Final[float] = FITTED["scatter"]
"""An access of an element at an index that is known only when the kernel runs."""
PIECE_SLOTS: Final[int] = FITTED["piece"]
"""An `mma.sync` of 16 x 8 x 256 bits, on one of four tensor cores."""
GROUP_PIECE_SLOTS: Final[int] = FITTED["group_piece"]
"""The same part of a product by `wgmma`, which has twice the throughput."""
WIDENING_SLOTS: Final[int] = FITTED["widening"]
"""A word of narrow elements converted for `mma.sync`."""
MOVE_SLOTS: Final[float] = FITTED["move"]
"""The words of a that are moved to where `mma.sync` takes them, for wide loads leave them next to others of a row."""
ADDRESS_SLOTS: Final[float] = FITTED["addresses"]
"""The addresses of both sides of an exchange through shared memory, once in a kernel."""
TURN_SLOTS: Final[float] = FITTED["turn"]
"""The second barrier of a conversion in a loop, before its stores: no warp begins a turn before all have loaded."""
WAIT_SLOTS: Final[float] = FITTED["wait"]
"""The wait for memory in front of that barrier, where what is converted was loaded in the same turn of a loop."""
MASK_SLOTS: Final[float] = FITTED["mask"]
"""A comparison, a predicate and what is there instead, for accesses at one distance from the end of a tensor."""
PACKING_SLOTS: Final[float] = FITTED["packing"]
"""A packed number taken out of its word to be moved, or converted by itself afterwards."""
REGISTER_SLOTS: Final[float] = FITTED["register"]
"""A register that a value holds: breaks ties towards fewer."""
MOST_REGISTERS: Final[int] = FITTED["most_registers"]
"""Registers of one value up to which kernels did not spill."""
SPILL_SLOTS: Final[float] = FITTED["spill"]
IMPOSSIBLE: Final = 1e9
"""Slots of what cannot be done at a place."""


@dataclass(frozen=True, slots=True)
class FoldCounts:
    """Counts of a reduction for a thread: combinations, shuffles; requests and wavefronts of the exchange."""

    combinations: int
    shuffles: int
    requests: int = 0
    wavefronts: int = 0
    crosses_warps: bool = False


@lru_cache(maxsize=65536)
def held(layout: LinearLayout, shape: tuple[int, ...]) -> int:
    """The registers of a tile that are made."""
    return len(registers_of(boxed(layout, shape)))


@lru_cache(maxsize=65536)
def reduction(layout: LinearLayout, axis: int, bits: int, by_warp: bool = False) -> FoldCounts:
    """The counts of a reduction of a tile in this layout along an axis."""
    if len(layout.outs) == 1:
        layout, axis = shape_ops.expand_dims(layout, 1), 0
    fibers, n = Fibers(layout, axis), layout.in_sizes["register"]
    kept = fibers.count_in_registers()
    steps = sum(1 for _ in fibers.across("lane"))
    if by_warp and steps >= FEWEST_STEPS and fibers.is_of_warp:
        steps = 1
    combinations, shuffles = n - kept + steps * kept, steps * kept
    if not fibers.missing:
        return FoldCounts(combinations, shuffles)
    result = shape_ops.reduced(layout, axis)
    partial = fibers.partial(result)
    exchange = swizzle(partial, gathered_parts(partial, result), max(8, bits))
    wavefronts = exchange.store_wavefronts() + exchange.load_wavefronts()
    combinations += kept * ((1 << fibers.missing) - 1)
    return FoldCounts(combinations, shuffles, exchange.instructions(), wavefronts, True)


def operation_slots(
    node: TileNode, state: LinearLayout, graph: TileGraph | None = None, needed: tuple[LinearLayout, ...] = ()
) -> float:
    """The slots of a warp for an operation in a state, once; IMPOSSIBLE where threads diverge and it has a barrier.

    A product of a `graph` has its operands where they are `needed`; without, in registers.
    """
    operation = node.operation
    if isinstance(operation, FreeTile):
        return 0.0
    if is_shared(state):
        return _staging_slots(node, 1 if graph is None else graph.warps)
    n = held(state, node.state_shape)
    words = n * max(1, node.bits // WORD_BITS)
    kept = REGISTER_SLOTS * words + SPILL_SLOTS * max(0, words - MOST_REGISTERS)
    match operation:
        case (
            LoadTile(memory=memory) | IndexedTile(memory=memory) | StoreTile(memory=memory) | ScatterTile(memory=memory)
        ) if memory is not None:
            return _memory_slots(node, memory, state, graph, kept)
        case MapTile(slots):
            return slots * words + kept
        case VoteTile():
            return 1.0 + n
        case ReduceTile(axis, values, by_warp):
            found = reduction(state, axis, node.bits, by_warp)
            if found.crosses_warps and not node.uniform:
                return IMPOSSIBLE
            exchange = MOVED_SLOTS * found.requests + WAVEFRONT_SLOTS * found.wavefronts
            barriers = BARRIER_SLOTS + ADDRESS_SLOTS if found.crosses_warps else 0
            share = n / state.in_sizes["register"]
            wide = values * max(1, node.bits // WORD_BITS)
            return share * (found.combinations + wide * (SHUFFLE_SLOTS * found.shuffles + exchange)) + barriers
        case AlongTile():
            return _along_slots(node, operation, state, graph) + kept
        case GatherTile(axis):
            source = canonical(resized(state, axis, node.operands[0].padded[axis]))
            found_slots, leaves = gather_slots(source, state, axis, node.bits)
            return IMPOSSIBLE if leaves and not node.uniform else found_slots + kept
        case IndexedTile():
            return SCATTER_SLOTS * n + kept
        case ScatterTile():
            return SCATTER_SLOTS * n
        case MultiplyTiles():
            if graph is not None and is_of_groups(graph, node, state, needed):
                return _group_slots(node, operation, state, needed) + kept
            return _product_slots(node, operation, state, needed, graph) + kept
    return kept


def _memory_slots(
    node: TileNode, memory: TileMemory, state: LinearLayout, graph: TileGraph | None, kept: float
) -> float:
    """The slots of an access of a tile in memory, with those of what it has in registers, `kept`."""
    stored = isinstance(node.operation, StoreTile | ScatterTile)
    a, made = memory.accesses(state, stored=stored), held(state, node.state_shape) / state.in_sizes["register"]
    if stored and memory.divides_bytes(a.vector):
        return IMPOSSIBLE
    if memory.space != "global":
        wavefronts = memory.wavefronts(state, a.vector)
        return made * a.requests * (MOVED_SLOTS + WAVEFRONT_SLOTS * wavefronts) + kept
    inside = prod(node.state_shape) / prod(state.out_sizes.values())
    if graph is not None:  # that of a warp of the block, which has no warps that are outside
        inside *= state.in_sizes["warp"] / graph.warps
    kept += MASK_SLOTS * memory.masks(state)
    moved = (STORE_SECTOR_SLOTS if stored else SECTOR_SLOTS) * a.sectors + PART_SLOTS * a.parts
    if stored:
        return inside * (STORE_LINE_SLOTS * a.lines + STORE_REQUEST_SLOTS * a.requests + moved) + kept
    return made * (LINE_SLOTS * a.lines + REQUEST_SLOTS * a.requests) + inside * moved + kept


def _staging_slots(node: TileNode, warps: int) -> float:
    """The slots of a warp for its part of a copy of a tile into shared memory: whole lines, of which it holds none."""
    if not node.uniform:
        return IMPOSSIBLE
    lines = bytes_of(node.shape, node.bits) / LINE_BYTES / warps
    requests = lines * LINE_BYTES / (WIDEST_ACCESS * 32)
    return lines * (1 + LINE_SLOTS + SECTOR_SLOTS * LINE_BYTES / SECTOR_BYTES) + 2 * REQUEST_SLOTS * requests


def _along_slots(node: TileNode, operation: AlongTile, state: LinearLayout, graph: TileGraph | None) -> float:
    """The slots of a scan, a sort or a reversal; IMPOSSIBLE where threads diverge and warps exchange.

    It is where bits of the axis are shared and the block has other than 1, 2, 4, .. warps: there is no other layout of
    this block to which the tile could be moved.
    """
    axis, values, bits = operation.axis, operation.values, node.bits
    if not node.uniform and crosses_warps(state, axis):
        return IMPOSSIBLE
    if graph is not None and graph.warps != state.in_sizes["warp"] and axis_bits(state, axis) is None:
        return IMPOSSIBLE
    addresses = ADDRESS_SLOTS if crosses_warps(state, axis) else 0.0
    match operation.kind:
        case "scan":
            return addresses + scan_slots(state, axis, values, bits)
        case "sort":
            return addresses + sort_slots(state, axis, values, bits)
        case _:
            return addresses + flip_slots(state, axis, bits)


def _pieces(node: TileNode, depth_bits: int, state: LinearLayout, warps: int) -> float:
    """The parts of 16 x 8 x 256 bits that each warp multiplies, of `depth_bits` along K."""
    parts = min(warps, 1 << sum(1 for b in state.bases["warp"] if any(b)))
    m, n = node.shape
    return m * n * depth_bits / (16 * 8 * 256 * parts)


def _group_slots(
    node: TileNode, product: MultiplyTiles, state: LinearLayout, needed: tuple[LinearLayout, ...]
) -> float:
    """The slots of a warp for its part of a product by `wgmma`, which reads shared operands itself."""
    in_registers = 0 in product.tiles and not is_shared(needed[0])
    words = node.shape[0] * product.depth * product.bits[0] / (WORD_BITS * 32 * (1 << len(state.bases["warp"])))
    return (
        GROUP_PIECE_SLOTS * _pieces(node, product.depth * product.bits[0], state, state.in_sizes["warp"])
        + REGISTER_SLOTS * words * in_registers
    )


def _product_slots(
    node: TileNode,
    product: MultiplyTiles,
    state: LinearLayout,
    needed: tuple[LinearLayout, ...],
    graph: TileGraph | None,
) -> float:
    """The slots of a warp for its part of a product, with the loads of operands in shared memory."""
    warps = [b for b in state.bases["warp"] if any(b)]
    count = state.in_sizes["warp"] if graph is None else graph.warps
    pieces = _pieces(node, product.depth * product.multiplied, state, count)
    slots = PIECE_SLOTS * pieces
    for index in (0, 1):
        place = needed[product.tiles.index(index)] if needed and index in product.tiles else None
        divided = sum(1 for b in warps if b[index])
        words = (node.shape[index] >> divided) * product.depth / (WORD_BITS * 32)
        if index not in product.tiles or (place is not None and is_shared(place)):
            slots += words * product.bits[index]
        if product.bits[index] < product.multiplied:
            slots += WIDENING_SLOTS * words * product.multiplied
        elif index == 0 and place is not None and not is_shared(place) and not _is_arithmetic(node.operands[0]):
            slots += MOVE_SLOTS * pieces * (_neighbours(place) > product.neighbours[0])
    return slots


def _is_arithmetic(node: TileNode) -> bool:
    """Whether a value, below new labels, is the result of arithmetic, which may be in any register."""
    while isinstance(node.operation, RELABELS):
        node = node.operands[0]
    return isinstance(node.operation, MapTile)


def _neighbours(place: LinearLayout) -> int:
    """The neighbours along K of the left operand of a product that a thread holds in its first registers."""
    along_k = [(0, 1 << k) for k in range(len(place.bases["register"]))]
    same = (basis == wanted for basis, wanted in zip(place.bases["register"], along_k, strict=True))
    return 1 << sum(1 for _ in takewhile(bool, same))


@lru_cache(maxsize=65536)
def plan(source: LinearLayout, target: LinearLayout, bits: int, in_order: bool = False) -> ConversionPlan:
    """The conversion of a value of `bits` bits an element; conditions move as bytes."""
    return conversion_plan(source, target, max(8, bits), in_order)


def plan_slots(found: ConversionPlan) -> float:
    """The slots of a warp for a conversion."""
    if isinstance(found, Unchanged | Renamed):
        return 0.0
    if isinstance(found, ShufflePlan):
        return SHUFFLED_SLOTS * shuffle_slots(found)
    wavefronts = found.store_wavefronts() + found.load_wavefronts()
    waiting = WARP_BARRIER_SLOTS if found.slice_elements else BARRIER_SLOTS
    return waiting + WAVEFRONT_SLOTS * wavefronts + MOVED_SLOTS * found.instructions()


def conversion_slots(
    node: TileNode, source: LinearLayout, target: LinearLayout, ordered: LinearLayout | None = None
) -> float:
    """The slots of a conversion of a node's value, once, by its plan; `ordered` as a product takes the target."""
    if source == target:
        return 0.0
    if not node.movable:
        return 0.0 if is_free(source, target) else IMPOSSIBLE
    found = plan(source, ordered or target, node.bits, ordered is not None)
    if not node.uniform and not isinstance(found, Unchanged | Renamed | ShufflePlan) and not found.slice_elements:
        return IMPOSSIBLE
    if node.packed and not isinstance(found, Unchanged | Renamed):
        return plan_slots(found) + PACKING_SLOTS * (source.in_sizes["register"] + target.in_sizes["register"])
    return plan_slots(found)


def converted_slots(
    node: TileNode, source: LinearLayout, target: LinearLayout, ordered: LinearLayout | None = None
) -> float:
    """The slots of a conversion as often as it runs, with its addresses, which are computed in front of loops.

    In a loop it waits a second time, before its stores. `ordered` is the target as a product takes its registers.
    """
    slots = node.weight * conversion_slots(node, source, target, ordered)
    if source == target or not node.movable:
        return slots
    found = plan(source, ordered or target, node.bits, ordered is not None)
    if not isinstance(found, SwizzlePlan):
        return slots
    return slots + ADDRESS_SLOTS + (0 if found.slice_elements else node.weight * _turn_slots(node))


def converted_bounds(node: TileNode, layouts: Sequence[LinearLayout]) -> np.ndarray:
    """Lower bounds of `converted_slots`: elements that leave their warps are stored in shared memory."""
    found = conversion_bounds(tuple(layouts), node.bits)
    moved = node.weight * _turn_slots(node) + ADDRESS_SLOTS
    slots: np.ndarray = node.weight * found.slots + np.where(found.inside, 0.0, moved)
    return slots


def _turn_slots(node: TileNode) -> float:
    """What a conversion between warps costs in each turn of a loop, besides the moves."""
    if node.weight <= 1:
        return 0.0
    return TURN_SLOTS + WAIT_SLOTS * _is_loaded(node, node.weight)


def _is_loaded(node: TileNode, weight: float) -> bool:
    """Whether a value is a function of the elements of tiles that are loaded as often as it is computed."""
    match node.operation:
        case LoadTile(memory=memory) | IndexedTile(memory=memory):
            return memory is not None and memory.space == "global" and node.weight >= weight
        case MapTile():
            return any(_is_loaded(operand, weight) for operand in node.operands)
    return False
