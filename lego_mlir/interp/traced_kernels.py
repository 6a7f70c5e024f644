"""Run a `Kernel` of the tracing DSL in the interpreter, with its arguments by name.

An argument is the memory of its tensor: one flat array in the order of the tensor's layout, made from a logical array
by `lego_mlir.runtime.data`. Its dtype may be another of the same size (uint16 for bf16, uint8 for i1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.aliases import Module
from lego_mlir.errors import InterpreterError, did_you_mean
from lego_mlir.interp.launch import MEMORY_LIMIT, Argument, Progress, launch
from lego_mlir.interp.report import Report

if TYPE_CHECKING:
    from lego_mlir.interp.counters import Observe
    from lego_mlir.interp.element_history import RunWatch
    from lego_mlir.layout.canonical import Size
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.kernel_traces import Parameter


def run_kernel(
    kernel: Kernel,
    arguments: Mapping[str, Argument],
    sizes: Mapping[str, int] | None = None,
    *,
    module: Module | None = None,
    checks: bool = True,
    counts: bool = True,
    blocks: int | Sequence[int] | None = None,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
    observe: Observe | None = None,
    watch: RunWatch | None = None,
) -> Report:
    """Run a kernel on arrays, in place. `module` replaces the emitted module, for example with a transformed one.

    Raises InterpreterError for a missing argument, a size without a value, or an unknown name.
    """
    sizes = dict(sizes or {})
    names = [parameter.name for parameter in kernel.params]
    missing = [n for n in names if n not in arguments] + [s.name for s in kernel.sizes if s.name not in sizes]
    if missing:
        raise InterpreterError(f"kernel {kernel.name} needs a value for {', '.join(missing)}")
    for what, known, given in (("argument", names, arguments), ("size", [s.name for s in kernel.sizes], sizes)):
        for name in given:
            if name not in known:
                raise InterpreterError(
                    f"kernel {kernel.name} has no {what} {name}{did_you_mean(name, known)}; "
                    f"it has: {', '.join(known) or 'none'}"
                )
    kernel.refuse_sizes(sizes, InterpreterError)
    values = [_memory(parameter, arguments[parameter.name]) for parameter in kernel.params]
    return launch(
        kernel.mlir() if module is None else module,
        kernel.name,
        grid=kernel_extents(kernel.grid, sizes),
        block=kernel_extents(kernel.block, sizes),
        args=[*values, *(sizes[size.name] for size in kernel.sizes)],
        names=names,
        checks=checks,
        counts=counts,
        blocks=blocks,
        memory_limit=memory_limit,
        progress=progress,
        observe=observe,
        watch=watch,
    )


def _memory(parameter: Parameter, value: Argument) -> Argument:
    """A view of the array with the NumPy dtype of the parameter's element type."""
    if parameter.layout is None or not isinstance(value, np.ndarray):
        return value
    dtype = np.dtype(parameter.dtype.numpy)
    return value.view(dtype) if value.dtype != dtype and value.dtype.itemsize == dtype.itemsize else value


def kernel_extents(extents: Sequence[Size], sizes: Mapping[str, int]) -> list[int]:
    """The extents of a grid or block with symbolic entries evaluated."""
    from lego_mlir.expr.evaluate import evaluate

    return [n if isinstance(n, int) else int(evaluate(n, sizes)) for n in extents]
