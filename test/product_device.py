"""A stand-in device for `lego_mlir.matmul`: a launch runs the problem's module in the interpreter."""

import ctypes
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from cuda_stand_in import Machine, OwnLibrary

from lego_mlir import interp
from lego_mlir.interp.traced_kernels import kernel_extents
from lego_mlir.runtime import driver, first_calls
from lego_mlir.runtime.data import concrete
from lego_mlir.runtime.products import backends, kernels, known

compiled_copy, compiled_product = cache(kernels.compiled_copy), cache(kernels.compiled)
"""The copies into and out of aligned rows, which the name and the target define, and products: compiled once for all
tests."""


def run_launch(compilation, entry, parameters, grid=None):
    """Interpret a launch on the memory that its parameters point to, by default on the grid that was compiled."""
    (kernel,) = compilation.sources
    count = len(kernel.params)
    sizes = [ctypes.c_int64.from_address(parameters[count + i]).value for i in range(len(kernel.sizes))]
    known = dict(zip((size.name for size in kernel.sizes), sizes, strict=True))
    memories = []
    for i, parameter in enumerate(kernel.params):
        address = ctypes.c_uint64.from_address(parameters[i]).value
        words = (ctypes.c_ubyte * (concrete(parameter.size, known) * parameter.dtype.bytes)).from_address(address)
        memories.append(np.frombuffer(memoryview(words), parameter.dtype.numpy))
    by_warpgroups = "tensor_maps" in compilation.stage("transformed")  # which no interpreter of MLIR runs
    text = compilation.stage("mlir" if by_warpgroups else "transformed")
    if kernel.schedules:
        while kernel.schedules:
            kernel = kernel.origin
        text, grid = kernel.mlir(), kernel_extents(kernel.grid, known)
    report = interp.launch(text, entry, grid, kernel.block, args=[*memories, *sizes], counts=False)
    assert report.clean, [str(fault) for fault in report.faults]


class Device:
    """The stand-in's devices: `problems` lists what was launched, in order; `library` has the current stream."""

    def __init__(self, monkeypatch):
        self.problems, self.compiled = [], {}
        self.machine = Machine().plug_in(monkeypatch)
        self.machine.kernels["matmul"] = self.launch
        self.library = OwnLibrary(monkeypatch)
        monkeypatch.setattr(kernels, "compiled", lambda p: self.compiled.setdefault(p, compiled_product(p)))
        monkeypatch.setattr(first_calls, "kernel_of", lambda call, make, *_: make())  # what runs is found by compiling
        monkeypatch.setattr(kernels, "compiled_copy", lambda *given: self.run_copies(compiled_copy(*given)))

    def run_copies(self, compilation):
        """Launches of a copy run its code for this CPU. Copies of each type are entries with the type in the name."""
        (kernel,) = compilation.sources
        (described,) = compilation.manifest["kernels"]
        name = f"{kernel.name}.{kernel.params[0].dtype}"
        self.machine.runs(kernel, name)
        return SimpleNamespace(manifest={"kernels": [{**described, "entry": name}]}, bytes=compilation.bytes)

    @property
    def launched(self):
        """The names of the kernels that were launched, in order."""
        return [launch[0].partition(".")[0] for launch in self.machine.launches]

    def launch(self, parameters, grid):
        problem, compilation = list(self.compiled.items())[-1]
        self.problems.append(problem)
        run_launch(compilation, "matmul", parameters)  # clusters: not the grid of the module before its script


def forget():
    """Drop what the process keeps of products."""
    known.known.clear()
    backends.forget()


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(kernels, "class_of", lambda problem: None)  # test_class_backends has them
    forget()
    yield Device(monkeypatch)
    forget()
    driver.driver.cache_clear()
