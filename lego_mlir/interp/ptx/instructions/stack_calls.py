"""Calls of functions that call themselves, as the linker writes them: `callstack`, `returnstack`.

    callstack F, {actual, formal, ..}, {formal, actual, ..}     copy the arguments one frame up, keep registers, go to F
    returnstack                                                  copy the results back, restore registers, go on

Variables are in local memory; a stacked one lies at its place for the depth of the gang.
"""

from __future__ import annotations

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.call_stack import MOST_FRAMES, CallFrame
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.liveness import slots_of
from lego_mlir.interp.ptx.ptx_machine import EXIT, Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import OperandList, PtxInstruction, SymbolOperand
from lego_mlir.interp.report import Kind


class _Copies:
    """Copies of local variables between the frames of a call."""

    def __init__(self, decoder: Decoder, operand: object) -> None:
        assert isinstance(operand, OperandList)
        names = [str(item) for item in operand.items]
        sizes = {v.name: decoder.entry.stacked.get(v.name, 0) or v.size for v in decoder.entry.variables}
        self.machine, self.entry, self.addresses = decoder.machine, decoder.entry, decoder.addresses
        self.copies = [(a, b, min(sizes[a], sizes[b])) for a, b in zip(names[::2], names[1::2], strict=True)]

    def run(self, gang: Gang, depths: tuple[int, int]) -> None:
        """Copy from variables at the first depth to those at the second."""
        lanes = gang.live()
        stride = spaces.rounded(self.machine.shape.local_bytes, 16)
        base = ((gang.lane_warp[lanes] * WARP + lanes % WARP) * stride)[:, None]
        for source, target, size in self.copies:
            at, to = (
                base + self.addresses[name][1] + self.entry.stacked.get(name, 0) * depth + np.arange(size)
                for name, depth in zip((source, target), depths, strict=True)
            )
            self.machine.local[to] = self.machine.local[at]
            self.machine.local_written[to] = self.machine.local_written[at]


@opcode("callstack", whole=True)
def build_callstack(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """A call that keeps the registers which are live after it."""
    label, arguments, _ = instruction.operands
    assert isinstance(label, SymbolOperand)
    to, back = decoder.entry.labels[label.name], decoder.pc + 1
    copies, machine, line = _Copies(decoder, arguments), decoder.machine, instruction.line
    kept = slots_of(decoder.live[back])

    def run(gang: Gang) -> Outcome:
        if len(gang.frames) == MOST_FRAMES:
            return _overflowed(machine, gang, line)
        copies.run(gang, (len(gang.frames), len(gang.frames) + 1))
        saved: dict[int, Array] = {slot: value for slot in kept if (value := gang.regs[slot]) is not None}
        gang.frames = (*gang.frames, CallFrame.new(back, saved))
        gang.regs = [None] * len(gang.regs)
        gang.pc = to
        return None

    return run


def _overflowed(machine: PtxMachine, gang: Gang, line: int) -> Outcome:
    message = f"calls are nested deeper than {MOST_FRAMES}: recursion that does not end, or too deep for this emulator"
    machine.fault(Kind.OUT_OF_BOUNDS, message, gang, int(gang.live()[0]), line, count=gang.count())
    machine.stopped = True
    return EXIT


@opcode("returnstack", whole=True)
def build_returnstack(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """The return to the innermost call."""
    calls = {
        at + 1: _Copies(decoder, i.operands[2])
        for at, i in enumerate(decoder.entry.instructions)
        if i.opcode == "callstack"
    }

    def run(gang: Gang) -> None:
        frame = gang.frames[-1]
        calls[frame.returns_to].run(gang, (len(gang.frames), len(gang.frames) - 1))
        gang.regs = [frame.saved.get(slot) for slot in range(len(gang.regs))]
        gang.frames = gang.frames[:-1]
        gang.pc = frame.returns_to

    return run
