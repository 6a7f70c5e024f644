"""bar.red: a barrier that also counts a predicate over the threads that meet, or combines it. PTX ISA, "bar, barrier".

`linking` makes three instructions of it: `bar.vote a, p` notes each thread's predicate, `bar.sync a` is the barrier,
and `bar.tally d, a` reads the result. Threads that are ahead vote in their next phase, which has counts of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lego_mlir.aliases import IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction

RESULTS: Final[dict[str, Callable[[int, int], int]]] = {
    "popc": lambda true, votes: true,
    "and": lambda true, votes: int(true == votes),
    "or": lambda true, votes: int(true > 0),
}


@dataclass(slots=True)
class Tallies:
    """For each slot, barrier and phase: true votes and all votes; `phases` has each thread's number of votes."""

    phases: dict[int, IntArray] = field(default_factory=dict)
    counts: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)


def _of(machine: PtxMachine) -> Tallies:
    found = machine.units.setdefault("tallies", Tallies())
    assert isinstance(found, Tallies)
    return found


def _threads(machine: PtxMachine, gang: Gang, barrier: int) -> tuple[IntArray, IntArray]:
    """The active lanes' threads among the resident ones, and the votes that every resident thread has made."""
    phases = _of(machine).phases.setdefault(barrier, np.zeros(len(machine.slot_of_warp) * WARP, np.int64))
    live = gang.live()
    return gang.lane_warp[live] * WARP + live % WARP, phases


@opcode("bar", "barrier", form="vote")
def build_vote(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`bar.vote a, p`."""
    number = decoder.source(instruction.operands[0], "u32", instruction)
    predicate = decoder.source(instruction.operands[1], "pred", instruction)
    machine = decoder.machine

    def run(gang: Gang) -> Outcome:
        barrier, counts = int(number(gang)[0]), _of(machine).counts
        threads, phases = _threads(machine, gang, barrier)
        votes = np.broadcast_to(predicate(gang), (gang.lanes,))[gang.live()]
        for thread, vote in zip(threads.tolist(), votes.tolist(), strict=True):
            key = int(machine.slot_of_warp[thread // WARP]), barrier, int(phases[thread])
            true, every = counts.get(key, (0, 0))
            counts[key] = true + bool(vote), every + 1
        return None

    return run


@opcode("bar", "barrier", form="tally")
def build_tally(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`bar.tally.popc d, a`."""
    operation = next(m for m in instruction.modifiers if m in RESULTS)
    write = decoder.sink(instruction.operands[0], instruction)
    number = decoder.source(instruction.operands[1], "u32", instruction)
    machine, combine = decoder.machine, RESULTS[operation]

    def run(gang: Gang) -> Outcome:
        barrier, counts = int(number(gang)[0]), _of(machine).counts
        threads, phases = _threads(machine, gang, barrier)
        found = np.zeros(gang.lanes, np.uint32)
        for lane, thread in zip(gang.live().tolist(), threads.tolist(), strict=True):
            slot = int(machine.slot_of_warp[thread // WARP])
            found[lane] = combine(*counts[slot, barrier, int(phases[thread])])
        phases[threads] += 1
        write(gang, found if operation == "popc" else found.astype(np.bool_))
        return None

    return run
