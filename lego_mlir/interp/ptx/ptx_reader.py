"""PTX text as values: entries, their variables, and instructions with decoded operands and line numbers.

The reader covers what LLVM's NVPTX back end and inline assembly produce: one statement ends at `;`, `{` at the start of
a statement opens a scope, elsewhere a list of operands.

>>> module = read_ptx('''.version 8.0
... .target sm_80
... .address_size 64
... .visible .entry k(.param .u64 k_param_0)
... { .reg .b32 %r<3>; mov.u32 %r1, %tid.x; add.s32 %r2, %r1, -4; ret; }''')
>>> [str(i) for i in module.entries["k"].instructions]
['mov.u32 %r1, %tid.x', 'add.s32 %r2, %r1, -4', 'ret']

Source: PTX ISA, "Syntax" and "State Spaces, Types, and Variables".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx.ptx_program import (
    AddressOperand,
    Ignored,
    Immediate,
    OperandList,
    PtxEntry,
    PtxInstruction,
    PtxModule,
    PtxOperand,
    PtxRegister,
    PtxVariable,
    SpecialRegister,
    SymbolAddress,
    SymbolOperand,
)
from lego_mlir.interp.ptx.source_places import without_sections

SPECIAL: Final = re.compile(
    r"%(n?tid|n?ctaid|laneid|n?warpid|n?smid|gridid|lanemask_\w+|clock\w*|globaltimer\w*|dynamic_smem_size|"
    r"total_smem_size|envreg\d+|pm\d+(?:_64)?|n?clusterid|cluster_n?ctaid|cluster_n?ctarank|is_explicit_cluster|"
    r"aggr_smem_size)(\.[xyz])?$"
)
_TOKEN: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"[^\"]*\"|[%$A-Za-z_.][%\w$.:<>]*|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}"
    r"|0[xX][0-9a-fA-F]+U?|\d+\.\d*(?:[eE][-+]?\d+)?|\d+U?|\n|[^\s]",
    re.DOTALL,
)
_DIRECTIVES: Final = frozenset({".pragma", ".loc", ".file", ".callprototype", ".minnctapersm"})


def plain_variable(name: str) -> str:
    """The name of a variable of a function, as C++ has it before it is mangled.

    >>> plain_variable("_ZZ4tileE1s"), plain_variable("_ZZ9transposePKfPfE4tile_0"), plain_variable("global_smem")
    ('s', 'tile', 'global_smem')
    """
    found = re.match(r"_ZZ.*E(\d+)(\w+)$", name)
    return name if found is None else found[2][: int(found[1])]


def bits_of_type(name: str) -> int:
    """The width of a fundamental type, such as 32 for `f32`; 1 for `pred`."""
    return 1 if name == "pred" else int(re.sub(r"\D", "", name) or 0)


@dataclass(slots=True)
class _Statement:
    """The tokens between two ends of statements: `end` is `;`, `{`, `}` or `:`."""

    tokens: list[str]
    line: int
    end: str


def _statements(text: str) -> Iterator[_Statement]:
    tokens: list[str] = []
    line, start, depth = 1, 1, 0
    for found in _TOKEN.finditer(text):
        token = found.group()
        if token == "\n" or token.startswith(("//", "/*")):
            if tokens and tokens[0] in (".version", ".target", ".address_size", ".loc", ".file"):
                yield _Statement(tokens, start, ";")
                tokens = []
            line += token.count("\n")
            continue
        if not tokens:
            start, depth = line, 0
        if depth == 0 and (token == ";" or (token in "{}" and (not tokens or _opens_body(tokens)))):
            yield _Statement(tokens, start, token)
            tokens = []
        elif not tokens and token.endswith(":"):
            yield _Statement([token[:-1]], line, ":")
        elif len(tokens) == 1 and token == ":":
            yield _Statement(tokens, line, ":")
            tokens = []
        else:
            depth += (token == "{") - (token == "}")
            tokens.append(token)
    if tokens:
        raise InterpreterError(f"PTX line {start}: the statement `{' '.join(tokens)[:60]}` has no end")


def _opens_body(tokens: list[str]) -> bool:
    return any(word in tokens for word in (".entry", ".func"))


def read_ptx(text: str, source: str = "<ptx>") -> PtxModule:
    """Read PTX text. Raises InterpreterError with the line of what cannot be read."""
    module = PtxModule("", [], {}, source, text=text)
    body: _Body | None = None
    depth = 0
    places = module.places
    for statement in _statements(without_sections(text)):
        tokens, end = statement.tokens, statement.end
        if places.directive(tokens):
            continue
        if body is not None and end == ";":
            places.note(statement.line)
        if body is None:
            if end == "{":
                body, depth = _Body(_entry_head(tokens, statement.line), module), 1
            elif tokens and tokens[0] == ".target":
                module.target = tokens[1]
            elif tokens and tokens[0] not in (".version", ".address_size") and ".func" not in tokens:
                module.variables.append(_variable(tokens, statement.line))
            continue
        if end == "{":
            body.open_scope()
            depth += 1
        elif end == "}":
            depth -= 1
            body.close_scope()
            if depth == 0:
                found = body.finish()
                (module.functions if found.is_function else module.entries)[found.name] = found
                body, places.current = None, None
        elif end == ":":
            body.label(tokens[0])
        else:
            body.statement(tokens, statement.line)
    return module


def _entry_head(tokens: list[str], line: int) -> PtxEntry:
    returns: list[PtxVariable] = []
    if ".func" in tokens:
        at = tokens.index(".func") + 1
        if tokens[at] == "(":
            closed = tokens.index(")", at)
            returns = [_variable(part, line) for part in _split(tokens[at + 1 : closed])]
            at = closed + 1
        while tokens[at].startswith("."):
            at += 1
    else:
        at = tokens.index(".entry") + 1
    entry = PtxEntry(tokens[at], [], line, returns=returns, is_function=".func" in tokens)
    opened, closed = at + 1, at + 1
    if closed < len(tokens) and tokens[closed] == "(":
        closed = tokens.index(")", opened)
        for parameter in _split(tokens[opened + 1 : closed]):
            entry.parameters.append(_variable(parameter, line))
        closed += 1
    rest = tokens[closed:]
    for directive, attribute in ((".reqntid", "required_threads"), (".maxntid", "most_threads")):
        if directive in rest:
            setattr(entry, attribute, _extents(rest, directive))
    for directive in (".reqnctapercluster", ".explicitcluster"):
        if directive == ".reqnctapercluster" and directive in rest:
            entry.cluster = _extents(rest, directive)
    return entry


def _extents(tokens: list[str], directive: str) -> tuple[int, int, int]:
    numbers: list[int] = []
    for token in tokens[tokens.index(directive) + 1 :]:
        if token == ",":
            continue
        if not token.isdecimal():
            break
        numbers.append(int(token))
    x, y, z = (*numbers, 1, 1, 1)[:3]
    return x, y, z


def _split(tokens: list[str], separator: str = ",") -> list[list[str]]:
    """Split at separators outside of brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "{[(") - (token in ")]}")
        if token == separator and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


_SPACES: Final = frozenset({"shared", "global", "const", "param", "local"})


def _variable(tokens: list[str], line: int) -> PtxVariable:
    """`.visible .shared .align 16 .b8 name[4096] = {..}`, and a parameter."""
    space, align, dtype, is_pointer = "", 0, "b8", False
    at = 0
    while at < len(tokens) and tokens[at].startswith("."):
        word = tokens[at][1:].split("::")[0]
        if word == "attribute":  # .attribute(.managed)
            at = tokens.index(")", at) + 1
            continue
        if word == "align":
            align = align if is_pointer else int(tokens[at + 1])  # after .ptr: the alignment of what it points to
            at += 1
        elif word == "ptr":
            is_pointer = True
        elif word in _SPACES and not space:
            space = word
        elif re.fullmatch(r"[bsuf]\d+x?\d*|pred", word):
            dtype = word
        at += 1
    if at >= len(tokens):
        raise InterpreterError(f"PTX line {line}: `{' '.join(tokens)[:60]}` declares no variable")
    name, rest = tokens[at], tokens[at + 1 :]
    unit = max(bits_of_type(dtype) // 8, 1)
    count = 1
    if rest[:1] == ["["]:
        count = int(rest[1]) if rest[1] != "]" else 0
    if "=" not in rest:
        return PtxVariable(name, space, unit * count, align or unit, None, dtype)
    value = _InitialValue.read(rest[rest.index("=") + 1 :], unit, line)
    return PtxVariable(
        name, space, unit * count, align or unit, value.data.ljust(unit * count, b"\0"), dtype, tuple(value.symbols)
    )


class _InitialValue:
    """The elements of `= {1, -2, 0f3F800000, generic(f), x+4, 0xFF(p), 0xFF00(p), ..}` as bytes and addresses.

    An address may be given byte by byte, each by the mask that selects it; the first byte stands for all eight.
    """

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self.data = b""
        self.symbols: list[SymbolAddress] = []

    @classmethod
    def read(cls, tokens: list[str], unit: int, line: int) -> _InitialValue:
        found = cls(unit)
        flat = [t for t in tokens if t not in "{}"]
        for element in _split(flat):
            found._element([t for t in element if t not in ("(", ")", "generic")], line)
        return found

    def _element(self, tokens: list[str], line: int) -> None:
        match tokens:
            case ["-", number]:
                self._number(-int(_literal(number, line)))
            case [number] if not re.match(r"[A-Za-z_$%]", number):
                is_float = re.match(r"0[fFdD]", number) is not None and not number.lower().startswith("0x")
                self._number(int(number[2:], 16) if is_float else int(_literal(number, line)))
            case [name]:
                self._symbol(name, 0)
            case [name, "+", number]:
                self._symbol(name, int(_literal(number, line)))
            case [mask, name] if mask.lower().startswith("0xff"):
                if int(_literal(mask, line)) == 0xFF:
                    self.symbols.append(SymbolAddress(len(self.data), name))
                self.data += bytes(self.unit)
            case _:
                raise InterpreterError(f"PTX line {line}: the initial value `{' '.join(tokens)}` cannot be read")

    def _number(self, number: int) -> None:
        self.data += number.to_bytes(self.unit, "little", signed=number < 0)

    def _symbol(self, name: str, offset: int) -> None:
        self.symbols.append(SymbolAddress(len(self.data), name, offset))
        self.data += bytes(self.unit)


def _literal(token: str, line: int) -> int | float:
    lower = token.lower()
    if re.fullmatch(r"0[fd][0-9a-f]+", lower):
        import struct

        raw = bytes.fromhex(token[2:])
        number: float = struct.unpack(">f" if lower[1] == "f" else ">d", raw)[0]
        return number
    if re.fullmatch(r"\d+u?", lower):
        return int(lower.rstrip("u"))
    if lower.startswith("0x"):
        return int(lower.rstrip("u"), 16)
    if re.fullmatch(r"\d+\.\d*(e[-+]?\d+)?", lower):
        return float(token)
    raise InterpreterError(f"PTX line {line}: `{token}` is not a number")


class _Body:
    """The statements of one entry: register declarations by scope, variables, instructions."""

    def __init__(self, entry: PtxEntry, module: PtxModule) -> None:
        self.entry, self.module = entry, module
        self.scopes: list[dict[str, PtxRegister]] = [{}]
        self.first_of_scope, self.labels_of_scope = [0], [dict[str, int]()]
        self.variables_of_scope: list[dict[str, str]] = [{}]
        self.tables: dict[str, list[str]] = {}  # the labels of each `.branchtargets`
        self.last_label = ""

    def open_scope(self) -> None:
        self.scopes.append({})
        self.variables_of_scope.append({})
        self.first_of_scope.append(len(self.entry.instructions))
        self.labels_of_scope.append({})

    def label(self, name: str) -> None:
        self.labels_of_scope[-1][name] = len(self.entry.instructions)
        self.last_label = name

    def close_scope(self) -> None:
        """Forget the scope's registers, and make its labels unique: inline assembly repeats them."""
        self.scopes.pop()
        self.variables_of_scope.pop()
        first, labels = self.first_of_scope.pop(), self.labels_of_scope.pop()
        for at in range(first, len(self.entry.instructions)):
            instruction = self.entry.instructions[at]
            target = instruction.operands[0] if instruction.opcode == "bra" else None
            if isinstance(target, SymbolOperand) and target.name in labels:
                unique = SymbolOperand(f"{target.name}@{labels[target.name]}")
                self.entry.instructions[at] = replace(instruction, operands=(unique, *instruction.operands[1:]))
        for name, at in labels.items():
            self.entry.labels[f"{name}@{at}"] = at

    def finish(self) -> PtxEntry:
        """The entry, once each label that it branches to is known to exist."""
        for instruction in self.entry.instructions:
            target = instruction.operands[0] if instruction.opcode == "bra" else None
            if isinstance(target, SymbolOperand) and target.name not in self.entry.labels:
                raise InterpreterError(f"PTX line {instruction.line}: no label {target.name} in {self.entry.name}")
        return self.entry

    def statement(self, tokens: list[str], line: int) -> None:
        if not tokens or tokens[0] in _DIRECTIVES:
            return
        if tokens[0].startswith(".reg."):  # inline assembly: `.reg.b16 h, r`
            tokens = [".reg", tokens[0].removeprefix(".reg"), *tokens[1:]]
        if tokens[0] == ".reg":
            self._declare(tokens[1:], line)
        elif tokens[0] == ".branchtargets":
            self.tables[self.last_label] = [name for (name,) in _split(tokens[1:])]
        elif tokens[0].startswith("."):
            variable = _variable(tokens, line)
            unique = variable.name
            if variable.space == "param" or len(self.variables_of_scope) > 2:
                unique = f"{variable.name}@{len(self.entry.variables)}"
            self.variables_of_scope[-1][variable.name] = unique
            space = "local" if variable.space == "param" else variable.space
            self.entry.variables.append(replace(variable, name=unique, space=space))
        else:
            instruction = self._instruction(tokens, line)
            expanded = self._by_table(instruction) if instruction.opcode == "brx" else [instruction]
            self.entry.instructions += expanded

    def _by_table(self, branch: PtxInstruction) -> Iterator[PtxInstruction]:
        """`brx.idx i, table` as a comparison and a branch for each label, and a branch to the last."""
        index, table = branch.operands
        labels = [SymbolOperand(name) for name in self.tables.get(str(table), [])]
        if not labels or branch.guard is not None:
            raise InterpreterError(f"PTX line {branch.line}: `{branch}` has a guard, or a table that is not before it")
        chosen = PtxRegister("%brx", len(self.entry.widths), 1)
        self.entry.widths.append(1)
        for number, label in enumerate(labels[:-1]):
            operands = chosen, index, Immediate(number, str(number))
            yield PtxInstruction("setp", ("eq", "u32"), operands, None, branch.line)
            yield PtxInstruction("bra", (), (label,), chosen, branch.line)
        yield PtxInstruction("bra", ("uni",), (labels[-1],), None, branch.line)

    def _declare(self, tokens: list[str], line: int) -> None:
        bits = bits_of_type(tokens[0].removeprefix("."))
        for part in _split(tokens[1:]):
            name = "".join(part)
            if ranged := re.fullmatch(r"(.+)<(\d+)>", name):
                names = [f"{ranged[1]}{i}" for i in range(int(ranged[2]))]
            else:
                names = [name]
            for one in names:
                self.scopes[-1][one] = PtxRegister(one, len(self.entry.widths), bits)
                self.entry.widths.append(bits)

    def _instruction(self, tokens: list[str], line: int) -> PtxInstruction:
        guard = None
        if tokens[0] == "@":
            negated = tokens[1] == "!"
            register = self._register(tokens[1 + negated])
            if register is None:
                raise InterpreterError(f"PTX line {line}: {tokens[1 + negated]} is not a declared register")
            guard = PtxRegister(register.name, register.slot, register.bits, negated)
            tokens = tokens[2 + negated :]
        opcode, *modifiers = tokens[0].split(".")
        operands = tuple(self._operand(part, line) for part in _split(tokens[1:]))
        return PtxInstruction(opcode, tuple(modifiers), operands, guard, line)

    def _register(self, name: str) -> PtxRegister | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def _operand(self, tokens: list[str], line: int) -> PtxOperand:
        match tokens:
            case ["_"]:
                return Ignored()
            case [name]:
                return self._word(name, line)
            case ["-", number]:
                value = _literal(number, line)
                return Immediate(-value, f"-{number}")
            case ["!", name]:
                register = self._register(name)
                if register is None:
                    raise InterpreterError(f"PTX line {line}: {name} is not a declared register")
                return PtxRegister(register.name, register.slot, register.bits, negated=True)
            case [left, "|", right]:
                return OperandList((self._operand([left], line), self._operand([right], line)), pair=True)
            case ["{", *inner, "}"] | ["(", *inner, ")"]:
                return OperandList(tuple(self._operand(part, line) for part in _split(inner)))
            case ["[", *inner, "]"]:
                return self._address(inner, line)
            case [name, ("+" | "-") as sign, number]:
                offset = int(_literal(number, line))
                return SymbolOperand(self._unique(name), -offset if sign == "-" else offset)
            case _:
                raise InterpreterError(f"PTX line {line}: the operand `{' '.join(tokens)}` cannot be read")

    def _word(self, name: str, line: int) -> PtxOperand:
        register = self._register(name)
        if register is not None:
            return register
        if SPECIAL.match(name):
            return SpecialRegister(name)
        if name[0].isdigit():
            return Immediate(_literal(name, line), name)
        if name.startswith("%"):
            raise InterpreterError(f"PTX line {line}: {name} is neither a declared register nor a special one")
        return Immediate(32, name) if name == "WARP_SZ" else SymbolOperand(self._unique(name))

    def _unique(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self.variables_of_scope) if name in scope), name)

    def _address(self, tokens: list[str], line: int) -> AddressOperand:
        first, *rest = _split(tokens)
        offset = 0
        if len(first) > 2 and first[-2] in "+-":
            offset = int(_literal(first[-1], line)) * (-1 if first[-2] == "-" else 1)
            first = first[:-2]
            if first[-1:] == ["+"]:  # LLVM prints a negative offset as `+-16`
                first = first[:-1]
        coordinates = None
        if rest:
            listed = self._operand(rest[0], line)
            if not isinstance(listed, OperandList):
                raise InterpreterError(f"PTX line {line}: `[{' '.join(tokens)}]` needs a list of coordinates")
            coordinates = listed
        return AddressOperand(self._operand(first, line), offset, coordinates)
