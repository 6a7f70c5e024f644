"""Rolling: straight-line tile code found to be a loop.

Code for one tile is a `Code`: instructions, whose patterns (masks, shapes, buffers) are fixed, and integers (positions,
trip counts) in the order in which the instructions use them. Where successive tiles have the same instructions and
integers that grow by constant steps, they become one `Repeat`; nothing about structures has to be known for that:

>>> tiles = [Code(("store",), (8 * t, 3)) for t in range(5)]
>>> roll(tiles)
[Code(instructions=(Repeat(body=('store',), arity=2),), integers=(5, 0, 3, 8, 0))]

`Repeat` uses a trip count, its integers in the first round, and their steps; so a repeat of repeats, with trip counts
that grow from round to round as in a triangle, is rolled in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

LEAST_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Code:
    """Instructions and the integers they use, in order."""

    instructions: tuple[Any, ...]
    integers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`body`, which uses `arity` integers, a number of times."""

    body: tuple[Any, ...]
    arity: int


def join(parts: Iterable[Code]) -> Code:
    """One after the other."""
    instructions: list[Any] = []
    integers: list[int] = []
    for part in parts:
        instructions += part.instructions
        integers += part.integers
    return Code(tuple(instructions), tuple(integers))


def roll(codes: Sequence[Code]) -> list[Code]:
    """The same work, with every run of alike codes as one `Repeat`."""
    result: list[Code] = []
    at = 0
    while at < len(codes):
        rounds, step = _run(codes, at)
        first = codes[at]
        if rounds >= LEAST_ROUNDS and first.instructions:
            repeat = Repeat(first.instructions, len(first.integers))
            result.append(Code((repeat,), (rounds, *first.integers, *step)))
        else:
            rounds = 1
            result.append(first)
        at += rounds
    return result


def _run(codes: Sequence[Code], at: int) -> tuple[int, tuple[int, ...]]:
    """How many codes from `at` on are alike, and by what their integers grow."""
    first = codes[at]
    if at + 1 == len(codes) or codes[at + 1].instructions != first.instructions:
        return 1, ()
    step = _step(first, codes[at + 1])
    end = at + 2
    while (
        end < len(codes) and codes[end].instructions == first.instructions and _step(codes[end - 1], codes[end]) == step
    ):
        end += 1
    return end - at, step


def _step(one: Code, other: Code) -> tuple[int, ...]:
    return tuple(b - a for a, b in zip(one.integers, other.integers, strict=True))


# An index that depends on loop variables: a polynomial in them. The constant part has the empty key.
@dataclass(frozen=True, slots=True)
class Index:
    """constant + sum of factor * product of loop variables; the terms are sorted, so equal ones compare equal."""

    constant: int
    terms: tuple[tuple[tuple[str, ...], int], ...] = ()

    def __add__(self, other: Index) -> Index:
        total = dict(self.terms)
        for variables, factor in other.terms:
            total[variables] = total.get(variables, 0) + factor
        kept = tuple(sorted((v, f) for v, f in total.items() if f))
        return Index(self.constant + other.constant, kept)

    def times(self, variable: str) -> Index:
        """Multiplied by a loop variable."""
        terms = [(tuple(sorted((*variables, variable))), factor) for variables, factor in self.terms]
        if self.constant:
            terms.append(((variable,), self.constant))
        return Index(0, tuple(sorted(terms)))


def numbers(integers: Sequence[int]) -> Iterator[Index]:
    """Integers as indices that depend on nothing."""
    return (Index(value) for value in integers)
