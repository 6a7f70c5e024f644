"""Comparisons of a kernel's values: by value where threads compute them, an error where Python would decide."""

import numpy as np
import pytest
from launching import launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, i32
from lego_mlir.errors import SymbolicBranchError
from lego_mlir.expr.index import index_symbol

N = 32
RUNS = {"interpreter": launch, "CPU": launch_on_cpu, "PTX": launch_emulated}
COMPARISONS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "^": lambda a, b: a ^ b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("written", COMPARISONS)
def test_conditions_are_compared_by_value(written, run):
    compare = COMPARISONS[written]

    @lego.kernel(grid=1, block=N)
    def k(x: lego.Tensor(i32, Row(N)), y: lego.Tensor(i32, Row(4, N))):
        t = lego.thread_id[0]
        even, low = t % 2 < 1, t < N // 2
        y[0, t] = lego.where(compare(even, low), i32(1), i32(0))
        y[1, t] = lego.where(compare(even, True), i32(1), i32(0))
        if written not in ("^", "<", "<=", ">", ">="):  # data has no order of truth values
            y[2, t] = lego.where(compare(x[t] > 0, low), i32(1), i32(0))
            y[3, t] = lego.where(compare(x[t] > 0, x[t] > 1), i32(1), i32(0))
        else:
            y[2, t] = y[3, t] = 0

    t, x = np.arange(N), np.arange(N) % 3
    even, low = t % 2 == 0, t < N // 2
    _, y = RUNS[run](k, x, np.zeros((4, N)))
    np.testing.assert_array_equal(y[0], compare(even.astype(int), low.astype(int)).astype(bool))
    np.testing.assert_array_equal(y[1], compare(even.astype(int), 1).astype(bool))
    if written in ("==", "!="):
        np.testing.assert_array_equal(y[2], compare(x > 0, low))
        np.testing.assert_array_equal(y[3], compare(x > 0, x > 1))


def test_python_cannot_decide_on_a_comparison_of_conditions():
    @lego.kernel(grid=1, block=N)
    def k(y: lego.Tensor(i32, Row(N))):
        t = lego.thread_id[0]
        y[t] = 1 if (t < 3) == (t < 4) else 0

    with pytest.raises(SymbolicBranchError, match=r"use lego\.where"):
        k.trace()


def test_structural_equality_has_a_name():
    i = index_symbol("i")
    assert (i < 3).same(i < 3)
    assert not (i < 3).same(i < 4)
    assert len({(i < 3).expr, (i < 3).expr, (i < 4).expr}) == 2
