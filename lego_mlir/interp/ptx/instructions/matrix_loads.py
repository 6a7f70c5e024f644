"""ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and a warp's registers.

Lane 8*i + r gives the address of row r of matrix i. Register i of lane l holds elements (l // 4, 2 * (l % 4)) and the
next of matrix i; with `.trans`, those of its transpose. PTX ISA, "ldmatrix", "stmatrix".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction, PtxOperand
from lego_mlir.interp.ptx.warp_convergence import whole_warps

COUNTS: Final = {"x1": 1, "x2": 2, "x4": 4}
MOST: Final = 4
"""Matrices of an instruction, a row of one for each lane."""
ROW_BYTES: Final = 16


def _matrices(decoder: Decoder, instruction: PtxInstruction) -> int:
    count = next((n for name, n in COUNTS.items() if name in instruction.modifiers), 0)
    if not count or "m8n8" not in instruction.modifiers or "b16" not in instruction.modifiers:
        raise decoder.refused(instruction, "only 8x8 matrices of b16 are modelled")
    return count


class _Rows:
    """The rows of an instruction's matrices: all lanes of a warp take part, and the first 8 of each matrix address."""

    def __init__(self, decoder: Decoder, instruction: PtxInstruction, place: PtxOperand, count: int) -> None:
        self._address = decoder.address(place, instruction)
        self._first = None if count == MOST else np.arange(WARP) < 8 * count

    @contextmanager
    def addressed(self, gang: Gang) -> Iterator[Array]:
        """The addresses, with the lanes that give them active."""
        active = gang.active
        if self._first is not None:
            gang.active = np.tile(self._first, len(gang.warps)) & gang.mask()
        try:
            yield self._address(gang)
        finally:
            gang.active = active


@opcode("ldmatrix", whole=True)
def build_ldmatrix(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {a, b, c, d}, [p]`."""
    count = _matrices(decoder, instruction)
    targets, place = instruction.operands
    writes = [decoder.sink(t, instruction) for t in decoder.items(targets)]
    rows_of, machine, line = _Rows(decoder, instruction, place, count), decoder.machine, instruction.line
    transposed = "trans" in instruction.modifiers

    def run(gang: Gang) -> None:
        with rows_of.addressed(gang) as addresses:
            rows = machine.load(gang, "shared", addresses, ROW_BYTES, line)
        matrices = rows.view(np.uint16).reshape(-1, 4, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        registers = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 4, WARP)
        for i, write in enumerate(writes):
            write(gang, np.ascontiguousarray(registers[:, i]).reshape(-1))

    return whole_warps(decoder, run)


@opcode("stmatrix", whole=True)
def build_stmatrix(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`stmatrix.sync.aligned.m8n8.x4.shared.b16 [p], {a, b, c, d}`."""
    count = _matrices(decoder, instruction)
    place, sources = instruction.operands
    values = [decoder.source(s, "b32", instruction) for s in decoder.items(sources)]
    rows_of, machine, line = _Rows(decoder, instruction, place, count), decoder.machine, instruction.line
    transposed = "trans" in instruction.modifiers

    def run(gang: Gang) -> None:
        registers = np.zeros((len(gang.warps), 4, WARP), np.uint32)
        for i, value in enumerate(values):
            registers[:, i] = np.broadcast_to(value(gang), (gang.lanes,)).reshape(-1, WARP)
        matrices: Array = registers.view(np.uint16).reshape(-1, 4, 8, 8)
        if transposed:
            matrices = np.ascontiguousarray(matrices.swapaxes(2, 3))
        rows = matrices.reshape(gang.lanes, 8).view(np.uint8)
        with rows_of.addressed(gang) as addresses:
            machine.store(gang, "shared", addresses, rows, line)

    return whole_warps(decoder, run)
