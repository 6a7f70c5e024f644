"""Never wrong: a simplified expression has the raw one's value, wherever the raw one is defined.

A case is one drawn expression at one drawn point. `@compares(n)` fails a test that compared fewer than n cases, which
it does if Hypothesis rejects its inputs; the shares of this file sum to at least 20,000. A push draws a
quarter, of which half must be compared: of few cases, many may be rejected.
"""

import numpy
import pytest
import sympy
from expression_strategies import FREE, conditions, expressions, points, scopes
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lego_mlir.expr.cost import operations
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import Index, index_symbol, where
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Size
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify, simplify_all
from lego_mlir.expr.verdict import Proved, Refuted

from strategies import layouts

pytestmark = pytest.mark.examples(4)
CASES_WANTED = 20_000
POINTS = 30
SHARES = {}  # name of a test -> the cases that it must compare
many = settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
some = settings(max_examples=160, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
seeds = st.integers(0, 2**32 - 1)


class Tally:
    """The cases that the running test has compared."""

    cases = 0


def compares(share):
    """The test compares at least this many cases."""

    def declare(test):
        SHARES[test.__name__] = share
        return test

    return declare


@pytest.fixture(autouse=True)
def share_compared(request, monkeypatch):
    monkeypatch.setattr(Tally, "cases", 0)
    failed = request.session.testsfailed
    yield
    part = 1 if request.config.getoption("--long") else request.node.get_closest_marker("examples").args[0]
    share = SHARES.get(request.function.__name__, 0) // (part if part == 1 else 2 * part)
    if request.session.testsfailed == failed:
        assert Tally.cases >= share, f"compared {Tally.cases} cases of {share}"


def test_the_shares_sum_to_20000_cases():
    assert sum(SHARES.values()) >= CASES_WANTED


def agree(raw, found, values):
    """Compare at all points, and count them."""
    one, other = (numpy.broadcast_to(evaluate(e, values), (POINTS,)) for e in (raw, found))
    assert (one == other).all(), f"{raw} became {found}: {one} became {other}"
    Tally.cases += POINTS


@compares(600 * POINTS)
@given(st.data(), scopes(), st.integers(1, 4), seeds)
@many
def test_expressions_keep_their_value(data, scope, depth, seed):
    raw = data.draw(expressions(scope, depth))
    found = simplify(raw, scope[1])
    agree(raw, found.expr, points(scope, POINTS, seed))
    assert found.after <= found.before
    assert (found.before, found.after) == tuple(operations(e, shared=True) for e in (raw, found.expr))


@compares(160 * POINTS)
@given(st.data(), scopes(), seeds)
@some
def test_conditions_keep_their_truth(data, scope, seed):
    raw = data.draw(conditions(scope, 2))
    agree(raw, simplify(raw, scope[1]).expr, points(scope, POINTS, seed))


@compares(3 * 48 * POINTS)
@given(st.data(), scopes(), seeds)
@settings(max_examples=48, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_expressions_simplified_together_keep_their_values(data, scope, seed):
    raws = [data.draw(expressions(scope, 2)) for _ in range(3)]
    found = simplify_all(raws, scope[1])
    values = points(scope, POINTS, seed)
    for raw, derivation in zip(raws, found, strict=True):
        agree(raw, derivation.expr, values)
        assert derivation.after <= derivation.before
    together = [operations(*exprs, shared=True) for exprs in (raws, [d.expr for d in found])]
    assert together[1] <= together[0]


@given(st.data(), scopes(), st.integers(1, 3))
@settings(max_examples=48, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_the_trail_leads_to_the_result(data, scope, depth):
    raw = data.draw(expressions(scope, depth))
    found = simplify(raw, scope[1])
    assert found.replay() == found.expr
    if found.steps:
        assert found.steps[0].operations[0] == found.before
        assert found.steps[-1].operations[1] == found.after


@compares(400)
@given(st.data(), scopes(), st.integers(1, 3), seeds)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_step_of_the_trail_is_an_equality(data, scope, depth, seed):
    raw = data.draw(expressions(scope, depth))
    values = points(scope, POINTS, seed)
    for step in simplify(raw, scope[1]).steps:
        agree(step.before, step.after, values)
        for claim in step.condition:
            assert numpy.all(evaluate(claim, values)), f"{step}: {claim} is false"


@pytest.mark.examples(1)  # few claims are proved
@compares(400)
@given(st.data(), scopes(), seeds)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_verdicts_are_true(data, scope, seed):
    claim = data.draw(conditions(scope, 2))
    verdict = prove(claim, scope[1], timeout_ms=50)
    if isinstance(verdict, Proved):
        assert numpy.all(evaluate(claim, points(scope, POINTS, seed))), claim
        Tally.cases += POINTS
    elif isinstance(verdict, Refuted):
        names = {str(s) for s in claim.free_symbols}
        assert names <= set(verdict.counter_example)
        assert not evaluate(claim, verdict.counter_example)
        Tally.cases += 1


@st.composite
def boxes(draw, symbolic):
    """Sizes of a box: ints, or ints and sizes."""
    names = iter("ABCDE")
    dims = []
    for _ in range(draw(st.integers(1, 4))):
        if symbolic and draw(st.booleans()):
            dims.append(Size(next(names), min=1, multiple_of=draw(st.sampled_from([1, 4]))))
        else:
            dims.append(sympy.Integer(draw(st.integers(1, 8))))
    return dims


def flatten(index, dims):
    flat = sympy.S.Zero
    for part, n in zip(index, dims, strict=True):
        flat = flat * n + part
    return flat


def unflatten(flat, dims):
    index = []
    for n in reversed(dims[1:]):
        index.insert(0, FloorMod(flat, n))
        flat = FloorDiv(flat, n)
    return [flat, *index]


@compares(160 * POINTS)
@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
@given(data=st.data(), seed=seeds)
@some
def test_permuted_boxes_keep_their_positions(symbolic, data, seed):
    """flatten, permute and unflatten, a few times over: what every chain of regular layouts is made of."""
    dims = data.draw(boxes(symbolic))
    index = [sympy.Symbol(f"i{axis}", integer=True) for axis in range(len(dims))]
    ranges = {s: Range(0, n) for s, n in zip(index, dims, strict=True)}
    flat = flatten(index, dims)
    for _ in range(data.draw(st.integers(1, 3))):
        order = data.draw(st.permutations(range(len(dims))))
        moved = unflatten(flat, dims)
        dims = [dims[axis] for axis in order]
        flat = flatten([moved[axis] for axis in order], dims)
    found = simplify(flat, ranges)
    scope = ([n for n in dims if isinstance(n, Size)], ranges)
    agree(flat, found.expr, points(scope, POINTS, seed))
    if len(dims) == 1:
        assert found.expr == index[0] or found.after == 0


@compares(160 * POINTS)
@given(layouts(max_elements=200), seeds)
@some
def test_layouts_keep_their_positions(layout, seed):
    index = [index_symbol(f"i{axis}") for axis in range(len(layout.dims()))]
    raw = Index(layout.apply(*index)).expr
    scope = ((), layout.ranges(*index))
    agree(raw, simplify(raw, scope[1]).expr, points(scope, POINTS, seed))


@compares(300 * POINTS)
@given(layouts(max_elements=200), seeds)
@some
def test_layouts_inverted_keep_their_indices(layout, seed):
    p = index_symbol("p")
    raws = [Index(x).expr for x in layout.inv(p)]
    scope = ((), {p.expr: Range(0, int(layout.physical_size()))})
    values = points(scope, POINTS, seed)
    for raw, found in zip(raws, simplify_all(raws, scope[1]), strict=True):
        agree(raw, found.expr, values)


u = FREE


@given(st.integers(-400, 400))
@example(-1)
@example(0)
def test_negative_operands_round_down(value):
    for d in (2, 3, 8, -2, -3, -8):
        for raw in (FloorDiv(4 * u + 3, d), FloorMod(4 * u + 3, d), FloorDiv(FloorDiv(u, 3), d), FloorDiv(u + d, d)):
            assert evaluate(simplify(raw, {}).expr, {u: value}) == evaluate(raw, {u: value})


def test_a_choice_may_depend_on_what_it_guards():
    i = index_symbol("i")
    raw = Index(where(i < 4, i // 4, i % 4)).expr
    found = simplify(raw, {i.expr: Range(0, 8)}).expr
    assert [evaluate(found, {i.expr: v}) for v in range(8)] == [evaluate(raw, {i.expr: v}) for v in range(8)]


@pytest.mark.long
@given(st.data(), scopes(), st.integers(1, 6), seeds)
@settings(max_examples=20_000, suppress_health_check=list(HealthCheck))
def test_long_expressions_keep_their_value(data, scope, depth, seed):
    raw = data.draw(expressions(scope, depth))
    found = simplify(raw, scope[1])
    agree(raw, found.expr, points(scope, POINTS, seed))
    assert found.replay() == found.expr


@pytest.mark.long
@given(layouts(max_elements=5000), seeds)
@settings(max_examples=5_000, suppress_health_check=list(HealthCheck))
def test_long_layouts_keep_their_positions(layout, seed):
    test_layouts_keep_their_positions.hypothesis.inner_test(layout, seed)
    test_layouts_inverted_keep_their_indices.hypothesis.inner_test(layout, seed)
