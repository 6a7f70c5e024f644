"""Every example does what it says: specs run in the interpreter against their references, scripts run as scripts."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launching import launch

import lego_mlir
from lego_mlir import spec
from lego_mlir.layout import gallery
from lego_mlir.runtime.data import concrete

EXAMPLES = Path(__file__).parents[1] / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(lego_mlir.__file__).parents[1])}
SPECS = ["layout", "matrix_copy", "transpose", "antidiagonal", "symbolic", "matmul"]
KERNELS = [(s, k) for s in SPECS[1:] for k in spec.load(EXAMPLES / f"{s}.py").kernels]
SIZES = [{"M": 100, "N": 52}, {"M": 8, "N": 128}, {"M": 1, "N": 4}]


def test_the_first_example_is_a_layout_alone():
    loaded = spec.load(EXAMPLES / "layout.py")
    assert not loaded.kernels
    assert loaded.layouts["tiled"].apply(5, 5) == 35


@pytest.mark.parametrize(("file", "name"), KERNELS)
def test_a_kernel_computes_its_reference(file, name):
    kernel = spec.load(EXAMPLES / f"{file}.py").kernels[name]
    for sizes in SIZES if kernel.sizes else [{}]:
        inputs = {}
        for parameter in kernel.params:
            if parameter.layout is None:
                inputs[parameter.name] = 1.5
            else:
                shape = [concrete(n, sizes) for n in parameter.layout.dims()]
                inputs[parameter.name] = np.random.default_rng(1).integers(-99, 99, shape).astype(parameter.dtype.numpy)
        read = {n: v for n, v in inputs.items() if n in kernel.expected.__code__.co_varnames}
        results = launch(kernel, *inputs.values(), sizes=sizes)
        (written,) = (r for p, r in zip(kernel.params, results, strict=True) if p.written)
        np.testing.assert_array_equal(written, kernel.expected(**read))


def test_the_hand_written_antidiagonal_is_that_of_the_gallery():
    loaded = spec.load(EXAMPLES / "antidiagonal.py")
    index = np.indices((32, 32))
    np.testing.assert_array_equal(loaded.layouts["mine"].apply(*index), gallery.antidiagonal(32).apply(*index))


@pytest.mark.parametrize("script", ["layout", "bring_your_own_ir"])
def test_a_script_runs(script):
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{script}.py"], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert ("mine.store" if script == "bring_your_own_ir" else "  0   1   2   9") in done.stdout
