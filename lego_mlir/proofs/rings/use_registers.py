"""Registers of programs with rings that do not wrap around, and why: they count uses, or slowly.

    used.set(used + rounds);  full[used].wait()    becomes a use: shown to count the waits or arrivals of its role
    turn.set(turn + 1)                             slow: a write changes it by little
    state.set(state * 5)                           neither: it may wrap around

Assumed, and not shown: a role waits and arrives fewer than 2**29 times, and a register that counts slowly stays below
2**29, which 2**23 writes of the greatest step would reach.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sympy

from lego_mlir.aliases import Symbol
from lego_mlir.expr.index import as_expr
from lego_mlir.proofs.rings.ring_statements import is_integer
from lego_mlir.tracing.trace.marks import ThreadCopies, TileCopy
from lego_mlir.tracing.trace.trace import (
    Compute,
    Constant,
    Convert,
    FromIndex,
    If,
    MlirOperation,
    Read,
    Register,
    Statement,
    ToIndex,
    Write,
    statements_in,
)
from lego_mlir.tracing.words import barrier_rings

MOST_STEP: Final = 64
"""What a write adds to a register that counts slowly, at most."""
MOST_SLOW: Final = 2**29
"""What such a register reaches."""
MOST_OF_ONE: Final = 3
"""How many uses one wait or arrival counts for, at most: roles that take uses in turns wait for one of some."""
MOST_AHEAD: Final = 64
"""By how much a register that counts uses differs from the waits or arrivals, at most."""
MOST_COUNTED: Final = MOST_OF_ONE * 2**29 + MOST_AHEAD
"""What such a register reaches."""


def slow_registers(body: Sequence[Statement]) -> frozenset[Register]:
    """The registers that each write sets to a small number, or to a little more or less than a slow register."""
    statements = list(statements_in(tuple(body)))
    writes = [s for s in statements if isinstance(s, Write)]
    made = [s for s in statements if isinstance(s, Constant | FromIndex | Convert | Read | Compute)]
    numbers = [s for s in made if is_integer(s.result.dtype)]  # -1 in u8 is 255, and a large number in f16 is infinite
    slow = {s.register for s in writes if is_integer(s.register.dtype)}
    while True:
        known: dict[int, _Reach] = {}
        for s in numbers:
            found = _reach(s, known, slow)
            if found is not None and found.step <= MOST_STEP:
                known[s.result.number] = found
        fast = {s.register for s in writes if s.value.number not in known}
        if not slow & fast:
            return frozenset(slow)
        slow -= fast


class _Reach(NamedTuple):
    """What the absolute value of a number is at most: `step`, or that of a slow register and `step`."""

    of_register: bool
    step: int


def _reach(
    s: Constant | FromIndex | Convert | Read | Compute, known: Mapping[int, _Reach], slow: Collection[Register]
) -> _Reach | None:
    match s:
        case Constant(_, number) if isinstance(number, int):
            return _Reach(False, abs(number))
        case FromIndex(_, expr) if as_expr(expr).is_Integer:
            return _Reach(False, abs(int(as_expr(expr))))
        case Convert(_, operand):
            return _Reach(False, 1) if operand.dtype.name == "i1" else known.get(operand.number)
        case Read(_, register) if register in slow:
            return _Reach(True, 0)
        case Compute(_, operation, operands):
            return _reach_of(operation, [known.get(operand.number) for operand in operands])
    return None


def _reach_of(operation: str, operands: Sequence[_Reach | None]) -> _Reach | None:
    if operation in ("floordiv", "mod"):
        return operands[operation == "mod"]
    added = operation in ("add", "sub")
    if not added and operation not in ("minimum", "maximum", "select"):
        return None
    numbers = [n for n in (operands[1:] if operation == "select" else operands) if n is not None]
    if len(numbers) != 2 or (added and all(n.of_register for n in numbers)):
        return None
    steps = [n.step for n in numbers]
    return _Reach(any(n.of_register for n in numbers), sum(steps) if added else max(steps))


def registers_of_uses(body: Sequence[Statement]) -> frozenset[Register]:
    """The registers of which the uses of rings are sums."""
    statements = tuple(statements_in(tuple(body)))
    made = {s.result.number: s for s in statements if isinstance(s, FromIndex | Convert | Compute | Read)}
    indices = {s.symbol: s.operand.number for s in statements if isinstance(s, ToIndex)}
    writes: dict[Register, list[int]] = {}
    for s in statements:
        if isinstance(s, Write):
            writes.setdefault(s.register, []).append(s.value.number)
    pending = [indices[symbol] for use in _uses_in(statements) for symbol in _added(use) if symbol in indices]
    seen, found = set[int](), set[Register]()
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        match made.get(number):
            case Read(_, register):
                found.add(register)
                pending += writes.get(register, [])
            case FromIndex(_, expr):
                pending += [indices[symbol] for symbol in _added(expr) if symbol in indices]
            case Convert(_, operand) | Compute(_, "sub", (operand, _)):
                pending.append(operand.number)
            case Compute(_, "add" | "minimum" | "maximum", operands) | Compute(_, "select", (_, *operands)):
                pending += [operand.number for operand in operands]
            case _:
                pass
    return frozenset(found)


def _uses_in(statements: Sequence[Statement]) -> Iterator[Any]:
    for s in statements:
        match s:
            case MlirOperation(name=barrier_rings.WAIT | barrier_rings.ARRIVE, use=use):
                yield use
            case If(mark=TileCopy(use=use) | ThreadCopies(use=use)) if use is not None:
                yield use
            case _:
                pass


def _added(use: Any) -> Iterator[Symbol]:
    """The symbols of which a number is a sum, with factors."""
    return (term for term in sympy.expand(as_expr(use)).as_coefficients_dict() if term.is_Symbol)
