"""Run a product through `matmul_sm90.mlir` in the emulator, on matrices of small integers."""

import numpy as np

from lego_mlir import Col, Row, f8e4m3fn, f16
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import matmul
from lego_mlir.runtime import data

LAYOUTS = {"N": Row, "T": Col}


def emulated(kernel, arrays, layouts, parameters, seed=0):
    """C, in memory order, of the kernel run on arrays by name; one with a layout is placed by it."""
    memories = dict(arrays)
    for name, layout in layouts.items():
        values = arrays[name]
        memories[name] = np.zeros(values.size, values.dtype)
        memories[name][data.positions(layout, {})] = values
    report = PtxRun("sm_90a", "matmul_sm90.mlir", parameters, seed=seed)(kernel, memories, {})
    assert report.clean, report.faults
    return memories["c"]


def factors(layouts, sizes, dtype):
    """The layouts of A and B, and matrices of small integers."""
    m, n, k = sizes
    random = np.random.default_rng(3)
    a, b = (LAYOUTS[letter](*dims) for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True))
    left, right = (random.integers(-3, 4, dims).astype(dtype.numpy) for dims in ((m, k), (k, n)))
    return {"a": a, "b": b}, {"a": left, "b": right}


def check(layouts, sizes, dtype, tiling, parameters, blocks=None, result=None):
    """Emulate a product, and compare it with NumPy's."""
    m, n, k = sizes
    placed, given = factors(layouts, sizes, dtype)
    result = result or (f16 if dtype is f8e4m3fn else dtype)
    kernel = matmul.build(m, n, k, dtype, **placed, result=result, tiling=tiling, blocks=blocks)
    zeros = np.zeros(m * n, result.numpy)
    found = emulated(kernel, {**given, "c": zeros}, placed, {"stages": 3, **parameters}, seed=m)
    expected = (given["a"].astype(np.float64) @ given["b"].astype(np.float64)).astype(result.numpy)
    np.testing.assert_array_equal(found.reshape(m, n).astype(np.float64), expected.astype(np.float64))
