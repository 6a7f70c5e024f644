"""Kernels of tiles, emitted with layouts as types, lowered by the passes of the plugin, and run: NumPy's results."""

import random
import re

import numpy as np
import pytest
from lego_plugin import mlir_opt, needs_plugin

import lego_mlir as lego
from lego_mlir import LayoutError, Row, f16, f32, interp
from test.random_products import product_arrays, product_kernel, random_product
from test.tile_programs import NUMPY, ODD_BLOCKS, ODD_SIZES, arrays_of, kernel_of, program

pytestmark = needs_plugin
PASSES = "gpu.module(lego-lower-spread,reconcile-unrealized-casts,canonicalize,cse)"
PROGRAMS = 12
PARTS = [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, 10))]


@lego.kernel(grid=8, block=128)
def softmax(x: lego.Tensor(f32, Row(32, 512)), y: lego.Tensor(f32, Row(32, 512))):
    r = 4 * lego.block_id[0]
    tile = lego.load(x, (4, 512), at=(r, 0))
    e = lego.exp(tile - tile.max(axis=1)[:, None])
    (e / e.sum(axis=1)[:, None]).store(y, at=(r, 0))


@lego.kernel(grid=(2, 2), block=64)
def turned(x: lego.Tensor(f16, Row(64, 128)), y: lego.Tensor(f16, Row(128, 64))):
    i, j = 32 * lego.block_id[0], 64 * lego.block_id[1]
    tile = lego.load(x, (32, 64), at=(i, j)).to(f32)
    (tile.T * 2 - tile.sum(axis=1)[None, :]).to(f16).store(y, at=(j, i))


def test_softmax_and_a_turned_tile():
    assert '"lego.convert"' in turned.mlir("tiles")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((32, 512)).astype(np.float32), np.zeros((32, 512), np.float32)
    assert interp.launch(mlir_opt(softmax.mlir("tiles"), PASSES), grid=8, block=128, args=[x, y]).clean
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
    x, y = rng.integers(-2, 3, (64, 128)).astype(np.float16), np.zeros((128, 64), np.float16)
    assert interp.launch(mlir_opt(turned.mlir("tiles"), PASSES), grid=(2, 2), block=64, args=[x, y]).clean
    wide = x.reshape(64, 2, 64).astype(np.float32)
    np.testing.assert_array_equal(y, (2 * wide - wide.sum(2, keepdims=True)).reshape(64, 128).T.astype(np.float16))


def propagated(text, warps):
    """The module without layouts and conversions, after lego-propagate-spread has found others."""
    text = text.replace('"lego.convert"', '"arith.bitcast"')
    text = re.sub(r", #lego\.spread<[^>]*>", "", text)
    return mlir_opt(text, f"gpu.module(lego-propagate-spread{{warps={warps}}})")


def run(text, grid, block, arrays, number):
    report = interp.launch(mlir_opt(text, PASSES), grid=grid, block=block, args=arrays, counts=False)
    assert report.clean, (number, report)


@pytest.mark.parametrize("part", PARTS)
def test_random_programs(part):
    """Sizes that are no powers of two, and numbers of warps, among them; also without the chosen layouts."""
    found = 0
    for number in range(PROGRAMS * part, PROGRAMS * (part + 1)):
        draw = random.Random(1000 + number)
        made = program(draw, ODD_SIZES, ODD_BLOCKS) if number % 3 == 0 else program(draw)
        kernel = kernel_of(made)
        try:
            text = kernel.mlir("tiles")
        except LayoutError as error:  # a word without an operation
            assert "has no form on tiles of the lego dialect" in str(error)
            continue
        found += 1
        inputs, outputs = arrays_of(made, number)
        texts = [text]
        if made.block in (64, 128, 256) and number % 2:
            texts.append(propagated(text, made.block // 32))
        for each in texts:
            results = [np.zeros(y.shape, NUMPY[made.dtype]) for y in outputs]
            run(each, 1, made.block, [*inputs, *results], number)
            for result, wanted in zip(results, outputs, strict=True):
                np.testing.assert_array_equal(result, wanted, str(number))
    assert found >= 3


@pytest.mark.parametrize("part", PARTS)
def test_random_products(part):
    """Loops, branches, masks, indices and products: as NumPy and as the module of threads, bit by bit."""
    for number in range(PROGRAMS * part, PROGRAMS * (part + 1)):
        made = random_product(random.Random(number))
        kernel, (inputs, wanted) = product_kernel(made), product_arrays(made, number)
        text = kernel.mlir("tiles")
        texts = [text]
        if made.block != 96 and number % 2:
            texts.append(propagated(text, made.block // 32))
        for each in texts:
            result = np.full_like(wanted, 99)
            run(each, made.grid, made.block, [*inputs, result], number)
            np.testing.assert_array_equal(result, wanted, str(made))
        if number % 4 == 0:
            other = np.full_like(wanted, 99)
            flat = [x.reshape(-1) for x in (*inputs, other)]
            interp.launch(kernel.mlir(), grid=made.grid, block=made.block, args=flat, counts=False)
            np.testing.assert_array_equal(other, wanted, str(made))
