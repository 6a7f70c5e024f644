"""Slices of symbolic sizes: the elements that NumPy would take, for every value of the size."""

import itertools

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row
from lego_mlir.errors import LayoutIndexError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.templates import Template, index

ENDS = [None, 0, 1, 3, 7, -1, -3, -7]


def elements(taken, n):
    """The positions of a slice for a value of the size, those that its mask is true for."""
    (colon,) = taken.colons
    count = max(0, int(evaluate(as_expr(colon.count), {"N": n})))
    values = {"N": n, str(colon.symbol): np.arange(count)}
    positions = np.broadcast_to(evaluate(taken.expr.expr, values), count)
    mask = True if taken.mask is True else evaluate(taken.mask.expr, values)
    return positions[np.broadcast_to(mask, count)].tolist()


@pytest.mark.parametrize("size", [lego.size("N"), lego.size("N", min=4), lego.size("N", min=8)], ids=["1", "4", "8"])
def test_a_slice_of_a_symbolic_size_is_numpy_s(size):
    refused = 0
    for start, stop, step in itertools.product(ENDS, ENDS, [None, 2]):
        whole = {n: list(range(n, 2 * n))[start:stop:step] for n in range(size.expr.min, 20)}
        try:
            taken = Row(2, size)[1, start:stop:step]
        except LayoutIndexError as error:
            assert "holds no index" in str(error)
            assert not any(whole.values())
            refused += 1
            continue
        for n, expected in whole.items():
            assert elements(taken, n) == expected, (start, stop, step, n)
    assert refused


def test_ends_that_are_proved_need_no_maximum_and_no_mask():
    n = lego.size("N", min=128)
    taken = Row(4, n)[1, -128:-64]
    assert (taken.shape, taken.mask) == ((64,), True)
    assert repr(taken.expr) == "2*N + s1 - 128"
    assert Row(4, n)[1, :128].mask is True


def test_an_end_that_may_lie_past_the_size_is_masked_in_a_load():
    def text(size):
        kernel = 'def k(p{{ sizes }}):\n    x = {{ load("p", A[i, 0:64]) }}'
        return Template.of(kernel, "t.py.jinja", A=Row(8, size), i=index("i")).render().text

    assert "i + tl.arange(0, 64)), mask=tl.arange(0, 64) < N)" in text(lego.size("N"))
    assert "mask" not in text(lego.size("N", min=64))


def test_ends_that_no_size_allows_are_refused():
    n = lego.size("N")
    with pytest.raises(LayoutIndexError, match=r"slice of axis 1: :N \+ 5 reaches past the end of the size N"):
        Row(4, n)[1, : n + 5]
    with pytest.raises(LayoutIndexError, match=r"slice of axis 1: 5:3 holds no index of 0\.\.N-1"):
        Row(4, n)[1, 5:3]
    with pytest.raises(LayoutIndexError, match="slice of axis 1: the step must not be 0"):
        Row(4, n)[1, ::0]
