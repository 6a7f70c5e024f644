"""Bring the lanes of a warp together for a `.sync` instruction that names lanes which a branch left elsewhere.

Lanes of one gang are together. Where the mask names others that have not exited, the gang parks at the instruction;
when the missing lanes reach the same instruction, all go on as one gang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.gangs import Gang, merge
from lego_mlir.interp.ptx.ptx_machine import Outcome, PtxMachine, Step

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.decoder import Decoder

FULL: Final = np.array([0xFFFFFFFF], np.uint32)


def missing_lanes(machine: PtxMachine, gang: Gang, members: Array) -> Array:
    """(warps, 32): lanes that some active lane's mask names and that are neither here nor at the end of the kernel."""
    live = gang.mask().reshape(-1, WARP)
    masks = np.where(live, members.reshape(-1, WARP), 0)
    named = np.bitwise_or.reduce(masks, axis=1)
    bits = (named[:, None] >> np.arange(WARP, dtype=np.uint32)) & 1 > 0
    absent: Array = bits & ~live & ~machine.exited[gang.warps]
    return absent


def converge(machine: PtxMachine, gang: Gang, members: Array, pc: int) -> Outcome:
    """None if all named lanes are here; else park, or wake the gang made of this one and those parked here."""
    if gang.active is None:
        return None
    if not missing_lanes(machine, gang, members).any():
        return None
    parked = [g for g in machine.parked if g.pc == pc and g.waits.startswith("lanes ") and _shares(g, gang)]
    gang.pc = pc
    if not parked:
        lanes = np.flatnonzero(missing_lanes(machine, gang, members)[0])
        return machine.park(gang, f"lanes {', '.join(map(str, lanes[:8]))} of its warp, which its mask names")
    for other in parked:
        machine.parked.remove(other)
    joins = min((g.joins for g in (gang, *parked)), key=len)
    merged = merge([gang, *parked], joins)
    for part in (gang, *parked):
        for join in part.joins[len(joins) :]:
            join.missing -= part.count()
    merged.pc = pc
    machine.runnable.append(merged)
    return "parked"


def _shares(a: Gang, b: Gang) -> bool:
    return bool(np.isin(a.warps, b.warps).any())


def whole_warps(decoder: Decoder, step: Step) -> Step:
    """The step, taken when all lanes of each warp have come to it."""
    machine, pc = decoder.machine, decoder.pc

    def run(gang: Gang) -> Outcome:
        stopped = converge(machine, gang, np.broadcast_to(FULL, (gang.lanes,)), pc)
        return step(gang) if stopped is None else stopped

    return run
