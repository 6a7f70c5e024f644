"""The products that `matmul_sm90.mlir` makes, emulated: layouts, types, tiles, ragged sizes, persistent, lockstep."""

from __future__ import annotations

import numpy as np
import pytest

from lego_mlir import Col, Row, bf16, f16
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.runtime import data

WIDE, SMALL = Tiling(128, 256, 64, (8, 1)), Tiling(64, 64, 64, (4, 1))
LAYOUTS = {"N": Row, "T": Col}
CASES = [
    ("NN", (256, 512, 192), f16, WIDE, 3, {}),
    ("NT", (200, 520, 168), f16, WIDE, 2, {"stages": 2}),
    ("TN", (136, 264, 136), bf16, WIDE, None, {}),
    ("TT", (256, 256, 320), bf16, WIDE, 2, {"lockstep": 2}),
    ("NN", (128, 192, 320), f16, SMALL, None, {"stages": 5}),
    ("NT", (64, 200, 8), bf16, Tiling(64, 96, 64, (4, 1)), None, {}),
    ("NT", (136, 520, 136), f16, Tiling(128, 512, 64, (8, 1)), 2, {"stages": 3, "cluster_n": 2}),
    ("NN", (136, 520, 136), bf16, Tiling(128, 256, 64, (8, 1)), 2, {"cluster_n": 2, "lockstep": 1}),
    ("NN", (200, 256, 136), f16, Tiling(128, 192, 64, (8, 1)), 1, {"cluster_m": 2, "stages": 2}),
    ("TT", (200, 256, 136), f16, Tiling(256, 128, 64, (8, 1)), 2, {"cluster_m": 2}),
    ("TN", (256, 512, 136), bf16, Tiling(128, 512, 64, (8, 1)), None, {"cluster_n": 2}),
    ("NN", (264, 200, 136), f16, Tiling(256, 192, 64, (8, 2)), 2, {"stages": 3}),
    ("TN", (264, 400, 136), f16, Tiling(256, 384, 64, (8, 2)), 1, {"stages": 3, "cluster_n": 2, "lockstep": 2}),
]


@pytest.mark.parametrize(("layouts", "sizes", "dtype", "tiling", "blocks", "parameters"), CASES)
def test_a_product_is_right_and_clean(layouts, sizes, dtype, tiling, blocks, parameters):
    m, n, k = sizes
    a, b = (LAYOUTS[letter](*dims) for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True))
    kernel = matmul.build(m, n, k, dtype, a=a, b=b, result=dtype, tiling=tiling, blocks=blocks)
    random = np.random.default_rng(3)
    left, right = (random.integers(-3, 4, dims).astype(dtype.numpy) for dims in ((m, k), (k, n)))
    memories = {"c": np.zeros(m * n, dtype.numpy)}
    for name, layout, values in (("a", a, left), ("b", b, right)):
        memories[name] = np.zeros(values.size, dtype.numpy)
        memories[name][data.positions(layout, {})] = values
    report = PtxRun("sm_90a", "matmul_sm90.mlir", parameters, seed=m)(kernel, memories, {})
    assert report.clean, report.faults
    expected = (left.astype(np.float64) @ right.astype(np.float64)).astype(dtype.numpy)
    np.testing.assert_array_equal(memories["c"].reshape(m, n).astype(np.float64), expected.astype(np.float64))
