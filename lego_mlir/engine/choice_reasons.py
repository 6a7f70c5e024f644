"""Reasons of a choice of layouts: the cost of a value in its layout, and in the alternatives.

softmax.py:23: load of x, 4 x 512: Blocked((1, 4), (1, 32), (1, 4), (1, 0)): 4 requests of 16 bytes, 16 lines
softmax.py:24: ..., converted once, 8 + 4 wavefronts; computing it again would cost 40 slots
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations

from lego_mlir.engine.layout_choice import ChosenValue, LayoutChoice
from lego_mlir.engine.operand_places import is_of_groups
from lego_mlir.engine.operation_costs import plan, plan_slots, reduction
from lego_mlir.engine.shared_placements import contiguous_axis, is_shared
from lego_mlir.engine.tile_graph import (
    IndexedTile,
    LoadTile,
    MultiplyTiles,
    ReduceTile,
    ScatterTile,
    StoreTile,
    TileNode,
    TileState,
    accumulators,
)
from lego_mlir.errors import LayoutError
from lego_mlir.f2.boxed import linear, padded
from lego_mlir.f2.conversion import ConversionPlan, Renamed, Unchanged
from lego_mlir.f2.encodings import Blocked, Encoding, MmaOperand
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.queries import canonical
from lego_mlir.f2.shuffles import ShufflePlan


def reasons(choice: LayoutChoice) -> Iterator[str]:
    """A line for the choice, and one for each value: its layouts, why, and what was not chosen."""
    how = "the best of all candidates" if choice.is_best else f"at most {choice.slots - choice.bound:.1f} from the best"
    yield f"layouts: {choice.slots:.1f} slots of a warp, {how}"
    for value in choice.values.values():
        for state, result in value.computed:
            yield f"{value.node!r}: {_shown(choice, value.node, state, result)}: {_because(choice, value.node, state)}"
        if len(value.computed) > 1:
            first, second = (result for _, result in value.computed[:2])
            slots = value.node.weight * plan_slots(plan(first, second, value.node.bits))
            yield f"  computed {len(value.computed)} times; a conversion would cost {slots:.1f} slots"
        for source, target in value.moved:
            yield f"  {_moved(choice, value, source, target)}"


def _shown(choice: LayoutChoice, node: TileNode, state: LinearLayout, result: LinearLayout) -> str:
    """The layout of the result; of a value without one that of the operand."""
    shape = node.state_shape if node.narrows else node.shape
    if node.narrows and len(shape) > 1:
        return f"{written(state, shape, choice.alternatives.graph.warps)} to {node.shape}"
    return written(result, shape, choice.alternatives.graph.warps)


def _because(choice: LayoutChoice, node: TileNode, state: LinearLayout) -> str:
    operation = node.operation
    if isinstance(operation, LoadTile | IndexedTile | StoreTile | ScatterTile) and operation.memory is not None:
        if operation.memory.space != "global":
            return "shared memory"
        if is_shared(state):
            return "staged by copies of whole lines, as a matrix unit reads it"
        a = operation.memory.accesses(state, stored=isinstance(operation, StoreTile | ScatterTile))
        size = a.vector * operation.memory.bits // 8
        return f"{a.requests:g} requests of {size} bytes, {a.lines:g} lines, {a.sectors:g} sectors of a warp"
    if isinstance(operation, ReduceTile):
        found = reduction(state, operation.axis, node.bits, operation.by_warp)
        across = f", {found.wavefronts} wavefronts between warps" if found.crosses_warps else ""
        return f"{found.combinations} combinations, {found.shuffles} shuffles{across}"
    if isinstance(operation, MultiplyTiles):
        graph = choice.alternatives.graph
        (needed,) = choice.values[node].needed
        unit = "wgmma" if is_of_groups(graph, node, state, needed) else "mma.sync"
        return f"by {unit}, {len(accumulators(node.shape, graph.warps))} divisions of the warps were compared"
    if node.given_layout is not None:
        return "a person gave it"
    if isinstance(operation, TileState):
        return "held from its first value on"
    return "as its operands" if node.operands else "free"


def _moved(choice: LayoutChoice, value: ChosenValue, source: LinearLayout, target: LinearLayout) -> str:
    """One conversion, and the cost of computing the value in the target's layout instead."""
    node = value.node
    found = plan(source, target, node.bits)
    again = again_slots(choice, node, target)
    instead = "it cannot be computed there" if again is None else f"computing it again would cost {again:.1f}"
    to = written(target, node.shape, choice.alternatives.graph.warps)
    slots = node.weight * plan_slots(found)
    return f"converted once to {to}: {_planned(found)}, {slots:.1f} slots; {instead}"


def again_slots(choice: LayoutChoice, node: TileNode, target: LinearLayout) -> float | None:
    """The slots of computing a value in a further layout, its operands converted to what that needs; None if never."""
    found = choice.alternatives
    number = found.layouts[node].index(target)
    costs = []
    for option in found.options[node]:
        if option.result != number:
            continue
        slots = option.slots
        for operand, k in zip(found.operands[node], option.needs, strict=True):
            needed, value = found.layouts[operand][k], choice.values[operand]
            have = [*(result for _, result in value.computed), *(to for _, to in value.moved)]
            moves = [0.0 if x == needed else plan_slots(plan(x, needed, operand.bits)) for x in have]
            slots += operand.weight * min(moves)
        costs.append(slots)
    return min(costs, default=None)


def _planned(found: ConversionPlan) -> str:
    match found:
        case Unchanged() | Renamed():
            return "registers renamed"
        case ShufflePlan():
            return f"{found.shuffles()} shuffles"
        case _:
            return f"{found.store_wavefronts()} + {found.load_wavefronts()} wavefronts"


@lru_cache(maxsize=4096)
def written(layout: LinearLayout, shape: tuple[int, ...], warps: int) -> str:
    """A canonical layout as the expression that makes it: an encoding where one is equal, else its bases."""
    if is_shared(layout):
        return f"shared memory, swizzled lines along axis {contiguous_axis(layout)}"
    if len(shape) == 2:
        parent = accumulators(shape, warps).get(layout)
        if parent is not None and _same(parent, layout, shape):
            return f"f2.MmaSync({parent.warps}).layout({shape})"
        for division in (accumulators((16 * warps, 8 * warps), warps)).values():
            for index, width in ((k, w) for k in (0, 1) for w in (2, 1, 4)):
                if _same(MmaOperand(index, division, width), layout, shape):
                    return f"f2.MmaOperand({index}, f2.MmaSync({division.warps}), {width}).layout({shape})"
    blocked = _blocked(layout, shape)
    if blocked is not None:
        sizes = ", ".join(map(str, (blocked.size_per_thread, blocked.threads_per_warp, blocked.warps)))
        return f"f2.Blocked({sizes}, order={blocked.order}).layout({shape})"
    return repr(layout) if shape == tuple(layout.out_sizes.values()) else f"boxed({layout!r}, {shape})"


def _same(encoding: Encoding, layout: LinearLayout, shape: tuple[int, ...]) -> bool:
    try:
        return canonical(linear(encoding.layout(shape))) == layout
    except LayoutError:
        return False


def _blocked(layout: LinearLayout, shape: tuple[int, ...]) -> Blocked | None:
    """The blocked encoding with this layout, if there is one."""
    bases = layout.bases

    def spread(place: str) -> tuple[int, ...]:
        return tuple(1 << sum(1 for basis in bases[place] if basis[axis]) for axis in range(len(shape)))

    if any(sum(map(bool, basis)) != 1 for place in ("lane", "warp") for basis in bases[place]):
        return None
    registers, each = set(bases["register"]), []
    for axis in range(len(shape)):
        count = 0
        while tuple(1 << count if d == axis else 0 for d in range(len(shape))) in registers:
            count += 1
        each.append(1 << count)
    for order in permutations(reversed(range(len(shape)))):
        found = Blocked(tuple(each), spread("lane"), spread("warp"), order)
        if padded(shape) == shape and _same(found, layout, shape):
            return found
    return None
