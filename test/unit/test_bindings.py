"""Which package of MLIR bindings is taken, and what is said where one is missing."""

import subprocess
import sys

import pytest

from lego_mlir import bindings
from lego_mlir.errors import DependencyError, without


@pytest.fixture
def fresh():
    bindings.load.cache_clear()
    yield
    bindings.load.cache_clear()


def test_a_variable_chooses_the_bindings(fresh, monkeypatch):
    monkeypatch.setenv("LEGO_MLIR_BINDINGS", "torch_mlir")
    assert bindings.load().package == "torch_mlir"


def test_unknown_bindings_are_refused(fresh, monkeypatch):
    monkeypatch.setenv("LEGO_MLIR_BINDINGS", "iree")
    with pytest.raises(DependencyError, match="LEGO_MLIR_BINDINGS=iree: the MLIR bindings are mlir or torch_mlir"):
        bindings.load()


def test_chosen_bindings_that_are_not_installed_are_named(fresh, monkeypatch):
    monkeypatch.setenv("LEGO_MLIR_BINDINGS", "mlir")
    monkeypatch.setattr(bindings.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DependencyError, match="LEGO_MLIR_BINDINGS asks for mlir"):
        bindings.load()


def test_without_the_compilers_packages_a_name_says_what_to_install():
    code = "import sys; sys.modules['sympy'] = None\nimport lego_mlir\nlego_mlir.kernel"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "DependencyError: lego_mlir.kernel needs sympy, which is not installed" in done.stderr
    assert "pip install lego-mlir" in done.stderr


def test_a_missing_module_of_ours_is_a_fault():
    error = ModuleNotFoundError("No module named 'lego_mlir.nowhere'", name="lego_mlir.nowhere")
    assert without(error, "Row") is error
