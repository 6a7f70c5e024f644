"""Calls: the bodies of device functions in place of the calls to them.

A call copies its arguments to `.param` variables of the caller, which are local memory here; the function's formal
parameters become other names of these:

    st.param.b32 [param0], %r1;                 st.local.b32 [param0], %r1;
    call (retval0), f, (param0);        -->     the body of f, in which its parameter is param0
    ld.param.b32 %r2, [retval0];                ld.local.b32 %r2, [retval0];

A function that may call itself is one piece of code after the entry, and is called with a stack (`call_stack`). A call
through a pointer compares it with each function whose address is taken and whose parameters are as many.
Functions that the system defines (`vprintf`, `malloc`) stay calls. PTX ISA, "Abstracting the ABI".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx.address_spaces import rounded
from lego_mlir.interp.ptx.call_stack import MOST_FRAMES, recursive_functions
from lego_mlir.interp.ptx.ptx_program import (
    AddressOperand,
    Immediate,
    OperandList,
    PtxEntry,
    PtxInstruction,
    PtxModule,
    PtxOperand,
    PtxRegister,
    PtxVariable,
    SymbolOperand,
)

FUNCTION_BASE: Final = 0x7E00_0000_0000
"""Addresses of functions, where no memory is."""
MEETING: Final = frozenset({"bar", "barrier", "mma", "tcgen05", "wgmma", "wmma"})
CARRIED: Final = frozenset({"addc", "subc", "madc"})
SYSTEM: Final = frozenset({"vprintf", "__assertfail", "malloc", "free"})


def function_addresses(module: PtxModule) -> dict[str, int]:
    """An address for each function."""
    return {name: FUNCTION_BASE + 16 * i for i, name in enumerate(module.functions)}


def linked(module: PtxModule, entry: PtxEntry) -> PtxEntry:
    """The entry with the calls to functions of the module expanded."""
    if any(i.opcode == "call" for i in entry.instructions):
        entry = _Linker(module, entry).run()
    return _with_carry_flag(_with_votes(entry))


def _with_votes(entry: PtxEntry) -> PtxEntry:
    """A barrier with a reduction as a vote, a barrier and a tally (see `instructions.barrier_reductions`)."""
    reduces = [i.opcode in ("bar", "barrier") and "red" in i.modifiers for i in entry.instructions]
    if not any(reduces):
        return entry
    instructions: list[PtxInstruction] = []
    moved: list[int] = []
    for instruction, is_reduction in zip(entry.instructions, reduces, strict=True):
        moved.append(len(instructions))
        if not is_reduction:
            instructions.append(instruction)
            continue
        result, number, *count, predicate = instruction.operands
        operation = next(m for m in instruction.modifiers if m in ("popc", "and", "or"))
        instructions += [
            replace(instruction, modifiers=("vote",), operands=(number, predicate)),
            replace(instruction, modifiers=("sync",), operands=(number, *count)),
            replace(instruction, modifiers=("tally", operation), operands=(result, number)),
        ]
    labels = {name: (*moved, len(instructions))[at] for name, at in entry.labels.items()}
    return replace(entry, instructions=instructions, labels=labels)


def _with_carry_flag(entry: PtxEntry) -> PtxEntry:
    """The carry flag as a register, which is the last operand of the instructions that set or read it."""
    used = [i.opcode in CARRIED or "cc" in i.modifiers for i in entry.instructions]
    if not any(used):
        return entry
    flag = PtxRegister("%cc", len(entry.widths), 1)
    instructions = [
        replace(i, operands=(*i.operands, flag)) if uses else i
        for i, uses in zip(entry.instructions, used, strict=True)
    ]
    return replace(entry, instructions=instructions, widths=[*entry.widths, 1])


@dataclass(frozen=True, slots=True)
class _Call:
    """A call: what it calls, the caller's variables for results and arguments, its line."""

    target: PtxOperand
    returns: tuple[PtxOperand, ...]
    arguments: tuple[PtxOperand, ...]
    line: int

    @classmethod
    def of(cls, instruction: PtxInstruction) -> _Call:
        lists = [o.items for o in instruction.operands if isinstance(o, OperandList)]
        target = next(o for o in instruction.operands if not isinstance(o, OperandList))
        returns = lists.pop(0) if isinstance(instruction.operands[0], OperandList) else ()
        return cls(target, returns, lists[0] if lists else (), instruction.line)


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy of a body: what is added to its registers' slots, the names that change, the suffix of its labels."""

    code: PtxEntry
    shift: int
    names: Mapping[str, str]
    suffix: str
    depth: int

    def operand(self, operand: PtxOperand) -> PtxOperand:
        """The operand, as the copy has it."""
        match operand:
            case PtxRegister():
                return replace(operand, slot=operand.slot + self.shift)
            case SymbolOperand(name=name):
                if name in self.names:
                    return replace(operand, name=self.names[name])
                return replace(operand, name=name + self.suffix) if name in self.code.labels else operand
            case OperandList():
                return replace(operand, items=tuple(map(self.operand, operand.items)))
            case AddressOperand(coordinates=listed):
                if listed is not None:
                    listed = replace(listed, items=tuple(map(self.operand, listed.items)))
                return replace(operand, base=self.operand(operand.base), coordinates=listed)
            case _:
                return operand

    def instruction(self, instruction: PtxInstruction) -> PtxInstruction:
        """The instruction, as the copy has it; `ret` of a function goes to the copy's end."""
        guard = instruction.guard
        if guard is not None:
            guard = replace(guard, slot=guard.slot + self.shift)
        if self.code.is_function and instruction.opcode == "ret":
            return PtxInstruction("bra", ("uni",), (SymbolOperand(f"@end{self.suffix}"),), guard, instruction.line)
        return replace(instruction, operands=tuple(map(self.operand, instruction.operands)), guard=guard)


class _Linker:
    def __init__(self, module: PtxModule, entry: PtxEntry) -> None:
        self.module, self.entry = module, entry
        self.addresses = function_addresses(module)
        self.out = replace(
            entry, variables=list(entry.variables), instructions=[], labels={}, widths=list(entry.widths)
        )
        self.copies = 0
        self.pointed = self._pointed()
        self.recursive = recursive_functions({name: self._callees(code) for name, code in module.functions.items()})
        self.stacked: dict[str, Mapping[str, str]] = {}
        self.waiting: list[str] = []
        self.in_stack = False

    def run(self) -> PtxEntry:
        self._append(_Copy(self.entry, 0, {}, "", 0))
        if self.waiting:
            self._emit("exit", (), (), self.entry.line)
        self.in_stack = True
        while self.waiting:
            name = self.waiting.pop()
            function, suffix = self.module.functions[name], f"@{name}"
            self.out.labels[f"@stack_{name}"] = len(self.out.instructions)
            shift = len(self.out.widths)
            self.out.widths += function.widths
            self._append(_Copy(function, shift, self.stacked[name], suffix, 0))
            self.out.labels[f"@end{suffix}"] = len(self.out.instructions)
            self._emit("returnstack", (), (), function.line)
        return self.out

    def _callees(self, code: PtxEntry) -> set[str]:
        """The functions that a function may call."""
        found: set[str] = set()
        for instruction in code.instructions:
            if instruction.opcode == "call":
                target = _Call.of(instruction).target
                found |= {target.name} if isinstance(target, SymbolOperand) else set(self.pointed)
        return found & set(self.module.functions)

    def _pointed(self) -> list[str]:
        """The functions whose address is taken."""
        names = {symbol.name for v in self.module.variables for symbol in v.symbols}
        for code in (self.entry, *self.module.functions.values()):
            for i in code.instructions:
                if i.opcode != "call":
                    names |= {o.name for o in i.operands if isinstance(o, SymbolOperand)}
        return [name for name in self.module.functions if name in names]

    def _append(self, copy: _Copy) -> None:
        labels: dict[int, list[str]] = {}
        for label, index in copy.code.labels.items():
            labels.setdefault(index, []).append(label)
        for index, instruction in enumerate((*copy.code.instructions, None)):
            for label in labels.get(index, ()):
                self.out.labels[label + copy.suffix] = len(self.out.instructions)
            if instruction is None:
                continue
            moved = copy.instruction(instruction)
            if self.in_stack and (moved.opcode in MEETING or "sync" in moved.modifiers):
                raise InterpreterError(
                    f"PTX line {moved.line}: the emulator cannot run `{instruction}` in a function that calls itself: "
                    "lanes of other depths would not meet there"
                )
            if moved.opcode == "call":
                self._call(moved, copy.depth)
            else:
                self.out.instructions.append(moved)

    def _emit(self, opcode: str, modifiers: tuple[str, ...], operands: tuple[PtxOperand, ...], line: int,
              guard: PtxRegister | None = None) -> None:  # fmt: skip
        self.out.instructions.append(PtxInstruction(opcode, modifiers, operands, guard, line))

    def _call(self, instruction: PtxInstruction, depth: int) -> None:
        call = _Call.of(instruction)
        if isinstance(call.target, SymbolOperand) and call.target.name in SYSTEM:
            self.out.instructions.append(instruction)
            return
        self.copies += 1
        number, guard = f"#{self.copies}", instruction.guard
        end = f"@end{number}"
        if guard is not None:
            self._emit("bra", (), (SymbolOperand(end),), call.line, replace(guard, negated=not guard.negated))
        if isinstance(call.target, SymbolOperand):
            self._expand(call.target.name, call, number, depth)
        else:
            self._dispatch(call, number, depth)
        self.out.labels[end] = len(self.out.instructions)

    def _dispatch(self, call: _Call, number: str, depth: int) -> None:
        """A call through a pointer, which may be any function with as many parameters."""
        for name in self.pointed:
            if len(self.module.functions[name].parameters) != len(call.arguments):
                continue
            predicate = PtxRegister("%is_other", len(self.out.widths), 1)
            self.out.widths.append(1)
            following, inner = f"@not_{name}{number}", f"_{name}{number}"
            address = Immediate(self.addresses[name], str(self.addresses[name]))
            self._emit("setp", ("ne", "u64"), (predicate, call.target, address), call.line)
            self._emit("bra", (), (SymbolOperand(following),), call.line, predicate)
            self._expand(name, call, inner, depth)
            self.out.labels[f"@end{inner}"] = len(self.out.instructions)
            self._emit("bra", ("uni",), (SymbolOperand(f"@end{number}"),), call.line)
            self.out.labels[following] = len(self.out.instructions)
        self._emit("trap", (), (), call.line)

    def _expand(self, name: str, call: _Call, suffix: str, depth: int) -> None:
        function = self.module.functions.get(name)
        if function is None:
            raise InterpreterError(
                f"PTX line {call.line}: the function {name} has no body in this file; compile both together"
            )
        if name in self.recursive:
            self._stack_call(name, call)
            return
        formals, actuals = (*function.returns, *function.parameters), (*call.returns, *call.arguments)
        names = {formal.name: str(actual) for formal, actual in zip(formals, actuals, strict=True)}
        declared = {v.name for v in self.out.variables}
        for variable in function.variables:
            if variable.space not in ("local", "shared"):
                continue
            unique = variable.name if variable.space == "shared" else variable.name + suffix
            names[variable.name] = unique
            if unique not in declared:
                self._declare(variable, unique)
        shift = len(self.out.widths)
        self.out.widths += function.widths
        self._append(_Copy(function, shift, names, suffix, depth + 1))

    def _declare(self, variable: PtxVariable, name: str, *, stacks: bool = False) -> None:
        """A variable of a body; where calls may be within each other, one place for each depth."""
        if variable.space != "shared" and (stacks or self.in_stack):
            stride = rounded(variable.size, max(variable.align, 1))
            self.out.stacked[name] = stride
            variable = replace(variable, size=stride * (MOST_FRAMES + 1))
        self.out.variables.append(replace(variable, name=name))

    def _stack_call(self, name: str, call: _Call) -> None:
        """A call of a function that may call itself."""
        function = self.module.functions[name]
        if name not in self.stacked:
            self.waiting.append(name)
            names: dict[str, str] = {}
            self.stacked[name] = names
            for variable in (*function.returns, *function.parameters, *function.variables):
                if variable.space == "shared":
                    names[variable.name] = variable.name
                    if variable.name not in {v.name for v in self.out.variables}:
                        self.out.variables.append(variable)
                else:
                    names[variable.name] = f"{variable.name}@{name}"
                    self._declare(replace(variable, space="local"), names[variable.name], stacks=True)
        placed = self.stacked[name]
        given = zip(call.arguments, function.parameters, strict=True)
        results = zip(function.returns, call.returns, strict=True)
        arguments = [x for actual, formal in given for x in (actual, SymbolOperand(placed[formal.name]))]
        returned = [x for formal, actual in results for x in (SymbolOperand(placed[formal.name]), actual)]
        lists = OperandList(tuple(arguments)), OperandList(tuple(returned))
        self._emit("callstack", (), (SymbolOperand(f"@stack_{name}"), *lists), call.line)
