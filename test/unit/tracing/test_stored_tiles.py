"""`lego.store_tile`: a shared tile into a matrix, by all threads of a block; what is outside is not stored."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32
from lego_mlir.errors import LayoutError
from lego_mlir.interp.traced_kernels import run_kernel


def stored(order, rows, columns, tile, threads=64, dtype=f32):
    """3 x, through tiles of shared memory."""
    grid = (-(-rows // tile[0]), -(-columns // tile[1]))

    @lego.kernel(grid=grid, block=threads)
    def kernel(x: lego.Tensor(dtype, Row(rows, columns)), y: lego.Tensor(dtype, order(rows, columns))):
        held, at = lego.shared(dtype, Row(*tile)), (lego.block_id.x, lego.block_id.y)
        lego.stage(x, at, held)
        lego.barrier()
        for step in lego.range(-(-tile[0] * tile[1] // threads)):
            place = step * threads + lego.thread_id.x
            with lego.when(place < tile[0] * tile[1]):
                held[place // tile[1], place % tile[1]] *= 3.0
        lego.barrier()
        lego.store_tile(held, y, at)

    return kernel


@pytest.mark.parametrize("order", [Row, Col])
@pytest.mark.parametrize(("rows", "columns", "tile"), [(64, 64, (32, 64)), (40, 72, (32, 32)), (33, 35, (16, 24))])
def test_values_inside_are_stored(rows, columns, tile, order):
    kernel = stored(order, rows, columns, tile)
    x = np.random.default_rng(0).integers(-8, 9, (rows, columns)).astype(np.float32)
    given = {"x": x.ravel(), "y": np.zeros(rows * columns, np.float32)}
    report = run_kernel(kernel, given, counts=False)
    assert report.clean, report.faults[0]
    np.testing.assert_array_equal(given["y"].reshape((rows, columns), order="C" if order is Row else "F"), 3 * x)


@pytest.mark.parametrize("order", [Row, Col])
@pytest.mark.parametrize("threads", [96, 128])
@pytest.mark.parametrize("tile", [(11, 40), (7, 24), (3, 8), (33, 1)])
def test_threads_need_not_divide_a_tile(tile, threads, order):
    """The last chunk of a thread, of as many bytes as the others, is in a branch."""
    kernel = stored(order, 37, 40, tile, threads, f16)
    x = np.random.default_rng(1).integers(-8, 9, (37, 40)).astype(np.float16)
    given = {"x": x.ravel(), "y": np.full(x.size, np.nan, np.float16)}
    report = run_kernel(kernel, given, counts=False)
    assert report.clean, report.faults[0]
    np.testing.assert_array_equal(given["y"].reshape(37, 40, order="C" if order is Row else "F"), 3 * x)
    assert ("vector<8xf16>" in kernel.mlir()) == (tile[1] % 8 == 0)


def test_rows_of_whole_vectors_are_stored_by_16_bytes():
    assert "vector<8xf16>" in stored(Row, 64, 64, (64, 64), dtype=f16).mlir().split("vector.store")[-1]


def test_a_tile_of_another_type_needs_a_function():
    @lego.kernel(grid=1, block=32)
    def kernel(y: lego.Tensor(f16, Row(8, 8))):
        lego.store_tile(lego.shared(f32, Row(8, 8)), y, (0, 0))

    with pytest.raises(LayoutError, match=r"lego.store_tile without by= stores one tile of the matrix's type"):
        kernel.trace()


@pytest.mark.parametrize("columns", [16, 13, 1])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, place, s: 0.5, lambda x, s: 0 * x + 0.5),
        (lambda x, place, s: place.by_row(s), lambda x, s: 0 * x + s[:, None]),
        (lambda x, place, s: x * place.by_row(s), lambda x, s: x * s[:, None]),
        (lambda x, place, s: place.row, lambda x, s: 0 * x + np.arange(8)[:, None]),
    ],
    ids=["number", "number of a row", "scaled", "index"],
)
def test_a_function_of_elements_stores_all_of_them(function, expected, columns):
    """Tiles that reach outside, of one column too; a single number is that of all elements of a vector."""

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f32, Row(8, 16)), s: lego.Tensor(f32, Row(8)), y: lego.Tensor(f16, Row(8, columns))):
        tile = lego.shared(f32, Row(8, 16))
        for number in lego.unroll(4):
            i, j = Row(8, 16).inv(32 * number + lego.thread_id.x)
            tile[i, j] = x[i, j]
        lego.barrier()
        lego.store_tile(tile, y, (0, 0), by=lambda v, place: function(v, place, s))

    x, s = np.arange(128, dtype="f4") / 8, np.arange(8, dtype="f4")
    given = {"x": x, "s": s, "y": np.full(8 * columns, np.nan, "f2")}
    report = run_kernel(kernel, given)
    assert report.clean, report.faults[0]
    np.testing.assert_array_equal(given["y"].reshape(8, columns), expected(x.reshape(8, 16), s)[:, :columns])
