"""Random graphs of tile operations without layouts, and the best choice of layouts by enumeration.

The enumeration shares the transfer functions and the costs with the search, and nothing else: it goes through all ways
to compute each value in one or two layouts, and converts each value to what its users need.
"""

from itertools import combinations

from lego_mlir.engine.operation_costs import IMPOSSIBLE, converted_slots, operation_slots
from lego_mlir.engine.tile_graph import (
    RELABELS,
    FreeTile,
    GrowTile,
    LoadTile,
    MapTile,
    MultiplyTiles,
    NewAxis,
    ReduceTile,
    StoreTile,
    TileGraph,
    TransposeTile,
    carried_back,
    required,
    result_of,
)
from lego_mlir.engine.tile_memory import row_major
from lego_mlir.errors import LayoutError
from lego_mlir.f2.queries import canonical


def load(graph, shape, bits=32):
    return graph.add(LoadTile(row_major(shape, bits)), (), shape, bits)


def store(graph, x):
    return graph.add(StoreTile(row_major(x.shape, x.bits)), (x,), x.shape, x.bits)


def mapped(graph, *xs, slots=1.0):
    return graph.add(MapTile(slots), xs, xs[0].shape, xs[0].bits)


def along(graph, x, axis):
    """The reduction along an axis, grown back to the shape."""
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    total = graph.add(ReduceTile(axis), (x,), rest, x.bits)
    wide = graph.add(NewAxis(axis), (total,), (*rest[:axis], 1, *rest[axis:]), x.bits)
    return graph.add(GrowTile(), (wide,), x.shape, x.bits)


def transposed(graph, x):
    return graph.add(TransposeTile((1, 0)), (x,), x.shape[::-1], x.bits)


def random_graph(draw, size=32, steps=2, warps=4):
    """A graph of a few operations on square tiles."""
    graph = TileGraph(warps)
    made = [load(graph, (size, size))]
    if draw.random() < 0.7:
        made.append(load(graph, (size, size)))
    for _ in range(draw.randint(1, steps)):
        x, y = draw.choice(made), draw.choice(made)
        kind = draw.choice(["add", "transpose", "rows", "columns", "square"])
        if kind == "add":
            made.append(mapped(graph, x, y))
        elif kind == "transpose":
            made.append(mapped(graph, transposed(graph, x), y))
        elif kind == "square":
            made.append(mapped(graph, x, slots=4.0))
        else:
            made.append(mapped(graph, x, along(graph, y, 1 if kind == "rows" else 0)))
    store(graph, made[-1])
    return graph


def _value(node, layout):
    """The value behind new labels, and its layout; None for a free tile."""
    while isinstance(node.operation, RELABELS):
        layout, node = canonical(carried_back(node, layout)), node.operands[0]
    return None if isinstance(node.operation, FreeTile) else (node, layout)


def _states(graph, layouts, node):
    """All (result, [(operand, layout)], slots) of a node."""
    for state in layouts[node.operands[0] if isinstance(node.operation, ReduceTile) else node]:
        needs = required(node, state, graph.warps)
        if needs is None or result_of(node, state) not in layouts[node]:
            continue
        try:
            found = [_value(u, x) for u, x in zip(node.operands, needs, strict=True)]
        except LayoutError:
            continue
        found = [pair for pair in found if pair is not None]
        slots = node.weight * operation_slots(node, state)
        if slots < IMPOSSIBLE and all(x in layouts[u] for u, x in found):
            yield result_of(node, state), found, slots


def best_by_enumeration(graph, layouts, twice=True):
    """The cost of the best choice of layouts."""
    unused = [n for n in graph.nodes if not n.users and not isinstance(n.operation, StoreTile)]
    for n in unused:  # grows: an operand of unused values alone is unused
        unused += [u for u in n.operands if u not in unused and all(user in unused for user in u.users)]
    kept = [n for n in graph.nodes if n not in unused]
    nodes = [n for n in kept if not isinstance(n.operation, (*RELABELS, FreeTile))][::-1]  # users come first
    choices = []
    for n in nodes:
        states = list(_states(graph, layouts, n))
        again = twice and not isinstance(n.operation, MultiplyTiles | StoreTile)
        choices.append([(s,) for s in states] + (list(combinations(states, 2)) if again else []))
    moves, best = {}, IMPOSSIBLE

    def moved(n, source, target):
        if (n, source, target) not in moves:
            moves[n, source, target] = converted_slots(n, source, target)
        return moves[n, source, target]

    def visit(k, slots, needed):
        """All choices for the values from number k on; those of their users are made."""
        nonlocal best
        if slots >= best:
            return
        if k == len(nodes):
            best = slots
            return
        n = nodes[k]
        for states in choices[k]:
            have = {result for result, _, _ in states}
            more = sum(cost for _, _, cost in states)
            more += sum(min(moved(n, source, x) for source in have) for x in needed.get(n, set()) - have)
            also = dict(needed)
            for u, x in (use for _, found, _ in states for use in found):
                also[u] = also.get(u, set()) | {x}
            visit(k + 1, slots + more, also)

    visit(0, 0.0, {})
    return best
