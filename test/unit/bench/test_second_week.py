"""The CUDA texts beside the kernels of a second week: by the emulator of PTX they compute the same; drawn sizes."""

import random
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes  # noqa: F401  (NumPy then knows the names of its types)
import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.interp.ptx import emulate
from lego_mlir.toolchain import nvidia_tools

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "test")]

import second_week  # noqa: E402  (bench/ and test/ are folders of scripts, not packages)
import test_ported  # noqa: E402
import test_second_week as examples  # noqa: E402

RAGGED = {**examples.RAGGED, **test_ported.RAGGED}
CLOSE = {**examples.CLOSE, "adamw": 1e-2, "gated_delta_rule": 1e-2, "swiglu_gradients": 1e-2,
         "linear_recurrence": 1e-5, "segmented_sum": 1e-5, "stencil7": 1e-6, "cholesky": 1e-5, "fft": 1e-4}  # fmt: skip


def test_every_kernel_has_sizes():
    assert set(second_week.SIZES) == set(RAGGED)


@pytest.mark.tools
@pytest.mark.skipif(nvidia_tools.find("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", RAGGED)
def test_its_cuda_text_computes_the_same(name, tmp_path):
    kernel, sizes, text = second_week.kernel_of(name), RAGGED[name][-1], second_week.cuda_text(name)
    source, ptx = tmp_path / f"{name}.cu", tmp_path / f"{name}.ptx"
    source.write_text(text)
    command = ["nvcc", "-std=c++17", "-arch=sm_90a", "-ptx", str(source), "-o", str(ptx)]
    subprocess.run(command, executable=nvidia_tools.find("nvcc"), check=True)
    grid, block = ([int(evaluate(n, sizes)) for n in extents] for extents in (kernel.grid, kernel.block))
    names, given = [p.name for p in kernel.params], list(examples.memories_of(kernel, sizes))
    mine, other = ([x.copy() if isinstance(x, np.ndarray) else x for x in given] for _ in range(2))
    trailing = [sizes[size.name] for size in kernel.sizes]
    assert interp.launch(kernel.mlir(), grid=grid, block=block, args=[*mine, *trailing]).clean
    (listed,) = re.findall(rf"\s{name}\(([^)]*)\)", text)
    passed = []
    for variable in (one.replace("*", " ").split()[-1] for one in listed.split(",")):
        value = other[names.index(variable)] if variable in names else np.int32(sizes[variable])
        passed.append(value if isinstance(value, np.ndarray | np.int32) else np.float32(value))
    report = emulate(ptx.read_text(), name, args=passed, grid=grid, block=block)
    assert report.clean, report.faults
    for expected, found in zip(mine, other, strict=True):
        if isinstance(expected, np.ndarray):
            wide = (x.astype(np.float64) for x in (found, expected))
            np.testing.assert_allclose(*wide, rtol=CLOSE.get(name, 0), atol=1e-3 if name in CLOSE else 0)


def test_drawn_sizes_lie_between_those_that_are_listed():
    draw, generator = second_week.drawing(), random.Random(5)
    for name, bounds in second_week.SIZES.items():
        found, sizes = draw(generator)
        assert found == name
        for size, value in sizes.items():
            low, high = sorted(case[size] for case in bounds)
            assert low <= value <= high + 64
        if name == "fused_classifier":
            assert sizes["V"] <= sizes["P"] < sizes["V"] + 64
