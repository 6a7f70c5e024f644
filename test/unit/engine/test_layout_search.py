"""The layout engine's search: the best of all assignments, by enumeration; bounds, closure, determinism."""

import copy
import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, f16, f32
from lego_mlir.engine.closure import candidates
from lego_mlir.engine.conversion_bounds import conversion_bounds
from lego_mlir.engine.elimination import kept, least
from lego_mlir.engine.layout_choice import best_of, chosen_layouts
from lego_mlir.engine.operation_costs import operation_slots, plan, plan_slots
from lego_mlir.engine.tile_graph import TileGraph, forward, required
from lego_mlir.engine.tile_memory import row_major
from lego_mlir.f2.conversion import Renamed, Unchanged, conversion_plan
from lego_mlir.f2.queries import canonical
from test.spread_layouts import custom
from test.spread_strategies import layouts as random_layouts
from test.tile_graphs import along, best_by_enumeration, load, mapped, random_graph, store, transposed


def tables(draw, count=4, values=4):
    """Random tables over pairs and triples of variables, whole numbers and some that are not allowed."""
    sizes = {v: draw.randint(1, values) for v in range(count)}
    scopes = [tuple(draw.sample(range(count), draw.choice([1, 2, 3]))) for _ in range(count + 1)]
    shapes = [[sizes[v] for v in scope] for scope in scopes]
    return sizes, [
        (scope, np.array([draw.choice([0, 1, 2, 5, 9, 1e9]) for _ in range(int(np.prod(n)))], float).reshape(n))
        for scope, n in zip(scopes, shapes, strict=True)
    ]


def by_enumeration(sizes, factors):
    every = product(*(range(n) for n in sizes.values()))
    return min(sum(table[tuple(at[v] for v in scope)] for scope, table in factors) for at in every)


@given(st.integers(0, 10**6))
def test_elimination_finds_the_least_sum(seed):
    sizes, factors = tables(random.Random(seed))
    value, at = least(sizes, factors)
    assert value == by_enumeration(sizes, factors)
    assert value == sum(table[tuple(at[v] for v in scope)] for scope, table in factors)


@given(st.integers(0, 10**6))
def test_bounds_keep_every_best_assignment(seed):
    sizes, factors = tables(random.Random(seed))
    best = by_enumeration(sizes, factors)
    if best < 1e9:
        alive = kept(sizes, factors, best)
        left = [(scope, table[np.ix_(*(alive[v] for v in scope))]) for scope, table in factors]
        assert by_enumeration({v: len(alive[v]) for v in sizes}, left) == best


@pytest.mark.parametrize("seed", range(16))
def test_the_choice_is_the_best_by_enumeration(seed):
    """Values computed once or twice, converted to any number of layouts."""
    draw = random.Random(seed)
    graph = random_graph(draw)
    choice = chosen_layouts(graph, most=3)
    assert choice.is_best
    assert choice.slots == pytest.approx(best_by_enumeration(graph, choice.alternatives.layouts))


def test_the_enumeration_sees_a_worse_choice():
    graph = TileGraph(4)
    x = load(graph, (32, 32))
    store(graph, mapped(graph, x, transposed(graph, x)))
    choice = chosen_layouts(graph, most=4)
    dearest = {n: found[-1:] for n, found in choice.alternatives.layouts.items()}
    assert best_by_enumeration(graph, dearest) > choice.slots


@given(st.integers(0, 10**6))
@settings(max_examples=5)
def test_more_candidates_never_cost_more(seed):
    few, many = (chosen_layouts(random_graph(random.Random(seed)), most=most) for most in (4, 10))
    assert many.slots <= few.slots + 1e-6


@given(st.integers(0, 10**6))
@settings(max_examples=4)
def test_the_choice_is_deterministic(seed):
    first, second = (chosen_layouts(random_graph(random.Random(seed)), most=6) for _ in range(2))
    assert [v.computed + v.moved for v in first.values.values()] == [
        v.computed + v.moved for v in second.values.values()
    ]


@given(st.integers(0, 10**6))
@settings(max_examples=6)
def test_every_candidate_of_a_result_has_a_state(seed):
    """Closure: an operation needs candidates of its operands for every candidate of its result."""
    graph = random_graph(random.Random(seed), steps=4)
    found = candidates(graph, 8, operation_slots)
    for n in graph.nodes:
        for layout in found[n]:
            for operand, need in zip(n.operands, required(n, layout, 4) or (), strict=False):
                if type(n.operation).__name__ != "ReduceTile":
                    assert need in found[operand]


@given(random_layouts())
def test_a_canonical_layout_is_free_and_idempotent(layout):
    found = canonical(layout)
    assert canonical(found) == found
    assert isinstance(conversion_plan(layout, found, 32), Unchanged | Renamed)


@given(st.integers(0, 10**6))
def test_a_bound_is_at_most_the_plan(seed):
    draw = random.Random(seed)
    a, b = (canonical(custom(draw, (16, 32), 4)) for _ in range(2))
    for bits in (16, 32):
        found = conversion_bounds((a, b), bits)
        assert found.slots[0, 1] <= plan_slots(plan(a, b, bits)) + 1e-6
        assert found.free[0, 1] == isinstance(plan(a, b, bits), Unchanged | Renamed)


@given(st.integers(0, 10**6))
@settings(max_examples=6)
def test_a_result_that_stays_needs_the_operand_that_it_came_from(seed):
    """`required` undoes `forward`: of a broadcast, up to copies."""
    graph = random_graph(random.Random(seed), steps=4)
    found = candidates(graph, 6, operation_slots)
    for n in graph.nodes:
        for operand in dict.fromkeys(n.operands):
            for layout in found[operand]:
                for result in forward(n, layout):
                    back = required(n, result, 4)
                    if type(n.operation).__name__ in ("ReduceTile",):
                        continue
                    assert back is not None
                    assert isinstance(conversion_plan(layout, back[0], 32), Unchanged | Renamed)


def test_rounds_that_end_early_say_how_far_the_best_is():
    graph = TileGraph(4)
    x = load(graph, (64, 64))
    y = mapped(graph, x, along(graph, x, 1))
    store(graph, mapped(graph, y, along(graph, y, 0)))
    full = chosen_layouts(graph)
    early = chosen_layouts(graph, rounds=1)
    assert early.bound - 1e-6 <= full.slots <= early.slots + 1e-6


def test_rows_are_loaded_by_whole_lines():
    graph = TileGraph(4)
    store(graph, mapped(graph, load(graph, (4, 512))))
    for value in chosen_layouts(graph).values.values():
        for _, layout in value.computed:
            found = row_major((4, 512), 32).accesses(layout, stored=False)
            assert (found.requests, found.vector, found.lines, found.sectors) == (4, 4, 16, 64)


@pytest.mark.parametrize("shape", [(64, 64), (128, 16), (16, 128), (8, 32)])
def test_no_part_of_all_ways_has_a_better_choice(shape):
    """The maximum is made in one layout, and its one user, which costs less where copies are fewer, takes others."""
    m, n = shape

    @lego.kernel(grid=1, block=128)
    def maxima(x: lego.Tensor(f32, Row(m, n)), y: lego.Tensor(f32, Row(m))):
        (lego.load(x, (m, n)).max(axis=1) * 3.0).store(y)

    choice = maxima.layout_choice
    every = choice.alternatives
    (maximum,) = [n for n in every.nodes if n.narrows]
    (user,) = every.users[maximum]
    for made in every.options[maximum]:
        part = copy.copy(every)
        others = [option for option in every.options[user] if option.needs != (made.result,)]
        part.options = {**every.options, maximum: [made], user: others}
        assert best_of(part).slots >= choice.bound - 1e-6


def test_a_part_of_all_ways_may_have_none_for_a_value_that_is_converted_later():
    """Its user costs the same anywhere: the value is converted before it in the first assignments only."""

    @lego.kernel(grid=1, block=128)
    def scaled(x: lego.Tensor(f32, Row(64, 64)), y: lego.Tensor(f32, Row(64, 64))):
        (lego.load(x, (64, 64)).cumsum(axis=1) * 3.0).store(y)

    every = scaled.layout_choice.alternatives
    (scan,) = [n for n in every.nodes if type(n.operation).__name__ == "AlongTile"]
    (user,) = every.users[scan]
    part, made = copy.copy(every), every.options[scan][0]
    same = [o for o in every.options[user] if o.needs != (made.result,) and o.slots == every.options[user][-1].slots]
    part.options = {**every.options, scan: [made], user: same}
    assert same and part.is_converted_later(scan) and not part.groups(scan, list(range(len(every.layouts[scan]))))
    assert best_of(part).values[scan].moved


def test_a_value_is_rounded_before_it_moves_to_both_operands():
    """Of x x^T both operands move, from a layout that neither of them has: half as much where x is rounded first."""

    @lego.kernel(grid=1, block=128)
    def squared(x: lego.Tensor(f32, Row(64, 64)), sums: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64, 64))):
        tile = lego.load(x, (64, 64))
        tile = tile * tile
        tile.sum(0).store(sums)
        half = tile.to(f16)
        lego.mma(half, half.T, lego.zeros(f32, (64, 64))).store(y)

    values = squared.layout_choice.values
    (half,) = (n for n in values if n.bits == 16)
    assert len(values[half].moved) == 2
    assert not any(value.moved for n, value in values.items() if n.number < half.number)
