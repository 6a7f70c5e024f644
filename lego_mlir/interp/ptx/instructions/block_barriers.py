"""bar and barrier: the sixteen named barriers of a block, bar.red, and bar.warp.sync.

A barrier counts arriving threads in whole warps; at its count it releases those who wait, who then know all that those
who arrived knew. `bar.arrive` counts without waiting. PTX ISA, "bar, barrier", "bar.warp.sync".

`bar.red` also counts a predicate over the threads that meet, or combines it. `linking` makes three instructions of it:
`bar.vote a, p` notes each thread's predicate, `bar.sync a` is the barrier, and `bar.tally d, a` reads the result.
Threads that are ahead vote in their next phase, which has counts of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.barrier_phases import NamedBarrier
from lego_mlir.interp.ptx.decoder import Decoder, Source, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import PARKED, Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.warp_convergence import converge, whole_warps
from lego_mlir.interp.report import Kind

BARRIERS: Final = 16


@dataclass(eq=False, slots=True)
class BlockBarrier(NamedBarrier):
    """One barrier of a block: how messages name it, and the line of the last arrival."""

    text: str = ""
    line: int = 0

    def complete(self, machine: PtxMachine, also: IntArray) -> None:
        """Release those who wait and the warps of `also`, and begin the next phase."""
        if machine.globals.order is not None:
            machine.globals.order.barrier(self.warps)
        self.restart()
        assert self.done is not None
        machine.clocks.acquire(also, self.done)
        for gang in self.waiting:
            machine.clocks.acquire(gang.warps, self.done)
        machine.wake_all(self)


def barriers_of(machine: PtxMachine) -> dict[tuple[int, int], BlockBarrier]:
    """The barriers in use, by slot and number."""
    return machine.states("barriers")


@opcode("bar", "barrier", whole=True)
def build_bar(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`bar.sync a, n`, `bar.arrive a, n`, `barrier.sync`, and the barrier of a warp."""
    modifiers = instruction.modifiers
    if "warp" in modifiers:
        mask, pc = decoder.source(instruction.operands[0], "u32", instruction), decoder.pc
        machine = decoder.machine

        def together(gang: Gang) -> Outcome:
            stopped = converge(machine, gang, np.broadcast_to(mask(gang), (gang.lanes,)), pc)
            if stopped is None and machine.lanes is not None:
                machine.clocks.step(gang.warps)
            return stopped

        return together
    number, *count = (decoder.source(o, "u32", instruction) for o in instruction.operands)
    return _block_barrier(decoder, instruction, number, count[0] if count else None, "arrive" not in modifiers)


def _block_barrier(
    decoder: Decoder, instruction: PtxInstruction, number: Source, count: Source | None, waits: bool
) -> Step:
    machine, line = decoder.machine, instruction.line
    whole = machine.shape.warps * WARP

    def run(gang: Gang) -> Outcome:
        given = number(gang)
        if waits and count is None and len(given) == 1 and _whole_blocks(machine, gang, int(given[0])):
            return None
        numbers = np.broadcast_to(given, (gang.lanes,))
        counts = np.full(gang.lanes, whole) if count is None else np.broadcast_to(count(gang), (gang.lanes,))
        parked = []
        for slot, name, chosen in _groups(machine, gang, numbers):
            lane = int(np.argmax(np.repeat(chosen, WARP) & gang.mask()))
            barrier = _expecting(machine, gang, lane, slot, name, int(counts[lane]), line)
            for part in _phases(machine, barrier, chosen):
                warps, barrier.line = gang.warps[part], line
                if barrier.add(machine.clocks, warps, len(warps) * WARP):
                    barrier.complete(machine, warps if waits else warps[:0])
                elif waits:
                    parked.append((barrier, part))
        return _suspend(machine, gang, parked)

    return whole_warps(decoder, run)


def _whole_blocks(machine: PtxMachine, gang: Gang, name: int) -> bool:
    """Whether a gang is all warps of its blocks, none of which waits at the barrier; if so, the barrier is done."""
    warps, ids = machine.shape.warps, gang.warps
    if gang.active is not None or len(ids) % warps or ids[0] % warps or int(ids[-1] - ids[0]) != len(ids) - 1:
        return False
    barriers = barriers_of(machine)
    slots = range(int(ids[0]) // warps, int(ids[-1]) // warps + 1)
    if any((found := barriers.get((slot, name))) is not None and found.arrived for slot in slots):
        return False
    if machine.globals.order is not None:
        for first in range(int(ids[0]), int(ids[-1]) + 1, warps):
            machine.globals.order.barrier(range(first, first + warps))
    clocks = machine.clocks
    here = slice(int(ids[0]), int(ids[-1]) + 1)
    rows = [table[here].reshape(len(slots), warps, -1) for table in (clocks.known, clocks.fenced)]
    joint = [table.max(axis=1, keepdims=True) for table in rows]
    clocks.step(ids)
    for table, together in zip(rows, joint, strict=True):
        np.maximum(table, together, out=table)
    return True


def _groups(machine: PtxMachine, gang: Gang, numbers: Array) -> Iterator[tuple[int, int, Array]]:
    """Slot, barrier and the gang's warps that use it (a truth value for each)."""
    live = gang.mask().reshape(-1, WARP)
    first = np.argmax(live, axis=1)
    per_warp = numbers.reshape(-1, WARP)[np.arange(len(first)), first].astype(np.int64)
    keys = machine.slot_of_warp[gang.warps] * BARRIERS + per_warp
    for key in np.unique(keys[live.any(axis=1)]):
        yield int(key) // BARRIERS, int(key) % BARRIERS, (keys == key) & live.any(axis=1)


def _phases(machine: PtxMachine, barrier: BlockBarrier, chosen: Array) -> Iterator[Array]:
    """The chosen warps, cut where they complete a phase; which of them come first is random."""
    left = np.flatnonzero(chosen)
    if len(left) * WARP > barrier.expected - barrier.arrived:
        left = machine.random.permutation(left)
    while len(left):
        wanted = max((barrier.expected - barrier.arrived) // WARP, 1)
        part = np.zeros_like(chosen)
        part[left[:wanted]] = True
        left = left[wanted:]
        yield part


def _expecting(machine: PtxMachine, gang: Gang, lane: int, slot: int, name: int, count: int, line: int) -> BlockBarrier:
    """The barrier, with the count of this phase; a fault where the count is not possible or differs."""
    barrier = barriers_of(machine).setdefault((slot, name), BlockBarrier(text=f"barrier {name}"))
    if count % WARP or not 0 < count <= machine.shape.warps * WARP:
        message = f"barrier {name} for {count} threads: a multiple of 32, at most {machine.shape.warps * WARP}"
        machine.fault(Kind.BARRIER, message, gang, lane, line)
    if barrier.arrived and barrier.expected != count:
        message = f"barrier {name} is used for {count} threads here, for {barrier.expected} at line {barrier.line}"
        machine.fault(Kind.BARRIER, message, gang, lane, line, other=barrier.line)
    barrier.expected = count
    return barrier


def _suspend(machine: PtxMachine, gang: Gang, parked: list[tuple[BlockBarrier, Array]]) -> Outcome:
    """Park the warps whose barrier is not complete; the others go on."""
    if not parked:
        return None
    everyone = np.zeros(len(gang.warps), np.bool_)
    for _, chosen in parked:
        everyone |= chosen
    parts = [(barrier, gang if chosen.all() else gang.of_warps(chosen)) for barrier, chosen in parked]
    if not everyone.all():
        machine.runnable.append(gang.of_warps(~everyone))
    for barrier, part in parts:
        machine.park(part, f"{barrier.text} of {barrier.expected} threads, at which {barrier.arrived} have arrived")
        barrier.waiting.append(part)
    return PARKED


def release_after_exits(machine: PtxMachine) -> bool:
    """Complete a barrier whose missing warps have all exited: the hardware does, PTX leaves it undefined."""
    warps = machine.shape.warps
    for (slot, _), barrier in barriers_of(machine).items():
        if not barrier.waiting:
            continue
        gone = machine.exited[slot * warps : (slot + 1) * warps].all(axis=1)
        if barrier.arrived + WARP * int(gone.sum()) < barrier.expected:
            continue
        gang = barrier.waiting[0]
        message = f"{barrier.text} waits for {barrier.expected} threads, and {int(gone.sum())} warps have exited"
        machine.fault(Kind.BARRIER, message, gang, int(gang.live()[0]), barrier.line)
        barrier.complete(machine, gang.warps[:0])
        return True
    return False


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

    def run(gang: Gang) -> None:
        barrier, counts = int(number(gang)[0]), _of(machine).counts
        threads, phases = _threads(machine, gang, barrier)
        votes = np.broadcast_to(predicate(gang), (gang.lanes,))[gang.live()]
        for thread, vote in zip(threads.tolist(), votes.tolist(), strict=True):
            key = int(machine.slot_of_warp[thread // WARP]), barrier, int(phases[thread])
            true, every = counts.get(key, (0, 0))
            counts[key] = true + bool(vote), every + 1

    return run


@opcode("bar", "barrier", form="tally")
def build_tally(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`bar.tally.popc d, a`."""
    operation = next(m for m in instruction.modifiers if m in RESULTS)
    write = decoder.sink(instruction.operands[0], instruction)
    number = decoder.source(instruction.operands[1], "u32", instruction)
    machine, combine = decoder.machine, RESULTS[operation]

    def run(gang: Gang) -> None:
        barrier, counts = int(number(gang)[0]), _of(machine).counts
        threads, phases = _threads(machine, gang, barrier)
        found = np.zeros(gang.lanes, np.uint32)
        for lane, thread in zip(gang.live().tolist(), threads.tolist(), strict=True):
            slot = int(machine.slot_of_warp[thread // WARP])
            found[lane] = combine(*counts[slot, barrier, int(phases[thread])])
        phases[threads] += 1
        write(gang, found if operation == "popc" else found.astype(np.bool_))

    return run
