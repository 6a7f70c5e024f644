"""Mutable registers of 16 or 8 bits that hold the left operand of products, a word of them in one 32-bit register.

`wgmma` takes its left operand as words of two or four elements. A variable that a loop carries from the softmax to the
next iteration's product has one register for each element, which a loop would carry apart, and put together in front
of every product. `packed_registers` finds the words that only products and such variables read:

    weights.set(convert(p))        cvt.rn.f16x2.f32, one for each pair
    lego.mma(weights, v, out)      reads the word as it is
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from lego_mlir.tracing.trace.trace import For, If, KernelTrace, Read, Register, Statement, While, Write, operands_of

WORD: Final = 32
"""Bits of a register of the machine."""


Word = tuple[Register, ...]


@dataclass(slots=True)
class PackedRegisters:
    """The registers of each word by the first of them, and the values of their writes by the identity of the last one.

    `skipped` are identities of statements that become nothing.
    """

    words: dict[Register, Word] = field(default_factory=dict)
    written: dict[int, tuple[int, ...]] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    reads: dict[int, Register] = field(default_factory=dict)

    def first_of(self, number: int) -> Register | None:
        """The first register of a word, of which the value of this number is a read."""
        register = self.reads.get(number)
        return register if register in self.words else None


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
    """The words of a trace, which has no calls of functions that use them."""
    program = _Program()
    program.visit(trace.body)
    words = {
        tuple(program.reads[n] for n in word)
        for product in trace.products
        if isinstance(product.a, tuple)
        for line in product.a
        for step in line
        for word in in_words(step, product.dtype.bits)
        if all(n in program.reads for n in word)
    }
    words |= _sources(program, words)
    covered = {n for product in trace.products for n in product.covered}
    while True:
        held = Counter(register for word in words for register in word)
        if not (refused := {word for word in words if not _fits(program, word, words, held, covered)}):
            return _packed(program, words)
        words -= refused


def in_words(numbers: Sequence[int], bits: int) -> list[tuple[int, ...]]:
    """The numbers of elements, divided into the words that hold them."""
    return list(zip(*[iter(numbers)] * (WORD // bits), strict=True))


def _sources(program: _Program, words: set[Word]) -> set[Word]:
    """The words whose values are written to these, directly or through other words."""
    found: set[Word] = set()
    pending = list(words)
    while pending:
        for writes in zip(*(program.writes[register] for register in pending.pop()), strict=False):
            numbers = [write.value.number for _, _, write in writes]
            if all(n in program.reads for n in numbers):
                word = tuple(program.reads[n] for n in numbers)
                if word not in words | found:
                    found.add(word)
                    pending.append(word)
    return found


def _fits(program: _Program, word: Word, words: set[Word], held: Counter[Register], covered: set[int]) -> bool:
    """Whether the registers of a word are written together, and read by products and writes to other words only."""
    if any(held[register] != 1 or register.dtype.bits * len(word) != WORD for register in word):
        return False
    bodies = [[body for body, _, _ in program.writes[register]] for register in word]
    if any(other != bodies[0] for other in bodies):
        return False
    for place, register in enumerate(word):
        for read in program.read_by[register]:
            for user in program.users[read.result.number]:
                into = user.register if isinstance(user, Write) else None
                if into is None and not _numbers(user) & covered:
                    return False
                if into is not None and not any(other[place] == into for other in words):
                    return False
    return True


def _numbers(statement: Statement) -> set[int]:
    made = getattr(statement, "results", None) or (getattr(statement, "result", None),)
    return {value.number for value in made if value is not None}


def _packed(program: _Program, words: set[Word]) -> PackedRegisters:
    found = PackedRegisters({word[0]: word for word in words}, reads=program.reads)
    for word in words:
        found.skipped |= {id(read) for register in word[1:] for read in program.read_by[register]}
        for writes in zip(*(program.writes[register] for register in word), strict=True):
            *earlier, (_, _, last) = sorted(writes, key=lambda write: write[1])
            found.skipped |= {id(write) for _, _, write in earlier}
            found.written[id(last)] = tuple(write.value.number for _, _, write in writes)
    return found
