"""Running a kernel in the interpreter on logical arrays: placed in memory by its layouts, read back by them."""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, interp
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.interp.ptx import emulate
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.runtime.data import concrete, positions
from lego_mlir.toolchain import compile_kernel

UNTOUCHED = -77


def launch(kernel, *arrays, sizes=None, form="affine", clean=True):
    """The logical arrays and numbers of the signature in; the arrays after the kernel out, in the same order."""
    sizes = sizes or {}
    memories, placed = in_memory(kernel, arrays, sizes)
    report = interp.launch(
        kernel.mlir(form),
        grid=[int(evaluate(n, sizes)) for n in kernel.grid],
        block=[int(evaluate(n, sizes)) for n in kernel.block],
        args=[*memories, *(sizes[s.name] for s in kernel.sizes)],
        counts=False,
    )
    if clean:
        assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]
    return logical(memories, placed)


def launch_on_cpu(kernel, *arrays, sizes=None, form="affine", compiled=None):
    """The same on this machine's processor; `compiled` is the kernel's HostKernel where it is there already."""
    sizes = sizes or {}
    memories, placed = in_memory(kernel, arrays, sizes)
    compiled = compiled or compile_kernels(kernel.mlir(form))[kernel.name]
    compiled([*memories, *(sizes[s.name] for s in kernel.sizes)], [int(evaluate(n, sizes)) for n in kernel.grid])
    return logical(memories, placed)


def launch_emulated(kernel, *arrays, target="sm_80"):
    """The same by the emulator of the emitted PTX."""
    memories, placed = in_memory(kernel, arrays, {})
    compiled = compile_kernel((kernel,), target=target)
    dynamic = compiled.kernels[0].dynamic_shared
    report = emulate(
        compiled.text, kernel.name, args=memories, grid=kernel.grid, block=kernel.block, dynamic_shared=dynamic
    )
    assert report.clean, report.faults
    return logical(memories, placed)


def in_memory(kernel, arrays, sizes):
    """Arrays as memory holds them, and where each element is; None for a number."""
    memories, placed = [], []
    for parameter, given in zip(kernel.params, arrays, strict=True):
        if parameter.layout is None:
            memories.append(given)
            placed.append(None)
            continue
        where = positions(parameter.layout, sizes)
        memory = np.full(concrete(parameter.size, sizes), UNTOUCHED).astype(parameter.dtype.numpy)
        memory[where] = np.asarray(given).astype(parameter.dtype.numpy)
        memories.append(memory)
        placed.append(where)
    return memories, placed


def logical(memories, placed):
    return [m if w is None else m[w] for m, w in zip(memories, placed, strict=True)]


def elementwise(function, *dtypes, out, n=64):
    """The kernel that applies a function to each of the `n` elements of its inputs, all by one block."""
    inputs = [lego.Tensor(d, Row(n)) for d in dtypes]

    def body(*views):
        *given, result = views
        i = lego.thread_id[0]
        result[i] = function(*(v[i] for v in given))

    names = [f"x{k}" for k in range(len(dtypes))]
    arguments = ", ".join([*names, "y"])
    space = {"body": body}
    exec(f"def apply({arguments}):\n    body({arguments})\n", space)
    apply = space["apply"]
    apply.__annotations__ = {**dict(zip(names, inputs, strict=True)), "y": lego.Tensor(out, Row(n))}
    return lego.kernel(grid=1, block=n)(apply)
