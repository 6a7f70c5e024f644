"""A program of PTX as data: modules, entries, their variables, and instructions with their operands.

>>> str(PtxInstruction("mov", ("u32",), (PtxRegister("%r1", 0, 32), SymbolOperand("tile")), None, 1))
'mov.u32 %r1, tile'

Source: PTX ISA, "Syntax" and "State Spaces, Types, and Variables".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx.source_places import SourcePlaces


@dataclass(frozen=True, slots=True)
class PtxRegister:
    """A register: its slot in the entry's register file, its width in bits (1 for a predicate)."""

    name: str
    slot: int
    bits: int
    negated: bool = False

    def __str__(self) -> str:
        return f"{'!' if self.negated else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """A read-only register such as %tid.x."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal: an int, or a float whose bits are known for f32 (`0f`) or f64 (`0d`, decimal)."""

    value: int | float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class SymbolOperand:
    """A variable, parameter, label or function, plus a byte offset."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return self.name if not self.offset else f"{self.name}+{self.offset}"


@dataclass(frozen=True, slots=True)
class OperandList:
    """`{a, b}` or `p|q`."""

    items: tuple[PtxOperand, ...]
    pair: bool = False

    def __str__(self) -> str:
        inner = ("|" if self.pair else ", ").join(map(str, self.items))
        return inner if self.pair else f"{{{inner}}}"


@dataclass(frozen=True, slots=True)
class AddressOperand:
    """`[base+offset]`, or `[base, {coordinates}]` of a tensor map."""

    base: PtxOperand
    offset: int = 0
    coordinates: OperandList | None = None

    def __str__(self) -> str:
        offset = f"+{self.offset}" if self.offset else ""
        tail = f", {self.coordinates}" if self.coordinates is not None else ""
        return f"[{self.base}{offset}{tail}]"


@dataclass(frozen=True, slots=True)
class Ignored:
    """`_`: a result or operand that is not wanted."""

    def __str__(self) -> str:
        return "_"


PtxOperand: TypeAlias = (
    PtxRegister | SpecialRegister | Immediate | SymbolOperand | OperandList | AddressOperand | Ignored
)


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One instruction: `opcode` is the text up to the first dot, `modifiers` the parts after it."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[PtxOperand, ...]
    guard: PtxRegister | None
    line: int

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard is not None else ""
        return f"{guard}{self.name} {', '.join(map(str, self.operands))}".strip()

    def registers(self) -> frozenset[int]:
        """The slots of all registers that the instruction names."""
        found = {r.slot for operand in self.operands for r in _registers(operand)}
        return frozenset(found | ({self.guard.slot} if self.guard is not None else set()))


def _registers(operand: PtxOperand) -> Iterator[PtxRegister]:
    match operand:
        case PtxRegister():
            yield operand
        case OperandList():
            for item in operand.items:
                yield from _registers(item)
        case AddressOperand():
            yield from _registers(operand.base)
            if operand.coordinates is not None:
                yield from _registers(operand.coordinates)
        case _:
            return


@dataclass(frozen=True, slots=True)
class SymbolAddress:
    """An address in an initial value: its first byte, the variable or function, and what is added."""

    at: int
    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PtxVariable:
    """A variable of a state space. `size` is in bytes, 0 for an extern array, whose size the launch gives.

    `symbols` are the addresses in its initial value.
    """

    name: str
    space: str
    size: int
    align: int
    data: bytes | None = None
    dtype: str = "b8"
    symbols: tuple[SymbolAddress, ...] = ()


@dataclass(slots=True)
class PtxEntry:
    """A kernel or a device function: parameters in order, variables, instructions, and the index after each label.

    `widths` are the bits of each register; a function has `returns`. `stacked` local variables have a place for each
    depth of calls, by name the bytes from one to the next.
    """

    name: str
    parameters: list[PtxVariable]
    line: int
    required_threads: tuple[int, int, int] | None = None
    most_threads: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    variables: list[PtxVariable] = field(default_factory=list)
    instructions: list[PtxInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)
    returns: list[PtxVariable] = field(default_factory=list)
    is_function: bool = False
    stacked: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class PtxModule:
    """A PTX file: its target, the variables at module scope, its entries and device functions by name."""

    target: str
    variables: list[PtxVariable]
    entries: dict[str, PtxEntry]
    source: str = "<ptx>"
    functions: dict[str, PtxEntry] = field(default_factory=dict)
    places: SourcePlaces = field(default_factory=SourcePlaces)
    text: str = field(default="", repr=False)

    def entry(self, name: str | None) -> PtxEntry:
        """The entry of this name, or the only one. Raises InterpreterError."""
        if name is None and len(self.entries) == 1:
            return next(iter(self.entries.values()))
        if name is None or name not in self.entries:
            raise InterpreterError(
                f"{self.source}: {'name one of the entries' if name is None else f'no entry {name}'}; "
                f"the PTX has: {', '.join(self.entries) or 'none'}"
            )
        return self.entries[name]
