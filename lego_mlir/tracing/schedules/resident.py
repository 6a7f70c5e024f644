"""`resident(blocks)`: that many blocks share a multiprocessor, so that one multiplies while another stores its result.

The assembler keeps the registers of a thread to what leaves room for the blocks (`.minnctapersm`, PTX ISA). The roles
of a block keep what it is launched with: registers are moved between the threads of a block that has a multiprocessor
to itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from lego_mlir.errors import ScheduleError
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled
from lego_mlir.tracing.trace.marks import ResidentBlocks, WarpRole
from lego_mlir.tracing.trace.trace import If

MOST = 4  # blocks of 128 threads with 128 registers


@dataclass(frozen=True, slots=True)
class Resident:
    """Have the registers of `blocks` blocks fit a multiprocessor; apply it after `roles`. Their tiles must fit too."""

    blocks: int = 2

    def __post_init__(self) -> None:
        if type(self.blocks) is not int or not 2 <= self.blocks <= MOST:
            raise ScheduleError(f"resident: blocks={self.blocks!r} must be an int from 2 to {MOST}")

    def __str__(self) -> str:
        return f"resident(blocks={self.blocks})"

    def __call__(self, kernel: Kernel) -> Kernel:
        return Scheduled(kernel, _Sharing(self.blocks), str(self))


class _Sharing(Replay):
    def __init__(self, blocks: int) -> None:
        self.blocks = blocks

    def run(self) -> None:
        self.shared()
        self.tracer.append(If(sympy.true, (), (), self.tracer.here(), ResidentBlocks(self.blocks)))
        self.body(self.trace.body)

    def branch(self, branch: If) -> None:
        """A role does not move registers."""
        if isinstance(branch.mark, WarpRole):
            branch = replace(branch, mark=replace(branch.mark, registers=None))
        super().branch(branch)
