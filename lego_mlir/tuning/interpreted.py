"""The data of a check for a kernel without a reference: what the interpreter computes from random input.

It runs all threads of the traced module with its checks on, so a kernel that races or leaves its tensors is refused
here. What a GPU computes may differ by roundings: fast functions, fused multiply-adds, the order of a sum. Elements are
compared within the bounds for data that come without any (`runtime.comparing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Final

import numpy

from lego_mlir.aliases import Array
from lego_mlir.errors import KernelFaultError, UsageError

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.program import Runnable

LARGEST: Final = 2**20  # threads that are interpreted: some seconds


def interpreted_data(kernel: Runnable, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """The arrays of one kernel's check, by the names of `runtime.data`.

    Raises KernelFaultError for faults, UsageError for a launch of more than 2**20 threads.
    """
    from lego_mlir import interp
    from lego_mlir.runtime import programs
    from lego_mlir.runtime.comparing import STORED, numbers
    from lego_mlir.runtime.kernel_input import make_input
    from lego_mlir.tracing.definition.program import KernelProgram

    _require_few_threads(kernel, sizes)
    made = make_input(kernel, sizes, seed)
    arrays: dict[str, Array] = {f"{kernel.name}/{name}": numpy.asarray(n) for name, n in made.sizes.items()}
    for parameter in kernel.params:
        arrays[f"{kernel.name}/{parameter.name}"] = _stored(made.memories[parameter.name], STORED[parameter.dtype.name])
    if isinstance(kernel, KernelProgram):
        reports = [run.report for run in programs.run_program(kernel, made.memories, made.sizes)]
    else:
        reports = [interp.run_kernel(kernel, made.memories, made.sizes)]
    faults = [str(fault) for report in reports for fault in report.faults]
    if faults:
        raise KernelFaultError(kernel.name, faults)
    for parameter in kernel.params:
        if parameter.written:
            after = _stored(made.memories[parameter.name], STORED[parameter.dtype.name])
            arrays[f"{kernel.name}/{parameter.name}/expected"] = numbers(after, parameter.dtype.name)
    return arrays


def _stored(memory: Array, dtype: str) -> Array:
    """A copy of memory, the words of types that NumPy does not have."""
    kind = numpy.dtype(dtype)
    array = numpy.array(memory)
    return array.view(kind) if array.dtype.itemsize == kind.itemsize else array.astype(kind)


def _require_few_threads(kernel: Runnable, sizes: Mapping[str, int]) -> None:
    from lego_mlir.runtime.data import concrete
    from lego_mlir.tracing.definition.program import KernelProgram

    if isinstance(kernel, KernelProgram):
        return
    threads = prod(concrete(extent, sizes) for extent in (*kernel.grid, *kernel.block))
    if threads > LARGEST:
        raise UsageError(
            f"kernel {kernel.name} has no reference, and its {threads} threads are too many to interpret; give it one: "
            f"@{kernel.name}.reference above a NumPy function of its parameters"
        )
