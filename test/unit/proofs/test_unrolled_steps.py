"""Copies of an unrolled loop whose conditions have operands in another order are not taken for rounds of a loop."""

import sympy

from lego_mlir import f16
from lego_mlir.expr.nodes import FloorDiv, Lt
from lego_mlir.expr.verdict import Proved
from lego_mlir.kernels import transpose
from lego_mlir.proofs import unrolled
from lego_mlir.proofs.claims import kernel_claims


def test_a_step_of_an_index_does_not_fit_a_condition():
    x = sympy.Symbol("x", integer=True)
    assert not unrolled._reaches([Lt(x, 5)], (3,), 1, [Lt(x, 8)])
    assert not unrolled._reaches([x], ((0, 3),), 1, [x + 3])
    assert unrolled._reaches([x, Lt(x, 5)], (3, (0, 3)), 2, [x + 6, Lt(x, 11)])


def test_steps_of_two_levels_are_of_the_operands_before_both():
    x, i, j = sympy.symbols("x i j", integer=True)
    sum_of_quotients = FloorDiv(x, 7) + 2 * FloorDiv(x + 1, 9)
    assert unrolled._moved(sum_of_quotients, [(4, i), (5, j)]) == sum_of_quotients + 4 * i + 5 * j
    assert unrolled._moved(FloorDiv(x, 7), [(4, i), ((1, 0), j)]) == FloorDiv(x + j, 7) + 4 * i
    assert unrolled._moved(FloorDiv(x, 7), [((2, 0), i), ((1, 0), j)]) == FloorDiv(x + 2 * i + j, 7)


def test_words_of_two_rows_are_proved_free_of_races_with_accesses_unrolled_twice():
    found = dict(kernel_claims(transpose.build("realigned", 131, 195, f16), tried=False))
    shared = [verdict for text, verdict in found.items() if "shared0" in text]
    assert len(shared) == 2
    assert all(isinstance(verdict, Proved) for verdict in shared)
