"""ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and a warp's registers.

Lane 8*i + r gives the address of row r of matrix i. Register i of lane l holds elements (l // 4, 2 * (l % 4)) and the
next of matrix i; with `.trans`, those of its transpose. PTX ISA, "ldmatrix", "stmatrix".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
from lego_mlir.interp.ptx.ptx_reader import PtxInstruction
from lego_mlir.interp.ptx.warp_convergence import converge

if TYPE_CHECKING:
    from lego_mlir.aliases import Array

COUNTS: Final = {"x1": 1, "x2": 2, "x4": 4}
ROW_BYTES: Final = 16
ALL: Final = np.array([0xFFFFFFFF], np.uint32)


def _matrices(decoder: Decoder, instruction: PtxInstruction) -> int:
    count = next((n for name, n in COUNTS.items() if name in instruction.modifiers), 0)
    if not count or "m8n8" not in instruction.modifiers or "b16" not in instruction.modifiers:
        raise decoder.refused(instruction, "only 8x8 matrices of b16 are modelled")
    return count


@opcode("ldmatrix", whole=True)
def build_ldmatrix(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {a, b, c, d}, [p]`."""
    count = _matrices(decoder, instruction)
    targets, place = instruction.operands
    writes = [decoder.sink(t, instruction) for t in decoder.items(targets)]
    address = decoder.address(place, instruction)
    machine, line, pc = decoder.machine, instruction.line, decoder.pc
    transposed = "trans" in instruction.modifiers
    first = np.arange(WARP) < 8 * count

    def run(gang: Gang) -> Outcome:
        stopped = converge(machine, gang, np.broadcast_to(ALL, (gang.lanes,)), pc)
        if stopped is not None:
            return stopped
        old = gang.active
        if count < 4:
            gang.active = np.tile(first, len(gang.warps)) & gang.mask()
        rows = machine.load(gang, "shared", address(gang), ROW_BYTES, line)
        gang.active = old
        matrices = rows.view(np.uint16).reshape(-1, 4, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        registers = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 4, WARP)
        for i, write in enumerate(writes):
            write(gang, np.ascontiguousarray(registers[:, i]).reshape(-1))
        return None

    return run


@opcode("stmatrix", whole=True)
def build_stmatrix(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`stmatrix.sync.aligned.m8n8.x4.shared.b16 [p], {a, b, c, d}`."""
    count = _matrices(decoder, instruction)
    place, sources = instruction.operands
    values = [decoder.source(s, "b32", instruction) for s in decoder.items(sources)]
    address = decoder.address(place, instruction)
    machine, line, pc = decoder.machine, instruction.line, decoder.pc
    transposed = "trans" in instruction.modifiers
    first = np.arange(WARP) < 8 * count

    def run(gang: Gang) -> Outcome:
        stopped = converge(machine, gang, np.broadcast_to(ALL, (gang.lanes,)), pc)
        if stopped is not None:
            return stopped
        registers = np.zeros((len(gang.warps), 4, WARP), np.uint32)
        for i, value in enumerate(values):
            registers[:, i] = np.broadcast_to(value(gang), (gang.lanes,)).reshape(-1, WARP)
        matrices: Array = registers.view(np.uint16).reshape(-1, 4, 8, 8)
        if transposed:
            matrices = np.ascontiguousarray(matrices.swapaxes(2, 3))
        rows = matrices.reshape(gang.lanes, 8).view(np.uint8)
        old = gang.active
        if count < 4:
            gang.active = np.tile(first, len(gang.warps)) & gang.mask()
        machine.store(gang, "shared", address(gang), rows, line)
        gang.active = old
        return None

    return run
