"""cp.async: copies from global to shared memory that land when their group is waited for. PTX ISA, "cp.async".

The source is read when the copy is issued; the bytes arrive at the latest moment that the program allows, at
`wait_group`. An access before that is a fault, which the shadow knows from the copy's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.group_queues import GroupQueue
from lego_mlir.interp.ptx.ptx_machine import PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import Immediate, PtxInstruction
from lego_mlir.interp.shared_shadow import COPY_AGENT, ShadowAccess


@dataclass(eq=False, slots=True)
class CopiedRows:
    """What one warp's copy writes: positions in the shared arena, and a row of bytes for each."""

    at: IntArray
    data: Array
    clock: int
    landed: bool = False

    def land(self, machine: PtxMachine) -> None:
        """Write the rows, once: what has landed may be overwritten."""
        if not self.landed:
            self.landed = True
            spaces.scatter(machine.shared, self.at, self.data)


def queues_of(machine: PtxMachine) -> dict[int, GroupQueue[CopiedRows]]:
    """The queues by resident warp."""
    return machine.states("cp.async")


@opcode("cp", whole=True)
def build_cp(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cp.async.cg.shared.global [d], [s], 16, n`, and its groups."""
    modifiers = instruction.modifiers
    machine = decoder.machine
    if "commit_group" in modifiers:

        def commit(gang: Gang) -> None:
            for warp in gang.warps:
                queues_of(machine).setdefault(int(warp), GroupQueue()).commit()

        return commit
    if "wait_group" in modifiers or "wait_all" in modifiers:
        operand = instruction.operands[0] if instruction.operands else Immediate(0, "0")
        if not isinstance(operand, Immediate):
            raise decoder.refused(instruction, "the number of groups is a constant")
        left, all_ = int(operand.value), "wait_all" in modifiers

        def wait(gang: Gang) -> None:
            for warp in gang.warps:
                _wait(machine, int(warp), left, all_)

        return wait
    return _copy(decoder, instruction)


def _wait(machine: PtxMachine, warp: int, left: int, everything: bool) -> None:
    """Land all groups of a warp but the last `left`."""
    queue = queues_of(machine).get(warp)
    if queue is None:
        return
    if everything:
        queue.commit()
    for copy in queue.covered(left):
        copy.land(machine)
        machine.clocks.learn(warp, COPY_AGENT, copy.clock)
    queue.drop(left)


SIZES: Final = (4, 8, 16)


def _copy(decoder: Decoder, instruction: PtxInstruction) -> Step:
    to, from_, size, *rest = instruction.operands
    if not isinstance(size, Immediate) or size.value not in SIZES:
        raise decoder.refused(instruction, f"a copy has one of {SIZES} bytes")
    nbytes = int(size.value)
    target, origin = decoder.address(to, instruction), decoder.address(from_, instruction)
    copied = decoder.source(rest[0], "u32", instruction) if rest else None
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        data = _read_source(machine, gang, origin(gang), nbytes, copied(gang) if copied is not None else None, line)
        for place in machine.locate(gang, "shared", target(gang), nbytes, line):
            if len(place.lanes):
                _issue(machine, gang, place, data, line)

    return run


def _read_source(
    machine: PtxMachine, gang: Gang, address: IntArray, size: int, copied: Array | None, line: int
) -> Array:
    """The bytes to copy: the first `copied` of each row, zeros after them, which are not read."""
    if copied is None:
        return machine.load(gang, "global", address, size, line)
    count = np.minimum(np.broadcast_to(copied, (gang.lanes,)).astype(np.int64), size)
    old = gang.active
    gang.active = gang.mask() & (count > 0)
    whole = gang.active & (count == size)
    data = np.zeros((gang.lanes, size), np.uint8)
    try:
        gang.active = whole
        if whole.any():
            data = machine.load(gang, "global", address, size, line)
        for part in np.unique(count[(count > 0) & (count < size)]):
            gang.active = (old if old is not None else True) & (count == part)
            for byte in range(int(part)):
                data[:, byte] |= machine.load(gang, "global", address + byte, 1, line)[:, 0]
    finally:
        gang.active = old
    return data


def _issue(machine: PtxMachine, gang: Gang, place: spaces.Located, data: Array, line: int) -> None:
    """Queue each warp's rows, and enter the write into the shadow at the copy's clock."""
    warps = gang.lane_warp[place.lanes]
    clocks = np.zeros(len(warps), np.int64)
    for warp in np.unique(warps):
        chosen = warps == warp
        _, clock = machine.clocks.issue(int(warp), COPY_AGENT)
        clocks[chosen] = clock
        rows = CopiedRows(place.at[chosen], data[place.lanes[chosen]], clock)
        queues_of(machine).setdefault(int(warp), GroupQueue()).open.append(rows)
    agents = machine.clocks.first_agent[warps] + COPY_AGENT
    access = ShadowAccess(place.at, data.shape[1], agents, clocks, machine.clocks.before_stores(warps), line)
    machine.report_conflict(machine.shadow.write(access), "this copy's write", gang, place.lanes, line)
