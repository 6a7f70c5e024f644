"""Groups of a role share no memory of reductions and conversions: each is a small block."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, i32
from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.toolchain import compile_kernel

GROUPS, ROWS, COLUMNS = 2, 32, 128  # a group has two warps
ROWS_OF_WARPS = f2.Blocked((1, 4), (1, 32), (2, 1), order=(1, 0)).layout((ROWS, COLUMNS))
COLUMNS_OF_WARPS = f2.Blocked((1, 2), (1, 32), (1, 2), order=(1, 0)).layout((ROWS, COLUMNS))


def reduced():
    @lego.kernel(grid=1, block=192)
    def kernel(x: lego.Tensor(f32, Row(GROUPS * 64)), y: lego.Tensor(f32, Row(2, GROUPS * 64))):
        with lego.warps(2, 6, groups=GROUPS):
            i = lego.thread_id[0] - 64
            y[0, i] = lego.block_reduce(x[i])
            y[1, i] = lego.block_scan(x[i])

    def expected(x):
        parts = x.reshape(GROUPS, 64)
        return np.stack([np.repeat(parts.sum(1), 64), parts.cumsum(1).reshape(-1)])

    return kernel, expected


def spread(dtype, form):
    """Two tiles of 32 x 128: in another layout, summed over rows that both warps hold, or gathered by rows."""

    @lego.kernel(grid=1, block=128)
    def kernel(
        x: lego.Tensor(dtype, Row(GROUPS, ROWS, COLUMNS)), order: lego.Tensor(i32, Row(ROWS, COLUMNS)),
        y: lego.Tensor(dtype, Row(GROUPS, ROWS, COLUMNS)),
    ):  # fmt: skip
        with lego.warps(0, 4, groups=GROUPS):
            at = lego.group_id, 0, 0
            tile = lego.load(x, ROWS_OF_WARPS, at=at)
            for _ in lego.range(2):
                if form == "converted":
                    lego.convert(tile, to=COLUMNS_OF_WARPS).store(y, at=at)
                elif form == "summed":
                    (tile * 0 + tile.sum(axis=0)[None, :]).store(y, at=at)
                else:
                    lego.gather(tile, lego.load(order, ROWS_OF_WARPS), axis=0).store(y, at=at)

    def expected(x, order):
        if form == "converted":
            return x
        if form == "summed":
            return np.broadcast_to(x.sum(1, keepdims=True), x.shape)
        return np.take_along_axis(x, np.broadcast_to(order, x.shape), 1)

    return kernel, expected


def arrays_of(kernel, rng):
    given = {}
    for p in kernel.params:
        values = rng.integers(0, ROWS, p.size) if p.name == "order" else rng.integers(-3, 4, p.size)
        given[p.name] = values.astype(p.dtype.numpy)
    return {**given, "y": np.zeros_like(given["y"])}


CASES = {
    "numbers": reduced,
    **{
        f"{form} {dtype}": lambda dtype=dtype, form=form: spread(dtype, form)
        for dtype in (f16, f32)
        for form in ("converted", "summed", "gathered")
    },
}


@pytest.mark.parametrize("name", CASES)
def test_groups_reduce_and_convert_apart(name):
    kernel, expected = CASES[name]()
    given = arrays_of(kernel, np.random.default_rng(0))
    shaped = [given[p.name].reshape(p.layout.dims()) for p in kernel.params if p.name != "y"]
    report = run_kernel(kernel, given, counts=False)
    assert not report.faults, report.faults[0]
    np.testing.assert_array_equal(given["y"], expected(*shaped).reshape(-1))
    given["y"][:] = 0
    report = emulate(compile_kernel(kernel, target="sm_80").text, args=list(given.values()), grid=1, block=kernel.block)
    assert report.clean, report.faults[0]
    np.testing.assert_array_equal(given["y"], expected(*shaped).reshape(-1))
