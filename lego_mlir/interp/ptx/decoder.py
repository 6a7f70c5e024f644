"""Instructions as closures: each is decoded once per launch into a function of a gang.

A module of `instructions` registers a builder per opcode with `@opcode("add")`. A builder reads the instruction and
returns a `Step`; it raises `Decoder.refused` for a form that the emulator does not run, so that an unknown
instruction is refused before anything has run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, Dtype, IntArray
from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx.address_overflow import address_registers, with_overflows
from lego_mlir.interp.ptx.address_spaces import WINDOWS
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.nonfinite import with_births
from lego_mlir.interp.ptx.ptx_machine import GangDivergence, Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import (
    AddressOperand,
    Ignored,
    Immediate,
    OperandList,
    PtxEntry,
    PtxInstruction,
    PtxOperand,
    PtxRegister,
    SpecialRegister,
    SymbolOperand,
)
from lego_mlir.interp.ptx.ptx_types import BITS, NUMPY, PACKED, TYPE_NAMES, bits_of, integer

Builder = Callable[["Decoder", PtxInstruction], Step]
Source = Callable[[Gang], "Array"]
Sink = Callable[[Gang, "Array"], None]
BUILDERS: Final[dict[str, Builder]] = {}
FORMS: Final[dict[tuple[str, str], Builder]] = {}
WHOLE: Final[set[str]] = set()


def opcode(*names: str, form: str | None = None, whole: bool = False) -> Callable[[Builder], Builder]:
    """Register the builder of opcodes, or of their forms with a modifier, such as `bulk`.

    `whole`: a partial guard splits the gang instead of masking it.
    """

    def register(builder: Builder) -> Builder:
        for name in names:
            if form is None:
                BUILDERS[name] = builder
            else:
                FORMS[name, form] = builder
            if whole:
                WHOLE.add(name)
        return builder

    return register


class Decoder:
    """Decodes the instructions of one entry for one machine."""

    def __init__(
        self,
        machine: PtxMachine,
        entry: PtxEntry,
        addresses: Mapping[str, tuple[str, int]],
        joins: Mapping[int, int],
        source: str,
    ) -> None:
        self.machine, self.entry, self.addresses, self.joins, self.file = machine, entry, addresses, joins, source
        self.pc = 0
        self.live: Sequence[int] = ()  # before each instruction, as `liveness` has it

    def steps(self) -> list[Step]:
        """All instructions, and the implied `ret` at the end. Raises InterpreterError for one that is not known."""
        found: list[Step] = []
        for at, instruction in enumerate(self.entry.instructions):
            self.pc = at
            found.append(self._step(instruction))
        found.append(lambda gang: "exit")
        return found

    @cached_property
    def address_registers(self) -> set[int]:
        """The registers from which addresses are made."""
        return address_registers(self.entry.instructions)

    def refused(self, instruction: PtxInstruction, why: str) -> InterpreterError:
        """The error for a form that is not modelled."""
        return InterpreterError(f"{self.file}:{instruction.line}: the emulator cannot run `{instruction}`: {why}")

    def _step(self, instruction: PtxInstruction) -> Step:
        forms = (FORMS.get((instruction.opcode, modifier)) for modifier in instruction.modifiers)
        builder = next(filter(None, forms), BUILDERS.get(instruction.opcode))
        if builder is None:
            known = f"it knows {len(BUILDERS)} opcodes, and not `{instruction.opcode}`"
            raise self.refused(instruction, known)
        step = builder(self, instruction)
        if self.machine.checks.nonfinite:
            step = with_births(self, instruction, step)
        if self.machine.mix is not None:
            step = self.machine.mix.with_counts(self, instruction, step)
        if self.machine.checks.overflow:
            step = with_overflows(self, instruction, step, self.address_registers)
        if instruction.guard is None or instruction.opcode == "bra":
            return step
        return self._guarded(step, instruction, instruction.guard)

    def _guarded(self, step: Step, instruction: PtxInstruction, guard: PtxRegister) -> Step:
        slot, negated, pc = guard.slot, guard.negated, self.pc
        whole = instruction.opcode in WHOLE

        def run(gang: Gang) -> Outcome:
            chosen = gang.get(slot, 1)
            if negated:
                chosen = ~chosen
            old = gang.active
            if old is not None:
                chosen = chosen & old
            count, all_ = int(np.count_nonzero(chosen)), gang.count()
            if count == 0:
                return None
            if count == all_:
                return step(gang)
            if whole:
                return GangDivergence(chosen, pc, pc + 1, pc + 1)
            gang.active = chosen
            try:
                return step(gang)
            finally:
                gang.active = old

        return run

    # --- operands -----------------------------------------------------------------------------------------------

    def type_of(self, instruction: PtxInstruction) -> str:
        """The instruction's type: its last modifier that is one."""
        for modifier in reversed(instruction.modifiers):
            if modifier in TYPE_NAMES:
                return modifier
        raise self.refused(instruction, "it has no type")

    def source(self, operand: PtxOperand, type_: str, instruction: PtxInstruction) -> Source:
        """A reader of an operand as an array of a type; packed types give two elements a lane."""
        if type_ in PACKED:
            return self._packed_source(operand, type_, instruction)
        dtype = NUMPY[type_]
        match operand:
            case PtxRegister(slot=slot, bits=bits, negated=negated):
                if type_ == "pred" or bits == 1:
                    return self._predicate(slot, negated)
                if bits == 8 * dtype.itemsize:
                    return lambda gang: gang.get(slot, bits).view(dtype)
                narrow = BITS[8 * dtype.itemsize]
                return lambda gang: gang.get(slot, bits).astype(narrow).view(dtype)
            case Immediate(value=value):
                constant = self._constant(value, dtype, operand.text)
                return lambda gang: constant
            case SpecialRegister(name=name):
                special = self.special(name, instruction)
                return lambda gang: bits_of(special(gang), 8 * dtype.itemsize).view(dtype)
            case SymbolOperand():
                symbol = self.symbol(operand, instruction)
                return lambda gang: bits_of(symbol(gang), 8 * dtype.itemsize).view(dtype)
            case _:
                raise self.refused(instruction, f"the operand {operand} is not a value")

    def _packed_source(self, operand: PtxOperand, type_: str, instruction: PtxInstruction) -> Source:
        element = NUMPY[PACKED[type_]]
        whole = self.source(operand, f"b{16 * element.itemsize}", instruction)

        def read(gang: Gang) -> Array:
            value = whole(gang)
            if len(value) != gang.lanes:
                value = np.repeat(value, gang.lanes)
            return value.view(element)

        return read

    @staticmethod
    def _predicate(slot: int, negated: bool) -> Source:
        if negated:
            return lambda gang: ~gang.get(slot, 1)
        return lambda gang: gang.get(slot, 1)

    @staticmethod
    def _constant(value: int | float, dtype: Dtype, text: str) -> Array:
        if text[:2].lower() in ("0f", "0d"):  # the bits of a float, also where the type is one of bits
            bits = integer(int(text[2:], 16), BITS[4 * len(text[2:])])
            if dtype.itemsize == bits.dtype.itemsize:
                return bits.view(dtype)
        if dtype.kind in "iub":
            return np.array([bool(value)]) if dtype.kind == "b" else integer(int(value), dtype)
        if isinstance(value, int) and text.lstrip("-")[:2].lower() == "0x":
            return integer(value, BITS[8 * dtype.itemsize]).view(dtype)
        return np.array([value]).astype(dtype)

    def sink(self, operand: PtxOperand, instruction: PtxInstruction) -> Sink:
        """A writer of a result: bits, extended or cut to the register's width."""
        match operand:
            case PtxRegister(slot=slot, bits=bits):
                want = BITS[bits]

                def write(gang: Gang, value: Array) -> None:
                    gang.put(slot, value if value.dtype == want else bits_of(value, bits))

                return write
            case Ignored():
                return lambda gang, value: None
            case _:
                raise self.refused(instruction, f"{operand} cannot be written")

    def computed(self, instruction: PtxInstruction, compute: Callable[..., Array], *types: str) -> Step:
        """The step that writes to the first operand what `compute` makes of the others.

        They are read with these types, the last one for all that remain, or with the instruction's.
        """
        target, *given = instruction.operands
        own = types or (self.type_of(instruction),)
        sources = [self.source(o, own[min(i, len(own) - 1)], instruction) for i, o in enumerate(given)]
        write = self.sink(target, instruction)

        def run(gang: Gang) -> None:
            write(gang, compute(*[source(gang) for source in sources]))

        return run

    def items(self, operand: PtxOperand) -> tuple[PtxOperand, ...]:
        """The operands of a list, or the one operand."""
        return operand.items if isinstance(operand, OperandList) else (operand,)

    def address(self, operand: PtxOperand, instruction: PtxInstruction) -> Callable[[Gang], IntArray]:
        """A reader of `[base+offset]` as int64 addresses, one a lane; those of 32 bits wrap around."""
        if not isinstance(operand, AddressOperand):
            raise self.refused(instruction, f"{operand} is not an address")
        offset, bits = operand.offset, operand.base.bits if isinstance(operand.base, PtxRegister) else 64
        base, kept = self.source(operand.base, f"u{bits}", instruction), 0xFFFFFFFF if bits == 32 else -1

        def read(gang: Gang) -> IntArray:
            value = base(gang).astype(np.int64)
            if offset:
                value = (value + offset) & kept
            return value if len(value) == gang.lanes else np.repeat(value, gang.lanes)

        return read

    def symbol(self, operand: SymbolOperand, instruction: PtxInstruction) -> Source:
        """The address of a variable in its space; in a cluster, a shared one names the block that owns it."""
        if operand.name not in self.addresses:
            raise self.refused(instruction, f"{operand.name} is not declared")
        space, base = self.addresses[operand.name]
        value = np.array([base + operand.offset], np.uint64)
        machine, stride = self.machine, self.entry.stacked.get(operand.name, 0)
        if stride:
            return lambda gang: value + np.uint64(stride * len(gang.frames))
        if space != "shared" or machine.shape.cluster_blocks == 1:
            return lambda gang: value
        peers = machine.shape.cluster_blocks

        def in_cluster(gang: Gang) -> Array:
            rank = (machine.slots(gang) % peers).astype(np.uint64)
            return value + (rank << np.uint64(24))

        return in_cluster

    def space_of(self, operand: PtxOperand) -> str:
        """The space of the variable that an address names, or an empty string."""
        if isinstance(operand, AddressOperand) and isinstance(operand.base, SymbolOperand):
            return self.addresses.get(operand.base.name, ("", 0))[0]
        return ""

    def special(self, name: str, instruction: PtxInstruction) -> Source:
        from lego_mlir.interp.ptx.special_registers import special_register

        found = special_register(self.machine, name)
        if found is None:
            raise self.refused(instruction, f"the special register {name} is not modelled")
        return found


SPACE_NAMES: Final = frozenset({*WINDOWS, "shared::cta", "shared::cluster", "param::entry"})


def space_of(instruction: PtxInstruction) -> str:
    """The state space among the modifiers: `global`, `shared`, `local`, `param`, `const`, or empty for generic."""
    for modifier in instruction.modifiers:
        if modifier in SPACE_NAMES:
            return modifier.split("::")[0]
    return ""
