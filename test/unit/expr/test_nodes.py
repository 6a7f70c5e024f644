"""Nodes fold constants as Python computes them, print as Python reads them, and survive being rebuilt."""

import pickle

import pytest
import sympy
from expression_strategies import expressions, points, scopes
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.errors import ExpressionError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import isqrt, maximum, minimum, where
from lego_mlir.expr.nodes import BitXor, FloorDiv, FloorMod, ISqrt, Lt, Select, ShiftLeft, Size, Table, canonical

i, j, n = sympy.symbols("i j n", integer=True)


@given(st.integers(-50, 50), st.integers(-9, 9).filter(bool))
def test_constants_fold_as_python_divides(x, d):
    assert (FloorDiv(sympy.Integer(x), d), FloorMod(sympy.Integer(x), d)) == divmod(x, d)


@pytest.mark.parametrize("node", [FloorDiv, FloorMod])
def test_division_by_zero_is_refused(node):
    with pytest.raises(ExpressionError, match="by zero in i"):
        node(i, 0)


def test_negative_shift_and_root_are_refused():
    with pytest.raises(ExpressionError, match="negative shift in i << -1"):
        ShiftLeft(i, -1)
    with pytest.raises(ExpressionError, match="isqrt of the negative number -4"):
        ISqrt(sympy.Integer(-4))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (-6 * FloorDiv(i, 8), "-6*(i // 8)"),
        (j - FloorMod(i, 3) * FloorDiv(j, 3), "j - (j // 3)*(i % 3)"),
        (FloorDiv(FloorMod(i, 8), 2), "(i % 8) // 2"),
        (FloorDiv(i, FloorDiv(n, 2)), "i // (n // 2)"),
        (BitXor(i + 1, j) + 1, "((i + 1) ^ j) + 1"),
        (FloorMod(-i, 8), "(-i) % 8"),
        (Select(sympy.And(Lt(i, 3), Lt(j, n)), i, j), "where((i < 3) & (j < n), i, j)"),
    ],
)
def test_text_reads_back_in_python(expr, text):
    assert str(expr) == text
    values = {"i": 29, "j": 13, "n": 10}
    assert eval(text, {"where": where}, values) == evaluate(expr, values)


@given(st.data(), scopes(), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_drawn_expressions_read_back_in_python(data, scope, seed):
    raw = data.draw(expressions(scope, 2))
    values = {str(s): int(v[0]) for s, v in points(scope, 1, seed).items()}
    table = next((t.entries for t in raw.atoms(Table)), ())
    if len(raw.atoms(Table)) < 2 and not raw.atoms(sympy.Not):
        names = {"where": where, "isqrt": isqrt, "minimum": minimum, "maximum": maximum, "t": table}
        assert eval(str(raw), names, values) == evaluate(raw, values)


def test_canonical_keeps_a_factored_product():
    factored = sympy.Mul(4, i + j, evaluate=False)
    assert canonical(factored) is factored


def test_canonical_refuses_what_is_no_integer():
    with pytest.raises(ExpressionError, match="write integer division as //"):
        canonical(i / 2)
    with pytest.raises(ExpressionError, match="sin has no integer meaning"):
        canonical(sympy.sin(i))


def test_tables_name_is_no_symbol_of_its_value():
    assert Table("order", i, 4, 4).free_symbols == {i}


def test_an_index_outside_a_constant_table_is_refused():
    with pytest.raises(ExpressionError, match="outside the table's 2 entries"):
        Table("t", 2, 2, 9, [5, 6])


def test_sizes_keep_their_facts_when_pickled():
    size = Size("M", min=32, max=4096, multiple_of=32)
    again = pickle.loads(pickle.dumps(size))
    assert again == size
    assert (again.min, again.max, again.multiple_of) == (32, 4096, 32)
    assert size != Size("M", min=32)
