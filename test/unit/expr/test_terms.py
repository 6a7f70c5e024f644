"""Reading and writing: ring laws are equalities, exact quotients are linear, nothing else changes."""

import numpy
import pytest
import sympy
from expression_strategies import expressions, points, scopes
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.errors import ExpressionError
from lego_mlir.expr.context import context_of
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Lt, Size
from lego_mlir.expr.poly import PRODUCT, number
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.terms import Terms

i, j, n = sympy.symbols("i j n", integer=True)


@given(st.data(), scopes(), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=200)
def test_writing_what_was_read_keeps_the_value(data, scope, seed, expand):
    raw = data.draw(expressions(scope, 3))
    base = context_of(scope[1])
    terms = (base if expand else base.unexpanded).terms
    written = terms.write(terms.read(raw))
    values = points(scope, 6, seed)
    assert numpy.all(evaluate(raw, values) == evaluate(written, values))
    assert terms.write(terms.read(written)) == written


def test_equal_by_ring_laws_is_equal():
    terms = Terms({})
    assert terms.read((i + j) * (i - j) + j**2) == terms.read(i * i)


def test_unexpanded_keeps_products_of_sums():
    kept = Terms({}, expand=False).read((i + j) * (i - j))
    assert {atom.op for atom in kept.atoms()} == {PRODUCT}


def test_an_exact_quotient_of_a_size_is_linear():
    size, terms = Size("K", multiple_of=32), Terms({})
    assert terms.write(terms.read(FloorDiv(size, 32) * 32 - size)) == 0
    assert terms.write(terms.read(FloorMod(size * j, 8))) == 0
    assert terms.write(terms.read(FloorDiv(size, 8) + FloorDiv(size, 16))) == 3 * FloorDiv(size, 16)


def test_a_stepped_symbol_divides_by_its_step():
    terms = Terms({i: Range(sympy.Integer(3), sympy.Integer(99), 8)})
    assert terms.write(terms.read(FloorMod(i, 8))) == 3
    assert terms.write(terms.read(8 * FloorDiv(i, 8))) == i - 3


def test_a_symbol_of_one_value_is_that_value():
    terms = Terms({i: Range(sympy.Integer(5), sympy.Integer(6))})
    assert terms.read(i + 1) == number(6)


def test_division_of_polynomials():
    terms = Terms({})
    quotient, rest = terms.read((n + 1) * i + j).divided(terms.read(n + 1))
    assert (terms.write(quotient), terms.write(rest)) == (i, j)


def test_division_by_a_zero_that_appears_is_refused():
    with pytest.raises(ExpressionError, match="division by zero"):
        Terms({}).node(FloorDiv, number(3), number(0))


def test_what_is_no_condition_is_refused():
    with pytest.raises(ExpressionError, match="not a condition"):
        Terms({}).read_condition(sympy.Xor(sympy.Symbol("p"), sympy.Symbol("q")))
    assert Terms({}).read_condition(Lt(i, i + 1)) is True
