"""tcgen05.alloc, .dealloc, .relinquish_alloc_permit and .fence. PTX ISA, "Tensor Memory Allocation and Management".

An allocation that finds no room waits for another warp to free columns. Its address is stored in shared memory as by
the warp's first lane.
"""

from __future__ import annotations

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import GangDivergence, Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.tensor_memory import COLUMNS, LEAST_COLUMNS, TensorMemory, TensorMemoryAccess, tensor_memory
from lego_mlir.interp.ptx.warp_convergence import whole_warps
from lego_mlir.interp.shared_shadow import WARP_AGENT


def access_of_warp(machine: PtxMachine, gang: Gang, row: int, line: int, what: str) -> TensorMemoryAccess:
    """An access of a gang's warp, at the warp's own clock."""
    _, clock = machine.clocks.now(int(gang.warps[row]))
    return TensorMemoryAccess(gang, row * WARP, WARP_AGENT, clock, line, what)


@opcode("tcgen05", form="alloc", whole=True)
def build_alloc(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [d], columns`."""
    place, number = instruction.operands
    target, amount = decoder.address(place, instruction), decoder.source(number, "u32", instruction)
    space = "shared" if any(m.startswith("shared") for m in instruction.modifiers) else ""
    machine, line, pc = decoder.machine, instruction.line, decoder.pc

    def run(gang: Gang) -> Outcome:
        memory, waits = tensor_memory(machine), np.zeros(len(gang.warps), np.bool_)
        columns, places = np.broadcast_to(amount(gang), (gang.lanes,)), np.zeros(gang.lanes, np.uint32)
        stores = np.zeros(gang.lanes, np.bool_)
        for row, warp in enumerate(map(int, gang.warps)):
            slot, lane = int(machine.slot_of_warp[warp]), row * WARP
            access = access_of_warp(machine, gang, row, line, "tcgen05.alloc")
            if not _valid(memory, access, slot, int(columns[lane])):
                continue
            start = memory.allocate(slot, int(columns[lane]), line)
            waits[row], stores[lane], places[lane] = start is None, start is not None, start or 0
        if waits.all():
            gang.pc = pc
            memory.waiting.append(gang)
            return machine.park(gang, f"{int(columns[0])} columns of tensor memory to be freed")
        if stores.any():
            old, gang.active = gang.active, stores
            machine.store(gang, space, target(gang), places[:, None].view(np.uint8), line)
            gang.active = old
        return GangDivergence(np.repeat(waits, WARP), pc, pc + 1, None) if waits.any() else None

    return whole_warps(decoder, run)


def _valid(memory: TensorMemory, access: TensorMemoryAccess, slot: int, columns: int) -> bool:
    if columns < LEAST_COLUMNS or columns > COLUMNS or columns & (columns - 1):
        message = f"{columns} columns are allocated: a power of two from {LEAST_COLUMNS} to {COLUMNS}"
        memory.misused(access, message)
        return False
    if slot in memory.relinquished:
        memory.misused(access, "tcgen05.alloc after the block's tcgen05.relinquish_alloc_permit")
        return False
    return True


@opcode("tcgen05", form="dealloc", whole=True)
def build_dealloc(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tcgen05.dealloc.cta_group::1.sync.aligned.b32 address, columns`."""
    where, number = (decoder.source(o, "u32", instruction) for o in instruction.operands)
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        addresses, columns = (np.broadcast_to(v(gang), (gang.lanes,)) for v in (where, number))
        for row, warp in enumerate(map(int, gang.warps)):
            access = access_of_warp(machine, gang, row, line, "tcgen05.dealloc")
            slot, lane = int(machine.slot_of_warp[warp]), row * WARP
            tensor_memory(machine).free(access, slot, int(addresses[lane]), int(columns[lane]))

    return whole_warps(decoder, run)


@opcode("tcgen05", form="relinquish_alloc_permit", whole=True)
def build_relinquish(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """The block allocates no more."""
    machine = decoder.machine

    def run(gang: Gang) -> None:
        tensor_memory(machine).relinquished |= {int(machine.slot_of_warp[w]) for w in gang.warps}

    return run


@opcode("tcgen05", form="fence::before_thread_sync", whole=True)
@opcode("tcgen05", form="fence::after_thread_sync", whole=True)
def build_tensor_fence(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tcgen05.fence::before_thread_sync`, `tcgen05.fence::after_thread_sync`."""
    machine, publishes = decoder.machine, "before" in instruction.modifiers[0]

    def run(gang: Gang) -> None:
        memory = tensor_memory(machine)
        for warp in map(int, gang.warps):
            if publishes:
                memory.publish(warp, machine.clocks.known[warp])
            else:
                memory.take(warp)

    return run
