"""Heavy dependencies: each has one door, and `import lego_mlir` opens none of them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lego_mlir
from lego_mlir import bindings
from lego_mlir.errors import DependencyError

PACKAGE = Path(lego_mlir.__file__).parent
HEAVY = ["sympy", "numpy", "z3", "torch_mlir", "mlir", "llvmlite", "cupy", "islpy", "jinja2", "triton", "torch", "cuda"]
DOORS = {
    "z3": ["expr/solver.py"],
    "torch_mlir": ["bindings.py"],
    "llvmlite": ["toolchain/llvm.py", "interp/ptx/regions/llvm_ir.py"],
    "cupy": ["runtime/cuda.py"],
    "cuda": ["toolchain/nvidia_tools.py"],
    "islpy": ["structured/sets.py"],
    "jinja2": ["templates/render/engine.py"],
    "triton": ["templates/run/triton.py", "toolchain/triton_text.py", "sanitize/triton_driver.py"],
    "rich": ["cli/terminal.py", "viz/characters.py"],
    "drawsvg": ["viz/svg.py"],
    "vl_convert": ["viz/png.py"],
    "anywidget": ["viz/explorer/widget.py"],
    "shtab": ["cli/completion.py"],
    "numba": ["caches/jit.py"],
    "filelock": ["tuning/timings.py"],
    "pandas": ["tuning/dataframes.py"],
    "polars": ["tuning/dataframes.py"],
    "optuna": ["tuning/sampling.py"],
    "distributed": ["tuning/cluster.py"],
    "dask": ["tuning/cluster.py"],
}


@pytest.mark.parametrize(
    "statement", ["import lego_mlir", "from lego_mlir import RegP, OrderBy, gallery; gallery.morton"]
)
def test_importing_the_package_loads_nothing_heavy(statement):
    loaded = f"{statement}; import sys; print([m for m in {HEAVY} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("package", DOORS)
def test_a_heavy_dependency_has_one_door(package):
    statement = re.compile(rf"^\s*(import {package}\b|from {package}\b)|import_module\(.{package}\b", re.MULTILINE)
    importers = [
        str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py")) if statement.search(path.read_text())
    ]
    assert set(importers) <= set(DOORS[package])


STUBS = {
    "another package": ("", "", "the package mlir cannot load 'ir' (ModuleNotFoundError: No module named 'mlir.ir')"),
    "an ir that has nothing": ("", "x = 1", "the package mlir has no 'ir.Context'"),
    "one that fails": (
        "raise RuntimeError('old ABI')",
        "",
        "the package mlir cannot load 'ir' (RuntimeError: old ABI)",
    ),
}


@pytest.mark.parametrize("name", STUBS)
def test_a_package_called_mlir_that_lacks_what_is_needed_is_passed_over(tmp_path, name):
    package, ir, reason = STUBS[name]
    (tmp_path / "mlir").mkdir()
    (tmp_path / "mlir" / "__init__.py").write_text(package)
    if name != "another package":
        (tmp_path / "mlir" / "ir.py").write_text(ir)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "lego_mlir.cli", "doctor"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = (line for line in done.stdout.splitlines() if "MLIR bindings" in line)
    assert line.startswith("  ok       MLIR bindings  torch_mlir 20")
    assert line.endswith(f"; passed over: {reason}")
    assert done.returncode == 0


def test_without_bindings_the_message_says_what_was_found(monkeypatch):
    monkeypatch.setattr(bindings, "_lacking", lambda package: "has no 'ir.Context'")
    with pytest.raises(DependencyError, match=r"the package torch_mlir has no 'ir.Context'.*pip install torch-mlir"):
        bindings.load.__wrapped__()
