"""Kernels of tiles, emitted with layouts as types, lowered by the passes of the plugin, and run: NumPy's results."""

import random

import numpy as np
import pytest
from lego_plugin import mlir_opt, needs_plugin

import lego_mlir as lego
from lego_mlir import LayoutError, Row, f16, f32, interp
from test.tile_programs import NUMPY, WHOLE_SIZES, arrays_of, kernel_of, program

pytestmark = needs_plugin
PASSES = "gpu.module(lego-lower-spread,reconcile-unrealized-casts,canonicalize,cse)"
PROGRAMS = 40


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


@pytest.mark.parametrize("half", [0, 1])
def test_random_programs(half):
    found = 0
    for number in range(half, PROGRAMS, 2):
        made = program(random.Random(1000 + number), WHOLE_SIZES)
        kernel = kernel_of(made)
        try:
            text = kernel.mlir("tiles")
        except LayoutError:  # a word without an operation
            continue
        found += 1
        inputs, outputs = arrays_of(made, number)
        results = [np.zeros(y.shape, NUMPY[made.dtype]) for y in outputs]
        report = interp.launch(mlir_opt(text, PASSES), grid=1, block=made.block, args=[*inputs, *results], counts=False)
        assert report.clean, (number, report)
        for result, wanted in zip(results, outputs, strict=True):
            np.testing.assert_array_equal(result, wanted, str(number))
    assert found >= 3
