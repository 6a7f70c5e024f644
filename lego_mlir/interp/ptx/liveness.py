"""Live registers after an instruction: only these are copied when a gang splits or merges.

Backward data flow over bit sets, one Python int an instruction. A guarded instruction keeps the old value of what it
writes, so it defines nothing; neither does `wgmma`, which adds to its accumulators. Of `tcgen05`, `.ld` has results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lego_mlir.interp.ptx.ptx_program import OperandList, PtxInstruction, PtxOperand, PtxRegister

WITHOUT_RESULT: Final = frozenset({
    "bar", "barrier", "bra", "ret", "exit", "st", "red", "cp", "wgmma", "setmaxnreg", "nanosleep", "prefetch", "trap",
    "call", "callstack", "returnstack", "tensormap",
})  # fmt: skip


def results(instruction: PtxInstruction) -> Iterator[int]:
    """The slots of the registers that an instruction writes."""
    if instruction.opcode == "tcgen05" and "ld" not in instruction.modifiers:
        return
    tallies = "tally" in instruction.modifiers
    if (instruction.opcode not in WITHOUT_RESULT or tallies) and instruction.operands:
        yield from _direct(instruction.operands[0])


def _direct(operand: PtxOperand) -> Iterator[int]:
    match operand:
        case PtxRegister():
            yield operand.slot
        case OperandList():
            for item in operand.items:
                yield from _direct(item)
        case _:
            return


def live_before(instructions: Sequence[PtxInstruction], following: Sequence[tuple[int, ...]]) -> list[int]:
    """For each instruction, the set of registers that are live before it, as the bits of an int."""
    uses, kept = [], []
    for instruction in instructions:
        defined = set(results(instruction))
        used = set(instruction.registers()) - defined
        # A result that is also an operand elsewhere in the instruction is used.
        for operand in instruction.operands[1:]:
            used |= set(_all_slots(operand))
        if instruction.guard is not None:
            used |= defined
            defined = set()
        uses.append(_bits(used))
        kept.append(~_bits(defined))
    live = [0] * (len(instructions) + 1)
    changed = True
    while changed:
        changed = False
        for at in range(len(instructions) - 1, -1, -1):
            after = 0
            for to in following[at]:
                after |= live[to]
            now = uses[at] | (after & kept[at])
            if now != live[at]:
                live[at], changed = now, True
    return live


def _all_slots(operand: PtxOperand) -> Iterator[int]:
    yield from PtxInstruction("", (), (operand,), None, 0).registers()


def _bits(slots: set[int]) -> int:
    found = 0
    for slot in slots:
        found |= 1 << slot
    return found


def slots_of(live: int) -> list[int]:
    """The registers of a bit set."""
    return [at for at, bit in enumerate(reversed(bin(live)[2:])) if bit == "1"]
