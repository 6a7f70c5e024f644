"""membar, fence, and proxy fences. PTX ISA, "membar, fence".

Memory here is consistent, so fences between generic accesses do nothing; fence.proxy.async lets the asynchronous proxy
see the generic writes that are known to the warp.
"""

from __future__ import annotations

from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
from lego_mlir.interp.ptx.ptx_reader import PtxInstruction


@opcode("membar", "fence")
def build_fence(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`fence.proxy.async.shared::cta`, `fence.acq_rel.gpu`, `membar.gl`."""
    if not {"proxy", "mbarrier_init"} & set(instruction.modifiers):
        return lambda gang: None
    clocks = decoder.machine.clocks

    def run(gang: Gang) -> Outcome:
        clocks.fence_proxy(gang.warps)
        return None

    return run
