"""Evaluation is Python's: exact, elementwise for arrays, and it says what is missing."""

import numpy
import pytest
import sympy
from expression_strategies import expressions, points, scopes
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.errors import ExpressionError
from lego_mlir.expr.evaluate import admissible, evaluate
from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.nodes import (
    BitXor,
    FloorDiv,
    FloorMod,
    ISqrt,
    Larger,
    Lt,
    Select,
    ShiftLeft,
    ShiftRight,
    Size,
    Table,
)
from lego_mlir.expr.ranges import Range

i, j = sympy.symbols("i j", integer=True)


@given(st.data(), scopes(), st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_arrays_are_evaluated_element_by_element(data, scope, seed):
    raw = data.draw(expressions(scope, 3))
    values = points(scope, 5, seed)
    together = numpy.broadcast_to(evaluate(raw, values), (5,))
    for place in range(5):
        assert together[place] == evaluate(raw, {s: int(v[place]) for s, v in values.items()})


@pytest.mark.parametrize(
    ("expr", "value"),
    [(i * i * i, 10**18 + 3 * 10**12 + 3 * 10**6 + 1), (i**7 - i, (10**6 + 1) ** 7 - 10**6 - 1),
     (ShiftLeft(i, 60), (10**6 + 1) << 60), (ISqrt(i**6), (10**6 + 1) ** 3), (FloorMod(-(i**4), i), 0)],
    ids=str,
)  # fmt: skip
def test_nothing_wraps_around(expr, value):
    assert evaluate(expr, {i: 10**6 + 1}) == value
    assert evaluate(expr, {i: numpy.array([10**6 + 1])})[0] == value


LEAST = -(2**63)


@pytest.mark.parametrize(
    ("expr", "values"),
    [
        (Select(Lt(i, 1), 2**63, i), [2**63, 1]),
        (Select(Lt(i, 1), i, sympy.Integer(LEAST - 1)), [0, LEAST - 1]),
        (FloorDiv(LEAST, Select(Lt(i, 1), -1, 1)), [2**63, LEAST]),
        (Larger(i + 2**63, LEAST), [2**63, 2**63 + 1]),
        (BitXor(LEAST, i - 1), [2**63 - 1, LEAST]),
        (ShiftRight(Select(Lt(i, 1), 2**100, -(2**100)), 70 + 20 * i), [2**30, -(2**10)]),
        (Table("t", i, 2, 2**64, [2**63, 2**64 - 1]), [2**63, 2**64 - 1]),
        (FloorMod(3**40 + i, 2**63), [3**40 % 2**63, (3**40 + 1) % 2**63]),
    ],
    ids=str,
)
def test_int64_is_left_where_it_ends(expr, values):
    assert evaluate(expr, {i: numpy.array([0, 1])}).tolist() == values
    assert [evaluate(expr, {i: value}) for value in (0, 1)] == values


def test_arrays_of_any_integer_type():
    top = numpy.array([2**64 - 1, 0], numpy.uint64)
    assert evaluate(i + 1, {i: top}).tolist() == [2**64, 1]
    assert evaluate(i * i, {i: numpy.array([2**31 - 1, -(2**31)], numpy.int32)}).tolist() == [(2**31 - 1) ** 2, 2**62]
    assert evaluate(i * i, {i: numpy.array([numpy.int64(2**40)], object)}).tolist() == [2**80]
    assert evaluate(i**4, {i: numpy.array(2**20)}) == 2**80


def test_two_symbols_of_one_name_keep_their_values():
    plain, positive = sympy.Symbol("i", integer=True), sympy.Symbol("i", integer=True, positive=True)
    assert evaluate(plain - positive, {plain: 7, positive: 3}) == 4
    assert evaluate(plain + 1, {"i": 7}) == evaluate(positive + 1, {plain: 7}) == 8
    for values in ({"i": 7}, {plain: 7}):
        with pytest.raises(ExpressionError, match="two symbols are named i; key the values by the symbols"):
            evaluate(2 * plain + positive + positive**2, values)


def test_deep_expressions_are_evaluated():
    deep = index_symbol("i")
    for _ in range(3000):
        deep = (deep * 3 + 1) % 1009
    value = 5
    for _ in range(3000):
        value = (value * 3 + 1) % 1009
    assert evaluate(deep, {"i": 5}) == value


def test_conditions():
    assert evaluate(sympy.And(Lt(i, 3), sympy.Not(Lt(i, 1))), {i: numpy.arange(4)}).tolist() == [
        False,
        True,
        True,
        False,
    ]
    assert evaluate(sympy.Or(Lt(i, 1), Lt(2, i)), {i: 2}) is False


def test_tables_known_and_given():
    known, given_later = Table("a", i, 3, 10, [7, 8, 9]), Table("b", i, 3, 10)
    assert evaluate(known + given_later, {i: numpy.array([0, 2])}, {"b": [1, 2, 3]}).tolist() == [8, 12]
    assert evaluate(given_later, {"i": 1}, {"b": (4, 5, 6)}) == 5


@pytest.mark.parametrize(
    ("expr", "values", "message"),
    [
        (i + j, {i: 1}, "no value for j; given: i"),
        (Table("b", i, 3, 10), {i: 0}, "no entries for the run-time table b"),
        (Table("a", i, 2, 9, [7, 8]), {i: 2}, r"a\[2\] is outside the table's 2 entries"),
        (Table("a", i, 2, 9, [7, 8]), {i: numpy.array([0, -1])}, "an index into a is outside its 2 entries"),
        (sympy.Function("f")(i), {i: 1}, "no integer meaning"),
        (i + 1, {i: 2.5}, "2.5 of type float is not an integer"),
        (i + 1, {i: numpy.array([2.5])}, "an array of float64 does not hold integers"),
        (ShiftLeft(1, i), {i: 2**20}, "a number of 1048577 bits exceeds the limit of 65536 bits"),
        (i**100_000, {i: 2}, "a number of 200000 bits"),
    ],
)
def test_what_has_no_value_is_refused(expr, values, message):
    with pytest.raises(ExpressionError, match=message):
        evaluate(expr, values)


@pytest.mark.parametrize("value", [3, numpy.array([3, 4])], ids=["int", "array"])
def test_division_by_zero_raises(value):
    with pytest.raises(ZeroDivisionError):
        evaluate(FloorDiv(i, j), {i: value, j: value - 3})


def test_roots_and_shifts_without_a_value():
    for amount in (-1, numpy.array([1, -1])):
        for node in (ShiftLeft, ShiftRight):
            with pytest.raises(ValueError, match="a negative shift"):
                evaluate(node(i, j), {i: 3, j: amount})
    with pytest.raises(ValueError, match="isqrt of a negative number"):
        evaluate(ISqrt(i), {i: numpy.array([4, -4])})


def test_values_are_checked_against_facts():
    size = Size("M", min=8, max=64, multiple_of=8)
    ranges = {i: Range(0, size, 4)}
    assert admissible({size: 16, i: 12}, ranges)
    for wrong in ({size: 12}, {size: 72}, {size: 0}, {size: 16, i: 16}, {size: 16, i: 3}, {size: 16, i: -4}):
        assert not admissible(wrong, ranges)
