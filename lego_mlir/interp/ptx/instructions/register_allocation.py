"""setmaxnreg: warpgroups give registers back and take more. PTX ISA, "setmaxnreg".

A block begins with the same number of registers for every thread: as many as fit, at most what the kernel ever wants,
which is what ptxas allocates. `.dec` returns some to the block's pool, `.inc` waits until the pool has enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import PARKED, Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import Immediate, PtxInstruction
from lego_mlir.interp.report import Kind

REGISTERS: Final = 64 * 1024  # of a block; CUDA C++ Programming Guide, compute capability 9.0
STEP: Final = 8
LEAST, MOST = 24, 256


@dataclass(slots=True)
class RegisterPool:
    """Registers of one block: free ones, and those of each warp's threads."""

    free: int
    initial: int
    of_warp: dict[int, int] = field(default_factory=dict)
    waiting: list[Gang] = field(default_factory=list)


def pools(machine: PtxMachine) -> dict[int, RegisterPool]:
    """The pools by slot."""
    return machine.states("registers")


def _pool(machine: PtxMachine, slot: int, most: int) -> RegisterPool:
    known = pools(machine)
    if slot not in known:
        threads = machine.shape.warps * WARP
        known[slot] = RegisterPool(0, min(REGISTERS // threads // STEP * STEP, most))
    return known[slot]


@opcode("setmaxnreg", whole=True)
def build_setmaxnreg(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`setmaxnreg.dec.sync.aligned.u32 40`."""
    operand = instruction.operands[0]
    if not isinstance(operand, Immediate):
        raise decoder.refused(instruction, "its count is a constant")
    count, takes = int(operand.value), "inc" in instruction.modifiers
    every = [i.operands[0] for i in decoder.entry.instructions if i.opcode == "setmaxnreg"]
    most = max(int(o.value) for o in every if isinstance(o, Immediate))
    machine, line, pc = decoder.machine, instruction.line, decoder.pc

    def run(gang: Gang) -> Outcome:
        lane = int(gang.live()[0])
        if count % STEP or not LEAST <= count <= MOST:
            message = f"setmaxnreg {count}: a multiple of {STEP} from {LEAST} to {MOST}"
            machine.fault(Kind.REGISTERS, message, gang, lane, line)
        slots = machine.slot_of_warp[gang.warps]
        for slot in map(int, np.unique(slots)):
            pool = _pool(machine, slot, most)
            now = pool.of_warp.get(int(gang.warps[slots == slot][0]), pool.initial)
            if (now > count) if takes else (now < count):
                message = f"setmaxnreg.{'inc' if takes else 'dec'} {count}, and the warp has {now}"
                machine.fault(Kind.REGISTERS, message, gang, lane, line)
        blocked = [s for s in map(int, np.unique(slots)) if not _resize(machine, gang, s, (count, most))]
        if not blocked:
            return None
        waits = np.isin(slots, blocked)
        if not waits.all():
            machine.runnable.append(gang.of_warps(~waits))
        for slot in blocked:
            part = gang if (slots == slot).all() else gang.of_warps(slots == slot)
            part.pc = pc
            pool = _pool(machine, slot, most)
            pool.waiting.append(part)
            machine.park(part, f"registers for setmaxnreg {count}, of which the block has {pool.free} free")
        return PARKED

    return run


def _resize(machine: PtxMachine, gang: Gang, slot: int, counts: tuple[int, int]) -> bool:
    """Change the registers of the gang's warps in one block; False where the pool has too few.

    `counts` are the new number and the kernel's greatest.
    """
    count, most = counts
    pool = _pool(machine, slot, most)
    warps = [int(w) for w in gang.warps[machine.slot_of_warp[gang.warps] == slot]]
    wanted = sum(WARP * (count - pool.of_warp.get(w, pool.initial)) for w in warps)
    if wanted > pool.free:
        return False
    pool.free -= wanted
    pool.of_warp |= dict.fromkeys(warps, count)
    waiting, pool.waiting = pool.waiting, []
    for other in waiting:
        machine.wake(other)
    return True
