"""The process of a candidate on the stand-in for the driver: its kernels run as CPU code of the compiled module.

A launch takes as many microseconds as a block has threads, so that a test knows the fastest candidate. The module of
packed code is in the folder MODULES, where `keep_modules` put it when the code was packed.
"""

import ctypes
import hashlib
import os
from pathlib import Path

import numpy as np
from cuda_stand_in import Machine

from lego_mlir.runtime import driver
from lego_mlir.runtime.comparing import STORED
from lego_mlir.tuning import child, gpu_trials


def launcher(machine, module, described):
    """What a kernel of a manifest does with the parameters of a launch."""
    compiled = {}

    def run(parameters, grid):
        from lego_mlir.runtime.cpu_kernels import compile_kernels

        if not compiled:
            compiled.update(compile_kernels(module))
        values = []
        for number, argument in enumerate(described["arguments"]):
            if argument["kind"] == "tensor":
                values.append(ctypes.c_uint64.from_address(parameters[number]).value)
            else:
                dtype = np.dtype(STORED[argument["dtype"]])
                values.append(np.frombuffer(ctypes.string_at(parameters[number], dtype.itemsize), dtype)[0])
        first = len(values)
        sizes = range(first, first + len(described["sizes"]))
        values += [ctypes.c_int64.from_address(parameters[number]).value for number in sizes]
        compiled[described["entry"]](values, grid)
        machine.set(microseconds=int(np.prod(described["block"])))

    return run


MODULES = "STAND_IN_MODULES"
"""The environment variable that names the folder."""


def keep_modules(monkeypatch, folder):
    """Keep the module of all code that this process compiles, for its candidates' processes."""
    build = gpu_trials.GpuBuild.__call__
    folder.mkdir()
    monkeypatch.setenv(MODULES, str(folder))

    def kept(self):
        made = build(self)
        (folder / hashlib.sha256(made.code).hexdigest()).write_text(self.module)
        return made

    monkeypatch.setattr(gpu_trials.GpuBuild, "__call__", kept)


def main():
    """Serve the parent as `child.main` does."""
    machine, build, load = Machine(), gpu_trials.GpuBuild.__call__, gpu_trials.GpuTrial.open
    driver.open_library = lambda: machine.library

    def remembered(self):
        made = build(self)
        for described in made.described["kernels"]:
            machine.kernels[described["entry"]] = launcher(machine, self.module, described)
        return made

    def opened(self):
        if MODULES in os.environ:
            module = Path(os.environ[MODULES], hashlib.sha256(self.code).hexdigest()).read_text()
            for described in self.described["kernels"]:
                machine.kernels[described["entry"]] = launcher(machine, module, described)
        return load(self)

    gpu_trials.GpuBuild.__call__, gpu_trials.GpuTrial.open = remembered, opened
    child.main()
