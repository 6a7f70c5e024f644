"""The matrix product after each of its transform scripts, kept as text, and executed in the interpreter."""

import numpy as np
import pytest
from gemm import SHIPPED, SIZES, build, composed, launch, operands, transformed
from golden_files import FOLDER, compare

from lego_mlir import Col, f16
from lego_mlir.kernels.matmul import ProductTile

GOLDEN = FOLDER / "transforms"
COPIES, MMA, PIPELINE, SWIZZLE = (f"{name}.mlir" for name in ("async_copies", "ldmatrix_mma", "pipeline", "swizzle"))
SCRIPTS = {
    "matmul_async_copies": ([COPIES], {}),
    "matmul_ldmatrix_mma": ([MMA], {}),
    "matmul_swizzle": ([COPIES, MMA, SWIZZLE], {}),
    "matmul_pipeline": ([COPIES, MMA, PIPELINE], {}),
    "matmul_narrow": (["matmul_narrow.mlir"], {}),
    "matmul_sm80": (["matmul_sm80.mlir"], {"stages": 3}),
    "matmul_sm90": (["matmul_sm90.mlir"], {"stages": 2}),
    "tiles_sm80": (["tiles_sm80.mlir"], {"stages": 2}),
}
"""Name -> the steps, each script after those that it expects, and the parameters."""
WARPGROUPS = ("matmul_sm90",)
"""Their modules launch warpgroups, which run on a GPU alone: no interpreter of MLIR has their units."""


def after(name, folder):
    steps, parameters = SCRIPTS[name]
    if name in WARPGROUPS:
        kernel = build(b=Col, result=f16, tiling=ProductTile(64, 64, 64, (4, 1)), order="row")
        return transformed(kernel, steps[0], target="sm_90a", **parameters)
    script = steps[0] if len(steps) == 1 else composed(folder, *steps)
    return transformed(build(), script, **parameters)


@pytest.mark.parametrize("name", SCRIPTS)
def test_module_after_a_script(name, tmp_path, request):
    compare(after(name, tmp_path), GOLDEN / f"{name}.mlir", request)


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in WARPGROUPS])
def test_the_golden_text_multiplies(name):
    kernel, (a, b) = build(), operands(*SIZES)
    report, c = launch(kernel, (GOLDEN / f"{name}.mlir").read_text(), a, b, np.zeros((SIZES[0], SIZES[1])))
    assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(c, kernel.expected(a, b))


def test_every_script_has_a_golden_file_and_none_is_left_over():
    assert {path.stem for path in GOLDEN.glob("*.mlir")} == set(SCRIPTS)
    assert {step for steps, _ in SCRIPTS.values() for step in steps} == {path.name for path in SHIPPED.glob("*.mlir")}
