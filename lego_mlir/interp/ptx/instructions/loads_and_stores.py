"""ld and st in all spaces, ldu, prefetch. PTX ISA, "ld", "st".

A vector access moves `count * size` bytes a lane, and its address must be a multiple of that. `.volatile`, `.relaxed`,
`.acquire` and `.release` accesses of shared memory are exempt from race detection like atomic ones: they synchronise.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lego_mlir.aliases import IntArray
from lego_mlir.interp.ptx.address_spaces import GLOBAL_BASE
from lego_mlir.interp.ptx.decoder import Decoder, opcode, space_of
from lego_mlir.interp.ptx.device_order import is_strong, semantics
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction, PtxOperand
from lego_mlir.interp.ptx.ptx_types import BITS, NUMPY, PACKED

VECTORS: Final = {"v2": 2, "v4": 4, "v8": 8}


def _count(instruction: PtxInstruction) -> int:
    return next((n for name, n in VECTORS.items() if name in instruction.modifiers), 1)


def _space(decoder: Decoder, instruction: PtxInstruction, address: PtxOperand) -> str:
    """The space; the `.param` variables of calls are local memory."""
    named = decoder.space_of(address)
    return named if named == "local" else space_of(instruction) or named


def _note_strong(machine: PtxMachine, gang: Gang, at: IntArray, instruction: PtxInstruction) -> None:
    """Take or leave clocks at the words of a strong access."""
    order = machine.globals.order
    if order is None:
        return
    lanes, loads = gang.live(), instruction.opcode == "ld"
    words = ((at[lanes] - GLOBAL_BASE) // 4).tolist()
    accesses = dict.fromkeys(zip(gang.lane_warp[lanes].tolist(), words, strict=True))
    order.strong(machine, accesses, semantics(instruction), reads=loads, writes=not loads)


@opcode("ld", "ldu")
def build_ld(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`ld.global.v4.b32 {a, b, c, d}, [p]`."""
    type_ = decoder.type_of(instruction)
    type_ = "b32" if type_ in PACKED else type_
    count, dtype = _count(instruction), NUMPY[type_]
    targets = decoder.items(instruction.operands[0])
    if len(targets) != count:
        raise decoder.refused(instruction, f"{len(targets)} registers for {count} elements")
    source = instruction.operands[1]
    space = _space(decoder, instruction, source)
    address = decoder.address(source, instruction)
    writes = [decoder.sink(t, instruction) for t in targets]
    size, line, machine = count * dtype.itemsize, instruction.line, decoder.machine
    element = dtype if dtype.kind in "iu" else BITS[8 * dtype.itemsize]
    strong = is_strong(instruction)

    def run(gang: Gang) -> None:
        at = address(gang)
        data = machine.load(gang, space, at, size, line, strong).view(element)
        if strong:
            _note_strong(machine, gang, at, instruction)
        for i, write in enumerate(writes):
            write(gang, np.ascontiguousarray(data[:, i]))

    return run


@opcode("st")
def build_st(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`st.shared.v2.b32 [p], {a, b}`."""
    type_ = decoder.type_of(instruction)
    type_ = "b32" if type_ in PACKED else type_
    count, bits = _count(instruction), 8 * NUMPY[type_].itemsize
    target, value = instruction.operands[:2]  # a third is a policy of caches
    values = [decoder.source(o, f"b{bits}", instruction) for o in decoder.items(value)]
    if len(values) != count:
        raise decoder.refused(instruction, f"{len(values)} registers for {count} elements")
    space = _space(decoder, instruction, target)
    address = decoder.address(target, instruction)
    line, machine, element = instruction.line, decoder.machine, BITS[bits]
    strong = is_strong(instruction)

    def run(gang: Gang) -> None:
        data = np.empty((gang.lanes, count), element)
        for i, read in enumerate(values):
            data[:, i] = read(gang)
        at = address(gang)
        if strong:
            _note_strong(machine, gang, at, instruction)
        machine.store(gang, space, at, data.view(np.uint8), line, strong)

    return run


@opcode("prefetch", "prefetchu", "applypriority", "discard")
def build_prefetch(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """A hint."""
    return lambda gang: None
