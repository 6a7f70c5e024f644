"""The kernels that a CUDA programmer writes on the first day: each agrees with NumPy, and becomes PTX."""

from pathlib import Path

import pytest

from lego_mlir import spec
from lego_mlir.cli.main import main
from lego_mlir.toolchain import compile_kernel

FOLDER = Path(__file__).parents[1] / "examples" / "first_day"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
# Products of tiles become code by a transform script.
SCRIPTS = dict.fromkeys(("matmul_gelu", "persistent_matmul"), "matmul_sm80.mlir")
MORE = [  # sizes at the edges of tiles, and the code that a script leaves
    ("axpy_f16", "--size", "N=8"),
    ("axpy_f16", "--size", "N=2056"),
    ("bitonic_sort", "--size", "M=1"),
    ("conv2d", "--size", "H=1", "--size", "W=33"),
    ("embedding", "--size", "N=1"),
    ("csr_matvec", "--size", "M=1", "--size", "E=1"),
    ("csr_matvec", "--size", "M=300", "--size", "K=7", "--size", "E=5000"),
    ("embedding_in_range", "--size", "N=1", "--size", "V=1", "--size", "D=4"),
    ("embedding_in_range", "--size", "N=7", "--size", "D=1000"),
    ("grid_sum", "--size", "N=1"),
    ("grid_sum", "--size", "N=40000"),
    ("histogram", "--size", "N=40001"),
    ("layer_norm", "--size", "M=1", "--size", "N=1"),
    ("layer_norm", "--size", "M=3", "--size", "N=129"),
    ("layer_norm", "--size", "M=2", "--size", "N=1024"),
    ("look_back_scan", "--size", "N=1"),
    ("look_back_scan", "--size", "N=4096"),
    ("look_back_scan", "--size", "N=150001"),
    ("matvec", "--size", "M=9", "--size", "K=1"),
    ("nchw_to_nhwc", "--size", "C=1", "--size", "P=65"),
    ("quantise_int8", "--size", "M=3", "--size", "N=1"),
    ("rope", "--size", "S=1"),
    ("row_softmax", "--size", "M=3", "--size", "N=1"),
    ("row_softmax", "--size", "M=3", "--size", "N=129"),
    ("row_softmax", "--size", "M=2", "--size", "N=1024"),
    ("three_pass_scan", "--size", "N=1"),
    ("three_pass_scan", "--size", "N=2048"),
    ("three_pass_scan", "--size", "N=9999"),
    ("vector_add", "--size", "N=1"),
    ("vector_add", "--size", "N=1027"),
    ("matmul_gelu", "--transform", "matmul_sm80.mlir"),
    ("persistent_matmul", "--transform", "matmul_sm80.mlir"),
    ("ragged_matmul", "--size", "M=1", "--size", "N=1", "--size", "K=1"),
    ("ragged_matmul", "--size", "M=33", "--size", "N=50", "--size", "K=71"),
    ("stencil", "--size", "H=1", "--size", "W=1"),
    ("stencil", "--size", "H=9", "--size", "W=33"),
]


@pytest.mark.parametrize("arguments", [*((name,) for name in NAMES), *MORE], ids=" ".join)
def test_it_agrees_with_numpy_without_a_fault(arguments, capsys):
    name, *options = arguments
    assert main(["run", str(FOLDER / f"{name}.py"), *options]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_it_becomes_ptx(name, target):
    kernels = spec.load(FOLDER / f"{name}.py").kernels_named(None)
    compiled = compile_kernel(kernels, target=target, transform=SCRIPTS.get(name))
    assert compiled.text.count(".entry") == len(kernels)


@pytest.mark.parametrize("name", ["csr_matvec", "embedding_in_range", "morton_matmul", "ragged_matmul", "stencil"])
def test_every_access_is_proved(name, capsys):
    assert main(["check", str(FOLDER / f"{name}.py")]) == 0
    assert "0 refuted, 0 unknown" in capsys.readouterr().out
