"""The box stencil in every order and variant against NumPy, in the interpreter: values, races, bounds."""

import numpy as np
import pytest
from launching import launch

import lego_mlir as lego
from lego_mlir import f16, f32, f64, interp, schedule
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.kernels import box_stencil as stencil
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.schedule import ORDERS

BOUNDARIES = stencil.BOUNDARIES


def image(h, w, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal((h, w)).astype(dtype.numpy)


def check(kernel, source, dtype, **sizes):
    _, result = launch(kernel, source, np.zeros_like(source), sizes=sizes)
    tolerance = {f16: 2e-3, f32: 2e-6, f64: 1e-14}[dtype]
    np.testing.assert_allclose(result, kernel.expected(source), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("order", ["row", "zigzag"])
def test_one_output_a_thread(order, size, boundary):
    h, w = 9, 21
    check(
        stencil.build(h, w, f32, size=size, boundary=boundary, constant=1.5, order=order, threads=64),
        image(h, w, f32),
        f32,
    )


@pytest.mark.parametrize("name", ORDERS)
def test_every_named_order(name):
    check(stencil.build(13, 19, f32, size=1, order=name, threads=32), image(13, 19, f32), f32)


@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
@pytest.mark.parametrize(("h", "w", "down", "across"), [(13, 24, 4, 2), (20, 16, 8, 4), (7, 9, 3, 1)])
def test_several_outputs_a_thread(h, w, down, across, dtype):
    wide = min(across, 16 // dtype.bytes)
    kernel = stencil.build(h, w, dtype, size=3, boundary="constant", down=down, across=wide, threads=32)
    check(kernel, image(h, w, dtype), dtype)


def test_the_thread_order_may_be_any_layout():
    h, w = 16, 40
    for order in (
        schedule.tiles(h, w, tile=(8, 32)),
        schedule.nested(schedule.columns(2, 5, width=2), lego.Row(8, 8)),
        schedule.Cuts([h, w], [(2, 24), (1, 4), (2, 8, "odd")]),
    ):
        check(stencil.build(h, w, f32, size=3, order=order, threads=64), image(h, w, f32), f32)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("h", "w"), [(16, 64), (19, 37)])
def test_shared_memory(h, w, boundary):
    for dtype in (f32, f16):
        kernel = stencil.build_shared(
            h, w, dtype, size=5, boundary=boundary, constant=-2, order="columns", tile=(8, 32), threads=64
        )
        check(kernel, image(h, w, dtype), dtype)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_strips_in_the_interpreter_and_on_threads_of_the_cpu(boundary):
    h, w = 21, 50
    for order in ("row", schedule.columns(6, 4, width=3, zigzag=True)):
        kernel = stencil.build_strips(h, w, f32, size=3, boundary=boundary, order=order, tile=(4, 16))
        source = image(h, w, f32)
        check(kernel, source, f32)
        result = np.zeros_like(source)
        compiled = compile_kernels(kernel.mlir())[kernel.name]
        compiled([source.reshape(-1), result.reshape(-1)], [int(n) for n in kernel.grid], threads=3)
        np.testing.assert_allclose(result, kernel.expected(source), rtol=2e-6, atol=2e-6)
    with pytest.raises(UsageError, match="stencil_strips: threads=0 must be at least 1"):
        compiled([source.reshape(-1), result.reshape(-1)], [24], threads=0)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_box_larger_than_the_matrix(boundary):
    check(stencil.build(3, 4, f64, size=9, boundary=boundary, threads=32), image(3, 4, f64), f64)


def test_one_kernel_for_all_sizes_in_columns_of_a_run_time_width():
    H, W, wide = lego.size("H", max=4096), lego.size("W", max=4096), lego.size("wide", max=4096)
    kernel = stencil.build(H, W, f32, size=3, order=schedule.columns(H, W, width=wide), threads=32)
    for h, w, column in ((5, 17, 4), (8, 16, 8), (3, 7, 9)):
        check(kernel, image(h, w, f32), f32, H=h, W=w, wide=column)


@pytest.mark.parametrize(("n", "order"), [(4096, "columns"), (4037, "columns"), (4037, "zigzag"), (4096, "tiles")])
def test_blocks_of_a_large_image(n, order):
    """9 x 9 on a sample of the blocks: the first, the last, and those at the end of a column."""
    layouts = {
        "columns": schedule.columns(n, n, width=32),
        "zigzag": schedule.columns(n, n, width=32, zigzag=True),
        "tiles": schedule.tiles(n, n, tile=(8, 32)),
    }
    layout = layouts.get(order, lego.Row(n, n))
    kernel = stencil.build(n, n, f32, order=layout)
    source, result = image(n, n, f32), np.zeros((n, n), np.float32)
    last = n * n // 256 - (n * n % 256 == 0)
    blocks = [0, 1, 32 * n // 256, last // 2, last]
    report = interp.launch(kernel.mlir(), args=[source.reshape(-1), result.reshape(-1)], blocks=blocks)
    assert report.clean
    tasks = np.concatenate([np.arange(b * 256, min(b * 256 + 256, n * n)) for b in blocks])
    y, x = layout.inv(tasks)
    padded = np.pad(source, 4, "edge").astype(np.float64)
    expected = [padded[i : i + 9, j : j + 9].mean() for i, j in zip(y, x, strict=True)]
    np.testing.assert_allclose(result[y, x], expected, atol=1e-6)
    assert np.count_nonzero(result) == len(tasks)


def test_inner_boxes_take_no_boundary_and_vectors():
    kernel = stencil.build(256, 256, f32, down=4, across=4)
    loads = [a for s, a in kernel.trace().accesses() if a.buffer.name == "x"]
    assert sum(a.width == 4 for a in loads) == 12 * 3  # 12 rows of three vectors for 16 outputs
    assert not any(a.is_masked for a in loads)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 4}, "size=4 must be an odd int"),
        ({"boundary": "reflect"}, "no boundary 'reflect'; there are clamp, mirror, wrap, constant"),
        ({"dtype": lego.i32}, "the elements are f16, f32 or f64, got i32"),
        (
            {"across": 3},
            r"across=3 must be a power of two that divides the width 16, of at most 16 bytes, 4 elements of f32",
        ),
        ({"down": 0}, "down=0 must be an int >= 1"),
        ({"order": "spiral"}, "stencil has no order 'spiral'"),
    ],
)
def test_messages(options, message):
    with pytest.raises(UsageError, match=message):
        stencil.build(16, 16, **{"dtype": f32, **options})


def test_an_order_of_other_pieces_and_threads_that_do_not_fit():
    with pytest.raises(LayoutError, match=r"must be a layout of \(4, 16\) tiles"):
        stencil.build(16, 16, f32, down=4, order=schedule.columns(16, 16, width=4))
    with pytest.raises(UsageError, match="threads=48 must be a multiple of the tile's 32 columns"):
        stencil.build_shared(16, 64, f32, tile=(8, 32), threads=48)
