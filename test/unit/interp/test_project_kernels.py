"""Every kernel that comes with the project runs clean and right, before and after its transform script.

A module of `lego_mlir/kernels` without a row here fails the first test: a new kernel is added to the table with sizes
that are small, and that its tiles do not divide where it allows that.
"""

import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import lego_mlir.kernels
from lego_mlir import f16, f32, interp
from lego_mlir.kernels import box_stencil, copy, dot_products, matmul, transpose
from lego_mlir.runtime import comparing, data, data_files, tolerance
from lego_mlir.toolchain import compile_kernel

SCRIPTS = Path(__file__).resolve().parents[3] / "transform_scripts"
SMALL = matmul.ProductTile(64, 64, 32, (2, 2))

CASES = {
    "copy": (lambda: copy.build(50, 70, f32), None),
    "box_stencil": (lambda: box_stencil.build(37, 45, f16, size=5, boundary="mirror", order="columns"), None),
    "box_stencil, registers": (lambda: box_stencil.build(36, 46, f32, size=3, down=4, across=2), None),
    "box_stencil, shared": (lambda: box_stencil.build_shared(37, 45, f32, size=5, tile=(8, 32), threads=64), None),
    "dot_products": (lambda: dot_products.build(33, 45, 20, f32, order="columns"), None),
    **{
        f"transpose {variant}": (lambda v=variant: transpose.build(v, 100, 52, f16), None)
        for variant in transpose.VARIANTS
    },
    "matmul": (lambda: matmul.build(64, 128, 96, f16, tiling=SMALL), None),
    "matmul, scripted": (lambda: matmul.build(64, 128, 96, f16, tiling=SMALL), "matmul_sm80.mlir"),
}

ELSEWHERE = {
    "fused_attention",
    "attention_gradients",
    "added_gradients",
    "batched_products",
    "grouped_depths",
    "grouped_products",
    "latent_attention",
    "packed_attention",
    "packed_gradients",
    "paged_attention",
    "scaled_products",
}
"""Run by tests of their own in `test/unit/kernels`, with data that make their results exact, or with tolerances."""


def test_every_module_of_kernels_is_here():
    names = [module.name for module in pkgutil.iter_modules(lego_mlir.kernels.__path__)]
    modules = {name for name in names if hasattr(importlib.import_module(f"lego_mlir.kernels.{name}"), "build")}
    assert modules == {name.replace(",", " ").split()[0] for name in CASES} | ELSEWHERE


@pytest.mark.parametrize("name", CASES)
def test_runs_clean_and_right(name: str):
    build, script = CASES[name]
    kernel = build()
    module = None
    if script is not None:
        compilation = compile_kernel((kernel,), emit="transformed", transform=str(SCRIPTS / script), cache=None)
        module = compilation.stage("transformed", locations=True)
    logical = data.draw(kernel, {}, 0)
    expected = data.expected(kernel, logical, {})
    allowed = tolerance.allowed(kernel, logical, {}, expected)
    memories = {}
    for parameter in kernel.params:
        memory = np.full(data.concrete(parameter.size, {}), data_files.UNWRITTEN).astype(parameter.dtype.numpy)
        if parameter.read:
            memory[data.positions(parameter.layout, {})] = logical[parameter.name]
        memories[parameter.name] = memory
    report = interp.run_kernel(kernel, memories, module=module)
    assert report.clean, report.faults
    for parameter in kernel.params:
        if parameter.name in expected:
            found = memories[parameter.name][data.positions(parameter.layout, {})].astype(np.float64)
            name = parameter.name
            result = comparing.compare(found, expected[name], parameter.dtype.name, allowed[name])
            assert result, f"{name}: {result}"
    if script is not None:
        assert report.totals.conflicts == 0
        assert report.totals.ldmatrix > 0
