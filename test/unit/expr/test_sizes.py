"""Formulas of sizes: equal to the expressions that the operators give of expressions, and never a number."""

import operator
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.errors import ExpressionError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import Index, cdiv
from lego_mlir.expr.nodes import Le
from lego_mlir.expr.prove import prove
from lego_mlir.expr.sizes import SizeIndex, names_in, size
from lego_mlir.expr.verdict import Proved

OPERATIONS = operator.add, operator.sub, operator.mul, operator.floordiv
SIZES = size("M"), size("N", multiple_of=8, min=8), size("K", min=0, max=100)
OPERANDS = st.one_of(st.sampled_from(SIZES), st.integers(-3, 9), st.booleans())


@st.composite
def made(draw):
    """A size after some operations, and the same computed with expressions."""
    found = draw(st.sampled_from(SIZES))
    plain = Index(found.expr)
    for _ in range(draw(st.integers(0, 6))):
        operation, other = draw(st.sampled_from(OPERATIONS)), draw(OPERANDS)
        divides = operation is operator.floordiv
        if divides and (isinstance(other, SizeIndex) or other < 1):
            other = 3
        turned = draw(st.booleans()) and not divides
        as_given = Index(other.expr) if isinstance(other, SizeIndex) else other
        found = operation(other, found) if turned else operation(found, other)
        plain = operation(as_given, plain) if turned else operation(plain, as_given)
    return found, plain


@given(made())
def test_formulas_are_what_the_operators_give_of_expressions(both):
    found, plain = both
    assert found.expr == plain.expr and found.same(plain)
    assert repr(found) == repr(plain) and found.is_number == plain.is_number
    assert pickle.loads(pickle.dumps(found)).expr == plain.expr
    if isinstance(found, SizeIndex):
        assert {str(s) for s in found.expr.free_symbols} == set(names_in(found.formula))


@given(made())
def test_products_are_the_same_in_any_order(both):
    found = both[0] if isinstance(both[0], SizeIndex) else SIZES[0]
    M, N, K = SIZES
    assert (found * M * 3 * (N + 1)).same((N + 1) * 3 * (M * found))
    assert not (found * M).same(found * M + 1) and not (K * M * 4).same(K * M * 8) and not (K * M).same(K * M * M)


@given(made())
def test_the_least_value_of_a_formula_is_a_bound(both):
    found, _ = both
    if isinstance(found, SizeIndex) and found.least is not None:
        assert isinstance(prove(Le(found.least, found.expr), {}), Proved)


@given(st.integers(0, 40), st.one_of(st.none(), st.integers(40, 90)), st.integers(1, 9))
def test_a_size_bounded_by_another_is_that_of_the_expression(least, most, step):
    other = size("N", min=least, max=most, multiple_of=step)
    found, plain = size("M", max=other, multiple_of=2), size("M", max=Index(other.expr), multiple_of=2)
    assert isinstance(found, SizeIndex) and not isinstance(plain, SizeIndex)
    assert found.expr == plain.expr and list(names_in(found.formula)) == ["M", "N"]
    assert (found.expr.max, found.expr.below) == (plain.expr.max, plain.expr.below)


@given(made(), st.integers(10**6, 10**9))
def test_a_formula_grows_with_its_sizes(both, large):
    found, _ = both
    if isinstance(found, SizeIndex):
        low, high = (evaluate(found.expr, dict.fromkeys(found.expr.free_symbols, n)) for n in (large, large**3))
        assert low < high


def test_what_may_be_a_number_is_an_expression():
    M, N, _ = SIZES
    for value in (M - M, M * 0, M % 1, 0 * M, M * -1, M // M, 5 - N, M - N):
        assert not isinstance(value, SizeIndex)
    assert isinstance(cdiv(M * N, 32) * 4 + 1, SizeIndex)
    assert M * 1 is M and 1 * M is M and M + 0 is M and M // 1 is M


def test_long_formulas_are_expressions_that_share_their_parts():
    value = SIZES[0]
    for _ in range(30):
        value = value * value
    assert not isinstance(value, SizeIndex)


def test_a_quotient_by_zero_is_refused_where_it_is_written():
    with pytest.raises(ExpressionError, match="0"):
        SIZES[0] // 0


LIGHT = """
import sys
import lego_mlir as lego
from lego_mlir import Col, GroupBy, OrderBy, Row, TileBy, TileOrderBy, f32, gallery
M, N = lego.size("M", multiple_of=32), lego.size("N", min=1, max=2**20)
for layout in (Row(M, N), Col(M, 4, N), TileBy([M // 32, N], [32, 4]), OrderBy(Col(M, N)).GroupBy([M, N]),
               TileOrderBy(Row(M // 32, N), Col(32, 8)).GroupBy([M // 32, N, 32, 8])):
    tensor = lego.Tensor(f32, layout)
    tensor.layout.physical_size(), tensor.layout.require()
lego.Tensor(lego.i32, Row(lego.size("K", max=M)), range=(0, M * N)), lego.Tensor(f32, Row(M), range=(-1.0, 2))
assert not {"sympy", "numpy", "z3"} & set(sys.modules)
"""


def test_layouts_of_sizes_are_made_without_sympy():
    subprocess.run([sys.executable, "-c", LIGHT], check=True, timeout=120)
