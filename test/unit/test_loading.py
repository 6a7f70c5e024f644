"""Light commands load only their rooms: modules of this package, counted in fresh processes."""

import ast
import importlib
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

import lego_mlir
from lego_mlir.late_names import listed

COUNT = "import sys, importlib; {}; print(sum(name.split('.')[0] == 'lego_mlir' for name in sys.modules))"
COMPILE = (
    "from lego_mlir import structured; "
    "structured.compile('A = B*C', A=structured.Matrix(4, 4), B=structured.Matrix(4, 4), C=structured.Matrix(4, 4), "
    "cache=None)"
)
SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32

N = lego.size("N", min=1, max=2**30)

@lego.function
def product(a, x):
    return a * x

@lego.kernel(grid=lego.cdiv(N, 256), block=256)
def axpy(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N)), a: f32):
    i = lego.block_id[0] * 256 + lego.thread_id[0]
    with lego.when(i < N):
        y[i] = product(a, x[i]) + y[i]

@lego.kernel(grid=lego.cdiv(N, 256), block=256, specialise=("a", "N"))
def scaled(x: lego.Tensor(f32, Row(N)), b: lego.Tensor(f32, Row(N)) | None, y: lego.Tensor(f32, Row(N)), a: f32):
    y[lego.thread_id[0]] = x[lego.thread_id[0]] * a

scaled.fixed(b=None)

@axpy.reference
def expected(x, y, a, N):
    return a * x + y
"""


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        pytest.param("importlib.import_module('lego_mlir')", 2, id="the package"),
        pytest.param("importlib.import_module('lego_mlir.cli.files')", 6, id="cli.files"),
        pytest.param("importlib.import_module('lego_mlir.runtime.cpu')", 17, id="runtime.cpu"),
        pytest.param("importlib.import_module('lego_mlir.runtime.cuda')", 12, id="runtime.cuda"),
        pytest.param(COMPILE, 42, id="a structured compile"),
    ],
)
def test_modules_that_are_loaded(statement, most):
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(statement)], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) <= most


@pytest.mark.parametrize("module", ["numpy", "sympy", "importlib.metadata", "z3", "lego_mlir.proofs"])
def test_what_reading_a_kernel_does_not_load(module, tmp_path):
    """A process with a full cache reads the file of a kernel, and calls it."""
    source = tmp_path / "spec.py"
    source.write_text(SPEC)
    command = f"import sys; sys.path.insert(0, {str(source.parent)!r}); import spec; print({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    "name", ["transpose", "first_day/csr_matvec", "second_week/paged_decode", "second_week/fused_classifier"]
)
def test_examples_are_read_without_sympy(name):
    """Grids, layouts, ranges of data and sizes bounded by others."""
    file = Path(__file__).parents[2] / "examples" / f"{name}.py"
    command = f"import runpy, sys; runpy.run_path({str(file)!r}); print('sympy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"


WITHOUT_SOURCES = """
import sys
sys.path.insert(0, FOLDER)
import lego_mlir, lego_mlir.caches, lego_mlir.sanitize, lego_mlir.toolchain
from lego_mlir.late_names import listed
assert lego_mlir.__file__.endswith("pyc"), lego_mlir.__file__
print({name: listed(name) for name in PACKAGES})
print(lego_mlir.cdiv(7, 2), lego_mlir.range.__name__, lego_mlir.Row(2, 3).apply(1, 2))
"""
LATE = ("lego_mlir", "lego_mlir.caches", "lego_mlir.sanitize", "lego_mlir.toolchain")


def test_a_package_that_is_installed_as_compiled_code_has_the_same_names(tmp_path):
    root = Path(lego_mlir.__file__).parent
    for file in root.rglob("*.py"):
        found = tmp_path / "lego_mlir" / file.relative_to(root).with_suffix(".pyc")
        found.parent.mkdir(parents=True, exist_ok=True)
        py_compile.compile(str(file), str(found), quiet=1)
    for name in LATE:
        importlib.import_module(name)
    program = f"FOLDER, PACKAGES = {str(tmp_path)!r}, {LATE!r}\n{WITHOUT_SOURCES}"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names, values = done.stdout.splitlines()
    assert ast.literal_eval(names) == {name: listed(name) for name in LATE}
    assert values == "4 loop 5"
