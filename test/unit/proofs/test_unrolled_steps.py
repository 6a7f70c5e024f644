"""Copies of an unrolled loop whose conditions have operands in another order are not taken for rounds of a loop."""

import sympy

from lego_mlir.expr.nodes import Lt
from lego_mlir.proofs import unrolled


def test_a_step_of_an_index_does_not_fit_a_condition():
    x = sympy.Symbol("x", integer=True)
    assert not unrolled._reaches([Lt(x, 5)], (3,), 1, [Lt(x, 8)])
    assert not unrolled._reaches([x], ((0, 3),), 1, [x + 3])
    assert unrolled._reaches([x, Lt(x, 5)], (3, (0, 3)), 2, [x + 6, Lt(x, 11)])
