"""Kernels of attention on NumPy arrays of [batch, heads, rows, features], by their strides."""

import numpy as np

from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel


def run(kernel, arrays, sizes, on):
    """Run a kernel on some of the arrays, in place, each with the strides that it has.

    An array's sizes are known to kernels that do not take it, too.
    """
    given, sizes = {}, dict(zip(("B", "H", "M", "N", "SQ", "SK"), sizes, strict=False))
    sizes |= {f"{name}_{axis}": n for name, x in arrays.items() for axis, n in enumerate(x.shape)}
    for p in kernel.params:
        given[p.name] = in_memory(arrays[p.name])
        steps = (n // arrays[p.name].itemsize for n in arrays[p.name].strides)
        sizes |= {f"{p.name}_{axis}": n for axis, n in zip(("batch", "head", "row"), steps, strict=False)}
    values = {s.name: sizes[s.name] for s in kernel.sizes}
    if on == "interp":
        report = run_kernel(kernel, given, values, counts=False)
    else:
        report = PtxRun(target=on)(kernel, given, values)
    assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]


def in_memory(x):
    """The elements in the order of memory, a view."""
    order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    found = x.transpose(order).reshape(-1)
    assert np.shares_memory(found, x)
    return found
