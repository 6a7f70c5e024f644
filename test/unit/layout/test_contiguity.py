"""Vectors of positions: consecutive, and aligned to their number."""

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.nodes import Eq, FloorMod
from lego_mlir.layout.contiguity import aligned, contiguous, is_vector, stride

ROWS = st.lists(st.lists(st.integers(0, 12), min_size=4, max_size=4), min_size=1, max_size=3)


@given(ROWS)
def test_a_vector_is_consecutive_from_a_multiple_of_its_width(rows):
    expected = all(row[0] % 4 == 0 and row == list(range(row[0], row[0] + 4)) for row in rows)
    assert is_vector(np.array(rows)) == expected


@pytest.mark.parametrize(("first", "expected"), [(0, True), (8, True), (2, False)])
def test_alignment_decides_among_consecutive_positions(first, expected):
    assert is_vector(np.arange(first, first + 4).reshape(1, 4)) is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [([[0, 3, 6], [1, 4, 7]], 3), ([[5, 4, 3]], -1), ([[0, 1, 3]], None), ([[0, 1, 2], [0, 2, 4]], None)],
)
def test_a_stride_is_the_same_everywhere(rows, expected):
    assert stride(np.array(rows)) == expected


def test_claims_about_expressions():
    i, lane = index_symbol("i").expr, index_symbol("lane").expr
    assert aligned(i, 4) == Eq(FloorMod(i, 4), 0)
    assert contiguous(4 * i, 4 * (i + lane) - 3 * lane, lane) is sympy.true
    assert contiguous(i, 2 * lane, lane) == Eq(2 * lane, i + lane)
