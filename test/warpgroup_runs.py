"""Run the product that `matmul_sm90.mlir` makes in the emulator, on matrices of small integers."""

import numpy as np

from lego_mlir import Col, Row
from lego_mlir.interp.ptx import PtxRun
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
