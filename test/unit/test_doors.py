"""Heavy dependencies: each has one door, and `import lego_mlir` opens none of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lego_mlir

PACKAGE = Path(lego_mlir.__file__).parent
HEAVY = ["sympy", "numpy", "z3", "torch_mlir", "mlir", "llvmlite", "cupy", "islpy", "jinja2", "triton", "torch"]
DOORS = {
    "z3": ["expr/solver.py"],
    "torch_mlir": ["bindings.py"],
    "llvmlite": ["toolchain/llvm.py"],
    "cupy": ["runtime/cuda.py"],
    "islpy": ["structured/sets.py"],
    "jinja2": ["templates/engine.py"],
    "triton": ["toolchain/triton.py"],
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
