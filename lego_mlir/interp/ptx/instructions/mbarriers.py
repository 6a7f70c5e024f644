"""mbarrier: barriers in shared memory that count arrivals and bytes. PTX ISA, "Parallel Synchronization: mbarrier".

`barrier_phases` has their phases. A wait that finds its phase open parks the gang. The time limit of try_wait may run
out at any moment, so it returns false at random, and where nothing else can run: code that goes on regardless is then
seen to race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.interp.barrier_phases import MemoryBarrier, Promise
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.decoder import Decoder, Source, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import AddressOperand, Ignored, PtxInstruction, PtxOperand
from lego_mlir.interp.report import Kind

MOST_BYTES: Final = (1 << 20) - 1
MOST_ARRIVALS: Final = (1 << 20) - 1
GIVES_UP: Final = {"try_wait": 0.06, "test_wait": 0.5}
"""How often a wait returns false before its phase is complete."""
IN_A_ROW: Final = (0, 0, 4, 4, 300)
"""How often the same lanes then give up again."""


@dataclass(eq=False, slots=True)
class PtxBarrier(MemoryBarrier):
    """One mbarrier: its block's slot and its byte in the block's memory."""

    slot: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return (
            f"the mbarrier at shared byte {self.offset} (phase {self.phase}: {self.pending} of {self.count} arrivals "
            f"and {self.flying} bytes missing)"
        )

    def advance_in(self, machine: PtxMachine) -> None:
        """End the phase if it is complete, and wake those who wait."""
        if self.advance():
            machine.progress += 1
            machine.wake_all(self)


def mbarriers_of(machine: PtxMachine) -> dict[int, PtxBarrier]:
    """The barriers by position in the shared arena."""
    return machine.states("mbarriers")


def complete_bytes(machine: PtxMachine, at: int, nbytes: int, joint: Array, line: int) -> None:
    """Bytes of an asynchronous copy have landed: the barrier at this arena position expects fewer."""
    barrier = mbarriers_of(machine).get(at)
    slot, offset = divmod(at, machine.stride)
    if barrier is None:
        message = f"a copy completes on shared byte {offset}, where no mbarrier was initialised"
        machine.fault_of_block(Kind.MBARRIER, message, slot, line)
        return
    barrier.flying -= nbytes
    if abs(barrier.flying) > MOST_BYTES:
        machine.fault_of_block(Kind.MBARRIER, f"{barrier} is beyond {MOST_BYTES} bytes", slot, line)
    barrier.learn(joint)
    barrier.advance_in(machine)


def arrive_once(machine: PtxMachine, at: int, joint: Array, line: int) -> None:
    """One arrival of an asynchronous unit at the barrier of this arena position; `joint` is what it makes known."""
    barrier = mbarriers_of(machine).get(at)
    slot, offset = divmod(at, machine.stride)
    if barrier is None:
        message = f"a completion arrives at shared byte {offset}, where no mbarrier is initialised"
        machine.fault_of_block(Kind.MBARRIER, message, slot, line)
        return
    barrier.learn(joint)
    if not barrier.pending:
        message = f"an arrival at {barrier}: more than its phase has left"
        machine.fault_of_block(Kind.MBARRIER, message, slot, line)
    barrier.arrive(1, joint[0])
    barrier.advance_in(machine)


@opcode("mbarrier", whole=True)
def build_mbarrier(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mbarrier.init`, `inval`, `arrive`, `arrive_drop`, `expect_tx`, `complete_tx`, `test_wait`, `try_wait`."""
    form = instruction.modifiers[0]
    builders: dict[str, Callable[[Decoder, PtxInstruction], Step]] = {
        "init": _init, "inval": _inval, "arrive": _arrive, "arrive_drop": _arrive, "expect_tx": _expect,
        "complete_tx": _expect, "test_wait": _wait, "try_wait": _wait,
    }  # fmt: skip
    if form not in builders or "noComplete" in instruction.modifiers:
        raise decoder.refused(instruction, f"mbarrier.{form} in this form is not modelled")
    return builders[form](decoder, instruction)


Place = Callable[[Gang], "spaces.Located"]


def located(decoder: Decoder, instruction: PtxInstruction, operand: PtxOperand) -> Place:
    """Where each active lane's barrier is."""
    address, machine, line = decoder.address(operand, instruction), decoder.machine, instruction.line
    generic = not any(m.startswith("shared") for m in instruction.modifiers)

    def find(gang: Gang) -> spaces.Located:
        where = address(gang)
        if generic and bool((where >= spaces.SHARED_WINDOW).any()):
            where = where - spaces.SHARED_WINDOW
        return machine.locate(gang, "shared", where, 8, line)[0]

    return find


def _init(decoder: Decoder, instruction: PtxInstruction) -> Step:
    place, count = instruction.operands
    find, number = located(decoder, instruction, place), decoder.source(count, "u32", instruction)
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        where = find(gang)
        if not len(where.lanes):
            return
        machine.check_shared_write(gang, where, 8, line)
        counts = np.broadcast_to(number(gang), (gang.lanes,))
        for at, lane in zip(where.at, where.lanes, strict=True):
            arrivals = int(counts[lane])
            if not 0 < arrivals <= MOST_ARRIVALS:
                message = f"an mbarrier for {arrivals} arrivals: 1 to {MOST_ARRIVALS}"
                machine.fault(Kind.MBARRIER, message, gang, int(lane), line)
            slot, offset = divmod(int(at), machine.stride)
            mbarriers_of(machine)[int(at)] = PtxBarrier(count=arrivals, pending=arrivals, slot=slot, offset=offset)

    return run


def _inval(decoder: Decoder, instruction: PtxInstruction) -> Step:
    find, machine, line = located(decoder, instruction, instruction.operands[0]), decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        where = find(gang)
        for at, lane in zip(where.at, where.lanes, strict=True):
            barrier = mbarriers_of(machine).pop(int(at), None)
            if barrier is not None and barrier.waiting:
                machine.fault(Kind.MBARRIER, f"{barrier} is invalidated while others wait", gang, int(lane), line)

    return run


def used(machine: PtxMachine, gang: Gang, where: spaces.Located, line: int) -> Iterator[tuple[PtxBarrier, IntArray]]:
    """The barriers that the lanes use, each with its lanes; their initialisation must be known to the lanes' warps."""
    if not len(where.lanes):
        return
    if machine.shadow.initialised[where.at].all():
        machine.check_shared_read(gang, where, 8, line, atomic=True)
    else:
        machine.note_remote(gang, where, line)
    for at in np.unique(where.at):
        lanes = where.lanes[where.at == at]
        barrier = mbarriers_of(machine).get(int(at))
        if barrier is None:
            message = f"no mbarrier was initialised at shared byte {int(at) % machine.stride}"
            machine.fault(Kind.MBARRIER, message, gang, int(lanes[0]), line)
            continue
        yield barrier, lanes


def _arrive(decoder: Decoder, instruction: PtxInstruction) -> Step:
    operands = list(instruction.operands)
    state = None if isinstance(operands[0], AddressOperand) else operands.pop(0)
    find = located(decoder, instruction, operands.pop(0))
    write = None if state is None or isinstance(state, Ignored) else decoder.sink(state, instruction)
    expects = "expect_tx" in instruction.modifiers
    number = decoder.source(operands[0], "u32", instruction) if operands else None
    drops = instruction.modifiers[0] == "arrive_drop"
    machine, line = decoder.machine, instruction.line
    knows = "relaxed" not in instruction.modifiers

    def run(gang: Gang) -> None:
        where = find(gang)
        numbers = None if number is None else np.broadcast_to(number(gang), (gang.lanes,)).astype(np.int64)
        tokens = np.zeros(gang.lanes, np.uint64)
        for barrier, lanes in used(machine, gang, where, line):
            tokens[lanes] = barrier.phase
            arrivals = len(lanes)
            if expects and numbers is not None:
                _add_bytes(machine, gang, barrier, lanes, int(numbers[lanes].sum()), line)
            elif numbers is not None:
                arrivals = int(numbers[lanes].sum())
            warps = np.unique(gang.lane_warp[lanes])
            known = machine.clocks.known[warps].max(axis=0)
            if knows:
                barrier.learn(machine.clocks.release(warps))
            if arrivals > barrier.pending:
                message = f"{arrivals} arrivals at {barrier}: more than its phase has left"
                machine.fault(Kind.MBARRIER, message, gang, int(lanes[0]), line)
                arrivals = barrier.pending
            barrier.arrive(arrivals, known)
            barrier.count -= arrivals if drops else 0
            barrier.advance_in(machine)
        if write is not None:
            write(gang, tokens)

    return run


def _add_bytes(machine: PtxMachine, gang: Gang, barrier: PtxBarrier, lanes: IntArray, nbytes: int, line: int) -> None:
    barrier.flying += nbytes
    if abs(barrier.flying) > MOST_BYTES:
        machine.fault(Kind.MBARRIER, f"{barrier} is beyond {MOST_BYTES} bytes", gang, int(lanes[0]), line)


def _expect(decoder: Decoder, instruction: PtxInstruction) -> Step:
    place, number = instruction.operands
    find, amount = located(decoder, instruction, place), decoder.source(number, "u32", instruction)
    machine, line = decoder.machine, instruction.line
    sign = 1 if instruction.modifiers[0] == "expect_tx" else -1

    def run(gang: Gang) -> None:
        numbers = np.broadcast_to(amount(gang), (gang.lanes,)).astype(np.int64)
        for barrier, lanes in used(machine, gang, find(gang), line):
            _add_bytes(machine, gang, barrier, lanes, sign * int(numbers[lanes].sum()), line)
            if sign > 0:
                report = partial(_report_early, machine, barrier, line)
                barrier.promises.append(Promise(*machine.clocks.now(int(gang.lane_warp[lanes[0]])), report))
            barrier.advance_in(machine)

    return run


def _report_early(machine: PtxMachine, barrier: PtxBarrier, line: int, phase: int) -> None:
    """No arrival of a phase follows bytes that were added to it: it could have ended before they were expected."""
    message = (
        f"no arrival of phase {phase} of the mbarrier at shared byte {barrier.offset} follows this expect_tx, so that "
        "the phase may end before it"
    )
    machine.fault_of_block(Kind.MBARRIER, message, barrier.slot, line)


def _wait(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mbarrier.try_wait.parity p, [b], parity{, hint}` and `mbarrier.test_wait p, [b], state`."""
    target, place, token, *_ = instruction.operands
    write, find = decoder.sink(target, instruction), located(decoder, instruction, place)
    by_parity = "parity" in instruction.modifiers
    probability = GIVES_UP[instruction.modifiers[0]]
    value: Source = decoder.source(token, "u32" if by_parity else "u64", instruction)
    machine, line, pc = decoder.machine, instruction.line, decoder.pc

    def run(gang: Gang) -> Outcome:
        wanted = np.broadcast_to(value(gang), (gang.lanes,)).astype(np.int64)
        passed = np.zeros(gang.lanes, np.bool_)
        open_ = []
        for barrier, lanes in used(machine, gang, find(gang), line):
            over = np.full(len(lanes), barrier.phase & 1) != (wanted[lanes] & 1)
            if not by_parity:
                over = np.full(len(lanes), barrier.phase) != wanted[lanes]
            passed[lanes] = over
            if not over.all():
                open_.append(barrier)
            if over.any() and barrier.done is not None:
                machine.clocks.acquire(np.unique(gang.lane_warp[lanes[over]]), barrier.done)
        if open_ and not passed.any() and not _gives_up(machine, gang, probability):
            gang.pc = pc
            for barrier in open_:
                barrier.waiting.append(gang)
            return machine.park(gang, f"{open_[0]} to complete the phase of {_wanted(by_parity, wanted, gang)}")
        write(gang, passed)
        return None

    return run


def _gives_up(machine: PtxMachine, gang: Gang, probability: float) -> bool:
    """Whether a wait returns false now: at random, and then several times in a row."""
    if gang.impatience:
        gang.impatience -= 1
        return True
    if machine.random.random() < probability:
        gang.impatience = int(machine.random.choice(IN_A_ROW))
        return True
    return False


def _wanted(by_parity: bool, wanted: IntArray, gang: Gang) -> str:
    return f"{'parity' if by_parity else 'state'} {int(wanted[gang.live()[0]])}"


def expire_waits(machine: PtxMachine) -> bool:
    """Nothing else can run: the time limits of all waits run out, some hundred times without progress at most."""
    if machine.progress != machine.progress_at_expiry:
        machine.progress_at_expiry, machine.expiries = machine.progress, 0
    machine.expiries += 1
    found = False
    if machine.expiries > MOST_EXPIRIES:
        return False
    for barrier in mbarriers_of(machine).values():
        waiting, barrier.waiting = barrier.waiting, []
        for gang in waiting:
            gang.impatience, found = max(gang.impatience, 1), True
            machine.wake(gang)
    return found


MOST_EXPIRIES: Final = 300
"""More than the polls of a kernel that gives up after a bounded number."""
