"""Tiles of moves in vector registers: whole runs of both sides, permuted by exchanges of two digits at a time.

A tile has the innermost binary digits of the source, up to a register's width, and those of the target. A digit is
either a position inside the registers, 1 << position bits, or one bit of their numbers. Loading puts the source's run
inside; the target's run must be inside when storing. What takes one state to the other is

- `DigitExchange`: a digit of the number for a digit inside. Two registers for two, by shifts and masks below 64 bits,
  by shuffles of words from there on; the only step that moves elements below a byte.
- `BytePermutation`: the order of the bytes inside, one shuffle a register.

A transposition of 4-bit elements is exchanges only, whatever the format:

>>> tile = register_tile(Move(((64, 4, 65536), (128, 16384, 4)), 4, (0, 0)))
>>> tile.width, tile.load_bits, tile.store_bits, 1 << len(tile.numbers), [str(step) for step in tile.steps]
(512, 128, 512, 32, ['2=0', '3=1', '4=2', '5=3', '6=4'])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.formats.field_moves import Digit, Move
from lego_mlir.formats.move_tiles import halves

REGISTER_BITS: Final = 512
"""The widest register of a processor; narrower ones hold a vector in parts."""
MOST_BITS: Final = 32 * REGISTER_BITS
"""Bits of a tile: all registers of AVX-512."""
WORD: Final = 64
"""Bits in which shifts move elements, and that a run keeps if the tile is cut."""
BYTE: Final = 3
"""The lowest position of a byte's digit."""
_Inside = list[Digit | None]


@dataclass(frozen=True, slots=True)
class DigitExchange:
    """A bit of the registers' number for a position inside."""

    number: int
    position: int

    def __str__(self) -> str:
        return f"{self.position}={self.number}"


@dataclass(frozen=True, slots=True)
class BytePermutation:
    """The byte positions inside in another order: `order[k]` comes to position BYTE + k."""

    order: tuple[int, ...]

    def __str__(self) -> str:
        return " ".join(map(str, self.order))


Step = DigitExchange | BytePermutation


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """A tile: registers of `width` bits, each put together of loads of `load_bits` and stored by `store_bits`.

    `numbers` are the digits of a register's number, lowest bit first, and `pieces` those of a load inside it;
    `stored_numbers` and `stored_pieces` are the same after the steps. A digit without a stride on one side is a hole on
    the other: of the source it is dropped, of the target another move's bits, kept by `or`; the move's own elements
    have the value in `holes`. `outer` counts tiles.
    """

    width: int
    load_bits: int
    store_bits: int
    numbers: tuple[Digit, ...]
    pieces: tuple[Digit, ...]
    steps: tuple[Step, ...]
    stored_numbers: tuple[Digit, ...]
    stored_pieces: tuple[Digit, ...]
    outer: tuple[Digit, ...]
    holes: tuple[tuple[Digit, int], ...] = ()

    @property
    def is_added(self) -> bool:
        """Whether bytes of the target belong to several moves, so that a store is an `or`."""
        return any(not source for (_, source, _), _ in self.holes)

    def byte(self, digits: Sequence[Digit], number: int, side: int) -> int | None:
        """The offset of a register or piece with this number on a side; None for one in a hole."""
        total, values = 0, dict(self.holes)
        for k, digit in enumerate(digits):
            bit = number >> k & 1
            if not digit[side] and bit != values[digit]:
                return None
            total += bit * digit[side]
        return total // 8


def register_tile(move: Move) -> RegisterTile | None:
    """The tile of a move; None for elements that no power of two divides into bytes."""
    cut, bits = halves(move.digits), move.unit.bit_length() - 1
    reads, writes = _run(cut, 1, move.unit), _run(cut, 2, move.unit)
    if reads is None or writes is None:
        return None
    while move.unit << len({*reads, *writes}) > MOST_BITS:
        longer = reads if move.unit << len(reads) > WORD and set(reads) - set(writes) else writes
        longer.pop()
    inside = {*reads, *writes}
    rest = sorted((d for d in cut if d not in inside), key=lambda d: d[2])
    width = bits + max(len(reads), len(writes))
    if reads[: BYTE - bits] != writes[: BYTE - bits] and bits + len(inside) == width:  # exchanges need two registers
        extra = next((d for d in rest if d[0] == 2), None)
        if extra is None:
            width -= 1
        else:
            inside.add(extra)
            rest.remove(extra)
    holes = tuple((d, move.start[1 if d[2] else 0] // max(d[1:]) % 2) for d in sorted(inside) if not all(d[1:]))
    if width < BYTE or any(s % 8 or t % 8 for _, s, t in rest) or not _begins_in_holes(move, holes):
        return None
    reads, writes = reads[: width - bits], writes[: width - bits]
    load_digits, store_digits = len(reads), len(writes)
    _fill(reads, writes, inside, width - bits)
    _fill(writes, reads, inside, width - bits)
    numbers = sorted((d for d in inside if d not in reads), key=lambda d: d[2])
    stored_numbers = list(numbers)
    steps = _steps([*[None] * bits, *reads], stored_numbers, [*[None] * bits, *writes])
    return RegisterTile(
        1 << width, move.unit << load_digits, move.unit << store_digits, tuple(numbers), tuple(reads[load_digits:]),
        steps, tuple(stored_numbers), tuple(writes[store_digits:]), tuple(rest), holes,
    )  # fmt: skip


def _begins_in_holes(move: Move, holes: Sequence[tuple[Digit, int]]) -> bool:
    """Whether a move begins at whole bytes but for its place among the elements of others."""
    inside = [sum(d[side] * value for d, value in holes if not d[3 - side]) for side in (1, 2)]
    return [start % 8 for start in move.start] == inside


def _run(cut: Sequence[Digit], side: int, unit: int) -> list[Digit] | None:
    """The binary digits of a run on one side, up to a register, with holes inside bytes; None for others there."""
    found, reach = list[Digit](), unit
    while reach < REGISTER_BITS:
        digit = next((d for d in cut if d[0] == 2 and d[side] == reach), None)
        if digit is None:
            if reach >= 8:
                break
            if any(d[side] < 2 * reach for d in cut if d not in found):
                return None
            digit = (2, reach, 0) if side == 1 else (2, 0, reach)
        found.append(digit)
        reach *= 2
    return found


def _fill(short: list[Digit], other: Sequence[Digit], inside: set[Digit], count: int) -> None:
    """Positions above a short run, filled with digits that the other side has there, or has inside at all."""
    while len(short) < count:
        left = [d for d in other if d not in short] or sorted((d for d in inside if d not in short), key=lambda d: d[2])
        there = other[len(short)] if len(short) < len(other) else None
        short.append(there if there in left else left[-1])


def _steps(inside: _Inside, numbers: list[Digit], goal: Sequence[Digit | None]) -> tuple[Step, ...]:
    """The steps from one state to `goal`; both lists are left as they are after them."""
    steps: list[Step] = []

    def exchange(number: int, position: int) -> None:
        found = inside[position]
        assert found is not None, "the bits of an element stay where they are"
        inside[position], numbers[number] = numbers[number], found
        steps.append(DigitExchange(number, position))

    def entering(position: int) -> int:
        """The number whose digit had best come to a position."""
        wanted = [d == goal[position] for d in numbers]
        return wanted.index(True) if True in wanted else next((k for k, d in enumerate(numbers) if d in goal), 0)

    for position in range(min(BYTE, len(goal))):
        want = goal[position]
        if want is None or inside[position] == want:
            continue
        if want not in numbers:
            at = inside.index(want)
            exchange(entering(at), at)
        exchange(numbers.index(want), position)
    for natural in (True, False):
        for number, digit in enumerate(numbers):
            if digit in goal:
                leaving = [p for p, d in enumerate(inside) if d is not None and d not in goal]
                at = goal.index(digit)
                if at in leaving or not natural:
                    exchange(number, at if at in leaving else leaving[-1])
    if inside != list(goal):
        order = [p if d is None else inside.index(d) for p, d in enumerate(goal)]
        steps.append(BytePermutation(tuple(order[BYTE:])))
        inside[:] = goal
    return tuple(steps)
