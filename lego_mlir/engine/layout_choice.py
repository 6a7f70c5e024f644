"""The search: the assignment of layouts of least cost, with conversions and rematerialisation.

Conversions start at lower bounds. The best assignment by these bounds is found, its conversions are planned, which may
raise their costs, and the search is repeated until all conversions of the best one are planned: it is then the best of
all, although few plans were made. Each round first removes what cannot be part of it:

1. *Relaxed problem*: every value is computed once, and each use pays its share of a conversion, or of computing the
   value again. Its tables have two variables; diffusion gives a lower bound for each state.
2. The same diffusion on the sets of layouts that are left.

Where a table would have more than `LARGEST_TABLE` entries, values with many groups keep the smaller ones: the round
then finds a good assignment, and the bound is that of the relaxed problem. After `MOST_ROUNDS` rounds the best
assignment so far is returned, with the lower bound that was reached: the choice is at most that far from the best one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from lego_mlir.engine.alternatives import Alternatives, Group, StateOption, Way
from lego_mlir.engine.closure import candidates
from lego_mlir.engine.elimination import INFEASIBLE, Factor, kept, least, restricted
from lego_mlir.engine.operation_costs import held, operation_slots
from lego_mlir.engine.shared_placements import is_shared
from lego_mlir.engine.tile_graph import LoadTile, MultiplyTiles, ReadTile, TileGraph, TileNode
from lego_mlir.errors import LayoutError
from lego_mlir.f2.banks import WORD_BITS
from lego_mlir.f2.linear import LinearLayout

MOST_CANDIDATES: Final = 16
"""Layouts of a value that are considered."""
MOST_ROUNDS: Final = 16
"""Rounds of search and planning."""
LARGEST_TABLE: Final = 1 << 18
"""Entries of the largest table of one operation: a larger one would take most of the time of a choice."""
_SLACK: Final = 1e-6

Use: TypeAlias = tuple[TileNode, int]
"""An operand of an operation, by its number."""
Assignment: TypeAlias = dict[TileNode, tuple[Group, Way]]
"""Of each value the layouts in which it is available, and how."""


@dataclass(frozen=True, slots=True)
class ChosenValue:
    """How a value is made: states in which it is computed, each with its result, and conversions between layouts.

    `needed` are the layouts of the operands for each of the states.
    """

    node: TileNode
    computed: tuple[tuple[LinearLayout, LinearLayout], ...]
    moved: tuple[tuple[LinearLayout, LinearLayout], ...]
    slots: float
    needed: tuple[tuple[LinearLayout, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """An assignment: every value's layouts, its cost in slots of a warp, and a lower bound of all assignments' costs.

    `alternatives` has what was not chosen.
    """

    values: dict[TileNode, ChosenValue]
    slots: float
    bound: float
    rounds: int
    alternatives: Alternatives

    @property
    def is_best(self) -> bool:
        """Whether no assignment of the candidates is cheaper."""
        return self.slots - self.bound <= 1e-6 * max(1.0, self.slots)

    def most_words(self) -> float:
        """The most words of 32 bits that a thread holds for values, where the loads of a region are issued together."""
        first: dict[int, int] = {}
        alive = np.zeros(len(self.alternatives.graph.nodes) + 1)
        for n, value in self.values.items():
            start = first.setdefault(n.region, n.number) if isinstance(n.operation, LoadTile) else n.number
            layouts = {result for _, result in (*value.computed, *value.moved) if not is_shared(result)}
            if not n.has_no_layout and not isinstance(n.operation, ReadTile):
                alive[start : self._last_use(n)] += (
                    sum(held(layout, n.shape) for layout in layouts) * n.bits / WORD_BITS
                )
        return float(alive.max())

    def _last_use(self, n: TileNode) -> int:
        """The number of the last operation that takes a value, also through new labels."""
        return max((u.number if u in self.values else self._last_use(u) for u in n.users), default=n.number)


def chosen_layouts(graph: TileGraph, most: int = MOST_CANDIDATES, rounds: int = MOST_ROUNDS) -> LayoutChoice:
    """The layouts of a graph. Raises LayoutError, with the uses that conflict, where there is no assignment."""
    return best_of(Alternatives(graph, candidates(graph, most, operation_slots)), rounds)


def best_of(alternatives: Alternatives, rounds: int = MOST_ROUNDS) -> LayoutChoice:
    """The best assignment of these alternatives. Raises LayoutError as `chosen_layouts` does."""
    for n in alternatives.nodes:
        if not alternatives.options[n]:
            raise no_assignment(alternatives)
    if not alternatives.nodes:  # only tiles of indices that nothing uses
        return LayoutChoice({}, 0.0, 0.0, 0, alternatives)
    return _Search(alternatives).run(rounds)


class _Left(NamedTuple):
    """What is left after a round. Costs only rise from then on, so that nothing else can be part of a better choice."""

    options: dict[TileNode, list[StateOption]]
    groups: dict[TileNode, list[Group]]
    is_whole: bool
    shrinks: bool


class _Search:
    def __init__(self, alternatives: Alternatives) -> None:
        self.all = alternatives
        self.nodes = alternatives.nodes
        self._left: _Left | None = None
        self._made: dict[TileNode, tuple[list[object], dict[tuple[TileNode, Group], list[Way]], Factor[TileNode]]] = {}

    def is_possible(self, dropped: Collection[Use]) -> bool:
        """Whether there is an assignment of any cost that need not satisfy some uses."""
        groups = {
            n: list(dict.fromkeys([*self.all.groups(n, list(range(len(self.all.layouts[n])))), *self._computed(n)]))
            for n in self.nodes
        }
        _, factors = self._tables(groups, dropped)
        free = [(scope, np.where(table < INFEASIBLE, 0.0, 1.0)) for scope, table in factors]
        solved = least({n: len(g) for n, g in groups.items()}, free)
        return solved is None or solved[0] < 1.0

    def _computed(self, n: TileNode) -> list[Group]:
        """The layouts in which a value is computed, for uses that are left out."""
        return [(option.result,) for option in self.all.options[n]]

    def run(self, most_rounds: int) -> LayoutChoice:
        """The best assignment."""
        best, found = INFEASIBLE, dict[TileNode, tuple[Group, Way]]()
        bound, pairwise = self._pairwise()
        for first in (self._greedy, lambda: pairwise, self._without_conversions):
            start = first() if best - bound > _SLACK * max(1.0, best) else None
            if start is not None and (slots := self._planned(start)) < best:
                best, found = slots, start
        rounds = 0
        while rounds < most_rounds and best - bound > _SLACK * max(1.0, best):
            rounds += 1
            solved = self._round(best)
            if solved is None:
                break
            least_slots, chosen, is_whole = solved
            if is_whole:
                bound = max(bound, least_slots)
            slots = self._planned(chosen)
            if slots < best or not found:
                best, found = slots, chosen
            if not is_whole and slots - least_slots <= _SLACK * max(1.0, slots):
                break
        if not found or best >= INFEASIBLE:
            raise no_assignment(self.all)
        values = {n: self._value(n, way) for n, (_, way) in found.items()}
        return LayoutChoice(values, best, min(bound, best), rounds, self.all)

    def _value(self, n: TileNode, way: Way) -> ChosenValue:
        layouts = self.all.layouts[n]
        computed = tuple((option.state, layouts[option.result]) for option in way.computed)
        moved = tuple((layouts[s], layouts[k]) for s, k in way.moved)
        return ChosenValue(n, computed, moved, self._slots(n, way), tuple(option.needed for option in way.computed))

    def _slots(self, n: TileNode, way: Way) -> float:
        return sum(o.slots for o in way.computed) + sum(float(self.all.bounds[n][s, k]) for s, k in way.moved)

    def _planned(self, chosen: Assignment) -> float:
        """The cost of an assignment, its conversions planned; a value without operands gets its cheapest way."""
        for n, (group, way) in chosen.items():
            while sum(self.all.plan(n, s, k) for s, k in way.moved) > 0 and not self.all.operands[n]:
                way = min(self.all.ways(n, group), key=lambda way: way.slots, default=way)
                chosen[n] = group, way
        return sum(self._slots(n, way) for n, (_, way) in chosen.items())

    # -- first assignments

    def _greedy(self) -> Assignment | None:
        """Forward propagation: accesses and products in their cheapest state, others where their first operand is."""
        at: dict[TileNode, StateOption] = {}
        for n in self.nodes:
            options, operands = self.all.options[n], self.all.operands[n]
            fits = [o for o in options if operands and o.needs[0] == at[operands[0]].result]
            fixed = not operands or isinstance(n.operation, MultiplyTiles)
            at[n] = min(options if fixed or not fits else fits, key=lambda o: o.slots)
        return self._converted(at)

    def _pairwise(self) -> tuple[float, Assignment | None]:
        """Every value computed once, and each use pays its share of a conversion: a lower bound of all assignments."""
        options = self.all.options
        solved = least({n: len(options[n]) for n in self.nodes}, self._shares())
        if solved is None:
            return 0.0, None
        return min(solved[0], INFEASIBLE), self._converted({n: options[n][k] for n, k in solved[1].items()})

    def _converted(self, at: dict[TileNode, StateOption]) -> Assignment | None:
        """Every value computed by one option, and converted to what its users need."""
        needed: dict[TileNode, set[int]] = {n: set() for n in self.nodes}
        for n in self.nodes:
            for u, k in zip(self.all.operands[n], at[n].needs, strict=True):
                needed[u].add(k)
        found: Assignment = {}
        for n in self.nodes:
            own = at[n].result
            others = tuple(sorted(needed[n] - {own}))
            if any(self.all.bounds[n][own, k] >= INFEASIBLE for k in others):
                return None
            way = Way(0.0, tuple(frozenset([k]) for k in at[n].needs), (at[n],), tuple((own, k) for k in others))
            found[n] = (tuple(sorted({own, *others})), way)
        return found

    def _without_conversions(self) -> Assignment | None:
        groups: dict[TileNode, list[Group]] = {n: [(k,) for k in range(len(self.all.layouts[n]))] for n in self.nodes}
        ways, factors = self._tables(groups)
        solved = least({n: len(g) for n, g in groups.items()}, factors)
        if solved is None or solved[0] >= INFEASIBLE:
            return None
        return self._chosen({n: groups[n][k] for n, k in solved[1].items()}, ways)

    # -- a round

    def _round(self, best: float) -> tuple[float, Assignment, bool] | None:
        """The best assignment by the present bounds, its cost, and whether all groups of layouts were considered.

        None where a table would be too large, or where a value has no layout in which it is made and used.
        """
        every = self.all.options
        self.all.options = self._left.options if self._left else self._relaxed(best)
        try:
            groups, is_whole = (self._left.groups, self._left.is_whole) if self._left else self._groups()
            if not all(groups.values()):
                return None
            ways, factors = self._tables(groups)
            left = {n: np.arange(len(g)) for n, g in groups.items()}
            if self._left is None or self._left.shrinks:
                left = kept({n: len(g) for n, g in groups.items()}, factors, best)
            shrinks = any(len(left[n]) < len(groups[n]) for n in self.nodes)
            groups = {n: [groups[n][k] for k in left[n]] for n in self.nodes}
            self._left = _Left(self.all.options, groups, is_whole, shrinks)
        finally:
            self.all.options = every
        solved = least({n: len(g) for n, g in groups.items()}, restricted(factors, left))
        if solved is None or solved[0] >= INFEASIBLE:
            return None
        return solved[0], self._chosen({n: groups[n][k] for n, k in solved[1].items()}, ways), is_whole

    def _groups(self) -> tuple[dict[TileNode, list[Group]], bool]:
        """The groups of layouts that are considered, and whether they are all."""
        alive = self._alive()
        groups = {n: self.all.groups(n, alive[n]) for n in self.nodes}
        return groups, self._fitted(groups)

    def _fitted(self, groups: dict[TileNode, list[Group]]) -> bool:
        """Leave out the largest groups of layouts where a table would be too large; whether none was left out."""
        is_whole = True
        scopes = [{n, *self.all.operands[n]} for n in self.nodes]
        for scope in scopes:
            while prod(len(groups[v]) for v in scope) > LARGEST_TABLE:
                several = [v for v in scope if len({len(g) for g in groups[v]}) > 1]
                if not several:
                    break
                widest = max(several, key=lambda v: (max(map(len, groups[v])), len(groups[v]), v.number))
                most = max(map(len, groups[widest]))
                groups[widest] = [g for g in groups[widest] if len(g) < most]
                is_whole = False
        return is_whole

    def _relaxed(self, best: float) -> dict[TileNode, list[StateOption]]:
        """The options of each value that an assignment as cheap as `best` may have, by the relaxed problem."""
        options = self.all.options
        left = kept({n: len(options[n]) for n in self.nodes}, self._shares(), best)
        return {n: [options[n][k] for k in left[n]] for n in self.nodes}

    def _shares(self) -> list[Factor[TileNode]]:
        """The tables of the relaxed problem: options of each value, and shares of conversions or recomputing."""
        edges = {n: sum(self.all.operands[m].count(n) for m in self.all.users[n]) for n in self.nodes}
        options = self.all.options
        factors: list[Factor[TileNode]] = [((n,), np.array([o.slots for o in options[n]])) for n in self.nodes]
        for n in self.nodes:
            for j, u in enumerate(self.all.operands[n]):
                again = INFEASIBLE if isinstance(u.operation, MultiplyTiles) else min(o.slots for o in options[u])
                share = np.minimum(self.all.bounds[u], again) / edges[u]
                made, needed = [o.result for o in options[u]], [o.needs[j] for o in options[n]]
                factors.append(((n, u), share[np.ix_(made, needed)].T))
        return factors

    def _alive(self) -> dict[TileNode, list[int]]:
        """The layouts of each value that some option computes or needs."""
        alive = {n: {o.result for o in self.all.options[n]} for n in self.nodes}
        for n in self.nodes:
            for o in self.all.options[n]:
                for u, k in zip(self.all.operands[n], o.needs, strict=True):
                    alive[u].add(k)
        return {n: sorted(found) for n, found in alive.items()}

    def _tables(
        self, groups: dict[TileNode, list[Group]], dropped: Collection[Use] = ()
    ) -> tuple[dict[tuple[TileNode, Group], list[Way]], list[Factor[TileNode]]]:
        """A table for each operation over the groups of its result and its operands."""
        has = {}
        for n in self.nodes:
            has[n] = np.zeros((len(groups[n]), len(self.all.layouts[n])), bool)
            for k, group in enumerate(groups[n]):
                has[n][k, list(group)] = True
        missing = dict[tuple[TileNode, frozenset[int]], np.ndarray]()

        def lacking(u: TileNode, need: frozenset[int]) -> np.ndarray:
            """0 for the groups of an operand that have the layouts needed, else INFEASIBLE."""
            if (u, need) not in missing:
                missing[u, need] = np.where(has[u][:, list(need)].all(1), 0.0, INFEASIBLE)
            return missing[u, need]

        ways, factors = dict[tuple[TileNode, Group], list[Way]](), list[Factor[TileNode]]()
        for n in self.nodes:
            operands = self.all.operands[n]
            others = list(dict.fromkeys(operands))
            known = [n.number, self.all.replanned[n], len(self.all.options[n]), [groups[v] for v in (n, *others)]]
            if not dropped and n in self._made and self._made[n][0] == known:
                _, mine, factor = self._made[n]
                ways |= mine
                factors.append(factor)
                continue
            uses = {u: [j for j, v in enumerate(operands) if v is u and (n, j) not in dropped] for u in others}
            table = np.full([len(groups[v]) for v in (n, *others)], INFEASIBLE)
            mine = {(n, group): self.all.ways(n, group) for group in groups[n]}
            for k, group in enumerate(groups[n]):
                if not mine[n, group]:
                    continue
                parts = np.array([way.slots for way in mine[n, group]])
                for u in others:
                    needs = [frozenset[int]().union(*(way.needs[j] for j in uses[u])) for way in mine[n, group]]
                    rows = np.stack([lacking(u, need) for need in needs])
                    parts = parts[..., None] + rows.reshape(len(needs), *[1] * (parts.ndim - 1), -1)
                table[k] = parts.min(0)
            ways |= mine
            factors.append(((n, *others), np.minimum(table, INFEASIBLE)))
            if not dropped:
                self._made[n] = known, mine, factors[-1]
        return ways, factors

    def _chosen(self, groups: dict[TileNode, Group], ways: dict[tuple[TileNode, Group], list[Way]]) -> Assignment:
        """The cheapest way of each value that its operands' groups allow."""
        found = {}
        for n in self.nodes:
            operands = self.all.operands[n]
            fits = [
                way
                for way in ways[n, groups[n]]
                if all(need <= set(groups[u]) for need, u in zip(way.needs, operands, strict=True))
            ]
            found[n] = (groups[n], min(fits, key=lambda way: way.slots))
        return found


def no_assignment(alternatives: Alternatives) -> LayoutError:
    """The error for a graph without an assignment, with two uses that conflict.

    A use is an operand of an operation. Uses are left out one by one while there is still no assignment; those that
    remain conflict, and no part of them does.
    """
    for n in alternatives.nodes:
        if not alternatives.options[n]:
            operands = " and ".join(f"({u!r})" for u in dict.fromkeys(alternatives.operands[n])) or "its place"
            where = "" if n.uniform else "; it runs where threads diverge, and must not exchange between warps"
            return LayoutError(
                f"{n!r}: no layout of {operands} fits this operation{where}; give the tile another shape"
            )
    search = _Search(alternatives)
    uses = [(n, j) for n in alternatives.nodes for j in range(len(alternatives.operands[n]))]
    dropped: set[Use] = set()
    for use in uses:
        if not search.is_possible(dropped | {use}):
            dropped.add(use)
    (first, i), *_, (last, j) = [use for use in uses if use not in dropped] * 2
    one, other = alternatives.operands[first][i], alternatives.operands[last][j]
    return LayoutError(
        f"no layouts fit together: ({first!r}) uses ({one!r}), and ({last!r}) uses ({other!r}), which conflict: "
        "between them elements move to other warps where threads diverge; move one of them out of the branch, or give "
        "both one layout"
    )
