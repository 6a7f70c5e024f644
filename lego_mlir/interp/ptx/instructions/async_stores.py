"""st.async: a store to shared memory of the cluster that lands late, and completes bytes on an mbarrier; st.bulk.

The mbarrier is in the block that is written to. `st.bulk` sets a range of shared memory to zero, as the thread's own
stores. PTX ISA, "st.async", "st.bulk".
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions.bulk_copies import check_barrier
from lego_mlir.interp.ptx.instructions.mbarriers import complete_bytes, located
from lego_mlir.interp.ptx.ptx_machine import AsyncOperation, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import BITS, NUMPY
from lego_mlir.interp.report import Kind
from lego_mlir.interp.shared_shadow import BULK_AGENT, ShadowAccess

VECTORS: Final = {"v2": 2, "v4": 4}
BULK_UNIT: Final = 8  # bytes


@opcode("st", form="async")
def build_st_async(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [p], {a, b}, [barrier]`."""
    if "mbarrier::complete_tx::bytes" not in instruction.modifiers or len(instruction.operands) != 3:
        raise decoder.refused(instruction, "st.async without an mbarrier is not modelled")
    target, value, barrier = instruction.operands
    bits = 8 * NUMPY[decoder.type_of(instruction)].itemsize
    values = [decoder.source(o, f"b{bits}", instruction) for o in decoder.items(value)]
    count = next((n for name, n in VECTORS.items() if name in instruction.modifiers), 1)
    if len(values) != count:
        raise decoder.refused(instruction, f"{len(values)} registers for {count} elements")
    address, find = decoder.address(target, instruction), located(decoder, instruction, barrier)
    machine, line, size, element = decoder.machine, instruction.line, count * bits // 8, BITS[bits]

    def run(gang: Gang) -> None:
        data = np.empty((gang.lanes, count), element)
        for i, read in enumerate(values):
            data[:, i] = read(gang)
        rows, where = data.view(np.uint8), machine.locate(gang, "shared", address(gang), size, line)[0]
        barriers = find(gang)
        at = dict(zip(map(int, barriers.lanes), map(int, barriers.at), strict=True))
        for place, lane in zip(map(int, where.at), map(int, where.lanes), strict=True):
            if lane in at:
                _issue(machine, gang, lane, (place, at[lane]), rows[lane : lane + 1], line)

    return run


def _issue(machine: PtxMachine, gang: Gang, lane: int, places: tuple[int, int], row: Array, line: int) -> None:
    """Enter a lane's write, and put it in flight."""
    place, barrier = places
    slot, warp, clocks = place // machine.stride, int(gang.lane_warp[lane]), machine.clocks
    if barrier // machine.stride != slot:
        message = "the mbarrier of st.async is in another block than what is written"
        machine.fault(Kind.MBARRIER, message, gang, lane, line)
        return
    check_barrier(machine, gang, lane, barrier, line)
    agent, clock = clocks.issue(warp, BULK_AGENT)
    one = np.array([warp])
    access = ShadowAccess(
        np.array([place]), row.shape[1], np.array([agent]), np.array([clock]), clocks.before_copies(one), line
    )
    machine.report_conflict(machine.shadow.write(access), "this st.async", gang, np.array([lane]), line)
    if slot != int(machine.slot_of_warp[warp]):
        machine.note_remote_access(gang, lane, slot, (agent, clock), line)
    land = partial(_land, machine, places, row.copy(), clocks.completion(warp, agent, clock), line)
    machine.in_flight.append(AsyncOperation(land, line, "st.async"))


def _land(machine: PtxMachine, places: tuple[int, int], row: Array, joint: Array, line: int) -> None:
    place, barrier = places
    spaces.scatter(machine.shared, np.array([place]), row)
    complete_bytes(machine, barrier, row.shape[1], joint, line)


@opcode("st", form="bulk")
def build_st_bulk(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`st.bulk.weak.shared::cta [p], bytes, 0`."""
    target, amount, _ = instruction.operands
    space = "shared" if any(m.startswith("shared") for m in instruction.modifiers) else ""
    address, nbytes = decoder.address(target, instruction), decoder.source(amount, "u64", instruction)
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        starts, sizes = address(gang), np.broadcast_to(nbytes(gang), (gang.lanes,)).astype(np.int64)
        old, live = gang.active, gang.live()
        if (sizes[live] % BULK_UNIT).any():
            message = f"st.bulk of {int(sizes[live].max())} bytes: a multiple of {BULK_UNIT}"
            machine.fault(Kind.MISALIGNED, message, gang, int(live[0]), line)
            return
        zeros = np.zeros((gang.lanes, BULK_UNIT), np.uint8)
        for offset in range(0, int(sizes[live].max()), BULK_UNIT):
            gang.active = gang.mask() & (sizes > offset) if old is None else old & (sizes > offset)
            machine.store(gang, space, starts + offset, zeros, line)
        gang.active = old

    return run
