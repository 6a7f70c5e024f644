"""The process of a candidate on the stand-in for the driver: its kernels run as CPU code of the compiled module.

A launch takes as many microseconds as a block has threads, so that a test knows the fastest candidate.
"""

import ctypes

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


def main():
    """Serve the parent as `child.main` does."""
    machine, build = Machine(), gpu_trials.GpuBuild.__call__
    driver.open_library = lambda: machine.library

    def remembered(self):
        made = build(self)
        for described in made.described["kernels"]:
            machine.kernels[described["entry"]] = launcher(machine, self.module, described)
        return made

    gpu_trials.GpuBuild.__call__ = remembered
    child.main()
