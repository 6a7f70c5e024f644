"""bra, ret, exit, trap, nanosleep. PTX ISA, "Control Flow Instructions"."""

from __future__ import annotations

import numpy as np

from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import EXIT, YIELD, GangDivergence, Outcome, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction, SymbolOperand
from lego_mlir.interp.report import Kind


@opcode("bra")
def build_bra(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`@%p bra L`: lanes that go different ways split the gang."""
    target = instruction.operands[0]
    if not isinstance(target, SymbolOperand):
        raise decoder.refused(instruction, "a branch goes to a label")
    to, here = decoder.entry.labels[target.name], decoder.pc
    if instruction.guard is None:

        def jump(gang: Gang) -> None:
            gang.pc = to

        return jump
    slot, negated = instruction.guard.slot, instruction.guard.negated
    join = decoder.joins.get(here)

    def run(gang: Gang) -> Outcome:
        taken = gang.get(slot, 1)
        if negated:
            taken = ~taken
        if gang.active is not None:
            taken = taken & gang.active
        count = int(np.count_nonzero(taken))
        if count == 0:
            return None
        if count == gang.count():
            gang.pc = to
            return None
        return GangDivergence(taken, to, here + 1, join)

    return run


@opcode("ret", "exit", whole=True)
def build_exit(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """The lanes end."""
    return lambda gang: EXIT


@opcode("trap", "brkpt", whole=True)
def build_trap(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`trap`: a failed assertion."""
    line, machine = instruction.line, decoder.machine

    def run(gang: Gang) -> Outcome:
        message = "the kernel executes trap"
        machine.fault(Kind.ASSERTION, message, gang, int(gang.live()[0]), line, count=gang.count())
        return EXIT

    return run


@opcode("nanosleep")
def build_nanosleep(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`nanosleep.u32 t`: others may run."""
    return lambda gang: YIELD
