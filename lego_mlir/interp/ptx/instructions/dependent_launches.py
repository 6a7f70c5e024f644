"""griddepcontrol: let the next kernel of the stream begin, and wait for the previous one. PTX ISA, "griddepcontrol".

A block lets the next kernel begin when one of its threads has said so, or when it has ended. A wait returns when the
previous kernel has ended: at once, unless `stream_launches` runs several.
"""

from __future__ import annotations

from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import YIELD, Outcome, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction

WAITS = "the kernel before it on the stream to end"


@opcode("griddepcontrol")
def build_griddepcontrol(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`griddepcontrol.launch_dependents` and `griddepcontrol.wait`."""
    machine, pc = decoder.machine, decoder.pc

    def begin(gang: Gang) -> Outcome:
        machine.triggered |= set(map(int, machine.slot_of_warp[gang.warps]))
        return YIELD  # the next kernel may come first

    def wait(gang: Gang) -> Outcome:
        if not machine.previous_runs:
            return None
        gang.pc = pc
        return machine.park(gang, WAITS)

    return wait if "wait" in instruction.modifiers else begin
