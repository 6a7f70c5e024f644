"""Values, verdicts and simplified forms against Python's own integers, where 32, 53 and 64 bits end.

An expression is an integer of any size: whatever computes with int64 inside must notice where that ends.
"""

import numpy
import pytest
from exact import comparisons, edge_expressions, edge_points, edge_ranges, exactly, numbers, x, y, z
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lego_mlir.errors import ExpressionError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.prove import prove
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.verdict import Proved, Refuted

POINTS = 5


def _arrays(draw, columns):
    """Each symbol's values as an array of a type that holds them, or as one int."""
    given_as = {}
    for symbol, column in columns.items():
        fits = [t for t in (numpy.int64, numpy.uint64) if all(v in _Held(t) for v in column)]
        kind = draw(st.sampled_from([*fits, object]))
        given_as[symbol] = column[0] if len(set(column)) == 1 and draw(st.booleans()) else numpy.array(column, kind)
    return given_as


class _Held:
    def __init__(self, dtype):
        self.info = numpy.iinfo(dtype)

    def __contains__(self, value):
        return self.info.min <= value <= self.info.max


def check_values(data):
    expr = data.draw(st.one_of(edge_expressions(3), comparisons(edge_expressions(2))))
    columns = {symbol: data.draw(st.lists(numbers(), min_size=POINTS, max_size=POINTS)) for symbol in (x, y, z)}
    try:
        expected = [exactly(expr, {s: column[place] for s, column in columns.items()}) for place in range(POINTS)]
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            evaluate(expr, _arrays(data.draw, columns))
        return
    found = numpy.broadcast_to(numpy.asarray(evaluate(expr, _arrays(data.draw, columns)), object), (POINTS,))
    assert [int(v) for v in found] == [int(v) for v in expected]


def check_verdict(data):
    ranges = data.draw(edge_ranges())
    claim = data.draw(comparisons(edge_expressions(2)))
    try:
        verdict = prove(claim, ranges, timeout_ms=20)
    except ExpressionError as error:  # ranges of one value can make a divisor the constant 0
        assert "division by zero" in str(error)
        assume(False)
    if isinstance(verdict, Refuted):
        example = {s: verdict.counter_example.get(str(s), 0) for s in (x, y, z)}
        assert not exactly(claim, example)
        assert all(example[s] in ranges[s] for s in claim.free_symbols if s in ranges)
    elif isinstance(verdict, Proved):
        try:
            assert exactly(claim, data.draw(edge_points(ranges)))
        except ZeroDivisionError:
            assume(False)


def check_form(data):
    ranges = data.draw(edge_ranges())
    expr = data.draw(edge_expressions(3))
    try:
        form = simplify(expr, ranges).expr
    except ExpressionError:
        assume(False)
    for _ in range(3):
        point = data.draw(edge_points(ranges))
        try:
            expected = exactly(expr, point)
        except ZeroDivisionError:
            continue
        assert exactly(form, point) == expected


@pytest.mark.parametrize(("check", "cases"), [(check_values, 50), (check_verdict, 40), (check_form, 30)])
def test_around_the_ends_of_integers(check, cases):
    settings(max_examples=cases)(given(st.data())(check))()


@pytest.mark.long
@pytest.mark.parametrize(("check", "cases"), [(check_values, 40_000), (check_verdict, 10_000), (check_form, 10_000)])
def test_around_the_ends_of_integers_for_long(check, cases):
    settings(max_examples=cases)(given(st.data())(check))()
