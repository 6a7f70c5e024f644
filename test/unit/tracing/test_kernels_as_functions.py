"""Kernels have the name, the documentation and the signature of their functions, and are pickled by their names."""

import inspect
import pickle
import subprocess
import sys

import pytest

import lego_mlir as lego
from lego_mlir import Row, f32

N = 64


@lego.kernel(grid=1, block=N, name="entry")
def twice(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    """Doubles each element."""
    y[lego.thread_id.x] = x[lego.thread_id.x] * 2.0


@lego.program
def both(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    """Runs one kernel."""
    twice(x, y)


@pytest.mark.parametrize("kernel", [twice, both], ids=["kernel", "program"])
def test_a_kernel_looks_like_its_function(kernel):
    assert kernel.__name__ == kernel.__qualname__ == ("twice" if kernel is twice else "both")
    assert kernel.__doc__ in ("Doubles each element.", "Runs one kernel.")
    assert list(inspect.signature(kernel).parameters) == ["x", "y"]
    assert pickle.loads(pickle.dumps(kernel)) is kernel


def test_a_kernel_without_a_name_in_its_module_is_not_pickled():
    @lego.kernel(grid=1, block=N)
    def inner(x: lego.Tensor(f32, Row(N))):
        x[lego.thread_id.x] = 1.0

    with pytest.raises(pickle.PicklingError, match=r"inner, which is not this kernel; make it at the top of a module"):
        pickle.dumps(inner)


def test_the_package_tells_its_version_and_hides_its_imports():
    program = "import lego_mlir, sys; print(lego_mlir.__version__, *dir(lego_mlir)); print('sympy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names, loaded = done.stdout.splitlines()
    version, *shown = names.split()
    assert version[0].isdigit() and loaded == "False"
    assert {"kernel", "Row", "__version__"} <= set(shown)
    assert not {"importlib", "sys", "builtins", "TYPE_CHECKING", "annotations", "Any"} & set(shown)
