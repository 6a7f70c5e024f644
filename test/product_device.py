"""A stand-in device for `lego_mlir.matmul`: a launch runs the problem's module in the interpreter."""

import ctypes

import numpy as np
import pytest
from cuda_stand_in import Machine, OwnLibrary

from lego_mlir import interp
from lego_mlir.runtime import driver, products


class Device:
    """The stand-in's devices: `problems` lists what was launched, in order; `library` has the current stream."""

    def __init__(self, monkeypatch):
        self.problems, self.compiled = [], {}
        self.machine = Machine().plug_in(monkeypatch)
        self.machine.kernels["matmul"] = self.launch
        self.library = OwnLibrary(monkeypatch)
        real = products.compiled
        monkeypatch.setattr(products, "compiled", lambda p: self.compiled.setdefault(p, real(p)))
        copies = products.compiled_copy
        monkeypatch.setattr(products, "compiled_copy", lambda *given: self.run_copies(copies(*given)))

    def run_copies(self, compilation):
        """Launches of a copy run its code for this CPU."""
        (kernel,) = compilation.sources
        self.machine.runs(kernel)
        return compilation

    def launch(self, parameters, grid):
        problem, compilation = list(self.compiled.items())[-1]
        self.problems.append(problem)
        (kernel,) = compilation.sources
        memories = []
        for i, parameter in enumerate(kernel.params):
            address = ctypes.c_uint64.from_address(parameters[i]).value
            words = (ctypes.c_ubyte * (int(parameter.size) * parameter.dtype.bytes)).from_address(address)
            memories.append(np.frombuffer(memoryview(words), parameter.dtype.numpy))
        by_warpgroups = "tensor_maps" in compilation.stage("transformed")  # which no interpreter of MLIR runs
        assert interp.launch(compilation.stage("mlir" if by_warpgroups else "transformed"), args=memories).clean


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def device(monkeypatch, cache_folder):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder))
    monkeypatch.setattr(products, "backend_of_class", lambda problem, device: None)  # test_class_backends has them
    products._known.clear()
    products.backend_for.cache_clear()
    products.copy_backend.cache_clear()
    yield Device(monkeypatch)
    products._known.clear()
    products.backend_for.cache_clear()
    products.copy_backend.cache_clear()
    driver.driver.cache_clear()
