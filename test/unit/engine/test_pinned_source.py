"""A kernel printed with its layouts computes the same in the same layouts, and a layout may be edited."""

import math
from pathlib import Path

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import LayoutError, Row, f2, f32, interp
from lego_mlir.engine.pinned_source import pinned_source

SHAPE, BLOCK = (8, 128), 128


@lego.kernel(grid=1, block=BLOCK)
def rows(x: lego.Tensor(f32, Row(*SHAPE)), y: lego.Tensor(f32, Row(*SHAPE))):
    tile = lego.load(x, SHAPE)
    e = lego.exp(tile - tile.max(axis=1)[:, None])
    (e / e.sum(axis=1)[:, None]).store(y)


@lego.kernel(grid=1, block=BLOCK)
def transposed(x: lego.Tensor(f32, Row(64, 64)), y: lego.Tensor(f32, Row(64, 64)), z: lego.Tensor(f32, Row(64, 64))):
    (lego.load(x, (64, 64)) + lego.load(y, (64, 64)).T).store(z)


@lego.kernel(grid=1, block=BLOCK)
def odd(x: lego.Tensor(f32, Row(48, 96)), y: lego.Tensor(f32, Row(48))):
    lego.load(x, (48, 96)).max(axis=1).store(y)


@lego.kernel(grid=1, block=BLOCK)
def unrolled(x: lego.Tensor(f32, Row(*SHAPE)), y: lego.Tensor(f32, Row(SHAPE[0]))):
    total = lego.zeros(f32, SHAPE)
    for k in range(2):
        total = total + lego.load(x, SHAPE) * k
    total.sum(axis=1).store(y)


def again(kernel, text):
    """The kernel of a printed text; its source is kept for tracebacks only."""
    scope = dict(globals())
    exec(compile(text, str(Path(__file__)), "exec"), scope)
    return scope[kernel.name]


def results(kernel):
    arrays = []
    for tensor in kernel.trace().parameters:
        shape = tuple(map(int, tensor.layout.dims()))
        arrays.append(np.random.default_rng(len(arrays)).integers(-3, 4, math.prod(shape)).astype(np.float32))
    report = interp.launch(kernel.mlir(), grid=1, block=BLOCK, args=arrays)
    assert report.clean, report
    return arrays, sum(site.requests for site in report.sites)


@pytest.mark.parametrize("kernel", [rows, transposed, odd, unrolled], ids=lambda k: k.name)
def test_the_printed_kernel_is_the_same(kernel):
    text = pinned_source(kernel.function, kernel.layout_choice)
    assert "LAYOUT_1 = f2." in text and ", pin=LAYOUT_1)" in text
    made = again(kernel, text)
    (expected, requests), (found, theirs) = results(kernel), results(made)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert requests == theirs
    assert sum(n.given_layout is not None for n in made.layout_choice.values) >= 2
    assert made.layout_choice.slots == pytest.approx(kernel.layout_choice.slots)


def test_what_cannot_be_pinned_is_named():
    layout = f2.Blocked((1, 4), (1, 32), (4, 1), (1, 0)).layout((4, 128))

    @lego.kernel(grid=1, block=BLOCK)
    def of_another_shape(x: lego.Tensor(f32, Row(*SHAPE))):
        lego.load(x, SHAPE, pin=layout)

    @lego.kernel(grid=1, block=BLOCK)
    def twice(x: lego.Tensor(f32, Row(*SHAPE))):
        lego.load(x, layout, pin=layout)

    @lego.kernel(grid=1, block=BLOCK)
    def placed(x: lego.Tensor(f32, Row(*SHAPE))):
        lego.load(x, layout).store(x, pin=layout)

    for kernel, said in ((of_another_shape, "pin is a layout of"), (twice, "leave one"), (placed, "lego.convert")):
        with pytest.raises(LayoutError, match=said):
            kernel.trace()


def test_an_edited_layout_is_kept():
    text = pinned_source(rows.function, rows.layout_choice)
    other = "f2.Blocked((1, 1), (1, 32), (4, 1), order=(1, 0)).layout((8, 128))"
    made = again(rows, "\n".join(f"LAYOUT_1 = {other}" if k == 0 else line for k, line in enumerate(text.split("\n"))))
    given = [n.given_layout for n in made.layout_choice.values if n.given_layout is not None]
    assert f2.Blocked((1, 1), (1, 32), (4, 1), (1, 0)).layout((8, 128)).bases["lane"] == given[0].bases["lane"]
    for a, b in zip(results(rows)[0], results(made)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
