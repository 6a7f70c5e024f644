"""Loop rolling: straight-line tile code turned back into loops.

The code of a tile is a `Code`: instructions with fixed patterns (masks, shapes, buffers), and integers (positions, trip
counts) in order of use. Successive tiles with equal instructions and integers that grow by constant steps become one
`Repeat`; no knowledge of structures is needed:

>>> tiles = [Code(("store",), (8 * t, 3)) for t in range(5)]
>>> roll(tiles)
[Code(instructions=(Repeat(body=('store',), arity=2),), integers=(5, 0, 3, 8, 0))]

`Repeat` uses a trip count, the integers of its first iteration, and their steps; so nested repeats, with trip counts
that grow as in a triangle, roll in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LEAST_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Code:
    """Instructions and the integers they use, in order.

    `counted` lists the index of each trip count and the number of positions after it: with a trip count of 1, steps are
    arbitrary.
    """

    instructions: tuple[Any, ...]
    integers: tuple[int, ...]
    counted: tuple[tuple[int, int], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Placed:
    """An instruction and the positions of its operands, in groups relative to the first of each group.

    Uses one integer per group, the first position. If `counted`, the instruction repeats: it uses a trip count, the
    first positions, and their increments per iteration; `strides` are additional increments of the other positions of a
    group, all zero for regular storage.
    """

    what: Any
    groups: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...] = ()
    counted: bool = False


def placed(what: object, groups: Sequence[Sequence[int]]) -> Code:
    """An instruction that runs once at these positions."""
    used = [group for group in groups if group]
    relative = tuple(tuple(position - group[0] for position in group) for group in used)
    return Code((Placed(what, relative),), tuple(group[0] for group in used))


def counted(what: object, count: int, groups: Sequence[Sequence[int]], steps: Sequence[Sequence[int]]) -> Code:
    """An instruction that runs `count` times, with positions advancing by `steps`."""
    used = [pair for pair in zip(groups, steps, strict=True) if pair[0]]
    relative = tuple(tuple(position - group[0] for position in group) for group, _ in used)
    strides = tuple(tuple(one - step[0] for one in step) for _, step in used)
    integers = (count, *(group[0] for group, _ in used), *(step[0] for _, step in used))
    return Code((Placed(what, relative, strides, True),), integers, ((0, len(used)),))


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop over `body`, which uses `arity` integers."""

    body: tuple[Any, ...]
    arity: int


@dataclass(frozen=True, slots=True)
class TileCall:
    """A call of `body` as a function of the tile coordinates (i, j); integer n is base + i * down + j * across.

    Uses two integers, i and j."""

    body: tuple[Any, ...]
    base: tuple[int, ...]
    down: tuple[int, ...]
    across: tuple[int, ...]


def share(tiles: Sequence[tuple[int, int, Code]]) -> list[Code]:
    """Replace tiles that have equal instructions by calls of one function, if an affine map gives all their integers.

    >>> share([(i, j, Code(("store",), (10 * i + j,))) for i in range(2) for j in range(2)])[3]
    Code(instructions=(TileCall(body=('store',), base=(0,), down=(10,), across=(1,)),), integers=(1, 1))
    """
    alike: dict[tuple[Any, ...], list[int]] = {}
    for number, (_, _, code) in enumerate(tiles):
        alike.setdefault(code.instructions, []).append(number)
    result = [code for _, _, code in tiles]
    for numbers_of in alike.values():
        call = _fit([tiles[number] for number in numbers_of]) if len(numbers_of) > 1 else None
        if call is not None:
            for number in numbers_of:
                result[number] = Code((call,), tiles[number][:2])
    return result


def _fit(tiles: Sequence[tuple[int, int, Code]]) -> TileCall | None:
    """The affine map from (i, j) to the integers of all tiles; None if there is none with integer coefficients."""
    places = np.array([(i, j) for i, j, _ in tiles], np.int64)
    values = np.array([code.integers for _, _, code in tiles], np.int64)
    for at, positions in tiles[0][2].counted:
        longest = int(np.argmax(values[:, at]))
        steps = slice(at + 1 + positions, at + 1 + 2 * positions)
        values[values[:, at] == 1, steps] = values[longest, steps]
    moves, changes = places - places[0], values - values[0]
    chosen: list[int] = []
    for row in range(1, len(tiles)):
        if len(chosen) < 2 and np.linalg.matrix_rank(moves[[*chosen, row]]) > len(chosen):
            chosen.append(row)
    slopes = np.zeros((2, values.shape[1]))
    if chosen:
        # for tiles on one line the least-norm solution would mix i and j: use i alone
        axes = [0, 1] if len(chosen) == 2 else [0 if moves[chosen[0], 0] else 1]
        slopes[axes] = np.linalg.solve(moves[np.ix_(chosen, axes)].astype(float), changes[chosen].astype(float))
    whole = np.rint(slopes).astype(np.int64)
    if not np.array_equal(moves @ whole, changes):
        return None
    base = values[0] - places[0] @ whole
    return TileCall(tiles[0][2].instructions, tuple(base.tolist()), tuple(whole[0].tolist()), tuple(whole[1].tolist()))


def join(parts: Iterable[Code]) -> Code:
    """Concatenate codes."""
    instructions: list[Any] = []
    integers: list[int] = []
    found: list[tuple[int, int]] = []
    for part in parts:
        found += [(len(integers) + at, positions) for at, positions in part.counted]
        instructions += part.instructions
        integers += part.integers
    return Code(tuple(instructions), tuple(integers), tuple(found))


def roll(codes: Sequence[Code]) -> list[Code]:
    """Equivalent code, with each sequence of equal codes as one `Repeat`."""
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
    """The number of equal codes from `at` on, and the step of their integers."""
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


@dataclass(frozen=True, slots=True)
class LoopPolynomial:
    """An index: constant + sum of factor * product of loop variables. Terms are sorted, so equal polynomials compare
    equal."""

    constant: int
    terms: tuple[tuple[tuple[str, ...], int], ...] = ()

    def __add__(self, other: LoopPolynomial) -> LoopPolynomial:
        total = dict(self.terms)
        for variables, factor in other.terms:
            total[variables] = total.get(variables, 0) + factor
        kept = tuple(sorted((v, f) for v, f in total.items() if f))
        return LoopPolynomial(self.constant + other.constant, kept)

    def scaled(self, factor: int) -> LoopPolynomial:
        """Multiplied by a number."""
        terms = tuple((variables, one * factor) for variables, one in self.terms) if factor else ()
        return LoopPolynomial(self.constant * factor, terms)

    def times(self, variable: str) -> LoopPolynomial:
        """Multiplied by a loop variable."""
        terms = [(tuple(sorted((*variables, variable))), factor) for variables, factor in self.terms]
        if self.constant:
            terms.append(((variable,), self.constant))
        return LoopPolynomial(0, tuple(sorted(terms)))


def numbers(integers: Sequence[int]) -> Iterator[LoopPolynomial]:
    """Integers as constant indices."""
    return (LoopPolynomial(value) for value in integers)
