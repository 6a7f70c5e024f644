"""Straight-line code computes what the expressions say, with no operation twice."""

import sympy
from expression_strategies import expressions, points, scopes
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.expr.cost import operations
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.nodes import FloorDiv, Lt, Select
from lego_mlir.expr.sharing import straight_line

i, j, n = sympy.symbols("i j n", integer=True)


@given(st.data(), scopes(), st.integers(0, 2**32 - 1))
@settings(max_examples=250)
def test_code_computes_the_expressions(data, scope, seed):
    raws = [data.draw(expressions(scope, 3)) for _ in range(2)]
    values = {str(s): int(v[0]) for s, v in points(scope, 1, seed).items()}
    expected = [evaluate(raw, values) for raw in raws]
    code = straight_line(raws)
    for name, value in code.assignments:
        assert str(name) not in values
        values[str(name)] = evaluate(value, values)
    assert [evaluate(result, values) for result in code.results] == expected
    assert operations(*raws, shared=True) <= operations(*raws)


def test_a_part_of_two_sums_is_computed_once():
    assert operations(i + j + 1, n - i - j, shared=True) == 3
    assert operations((i + j) * (i + j + 1), shared=True) == 3


def test_a_part_of_two_products_is_computed_once():
    assert operations(i * j * n, i * j * (n + 1), shared=True) == 4


def test_a_negated_part_is_subtracted():
    assert operations(i - j + n, j - i + 3, shared=True) == 3


def test_equal_operations_in_branches_are_one():
    quotient = FloorDiv(i, 4)
    assert operations(Select(Lt(quotient, 3), quotient, quotient + 1), shared=True) == 4 + 1 + 1 + 1


def test_names_avoid_symbols_of_the_expressions():
    s0 = sympy.Symbol("s0", integer=True)
    code = straight_line([FloorDiv(s0, 4), FloorDiv(s0, 4) + 1])
    assert [str(name) for name, _ in code.assignments] == ["s1"]
