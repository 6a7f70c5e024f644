"""Instruction mix of each line: warps by kind, how many lanes take part, and branches that divide a warp.

Warps that are at one instruction with other lanes of theirs elsewhere issue it more than once, as on hardware; so does
a warp of which a guard switches lanes off, but once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.gangs import Gang, by_warp
from lego_mlir.interp.ptx.ptx_machine import GangDivergence, Outcome, Step
from lego_mlir.interp.ptx.ptx_types import FLOATS, PACKED
from lego_mlir.interp.report import LineMix, SourceLocation

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.decoder import Decoder
    from lego_mlir.interp.ptx.ptx_program import PtxInstruction

MEMORY: Final = frozenset({"ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix", "cp", "tex", "suld", "sust"})
MATRIX: Final = frozenset({"mma", "wmma", "wgmma", "tcgen05"})
CONTROL: Final = frozenset({"bra", "brx", "call", "ret", "exit", "bar", "barrier", "mbarrier", "fence", "membar"})


def kind_of(instruction: PtxInstruction) -> str:
    """memory, matrix, control, float or integer."""
    for name, opcodes in (("memory", MEMORY), ("matrix", MATRIX), ("control", CONTROL)):
        if instruction.opcode in opcodes:
            return name
    is_float = any(PACKED.get(m, m) in FLOATS for m in instruction.modifiers)
    return "float" if is_float else "integer"


@dataclass(slots=True)
class InstructionMix:
    """Counts by line of PTX."""

    lines: dict[int, LineMix] = field(default_factory=dict)

    def with_counts(self, decoder: Decoder, instruction: PtxInstruction, step: Step) -> Step:
        """The step, which is also counted."""
        kind, place = kind_of(instruction), SourceLocation(decoder.file, instruction.line)
        mix = self.lines.setdefault(instruction.line, LineMix(place))

        def run(gang: Gang) -> Outcome:
            warps = len(gang.warps)
            if gang.active is not None:
                warps = int(gang.active.reshape(-1, WARP).any(axis=1).sum())
            mix.add(kind, warps, gang.count())
            active = gang.active
            outcome = step(gang)
            if isinstance(outcome, GangDivergence):
                taking, staying = by_warp(outcome.taken, active)
                mix.divided += int(np.count_nonzero(taking & staying))
            return outcome

        return run
