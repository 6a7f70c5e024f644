"""Loops of shuffles in parts: which are unrolled, by how much, and that every turn is done once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ptx_runs import ptx_of, run_ptx

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.toolchain import compile_kernel

WARPS = 2


def row_maxima(rows, first=0, step=1, word=lambda: None, work=1):
    """The greatest number of some rows of each warp, and how many rows came before them."""

    @lego.kernel(grid=1, block=32 * WARPS)
    def maxima(x: lego.Tensor(f32, Row(WARPS * rows, 32)), y: lego.Tensor(f32, Row(WARPS * rows))):
        seen = lego.register(f32(0.0))
        for turn in lego.range(first, rows, step):
            word()
            row = lego.warp_id * rows + turn
            value = x[row, lego.lane_id]
            for _ in range(work):
                value = lego.warp_reduce(value, "max")
            with lego.when(lego.lane_id == 0):
                y[row] = value + seen
            seen.set(seen + 1.0)

    return maxima


def values_of(x, rows, first, step):
    y = np.full(WARPS * rows, -77, np.float32)
    for warp in range(WARPS):
        turns = np.arange(first, rows, step)
        y[warp * rows + turns] = x.reshape(-1, 32)[warp * rows + turns].max(1) + np.arange(len(turns))
    return y


@given(st.integers(1, 24), st.integers(0, 5), st.integers(1, 3))
def test_every_turn_is_done_once(rows, first, step):
    x = np.random.default_rng(rows).integers(-99, 99, WARPS * rows * 32).astype(np.float32)
    y = np.full(WARPS * rows, -77, np.float32)
    kernel = row_maxima(rows, first, step)
    assert run_ptx(kernel, {"x": x, "y": y}, *ptx_of(kernel)).clean
    np.testing.assert_array_equal(y, values_of(x, rows, first, step))


@pytest.mark.parametrize(("rows", "turns"), [(16, 8), (20, 4), (22, 2), (23, 1)])
def test_a_divisor_of_the_turns_is_in_one_body(rows, turns):
    assert ptx_of(row_maxima(rows))[0].count("shfl.sync.bfly") == 5 * turns


@pytest.mark.parametrize(("work", "turns"), [(4, 4), (8, 2), (16, 1)])
def test_a_large_body_has_fewer_turns(work, turns):
    assert ptx_of(row_maxima(16, work=work))[0].count("shfl.sync.bfly") == 5 * work * turns


def test_a_loop_that_waits_for_other_warps_stays():
    assert compile_kernel((row_maxima(16),), emit="nvvm").text.count("{loop_annotation = ") == 1
    assert "loop_annotation" not in compile_kernel((row_maxima(16, word=lego.barrier),), emit="nvvm").text


def test_an_unknown_number_of_turns_stays():
    n = lego.size("n", max=4096)

    @lego.kernel(grid=1, block=32)
    def sums(x: lego.Tensor(i32, Row(n, 32)), y: lego.Tensor(i32, Row(n))):
        for row in lego.range(n):
            y[row] = lego.warp_reduce(x[row, lego.lane_id], "xor")

    assert "loop_annotation" not in compile_kernel((sums,), emit="nvvm").text
