"""The ways to have each value of a tile program, and what they need from its operands.

The variable of the search is, for each value, the *set* of layouts in which it is available: one, two, or, of several
users, three. A value is computed in some of them, and converted to the others. So one conversion serves all users, and
a value that is computed twice (rematerialised) is a set with two computed layouts: neither is a special case.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from lego_mlir.engine.conversion_bounds import conversion_bounds
from lego_mlir.engine.operand_places import ordered_operands, places_of_operands
from lego_mlir.engine.operation_costs import IMPOSSIBLE, converted_bounds, converted_slots, operation_slots
from lego_mlir.engine.shared_placements import is_shared
from lego_mlir.engine.tile_graph import (
    RELABELS,
    FreeTile,
    GivenTile,
    MapTile,
    MultiplyTiles,
    ReadTile,
    TileGraph,
    TileNode,
    TileState,
    behind,
    result_of,
)
from lego_mlir.errors import LayoutError
from lego_mlir.f2.linear import LinearLayout

MOST_FOR_TRIPLES: Final = 10
"""Layouts of a value up to which it may be available in three."""

Group: TypeAlias = tuple[int, ...]
"""The numbers of the layouts in which a value is available."""


class StateOption(NamedTuple):
    """One way to compute a value: the layout of the result, those of the operands that are needed, slots, the state.

    `needs` has numbers of layouts, of the operands that are chosen, `needed` the layouts of all operands.
    """

    result: int
    needs: tuple[int, ...]
    slots: float
    state: LinearLayout
    needed: tuple[LinearLayout, ...]


class Way(NamedTuple):
    """One way to have a value in a group: slots, what it needs of each operand, the options computed, conversions."""

    slots: float
    needs: tuple[frozenset[int], ...]
    computed: tuple[StateOption, ...]
    moved: tuple[tuple[int, int], ...]


Computed = dict[tuple[frozenset[int], ...], tuple[float, tuple[StateOption, ...]]]
"""The slots of states, and the states, by what they need of each operand."""


class Alternatives:
    """All ways of a graph, for candidate layouts of its values.

    Raises LayoutError, with the operation, where one has no state in the layouts of its operands.
    """

    def __init__(self, graph: TileGraph, layouts: dict[TileNode, list[LinearLayout]]) -> None:
        self.graph, self.layouts = graph, layouts
        self.nodes = graph.chosen
        self.operands = {n: [u for operand in n.operands if (u := _value_of(operand))] for n in self.nodes}
        self.users = {n: [m for m in self.nodes if n in self.operands[m]] for n in self.nodes}
        self._number = {n: {layout: k for k, layout in enumerate(found)} for n, found in layouts.items()}
        self.ordered: dict[tuple[TileNode, LinearLayout], LinearLayout] = {}
        """Layouts of operands of products with registers in the order in which `mma.sync` takes them."""
        self.options = {n: self._options(n) for n in self.nodes}
        self._states: dict[TileNode, tuple[list[StateOption], dict[int, list[StateOption]], dict[Group, Computed]]] = {}
        self._tables: dict[tuple[object, ...], np.ndarray] = {}
        self.bounds = {n: self._bounds(n) for n in self.nodes}
        self.planned: set[tuple[TileNode, int, int]] = set()
        self.replanned = dict.fromkeys(self.nodes, 0)

    def _options(self, n: TileNode) -> list[StateOption]:
        """The ways to compute a node, the cheapest of each result and needs."""
        source = n.operands[0] if n.narrows else n
        found: dict[tuple[int, tuple[int, ...]], StateOption] = {}
        fixed = n.given_layout
        for state in self.layouts[source]:
            if fixed is not None and state != fixed:
                continue
            result = self._number[n].get(result_of(n, state))
            if result is None:
                continue
            for needed in places_of_operands(self.graph, n, state):
                at = self._numbers(n, needed)
                slots = n.weight * operation_slots(n, state, self.graph, needed)
                if at is None or slots >= IMPOSSIBLE:
                    continue
                if isinstance(n.operation, MultiplyTiles):
                    self.ordered |= ordered_operands(n, n.operation, needed)
                option = StateOption(result, at, slots, state, needed)
                found[result, at] = min(found.get((result, at), option), option, key=lambda o: o.slots)
        return list(found.values())

    def _numbers(self, n: TileNode, needed: tuple[LinearLayout, ...]) -> tuple[int, ...] | None:
        """The numbers of the layouts of a node's operands; None where one is no candidate."""
        try:
            places = [behind(u, layout) for u, layout in zip(n.operands, needed, strict=True)]
        except LayoutError:
            return None
        at = tuple(self._number[place[0]].get(place[1], -1) for place in places if place is not None)
        return None if -1 in at else at

    def _bounds(self, n: TileNode) -> np.ndarray:
        """Lower bounds of the conversions between the layouts of a value."""
        found = self.layouts[n]
        if not self.users[n]:
            return np.zeros((len(found), len(found)))
        is_fixed = isinstance(n.operation, TileState)
        alike = (tuple(found), n.bits, n.weight, n.movable, is_fixed)  # values of one shape often have the same layouts
        if alike not in self._tables:
            table = np.full((len(found), len(found)), float(IMPOSSIBLE))
            # A tile is staged by copies, and loaded again where it is needed in registers.
            held = [k for k, layout in enumerate(found) if not is_shared(layout)]
            layouts = [found[k] for k in held]
            if n.movable and not is_fixed:
                table[np.ix_(held, held)] = converted_bounds(n, layouts)
            elif not n.movable:
                table[np.ix_(held, held)] = np.where(conversion_bounds(tuple(layouts), n.bits).free, 0.0, IMPOSSIBLE)
            np.fill_diagonal(table, 0.0)
            self._tables[alike] = table
        return self._tables[alike].copy()

    def plan(self, n: TileNode, source: int, target: int) -> float:
        """The increase of a conversion's slots from its bound to its plan, which replaces the bound."""
        if (n, source, target) in self.planned:
            return 0.0
        self.planned.add((n, source, target))
        found = self.layouts[n]
        slots = converted_slots(n, found[source], found[target], self.ordered.get((n, found[target])))
        if self.bounds[n][source, target] >= IMPOSSIBLE:
            return 0.0
        more = slots - self.bounds[n][source, target]
        if more < -1e-6:
            raise AssertionError(f"{n!r}: a conversion of {slots} slots has the bound {slots - more}")
        self.bounds[n][source, target] = slots
        self.replanned[n] += 1
        return more

    def is_converted_later(self, n: TileNode) -> bool:
        """Whether a value is converted, if at all, after its only user, which is as narrow and costs the same anywhere.

        A user that costs less in a layout with fewer copies is better off after the conversion.
        """
        users = self.users[n]
        if len(users) != 1 or not isinstance(users[0].operation, MapTile):
            return False
        if self.operands[users[0]] != [n] or users[0].bits > n.bits or users[0].weight > n.weight:
            return False
        return len({option.slots for option in self.options[users[0]]}) == 1

    def groups(self, n: TileNode, alive: list[int]) -> list[Group]:
        """The sets of layouts in which a value may be available.

        Its users need all of its layouts, but one from which it is converted; where a value without operands is
        computed concerns nothing else.
        """
        computed = {option.result for option in self.options[n]}
        users = self.users[n]
        needed = {o.needs[j] for m in users for o in self.options[m] for j, u in enumerate(self.operands[m]) if u is n}
        wanted = [k for k in alive if k in needed]
        if users and not self.operands[n] and not isinstance(n.operation, TileState):
            most = 1 if len(users) == 1 and self.operands[users[0]].count(n) == 1 else 2
            most += most == 2 and len(wanted) <= MOST_FOR_TRIPLES
            return [g for size in range(1, most + 1) for g in combinations(wanted, size)]
        found: list[Group] = [(k,) for k in alive if k in computed and (not users or k in needed)]
        if not users or isinstance(n.operation, TileState) or self.is_converted_later(n):
            return found
        triples = len(users) > 1 and len(alive) <= MOST_FOR_TRIPLES
        for size in (2, 3) if triples else (2,):
            found += [
                g
                for g in combinations(alive, size)
                if computed.intersection(g) and len(needed.intersection(g)) >= size - 1
            ]
        return found if triples else [*found, *self._with_both(n, computed.intersection(alive))]

    def _with_both(self, n: TileNode, computed: Iterable[int]) -> list[Group]:
        """The two layouts in which `x @ x.T` takes a value, with a third one that is converted to both."""
        pairs = {
            frozenset(o.needs[j] for j, u in enumerate(self.operands[m]) if u is n)
            for m in self.users[n]
            if self.operands[m].count(n) > 1
            for o in self.options[m]
        }
        return sorted({tuple(sorted({k, *pair})) for pair in pairs for k in computed if len({k, *pair}) == 3})

    def ways(self, n: TileNode, group: Group) -> list[Way]:
        """The ways to have a value in all layouts of a group, the cheapest of those that need the same."""
        ways = dict[tuple[frozenset[int], ...], Way]()
        once = isinstance(n.operation, MultiplyTiles | TileState | ReadTile | GivenTile)
        for size in range(1, len(group) + 1):
            if size > 1 and once:
                break
            anywhere = size == 1 and not self.operands[n] and not isinstance(n.operation, TileState)
            for computed in [(o.result,) for o in self.options[n]] if anywhere else combinations(group, size):
                if not (cheapest := self._computed(n, computed)):
                    continue
                moved, slots = [], 0.0
                for k in group:
                    if k not in computed:
                        found, source = min((self.bounds[n][s, k], s) for s in computed)
                        slots += found
                        moved.append((source, k))
                if slots >= IMPOSSIBLE:
                    continue
                for needs, (of_states, chosen) in cheapest.items():
                    total = slots + of_states
                    if needs not in ways or total < ways[needs].slots:
                        ways[needs] = Way(total, needs, chosen, tuple(moved))
        return list(ways.values())

    def _computed(self, n: TileNode, computed: Group) -> Computed:
        """The cheapest states that compute a value in each of these layouts, by what they need: of many groups."""
        options = self.options[n]
        of, by_result, known = self._states.get(n, (None, {}, {}))
        if of is not options:  # a round leaves options out
            by_result, known = {}, {}
            for option in options:
                by_result.setdefault(option.result, []).append(option)
            self._states[n] = options, by_result, known
        if computed not in known:
            found = known[computed] = Computed()
            for chosen in product(*(by_result.get(k, ()) for k in computed)):
                needs = tuple(map(frozenset, zip(*(o.needs for o in chosen), strict=True)))
                slots = sum(o.slots for o in chosen)
                if needs not in found or slots < found[needs][0]:
                    found[needs] = slots, chosen
        return known[computed]


def _value_of(node: TileNode) -> TileNode | None:
    """The node below new labels that is chosen; None for a tile that is free anywhere."""
    while isinstance(node.operation, RELABELS):
        node = node.operands[0]
    return None if isinstance(node.operation, FreeTile) else node
