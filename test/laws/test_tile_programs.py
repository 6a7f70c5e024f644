"""Random tile programs without layouts: values are NumPy's in the interpreter, whatever layouts are chosen.

Each program is a kernel of one block: loads of tiles of several types, arithmetic, shape operations, reductions, scans,
sorts, gathers, variables of loops and products, and stores, in sizes that need not be powers of two. It is run with the
engine's choice, and some also with another one, of fewer candidates. Every element keeps its value.
"""

import random

import numpy as np
import pytest
import tile_programs
from tile_programs import NUMPY, arrays_of, kernel_of

import lego_mlir as lego
from lego_mlir import Row, f16, f32, interp
from lego_mlir.engine.layout_choice import chosen_layouts

BLOCK = 128


def launched(kernel, made, arrays):
    outputs = [np.zeros(s, NUMPY[made.dtype]) for s in made.shapes[len(arrays) :]]
    report = interp.launch(kernel.mlir(), grid=1, block=made.block, args=[a.reshape(-1) for a in (*arrays, *outputs)])
    assert report.clean, report
    return outputs


def check(seed, blocks=tile_programs.BLOCKS):
    made = tile_programs.program(random.Random(seed), blocks=blocks)
    kernel = kernel_of(made)
    inputs, wanted = arrays_of(made, seed)
    for a, b in zip(launched(kernel, made, inputs), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    if seed % 4 == 0:  # another choice, of fewer candidates
        other = kernel.placed(chosen_layouts(kernel.layout_choice.alternatives.graph, most=2))
        for a, b in zip(launched(other, made, inputs), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("part", range(8))
def test_values_are_those_of_numpy(part, request):
    count = 260 if request.config.getoption("--long") else 4
    for seed in range(part * count, (part + 1) * count):
        try:
            check(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("part", range(4))
def test_blocks_have_any_number_of_warps(part, request):
    count = 130 if request.config.getoption("--long") else 3
    for seed in range(part * count, (part + 1) * count):
        try:
            check(seed, tile_programs.ODD_BLOCKS)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("shape", [(64, 64, 64), (32, 128, 64), (48, 96, 80)])
def test_products_are_those_of_numpy(shape):
    m, n, k = shape

    @lego.kernel(grid=1, block=BLOCK)
    def product(a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Row(n, k)), c: lego.Tensor(f32, Row(m, n))):
        x, y = lego.load(a, (m, k)), lego.load(b, (n, k))
        s = lego.mma(x, y.T, lego.zeros(f32, (m, n)))
        (s - s.max(axis=1)[:, None]).store(c)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    assert interp.launch(product.mlir(), grid=1, block=BLOCK, args=[x.reshape(-1) for x in (a, b, c)]).clean
    wanted = a.astype(np.float32) @ b.T.astype(np.float32)
    np.testing.assert_array_equal(c, wanted - wanted.max(axis=1, keepdims=True))
