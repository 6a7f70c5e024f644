"""Which package of MLIR bindings is taken, and what is said where one is missing."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

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


WITHOUT_SYMPY = """
import sys
sys.modules["sympy"] = None
import lego_mlir as lego
N = lego.size("N")

@lego.kernel(grid=N, block=32)
def filled(x: lego.Tensor(lego.f32, lego.Row(N, 32))):
    x[lego.block_id[0], lego.thread_id[0]] = 1

"""


@pytest.mark.parametrize(
    ("code", "name"), [("lego.barrier", "barrier"), ("N % 3", "size"), ("filled.mlir()", "kernel")]
)  # fmt: skip
def test_without_the_compilers_packages_a_name_says_what_to_install(code, name):
    command = [sys.executable, "-c", WITHOUT_SYMPY + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"DependencyError: lego_mlir.{name} needs sympy, which is not installed" in done.stderr
    assert "pip install '.[compile]' in a checkout" in done.stderr


def test_a_missing_module_of_ours_is_a_fault():
    error = ModuleNotFoundError("No module named 'lego_mlir.nowhere'", name="lego_mlir.nowhere")
    assert without(error, "Row") is error


def test_a_session_takes_over_the_context_of_an_earlier_one():
    with bindings.context() as first:
        first.allow_unregistered_dialects = True
        with bindings.context() as inner:
            assert inner is not first and not inner.allow_unregistered_dialects
    with bindings.context() as second:
        assert second is first and not second.allow_unregistered_dialects


def test_a_context_is_dropped_after_an_exception_and_after_many_sessions(monkeypatch):
    with pytest.raises(KeyError), bindings.context() as failed:
        raise KeyError
    monkeypatch.setattr(bindings, "SESSIONS", 2)
    monkeypatch.setattr(bindings._IDLE, "contexts", [])
    used = []
    for _ in range(3):
        with bindings.context() as context:
            used.append(context)
    assert used[0] is used[1] is not used[2] and failed not in used


def test_contexts_that_modules_are_read_in_are_shared_a_number_of_times(monkeypatch):
    monkeypatch.setattr(bindings, "SESSIONS", 2)
    monkeypatch.setattr(bindings._IDLE, "reading", None)
    first, second, third = [bindings.reading_context() for _ in range(3)]
    assert first is second is not third
    with bindings.context() as context:
        assert context is not third


def test_each_thread_has_other_contexts():
    def context():
        with bindings.context() as found:
            return found, bindings.reading_context()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(context).result()
    here = context()
    assert other[0] is not here[0] and other[1] is not here[1]
