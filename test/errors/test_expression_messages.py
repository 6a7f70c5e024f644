"""What an index expression, a size, a range or a root refuses, and what it says."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Range
from lego_mlir.errors import ExpressionError, SymbolicBranchError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.nodes import FloorDiv, Lt, Select

i, j = lego.symbols("i j")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": 3}, "the name 3 must be an identifier"),
        ({"name": "a b"}, "the name 'a b' must be an identifier"),
        ({"name": "M", "multiple_of": 1.5}, "size M: multiple_of must be an int, got 1.5 of type float"),
        ({"name": "M", "min": 1.5}, "size M: min must be an int"),
        ({"name": "M", "max": "9"}, "size M: max must be an int"),
        ({"name": "M", "min": -1}, "min=-1 must be >= 0"),
        ({"name": "M", "min": 5, "max": 7, "multiple_of": 4}, r"no multiple of 4 lies in \[5, 7\]"),
    ],
)
def test_sizes(arguments, message):
    with pytest.raises(ExpressionError, match=message):
        lego.size(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2.5), "its ends must be ints or expressions in sizes, got 2.5"),
        (("a", 4), "its ends must be ints"),
        ((0, 4, 0), "the step must be an int >= 1, got 0"),
        ((0, 4, 0.5), "the step must be an int >= 1"),
    ],
)
def test_ranges(arguments, message):
    with pytest.raises(ExpressionError, match=message):
        Range(*arguments)


def test_what_belongs_to_a_symbol():
    with pytest.raises(ExpressionError, match=r"the keys must be symbols .* got 'i'"):
        lego.simplify(i % 4, {"i": Range(0, 4)})
    with pytest.raises(ExpressionError, match=r"i needs a range such as lego.Range\(0, 32\), got \(0, 4\)"):
        lego.prove(i < 4, {i: (0, 4)})
    assert lego.prove(i < 4, {i: range(4)})
    assert str(lego.simplify(i % 4, {i: range(4)})) == "i % 4 -> i, 4 -> 0 operations"


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (-1, "isqrt of the negative number -1"),
        (4.7, "isqrt takes integers, got 4.7"),
        (np.array([4, -1]), "isqrt of the negative number -1 in an array"),
        (np.array([4.0]), "isqrt takes integers, got an array of float64"),
    ],
)
def test_roots(x, message):
    with pytest.raises(ExpressionError, match=message):
        lego.isqrt(x)


def test_roots_of_the_largest_squares():
    x = np.array([0, 1, 3, 4, 2**62 - 1, 2**62, 3037000499**2 - 1, 3037000499**2, 2**63 - 1])
    assert lego.isqrt(x).tolist() == [0, 1, 1, 2, 2**31 - 1, 2**31, 3037000498, 3037000499, 3037000499]


def test_branches_and_fractions():
    with pytest.raises(SymbolicBranchError, match=r"the truth of 'i < 4' depends on symbols.*lego.where"):
        bool(i < 4)
    with pytest.raises(SymbolicBranchError, match="a plain int is needed here, but i is symbolic"):
        range(i)
    with pytest.raises(ExpressionError, match="an index has no fractions; write integer division as //"):
        i / 2
    with pytest.raises(ExpressionError, match="only a power of two can be raised to a symbol"):
        3**i
    with pytest.raises(ExpressionError, match="the exponent must be an int >= 0"):
        i**-1


def test_operators_that_ints_have():
    symbol = i.expr
    for value in (-5, 0, 7):
        for build in (abs, lambda x: ~x, lambda x: divmod(9, x * x + 1)[1], lambda x: 2 ** (x * x), lambda x: -x):
            assert evaluate(build(i).expr, {symbol: value}) == build(value)
    assert (i == None) is False  # noqa: E711  what `in` and dataclasses ask
    assert (i != None) is True  # noqa: E711


def test_a_branch_that_is_never_taken_may_divide_by_zero():
    raw = Select(Lt(3, j.expr), FloorDiv(i.expr, FloorDiv(j.expr, 4)), 0)
    assert lego.simplify(raw, {i: Range(0, 4), j: Range(0, 4)}).expr == 0
    assert lego.simplify(FloorDiv(i.expr, FloorDiv(j.expr, 4)), {j: Range(0, 4)}).expr is not None


def test_too_deep_an_expression():
    deep = i
    for _ in range(600):
        deep = lego.isqrt(deep) + 1
    with pytest.raises(ExpressionError, match=r"nested too deeply to be simplified .* lego.gallery.tabulated"):
        lego.simplify(deep, {i: Range(0, 8192)})
