"""The emitted modules, kept as text: a change of them is seen, read, and accepted with --update-golden.

Text alone proves nothing: `test_examples.py` and `unit/kernels` run what stands here.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from golden_files import FOLDER, compare

import lego_mlir as lego
from lego_mlir import f16, f32, spec
from lego_mlir.kernels import copy, transpose

EXAMPLES = Path(__file__).parents[2] / "examples"
MLIR_OPT = shutil.which("mlir-opt-22") or shutil.which("/usr/lib/llvm-22/bin/mlir-opt")


def modules():
    """Name -> the function that builds its kernel."""
    for variant in transpose.VARIANTS:
        yield f"transpose_{variant}_f32", lambda v=variant: transpose.build(v, 64, 96, f32)
    yield "transpose_vectorised_f16", lambda: transpose.build("vectorised", 128, 64, f16, width=8)
    yield "transpose_padded_masked_f32", lambda: transpose.build("padded", 33, 65, f32)
    yield "transpose_shared_symbolic_f32", lambda: transpose.build("shared", lego.size("M"), lego.size("N"), f32)
    yield "copy_vectorised_f32", lambda: copy.build(64, 128, f32, width=4)
    for example in ("matrix_copy", "transpose", "antidiagonal", "symbolic"):
        for name in spec.load(EXAMPLES / f"{example}.py").kernels:
            yield f"example_{name}", lambda e=example, n=name: spec.load(EXAMPLES / f"{e}.py").kernels[n]
    for example in ("big_tile", "histogram", "look_back_scan", "matvec", "row_softmax"):
        path = EXAMPLES / "first_day" / f"{example}.py"
        for name in spec.load(path).kernels:
            yield f"{example}_{name}", lambda p=path, n=name: spec.load(p).kernels[n]


MODULES = dict(modules())


@pytest.mark.parametrize("name", MODULES)
def test_emitted_module(name, request):
    compare(MODULES[name]().mlir(locations=False), FOLDER / "mlir" / f"{name}.mlir", request)


def test_no_golden_file_is_left_over():
    assert {path.stem for path in (FOLDER / "mlir").glob("*.mlir")} == set(MODULES)


@pytest.mark.tools
@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt 22 is not installed (Debian: mlir-22-tools)")
def test_mlir_opt_accepts_every_module(tmp_path):
    whole = tmp_path / "all.mlir"
    whole.write_text("\n// -----\n".join(build().mlir() for build in MODULES.values()))
    done = subprocess.run(
        [MLIR_OPT, "--verify-each", "--split-input-file", "--canonicalize", str(whole)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
