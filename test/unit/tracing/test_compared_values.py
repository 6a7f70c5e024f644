"""Comparisons of a kernel's values: by value where threads compute them, an error where Python would decide."""

import numpy as np
import pytest
from launching import launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, i1, i32
from lego_mlir.errors import SymbolicBranchError
from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.verdict import Proved
from lego_mlir.tracing.checks.claims import access_verdicts

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


@pytest.mark.parametrize("run", RUNS)
def test_conditions_of_indices_with_data_and_choices_of_ints(run):
    @lego.kernel(grid=1, block=N)
    def k(x: lego.Tensor(i32, Row(N)), y: lego.Tensor(i32, Row(5, N))):
        t = lego.thread_id[0]
        y[0, t] = i32((t < N // 2) ^ (x[t] > 0))
        y[1, t] = i32((t < N // 2) == (x[t] > 0))
        y[2, t] = i32((t < N // 2) != x[t].to(i1))
        y[3, t] = i32(lego.where(x[t] > 1, 5, -2)) + i32(lego.where(t < 3, 1, 0))
        y[4, t] = i32(lego.match_any(x[t]))

    t, x = np.arange(N), np.arange(N) % 3
    low = t < N // 2
    _, y = RUNS[run](k, x, np.zeros((5, N)))
    np.testing.assert_array_equal(y[0], low ^ (x > 0))
    np.testing.assert_array_equal(y[1], low == (x > 0))
    np.testing.assert_array_equal(y[2], low != (x > 0))
    np.testing.assert_array_equal(y[3], np.where(x > 1, 5, -2) + (t < 3))
    np.testing.assert_array_equal(y[4].view(np.uint32), (x[:, None] == x) @ (1 << t.astype(np.int64)))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("bounds", [(9, -1, -1), (9, 0, -3), (0, 5, -1), (7, 7, -2), (10, -4, -5), (2, 11, 3)])
def test_a_loop_counts_as_python_s_range(bounds, run):
    @lego.kernel(grid=1, block=1)
    def k(y: lego.Tensor(i32, Row(2))):
        last, number = lego.register(i32, -100), lego.register(i32, 0)
        for i in lego.range(*bounds):
            last.set(last * 3 + i32(i))
            number += 1
        y[0] = last
        y[1] = number

    last = -100
    for i in range(*bounds):
        last = last * 3 + i
    assert RUNS[run](k, np.zeros(2))[0].tolist() == [last, len(range(*bounds))]


@pytest.mark.parametrize("run", RUNS)
def test_a_descending_loop_from_a_thread_s_index_stays_inside(run):
    @lego.kernel(grid=1, block=N)
    def k(x: lego.Tensor(i32, Row(N)), y: lego.Tensor(i32, Row(N))):
        t, total = lego.thread_id[0], lego.register(i32, 0)
        for i in lego.range(t, -1, -2):
            total.set(total * 2 + x[i])
        y[t] = total

    x = np.arange(N) % 5 - 2
    total = [0] * N
    for t in range(N):
        for i in range(t, -1, -2):
            total[t] = total[t] * 2 + int(x[i])
    np.testing.assert_array_equal(RUNS[run](k, x, np.zeros(N))[1], np.array(total).astype(np.int32))
    assert all(isinstance(verdict, Proved) for _, verdict in access_verdicts(k.trace(), timeout_ms=2000))


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
