"""Mutable registers of 16 bits that hold the left operand of products, two in one 32-bit register of the machine.

`wgmma` takes its left operand as words of two elements. A variable that a loop carries from the softmax to the next
iteration's product has one register for each element, which a loop would carry apart, and put together in front of
every product. `packed_registers` finds the pairs that only products and such variables read:

    weights.set(convert(p))        cvt.rn.f16x2.f32, one for each pair
    lego.mma(weights, v, out)      reads the pair as it is
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from lego_mlir.tracing.trace.trace import For, If, KernelTrace, Read, Register, Statement, While, Write, operands_of


@dataclass(slots=True)
class PackedRegisters:
    """The second register of each pair by its first, and the values of two writes by the identity of the later one.

    `skipped` are identities of statements that become nothing.
    """

    second: dict[Register, Register] = field(default_factory=dict)
    written: dict[int, tuple[int, int]] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    reads: dict[int, Register] = field(default_factory=dict)

    def first_of(self, number: int) -> Register | None:
        """The first register of a pair, of which the value of this number is a read."""
        register = self.reads.get(number)
        return register if register in self.second else None


@dataclass(slots=True)
class _Program:
    """Every read and write of registers with its body, and every other use of values."""

    reads: dict[int, Register] = field(default_factory=dict)
    read_by: dict[Register, list[Read]] = field(default_factory=lambda: defaultdict(list))
    writes: dict[Register, list[tuple[int, int, Write]]] = field(default_factory=lambda: defaultdict(list))
    users: dict[int, list[Statement]] = field(default_factory=lambda: defaultdict(list))

    def visit(self, body: Sequence[Statement]) -> None:
        for place, statement in enumerate(body):
            match statement:
                case Read(result, register):
                    self.reads[result.number] = register
                    self.read_by[register].append(statement)
                case Write(register):
                    self.writes[register].append((id(body), place, statement))
                case _:
                    pass
            for value in operands_of(statement):
                self.users[value.number].append(statement)
            match statement:
                case For(body=inner) | While(body=inner):
                    self.visit(inner)
                case If(then=then, otherwise=otherwise):
                    self.visit(then)
                    self.visit(otherwise)
                case _:
                    pass


def packed_registers(trace: KernelTrace) -> PackedRegisters:
    """The pairs of a trace, which has no calls of functions that use them."""
    program = _Program()
    program.visit(trace.body)
    pairs = {
        (program.reads[a], program.reads[b])
        for product in trace.products
        if isinstance(product.a, tuple)
        for line in product.a
        for step in line
        for a, b in zip(step[::2], step[1::2], strict=True)
        if a in program.reads and b in program.reads
    }
    pairs |= _sources(program, pairs)
    covered = {n for product in trace.products for n in product.covered}
    while refused := {pair for pair in pairs if not _fits(program, pair, pairs, covered)}:
        pairs -= refused
    return _packed(program, pairs)


def _sources(program: _Program, pairs: set[tuple[Register, Register]]) -> set[tuple[Register, Register]]:
    """The pairs whose values are written to these, and so on."""
    found: set[tuple[Register, Register]] = set()
    pending = list(pairs)
    while pending:
        first, second = pending.pop()
        for (_, _, a), (_, _, b) in zip(program.writes[first], program.writes[second], strict=False):
            if a.value.number in program.reads and b.value.number in program.reads:
                pair = program.reads[a.value.number], program.reads[b.value.number]
                if pair not in pairs | found:
                    found.add(pair)
                    pending.append(pair)
    return found


def _fits(
    program: _Program, pair: tuple[Register, Register], pairs: set[tuple[Register, Register]], covered: set[int]
) -> bool:
    """Whether two registers are written together, and read by products and writes to other pairs only."""
    first, second = pair
    if sum(register in other for other in pairs for register in pair) != 2 or first.dtype.bits != 16:
        return False
    writes = program.writes[first], program.writes[second]
    if [body for body, _, _ in writes[0]] != [body for body, _, _ in writes[1]]:
        return False
    for place, register in enumerate(pair):
        for read in program.read_by[register]:
            for user in program.users[read.result.number]:
                into = user.register if isinstance(user, Write) else None
                if into is None and not _numbers(user) & covered:
                    return False
                if into is not None and not any(other[place] == into for other in pairs):
                    return False
    return True


def _numbers(statement: Statement) -> set[int]:
    made = getattr(statement, "results", None) or (getattr(statement, "result", None),)
    return {value.number for value in made if value is not None}


def _packed(program: _Program, pairs: set[tuple[Register, Register]]) -> PackedRegisters:
    found = PackedRegisters(dict(pairs), reads=program.reads)
    for first, second in pairs:
        found.skipped |= {id(read) for read in program.read_by[second]}
        for (_, here, a), (_, there, b) in zip(program.writes[first], program.writes[second], strict=True):
            earlier, later = (a, b) if here < there else (b, a)
            found.skipped.add(id(earlier))
            found.written[id(later)] = a.value.number, b.value.number
    return found
