"""The modules of `lego.caches` as attributes."""

import subprocess
import sys

import pytest

import lego_mlir as lego


@pytest.mark.parametrize("name", lego.caches.__all__)
def test_each_module_is_an_attribute(name):
    program = f"import sys, lego_mlir as lego; print(lego.caches.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"lego_mlir.caches.{name}"
    assert name in dir(lego.caches)


def test_the_package_alone_needs_no_numba():
    program = "import sys, lego_mlir as lego; lego.caches.bounds; lego.caches.levels; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_another_name():
    with pytest.raises(AttributeError, match=r"module 'lego_mlir\.caches' has no attribute 'simulator'"):
        lego.caches.simulator
