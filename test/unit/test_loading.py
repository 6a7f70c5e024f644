"""Light commands load only their rooms: modules of this package, counted in fresh processes."""

import subprocess
import sys

import pytest

COUNT = "import sys, importlib; {}; print(sum(name.split('.')[0] == 'lego_mlir' for name in sys.modules))"
COMPILE = (
    "from lego_mlir import structured; "
    "structured.compile('A = B*C', A=structured.Matrix(4, 4), B=structured.Matrix(4, 4), C=structured.Matrix(4, 4), "
    "cache=None)"
)


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        pytest.param("importlib.import_module('lego_mlir')", 1, id="the package"),
        pytest.param("importlib.import_module('lego_mlir.cli.files')", 6, id="cli.files"),
        pytest.param("importlib.import_module('lego_mlir.runtime.cpu')", 16, id="runtime.cpu"),
        pytest.param("importlib.import_module('lego_mlir.runtime.cuda')", 11, id="runtime.cuda"),
        pytest.param(COMPILE, 42, id="a structured compile"),
    ],
)
def test_modules_that_are_loaded(statement, most):
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(statement)], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) <= most
