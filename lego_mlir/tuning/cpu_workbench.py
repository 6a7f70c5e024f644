"""The workbench of this machine's CPU, for structured programs: compiled, checked and timed in isolated processes.

A result is compared with NumPy's within the error bounds of `structured.error_bounds`. A sample is the time of one run
in a loop of machine code (`structured.tuning.Timer`), long enough that the call from Python does not count.

>>> from lego_mlir.structured import source_of, structures as st
>>> source = source_of("A = B*C", A=st.general(4, 4), B=st.general(4, 4), C=st.general(4, 4))
>>> sampler = CpuTrial(source).open()
>>> sampler.check(), len(sampler.sample(3))
('', 3)
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.tuning.candidates import Candidate
from lego_mlir.tuning.workbench import Workbench

if TYPE_CHECKING:
    from lego_mlir.structured.build import KernelSource

LIVE: Final = 4
"""Processes that are open at a time; all but one wait for their turn."""


@dataclass(frozen=True, slots=True)
class CpuTrial:
    """A structured program as it is compiled for this machine."""

    source: KernelSource

    def open(self) -> CpuSampler:
        """Compile it. Raises LegoError where a stage fails."""
        return CpuSampler(self.source)


class CpuSampler:
    """A compiled program on arrays of its own."""

    def __init__(self, source: KernelSource) -> None:
        from lego_mlir.structured import build, reference
        from lego_mlir.structured.tuning import Timer

        self.source = source
        dtype = build.DTYPES[source.element]
        self.kernel = build.compile(source.program, dtype=dtype, name=source.name, variant=source.variant, cache=None)
        self.arrays = reference.sample(source.program, dtype)
        self.timer = Timer(source, self.arrays)

    def check(self) -> str:
        """Run on copies of the arrays and compare with NumPy; the first operand that is wrong."""
        from lego_mlir.runtime.comparing import compare
        from lego_mlir.structured import entry_point, error_bounds, reference

        program, after = self.source.program, {name: array.copy() for name, array in self.arrays.items()}
        judged = error_bounds.allowed(program, self.arrays, self.source.element)
        self.kernel(*(after[operand.name].reshape(entry_point.array_shape(operand)) for operand in program.operands))
        for operand in program.operands:
            if operand.name in judged:
                expected, allowed = judged[operand.name]
                found = compare(reference.dense(operand, after[operand.name]), expected, self.source.element, allowed)
                if not found:
                    return f"{operand.name}: {found.summary}"
        return ""

    def sample(self, count: int) -> list[float]:
        """The seconds of a run, `count` times."""
        return [self.timer.seconds() for _ in range(count)]


def cpu_workbench() -> Workbench:
    """The workbench of this machine's CPU."""
    from lego_mlir.runtime import cpu
    from lego_mlir.store import key
    from lego_mlir.toolchain import llvm
    from lego_mlir.tuning.isolated import IsolatedBench

    toolchain = key("structured", cpu.processor().encode(), llvm.version())[:16]
    name = cpu.model_name()
    return Workbench(name, os.cpu_count() or 1, platform.system(), toolchain, IsolatedBench(LIVE), _trial)


def is_structured(candidate: Candidate) -> bool:
    """Whether a candidate runs on the CPU: a structured program, or a kernel of one."""
    from lego_mlir.structured.build import Kernel, KernelSource

    return isinstance(candidate.built, Kernel | KernelSource)


def _trial(candidate: Candidate, sizes: Mapping[str, int]) -> CpuTrial:
    from lego_mlir.structured.build import Kernel, KernelSource

    built = candidate.built
    source = built.source if isinstance(built, Kernel) else built
    if not isinstance(source, KernelSource):
        raise UsageError(f"{candidate.configuration}: a {type(built).__name__} is not a structured program")
    if source.lanes > 1:
        raise UsageError(
            f"{candidate.configuration}: programs that compute a matrix per lane are not timed; leave out by_lanes"
        )
    return CpuTrial(source)


def workbench_for(candidate: Candidate, device: int = 0) -> Workbench:
    """Where candidates like this one are measured: this machine's CPU or a GPU of it. DependencyError without a GPU."""
    from lego_mlir.tuning import gpu_workbench

    if is_structured(candidate):
        return cpu_workbench()
    return gpu_workbench.gpu_workbench(device, templates=gpu_workbench.is_template(candidate))
