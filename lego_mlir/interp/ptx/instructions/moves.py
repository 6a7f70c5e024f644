"""mov in all forms, cvta, isspacep. PTX ISA, "Data Movement and Conversion Instructions".

`mov.b64 {%r1, %r2}, %rd1` takes a register apart, lowest bits first, and `mov.b64 %rd1, {%r1, %r2}` puts one together.
"""

from __future__ import annotations

import numpy as np

from lego_mlir.interp.ptx.address_spaces import SHARED_WINDOW, WINDOWS
from lego_mlir.interp.ptx.decoder import Decoder, opcode, space_of
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import Ignored, OperandList, PtxInstruction, PtxRegister, SymbolOperand
from lego_mlir.interp.ptx.ptx_types import BITS, PACKED, bits_of_type_name


@opcode("createpolicy")
def build_cache_policy(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`createpolicy.fractional.L2::evict_last.b64 d, 1.0`: a policy of caches, which are not modelled."""
    write = decoder.sink(instruction.operands[0], instruction)
    return lambda gang: write(gang, np.zeros(1, np.uint64))


@opcode("mov")
def build_mov(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mov.u32 d, a`."""
    d, a = instruction.operands
    if isinstance(d, OperandList) and isinstance(a, OperandList):
        raise decoder.refused(instruction, "a list moves to or from one register")
    if isinstance(d, OperandList):
        return _unpack(decoder, instruction, d)
    if isinstance(a, OperandList):
        return _pack(decoder, instruction, a)
    type_ = decoder.type_of(instruction)
    if isinstance(d, PtxRegister) and d.bits == 64 and isinstance(a, SymbolOperand):
        type_ = "u64"
    return decoder.computed(instruction, lambda value: value, "b32" if type_ in PACKED else type_)


def _unpack(decoder: Decoder, instruction: PtxInstruction, parts: OperandList) -> Step:
    type_ = decoder.type_of(instruction)
    part = BITS[bits_of_type_name(type_) // len(parts.items)]
    whole = decoder.source(instruction.operands[1], type_, instruction)
    writes = [None if isinstance(p, Ignored) else decoder.sink(p, instruction) for p in parts.items]

    def run(gang: Gang) -> None:
        value = whole(gang)
        if len(value) != gang.lanes:
            value = np.repeat(value, gang.lanes)
        columns = value.view(part).reshape(gang.lanes, -1)
        for i, write in enumerate(writes):
            if write is not None:
                write(gang, np.ascontiguousarray(columns[:, i]))

    return run


def _pack(decoder: Decoder, instruction: PtxInstruction, parts: OperandList) -> Step:
    type_ = decoder.type_of(instruction)
    whole = BITS[bits_of_type_name(type_)]
    bits = bits_of_type_name(type_) // len(parts.items)
    values = [decoder.source(p, f"b{bits}", instruction) for p in parts.items]
    write = decoder.sink(instruction.operands[0], instruction)

    def run(gang: Gang) -> None:
        columns = np.empty((gang.lanes, len(values)), BITS[bits])
        for i, value in enumerate(values):
            columns[:, i] = value(gang)
        write(gang, columns.view(whole)[:, 0])

    return run


@opcode("cvta")
def build_cvta(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cvta.shared.u64 d, a` makes a generic address, `cvta.to.shared.u64` one of the space."""
    window = np.uint64(WINDOWS[space_of(instruction)])
    if "to" in instruction.modifiers:
        return decoder.computed(instruction, lambda x: x.astype(np.uint64) - window)
    return decoder.computed(instruction, lambda x: x.astype(np.uint64) + window)


@opcode("isspacep")
def build_isspacep(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`isspacep.shared p, a`: whether a generic address is in a space."""
    window = np.uint64(WINDOWS[space_of(instruction)])
    inside = (lambda x: (x & window) != 0) if window else (lambda x: x < np.uint64(SHARED_WINDOW))
    return decoder.computed(instruction, inside, "u64")
