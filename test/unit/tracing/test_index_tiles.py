"""Tiles of indices as numbers, and as indices of loads: what registers have in common is computed once."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, f64, i32

LAYOUT = f2.MmaSync((4, 1)).layout((64, 64))
ROW, COLUMN = np.indices((64, 64))


def distances(dtype, most):
    N = lego.size("N", max=most)

    @lego.kernel(grid=1, block=128)
    def kernel(x: lego.Tensor(i32, Row(N)), y: lego.Tensor(dtype, Row(64, 64))):
        tile = lego.zeros(f32, LAYOUT)
        (tile.index(1) - tile.index(0) - 3 + N).to(dtype).store(y)

    return kernel


@pytest.mark.parametrize(("dtype", "most", "conversions"), [
    (f32, 2**20, 1), (f64, 2**40, 1), (f32, 2**25, 32), (f16, 2**10, 32),
])  # fmt: skip
def test_numbers_share_a_conversion_where_they_are_exact(dtype, most, conversions):
    kernel, N = distances(dtype, most), 1000
    y = np.zeros((64, 64), dtype.numpy)
    kernel(np.zeros(N, np.int32), y, check=True)
    np.testing.assert_array_equal(y, (COLUMN - ROW - 3 + N).astype(dtype.numpy))
    assert kernel.mlir().count("arith.sitofp") == conversions


def test_loads_of_equal_indices_are_one():
    @lego.kernel(grid=1, block=128)
    def kernel(x: lego.Tensor(i32, Row(64)), y: lego.Tensor(i32, Row(64, 64))):
        tile = lego.zeros(f32, LAYOUT)
        (x[tile.index(0)] * 100 + x[tile.index(1)]).store(y)

    x, y = np.arange(64, dtype=np.int32) ** 2 % 61, np.zeros((64, 64), np.int32)
    kernel(x, y, check=True)
    np.testing.assert_array_equal(y, x[ROW] * 100 + x[COLUMN])
    loads = sum("load" in type(s).__name__.lower() for s in kernel.trace().statements())
    assert loads == 2 + 8  # of rows, and of pairs of columns
