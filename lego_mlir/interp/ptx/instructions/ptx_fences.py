"""membar, fence, and proxy fences. PTX ISA, "membar, fence".

Memory here is consistent, so fences between generic accesses do nothing; fence.proxy.async lets the asynchronous proxy
see the generic writes that are known to the warp.
"""

from __future__ import annotations

import numpy as np

from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.device_order import orders_blocks
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction


@opcode("membar", "fence")
def build_fence(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`fence.proxy.async.shared::cta`, `fence.acq_rel.gpu`, `membar.gl`."""
    machine = decoder.machine
    if orders_blocks(instruction) and (order := machine.globals.order) is not None:

        def publish(gang: Gang) -> None:
            order.fence(machine, np.unique(gang.lane_warp[gang.live()]))

        return publish
    if not {"proxy", "mbarrier_init"} & set(instruction.modifiers):
        return lambda gang: None

    def run(gang: Gang) -> None:
        machine.clocks.fence_proxy(np.unique(gang.lane_warp[gang.live()]))

    return run
