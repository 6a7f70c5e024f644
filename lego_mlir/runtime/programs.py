"""The launches of a program for known sizes: the grid's sizes, the numbers, and the memory of each argument.

A program is recorded over symbols. For a run, `launches` gives each step with the values of its kernel's sizes, checked
against what the kernel requires, and `run_program` executes the steps in the interpreter on one set of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lego_mlir.aliases import Given
from lego_mlir.errors import UsageError
from lego_mlir.runtime.data import concrete
from lego_mlir.runtime.data_files import UNWRITTEN
from lego_mlir.tracing.definition.program import KernelProgram, ProgramNumber, ProgramStep, ProgramTensor

if TYPE_CHECKING:
    from lego_mlir.interp.report import Report


@dataclass(frozen=True, slots=True)
class StepLaunch:
    """A step with numbers for its kernel's sizes; tensors and numbers of the program are named in `arguments`."""

    step: ProgramStep
    sizes: Mapping[str, int]

    def arguments(self, values: Mapping[str, Given], sizes: Mapping[str, int]) -> dict[str, Given]:
        """The kernel's arguments by name: of `values`, the program's arrays and numbers, or a number of the step."""
        found: dict[str, Given] = {}
        for name, operand in self.step.by_name().items():
            if isinstance(operand, (ProgramTensor, ProgramNumber)):
                found[name] = values[operand.name]
            else:
                found[name] = operand if isinstance(operand, (int, float)) else concrete(operand, sizes)
        return found


def launches(program: KernelProgram, sizes: Mapping[str, int]) -> Iterator[StepLaunch]:
    """The steps, in order. Raises UsageError for a size that a kernel does not take."""
    for step in program.steps:
        values = step.size_values(sizes)
        for size in step.kernel.sizes:
            n = values[size.name]
            if n < size.min or (size.max is not None and n > size.max) or n % size.multiple_of:
                most = "" if size.max is None else f", at most {size.max}"
                given = ", ".join(f"{name} = {value}" for name, value in sizes.items())
                raise UsageError(
                    f"program {program.name} at {given}: {step.kernel.name} gets {size.name} = {n}, and needs at least "
                    f"{size.min}{most}, a multiple of {size.multiple_of}"
                )
        yield StepLaunch(step, values)


@dataclass(frozen=True, slots=True)
class StepRun:
    """What the interpreter reports of a step, for these sizes of its kernel, and its observer."""

    step: ProgramStep
    sizes: Mapping[str, int]
    report: Report
    observed: Any = None


def run_program(
    program: KernelProgram,
    arguments: Mapping[str, Any],
    sizes: Mapping[str, int],
    *,
    module: Callable[[Any], str | None] = lambda kernel: None,
    observer: Callable[[], Any] | None = None,
    emulator: Callable[..., Report] | None = None,
    **options: Any,
) -> list[StepRun]:
    """Run the steps in the interpreter, on arrays in memory order, in place. Temporaries begin as UNWRITTEN.

    `module` gives a kernel's transformed module, `observer` makes the observer of a step; `options` are those of
    `interp.run_kernel`. With an `emulator` (`interp.ptx.PtxRun`), it runs the steps instead.
    """
    import numpy

    from lego_mlir import interp

    values = dict(arguments)
    for tensor in program.temporaries:
        values[tensor.name] = numpy.full(concrete(tensor.size, sizes), UNWRITTEN).astype(tensor.dtype.numpy)
    runs = []
    for launch in launches(program, sizes):
        kernel = launch.step.kernel
        observed = None if observer is None else observer()
        given = launch.arguments(values, sizes)
        for parameter in kernel.params:
            if parameter.layout is None:
                given[parameter.name] = parameter.dtype.numpy.type(given[parameter.name])
        if emulator is not None:
            report = emulator(kernel, given, launch.sizes)
        else:
            report = interp.run_kernel(kernel, given, launch.sizes, module=module(kernel), observe=observed, **options)
        runs.append(StepRun(launch.step, launch.sizes, report, observed))
    return runs
