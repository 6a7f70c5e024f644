"""Run a kernel's emitted PTX in the emulator on the input that the interpreter gets."""

from pathlib import Path

import numpy as np

from lego_mlir.interp.ptx import emulate
from lego_mlir.runtime import data, data_files
from lego_mlir.toolchain import compile_kernel

SCRIPTS = Path(__file__).resolve().parents[1] / "transform_scripts"


def memories_of(kernel, logical):
    """The memory of each parameter: the drawn values in their places, a marker elsewhere."""
    found = {}
    for parameter in kernel.params:
        memory = np.full(data.concrete(parameter.size, {}), data_files.UNWRITTEN).astype(parameter.dtype.numpy)
        if parameter.read:
            memory[data.positions(parameter.layout, {})] = logical[parameter.name]
        found[parameter.name] = memory
    return found


def ptx_of(kernel, script=None, target="sm_80", **parameters):
    """The PTX and the kernel's facts."""
    transform = None if script is None else str(SCRIPTS / script)
    compiled = compile_kernel((kernel,), target=target, transform=transform, parameters=parameters or None)
    return compiled.text, compiled.kernels[0]


def run_ptx(kernel, memories, text, facts, seed=0):
    """Emulate the PTX on the memories, in place."""
    names = [parameter.name for parameter in kernel.params]
    return emulate(
        text,
        kernel.name,
        args=[memories[name] for name in names],
        grid=kernel.grid,
        block=kernel.block,
        dynamic_shared=facts.dynamic_shared,
        names=names,
        seed=seed,
    )
