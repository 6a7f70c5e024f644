"""Overflow of 32-bit integers from which an address is made: `row * pitch + column` of an array with many elements.

A register is one of an address if a memory access uses it, or an instruction computes another one of an address from
it; the order of instructions is left out. A sum, product or left shift into such a register overflows where its exact
value fits neither a signed nor an unsigned 32-bit integer. Hashes that wrap on purpose and index a table are reported
too, so the check is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx.ptx_program import AddressOperand, OperandList, PtxInstruction, PtxOperand, PtxRegister
from lego_mlir.interp.report import Kind

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.decoder import Decoder
    from lego_mlir.interp.ptx.gangs import Gang
    from lego_mlir.interp.ptx.ptx_machine import Outcome, Step

CARRIES: Final = frozenset({"mov", "cvt", "cvta", "add", "sub", "mul", "mad", "shl", "or", "selp", "min", "max"})
"""Opcodes through which a part of an address goes."""
NARROW: Final = frozenset({"s32", "u32", "b32"})
EXACT: Final[dict[str, Callable[..., Array]]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "mad": lambda a, b, c: a * b + c,
    "shl": lambda a, n: a * np.left_shift(np.int64(1), np.minimum(n & 0xFFFFFFFF, 31)),
}  # fmt: skip


def address_registers(instructions: Sequence[PtxInstruction]) -> set[int]:
    """The slots of registers from which an address of a memory access is computed."""
    makers: dict[int, list[PtxInstruction]] = {}
    found: set[int] = set()
    for instruction in instructions:
        found |= {slot for o in instruction.operands if isinstance(o, AddressOperand) for slot in _slots(o.base)}
        if instruction.opcode in CARRIES and instruction.operands:
            for target in _slots(instruction.operands[0]):
                makers.setdefault(target, []).append(instruction)
    waiting = list(found)
    while waiting:
        for maker in makers.get(waiting.pop(), ()):
            new = {slot for operand in maker.operands[1:] for slot in _slots(operand)} - found
            found |= new
            waiting += new
    return found


def _slots(operand: PtxOperand) -> list[int]:
    items = operand.items if isinstance(operand, OperandList) else (operand,)
    return [item.slot for item in items if isinstance(item, PtxRegister)]


def with_overflows(decoder: Decoder, instruction: PtxInstruction, step: Step, addresses: set[int]) -> Step:
    """The step, which also reports results that do not fit; any other instruction as it is."""
    kind = next((m for m in instruction.modifiers if m in NARROW), None)
    exact = EXACT.get(instruction.opcode)
    if exact is None or kind is None or {"wide", "hi", "sat", "cc"} & set(instruction.modifiers):
        return step
    target, *operands = instruction.operands
    if not isinstance(target, PtxRegister) or target.slot not in addresses:
        return step
    signed = [decoder.source(o, "s32", instruction) for o in operands]
    unsigned = [decoder.source(o, "u32", instruction) for o in operands]
    line, machine = instruction.line, decoder.machine

    def run(gang: Gang) -> Outcome:
        low, high = (exact(*(read(gang).astype(np.int64) for read in reads)) for reads in (signed, unsigned))
        over = ((low < -(1 << 31)) | (low >= 1 << 31)) & ((high < 0) | (high >= 1 << 32))
        over = np.broadcast_to(over, (gang.lanes,)) & gang.mask()
        if over.any():
            lane = int(np.argmax(over))
            value = int(np.broadcast_to(low, (gang.lanes,))[lane])
            message = f"{instruction.name} gives {value}, of which an address is made, and 32 bits do not hold it"
            machine.fault(Kind.OVERFLOW, message, gang, lane, line, count=int(over.sum()))
        return step(gang)

    return run
