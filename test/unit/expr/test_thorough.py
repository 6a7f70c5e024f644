"""Proofs without Z3: thorough facts, refutations by some values, and queries that do not depend on other ranges."""

import itertools
import pickle

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.distributions import StridedChunks
from lego_mlir.distributions.splits import _proved_for_all
from lego_mlir.expr import solver
from lego_mlir.expr.context import PlainRanges, context_of
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.facts import Facts
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Larger, Le, Lt, Ne, Select, Size, Smaller
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import forget, simplify
from lego_mlir.expr.thorough import ThoroughFacts
from lego_mlir.expr.verdict import Proved, Refuted

x, y, z = sympy.symbols("x y z", integer=True)
numbers = st.integers(-6, 6)


@pytest.fixture
def no_solver(monkeypatch):
    def solve(claim, *rest, **named):
        pytest.fail(f"Z3 was asked for {claim}")

    monkeypatch.setattr(solver, "solve", solve)
    forget()


@given(
    st.sampled_from((Smaller, Larger)),
    st.tuples(numbers, numbers, numbers),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(numbers, numbers),
)
def test_thorough_facts_hold_at_every_value(extreme, coefficients, divisor, bounds):
    a, b, c = coefficients
    (g, d), (limit, offset) = divisor, bounds
    expr = a * extreme(b * FloorDiv(x, g * d * (y + 1)) + c, limit) + y * g + offset
    ranges = {y: Range(0, 4), x: Range(0, (y + 1) * 3)}
    context = context_of(ranges)
    if context.thorough_facts.nonnegative(context.terms.read(expr)):
        for j in range(4):
            assert all(evaluate(expr, {x: i, y: j}) >= 0 for i in range((j + 1) * 3))


class Forgetful(dict):
    """A table that keeps nothing."""

    def __setitem__(self, key, value):
        pass


@given(st.lists(st.tuples(st.sampled_from((Smaller, Larger)), numbers, numbers, numbers), min_size=1, max_size=4))
def test_attempts_that_are_remembered_end_as_they_would_again(extrema):
    expr, ranges = x, {y: Range(0, 4), x: Range(0, 3 * (y + 1))}
    for extreme, a, b, c in extrema:
        expr = extreme(a * expr + c * FloorDiv(expr, 2), b) + y
    context = context_of(ranges)
    poly, remembering, forgetful = context.terms.read(expr), *(ThoroughFacts(context.terms) for _ in range(2))
    forgetful._tried, forgetful._plain = Forgetful(), Forgetful()
    assert [remembering.nonnegative(p) for p in (poly, -poly)] == [forgetful.nonnegative(p) for p in (poly, -poly)]


def test_sides_of_many_extrema_are_tried_once(monkeypatch):
    tried, plainly = [], Facts._plainly
    monkeypatch.setattr(Facts, "_plainly", lambda facts, poly: tried.append(poly) or plainly(facts, poly))
    forget()
    _proved_for_all.__wrapped__(StridedChunks(2, 1))
    assert len(tried) < 10_000  # 280,000 where nothing is remembered


@given(st.tuples(numbers, numbers), st.integers(1, 4), st.tuples(numbers, numbers))
def test_quotients_of_a_minimum_hold_at_every_value(coefficients, divisor, ends):
    (a, b), (limit, offset) = coefficients, ends
    expr = FloorDiv(Smaller(a * x + b * (y + 1) * FloorDiv(x, y + 1), limit) + b, divisor) + offset
    context = context_of({y: Range(0, 4), x: Range(0, 3 * (y + 1))})
    if context.thorough_facts.nonnegative(context.terms.read(expr)):
        for j in range(4):
            assert all(evaluate(expr, {x: i, y: j}) >= 0 for i in range(3 * (j + 1)))


def test_a_block_with_rows_before_an_end_has_a_tile_without_a_solver(no_solver):
    keys, tiles = Size("N"), Size("M")
    end = Smaller(keys, 128 * (tiles - FloorMod(x, tiles)))
    assert prove(Le(1, FloorDiv(end + 127, 128)), {x: Range(0, 7 * tiles)}) == Proved("cases")


def test_the_rows_left_in_a_group_of_tiles_need_no_solver(no_solver):
    rows, columns = Size("R"), Size("C")
    left = Smaller(rows - 8 * FloorDiv(x, 8 * columns), 8)
    assert prove(Ne(left, 0), {x: Range(0, rows * columns)}) == Proved("cases")


def test_a_maximum_is_not_dropped_by_thorough_facts():
    rows, columns = Size("R"), Size("C")
    left = Smaller(rows - 8 * FloorDiv(x, 8 * columns), 8)
    found = simplify(FloorDiv(x, Larger(left, 1)), {x: Range(0, rows * columns)})
    assert all(step.proof != "cases" for step in found.steps)


def test_a_tile_that_reaches_past_the_end_of_a_matrix_is_refuted_without_a_solver(no_solver):
    tile = Select(Lt(FloorDiv(x, 121), 1), FloorMod(FloorDiv(x, 11), 11), FloorDiv(FloorMod(x, 121), 5))
    claim = Lt(z + 8 * FloorMod(y, 48) + 384 * tile, 4096)
    ranges = {x: Range(0, 176), y: Range(0, 512), z: Range(0, 8)}
    verdict = prove(claim, ranges)
    assert isinstance(verdict, Refuted)
    assert not evaluate(claim, verdict.counter_example)
    assert prove(Lt(FloorDiv(y, 8) + 384 * tile, 4096), {x: ranges[x], y: ranges[y]})


def test_a_refutation_equals_its_copies_and_names_the_values():
    verdict = prove(Lt(x, 5), {x: Range(0, 6)})
    assert verdict == pickle.loads(pickle.dumps(verdict)) == Refuted({"x": 5}, "x < 5 is false for x = 5")
    assert verdict != Refuted({"x": 5}, "another") and verdict != 5
    assert type(verdict) is Refuted  # what is counted by type is counted
    with pytest.raises(AttributeError):
        verdict.explanation = "another"
    assert repr(verdict) == "Refuted(counter_example={'x': 5}, explanation='x < 5 is false for x = 5')"


def test_a_query_does_not_depend_on_ranges_of_other_symbols():
    claim, ranges = Le(x * x * y, x * x * x * y + 7), {x: Range(0, 1 << 40), y: Range(0, 1 << 40)}
    before = solver._solve.cache_info()
    answers = [solver.solve(claim, PlainRanges({**ranges, z: Range(0, end)}), 100) for end in (3, 4, 5)]
    after = solver._solve.cache_info()
    assert after.misses - before.misses <= 1 and all(a == b for a, b in itertools.pairwise(answers))


def test_a_query_depends_on_the_ends_of_its_ranges():
    claim = Lt(x, 10)
    answers = [solver.solve(claim, PlainRanges({x: Range(0, y), y: Range(0, end)}), 100).proved for end in (5, 50)]
    assert answers == [True, False]
