"""Programs of agents without the values that no wait, arrival or access depends on.

    total.set(total + x)                                  a register of data: left out
    used.set(used + rounds);  full[used].wait()           kept, with all that `used` is computed from

Most integers and conditions of a kernel are masks and sums of data. What they are before and after each loop and branch
takes longer to state than the few that decide a use, a place, a number of rounds or which side of a branch is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from lego_mlir.aliases import Symbol
from lego_mlir.proofs.rings.agents import (
    FromRoundBefore,
    Let,
    ProgramPart,
    RingBranch,
    RingLoop,
    RingWord,
    StageAccess,
    Unfollowed,
)


def without_unneeded(program: Sequence[ProgramPart]) -> tuple[ProgramPart, ...]:
    """The program with those values alone that its events depend on."""
    needed: set[Symbol] = set()
    while True:
        kept = tuple(_kept(program, needed))
        more = set(_read(kept)) - needed
        if not more:
            return kept
        needed |= more


def _kept(parts: Sequence[ProgramPart], needed: set[Symbol]) -> Iterator[ProgramPart]:
    """The events, the needed values, and the loops and branches around them."""
    for part in parts:
        match part:
            case Let(symbol=symbol, counts=counts):
                if symbol in needed or counts:  # sums with what is read have been taken for exact ones
                    yield part
            case Unfollowed(registers=registers):
                if not registers or registers & needed:
                    yield replace(part, registers=registers & needed)
            case RingLoop(body=body):
                if inner := tuple(_kept(body, needed)):
                    yield replace(part, body=inner)
            case RingBranch(then=then, otherwise=otherwise):
                sides = tuple(_kept(then, needed)), tuple(_kept(otherwise, needed))
                if any(sides):
                    yield replace(part, then=sides[0], otherwise=sides[1])
            case _:
                yield part


def _read(parts: Sequence[ProgramPart]) -> Iterator[Symbol]:
    """The symbols that a program reads."""
    for part in parts:
        read: tuple[Any, ...] = ()
        match part:
            case Let(value=value):
                read = (value,)
            case RingWord(use=use):
                read = (use,)
            case StageAccess() | FromRoundBefore():
                access = part.access if isinstance(part, FromRoundBefore) else part
                read = access.row, access.use, *(access.columns or ())
            case RingLoop(lo=lo, hi=hi, step=step, body=body):
                read = lo, hi, step
                yield from _read(body)
            case RingBranch(condition=condition, then=then, otherwise=otherwise):
                read = (condition,)
                yield from _read((*then, *otherwise))
            case _:
                pass
        for expr in read:
            yield from getattr(expr, "free_symbols", ())
