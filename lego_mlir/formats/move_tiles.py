"""Tiles of moves: what one block of threads reads in runs of the source, and writes in runs of the target.

A tile has the innermost digits of both sides, so its runs are cache lines there and here. A thread loads chunks
of up to 16 bytes, permutes their bits in registers into words of the target, and scatters the words into shared memory
in the order of the target; then the tile is stored, 16 bytes a thread. Fields of one record share a tile, which is
records one after the other, so no two blocks write one sector.

>>> tile = tile_of(Move(((4096, 4, 65536), (16384, 16384, 4)), 4, (0, 0)))  # a transposition of 4-bit elements
>>> part = tile.parts[0]
>>> part.chunk, part.width, tile.bits // 8, tile.blocks
(128, 32, 32768, 1024)
>>> part.words[0][0][:2]  # (load, word of the load, bits to the right, mask): one element of each of eight rows
((0, 0, 0, 15), (1, 0, -4, 240))
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Final

from lego_mlir.formats.field_moves import UNIT_BITS, Digit, Move
from lego_mlir.hardware.devices import reference
from lego_mlir.hardware.memory import LINE_BYTES
from lego_mlir.layout.canonical import unflatten

FITTED: Final = reference("moves")
RUN_BITS: Final[int] = 8 * LINE_BYTES * FITTED["run_lines"]
"""Runs of a tile on both sides."""
TILE_BITS: Final[int] = 8 * FITTED["tile_bytes"]
"""Bits that a tile grows to, so that each of a block's threads has work."""
MOST_TILE_BITS: Final[int] = 8 * FITTED["most_tile_bytes"]
MOST_REGISTER_BITS: Final = 32 * 32
"""Bits that a thread permutes in registers."""
WORD_BITS: Final = 32
LANES: Final = 32
BANKS: Final = 32
Source = tuple[int, int, int, int]
"""Bits of a word: the load, its word, how far to shift to the right, and the mask after that."""


@dataclass(frozen=True, slots=True)
class TilePart:
    """One field of a tile: its loads, the words that they make, and where in the tile these go.

    `items` are digits of (size, source stride, position in the tile), innermost first; each item is the work of a
    thread. `loads` are source offsets of chunks, `scatters` positions of vectors of `width` bits, `words` what each
    word of these is made of. All in bits.
    """

    move: int
    start: int
    outer: tuple[Digit, ...]
    items: tuple[Digit, ...]
    chunk: int
    width: int
    loads: tuple[int, ...]
    scatters: tuple[int, ...]
    words: tuple[tuple[tuple[Source, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class MoveTile:
    """A tile of one target buffer: its parts, and the digits (size, position in the tile, target stride) of its order.

    `outer` counts tiles, (size, target stride); `phase` is the number of lines after which the swizzle of shared memory
    changes, None for none.
    """

    parts: tuple[TilePart, ...]
    outer: tuple[tuple[int, int], ...]
    start: int
    stored: tuple[Digit, ...]
    store: int
    bits: int
    phase: int | None = None

    @property
    def blocks(self) -> int:
        """The number of tiles."""
        return prod(n for n, _ in self.outer)

    @property
    def word(self) -> int:
        """The bits of a word that every part's scatters are made of."""
        return min(WORD_BITS, *(part.width for part in self.parts))


def halves(digits: Iterable[Digit]) -> list[Digit]:
    """Digits cut into factors of 2, and one odd factor outermost."""
    found = []
    for n, s, t in digits:
        while n % 2 == 0:
            found.append((2, s, t))
            n, s, t = n // 2, 2 * s, 2 * t
        if n > 1:
            found.append((n, s, t))
    return found


def dense(digits: Iterable[Digit], side: int, first: int, goal: int) -> tuple[list[Digit], int]:
    """The digits that are dense on one side from the unit `first` on, up to `goal` bits, and the bits they reach."""
    found, reach = [], first
    for digit in sorted(digits, key=lambda d: d[side]):
        if reach >= goal or digit[side] != reach:
            break
        found.append(digit)
        reach *= digit[0]
    return found, reach


def is_direct(move: Move) -> bool:
    """Whether runs of whole lines are the same on both sides, which need no tile."""
    return move.unit == UNIT_BITS and (
        not move.digits
        or (move.digits[-1][1:] == (UNIT_BITS, UNIT_BITS) and move.digits[-1][0] * UNIT_BITS >= RUN_BITS)
    )


def tile_of(move: Move, number: int = 0) -> MoveTile | None:
    """The tile of one move; None where the elements of no byte are together in a tile of limited size."""
    cut = halves(move.digits)
    if move.unit & (move.unit - 1):
        return None
    for run_bits in (RUN_BITS, RUN_BITS // 2, RUN_BITS // 4):
        inside = _unique(digit for side in (1, 2) for digit in dense(cut, side, move.unit, run_bits)[0])
        if move.unit * prod(d[0] for d in inside) <= MOST_TILE_BITS:
            break
    for side, goal in ((2, TILE_BITS), (1, TILE_BITS // 2), (2, TILE_BITS)):
        for digit in sorted(cut, key=lambda d: d[side]):
            bits = move.unit * prod(d[0] for d in inside)
            if digit not in inside and bits < goal and bits * digit[0] <= MOST_TILE_BITS:
                inside.append(digit)
    stored, position = [], move.unit
    for n, s, t in sorted(inside, key=lambda d: d[2]):
        stored.append((n, s, t, position))
        position *= n
    outside = [d for d in cut if d not in inside]
    outer = joined(sorted(outside, key=lambda d: -d[2]))
    part = _part(move, number, tuple(outer), [(n, s, p) for n, s, _, p in stored], 0)
    run, reach = dense(inside, 2, move.unit, UNIT_BITS)
    store = gcd(min(UNIT_BITS, reach & -reach), move.start[1], *(d[2] for d in cut if d not in run))
    if part is None or position > MOST_TILE_BITS or store < 8:
        return None
    tile = MoveTile(
        (part,),
        tuple((n, t) for n, _, t in outer),
        move.start[1],
        tuple((n, p, t) for n, _, t, p in stored),
        store,
        position,
    )
    return _swizzled(tile)


def tile_of_records(moves: Mapping[int, Move]) -> MoveTile | None:
    """The tile of the fields of one record, by their numbers; None where they do not fill it, or need no tile."""
    if any(not m.digits for m in moves.values()):
        return None
    (records, _, size), *others = (m.digits[0] for m in moves.values())
    if any((n, t) != (records, size) for n, _, t in others) or size % 8:
        return None
    inner = {k: Move(m.digits[1:], m.unit, m.start) for k, m in moves.items()}
    if all(map(is_direct, moves.values())) and size % RUN_BITS == 0:
        return None
    if sum(m.bits for m in inner.values()) != size or any(m.start[1] + m.bits > size for m in inner.values()):
        return None
    together = next(
        (n for n in (1 << k for k in range(11, -1, -1))
         if records % n == 0 and n * size % UNIT_BITS == 0 and n * size <= TILE_BITS), None
    )  # fmt: skip
    if together is None:
        return None
    parts = []
    for k, m in moves.items():
        _, s, _ = m.digits[0]
        outer = ((records // together, together * s, together * size),)
        digits = halves([(together, s, size), *m.digits[1:]])
        part = _part(m, k, outer, digits, m.start[1])
        if part is None:
            return None
        parts.append(part)
    units = together * size // UNIT_BITS
    return MoveTile(
        tuple(parts),
        ((records // together, together * size),),
        0,
        ((units, UNIT_BITS, UNIT_BITS),),
        UNIT_BITS,
        together * size,
    )


def _unique(digits: Iterable[Digit]) -> list[Digit]:
    return list(dict.fromkeys(digits))


def joined(digits: Sequence[Digit], side: int | None = None) -> list[Digit]:
    """Digits, outermost first, with those that are dense in each other on both sides as one.

    With the side that has positions in a tile, none reaches over a line.
    """
    found: list[Digit] = []
    for n, s, t in digits:
        if found and found[-1][1:] == (n * s, n * t) and (side is None or found[-1][side] != RUN_BITS):
            found[-1] = (found[-1][0] * n, s, t)
        else:
            found.append((n, s, t))
    return found


def _part(move: Move, number: int, outer: tuple[Digit, ...], inside: Sequence[Digit], base: int) -> TilePart | None:
    """A field of a tile; `inside` are digits of (size, source stride, position in the tile)."""
    for most, least in itertools.product((UNIT_BITS, 64, 32, 16, 8), (WORD_BITS, 16, 8)):
        if most < min(move.unit, UNIT_BITS):
            break
        read, reach = dense(inside, 1, move.unit, max(most, move.unit))
        chunk = _chunk(read, reach, move, [*(s for _, s, _ in inside), *(s for _, s, _ in outer)])
        written, run = dense(inside, 2, move.unit, max(least, move.unit))
        if run & -run < least:  # elements of 6 bits fill bytes by threes
            written, run = dense(inside, 2, move.unit, 3 * least)
        width = min(run & -run, max(least, move.unit))
        others = [p for n, _, p in inside if (n, _, p) not in written]
        if chunk < 8 or width < 8 or any(x % width for x in (base, *others)):
            continue
        held = _unique(read + written)
        if move.unit * prod(d[0] for d in held) > MOST_REGISTER_BITS:
            continue
        return _registers(move, number, outer, inside, base, (read, chunk), (written, width), held)
    return None


def _chunk(read: Sequence[Digit], reach: int, move: Move, strides: Iterable[int]) -> int:
    """The bits of a load: a power of two at which all loads begin."""
    inner = {s for _, s, _ in read}
    return gcd(min(UNIT_BITS, reach & -reach), move.start[0], *(s for s in strides if s not in inner))


def _registers(
    move: Move, number: int, outer: tuple[Digit, ...], inside: Sequence[Digit], base: int,
    read: tuple[list[Digit], int], written: tuple[list[Digit], int], held: list[Digit],
) -> TilePart | None:  # fmt: skip
    chunk, width = read[1], written[1]
    from_word, to_word = min(WORD_BITS, chunk), min(WORD_BITS, width)
    atom = min(move.unit, from_word, to_word)
    places: dict[int, tuple[int, int]] = {}  # position in the tile -> (source offset of a chunk, bit in it)
    for values in itertools.product(*(range(n) for n, _, _ in held)):
        there = sum(v * s for v, (_, s, _) in zip(values, held, strict=True))
        here = sum(v * p for v, (_, _, p) in zip(values, held, strict=True))
        for bit in range(0, move.unit, atom):
            places[here + bit] = ((there + bit) // chunk * chunk, (there + bit) % chunk)
    loads = sorted({load for load, _ in places.values()})
    order = {load: k for k, load in enumerate(loads)}
    scatters = sorted({p // width * width for p in places})
    words = []
    for first in scatters:
        vector = []
        for begin in range(first, first + width, to_word):
            masks: dict[tuple[int, int, int], int] = {}
            for bit in range(0, to_word, atom):
                load, place = places[begin + bit]
                key = (order[load], place // from_word, place % from_word - bit)
                masks[key] = masks.get(key, 0) | ((1 << atom) - 1) << bit
            vector.append(tuple((*key, mask) for key, mask in masks.items()))
        words.append(tuple(vector))
    lanes = [d for d in inside if d not in held]
    along = [d for d in dense(inside, 1, move.unit, RUN_BITS)[0] if d in lanes]
    others = sorted((d for d in lanes if d not in along), key=lambda d: d[2])
    items = joined([*reversed(others), *reversed(along)], side=2)[::-1]
    return TilePart(
        number,
        move.start[0],
        outer,
        tuple(items),
        chunk,
        width,
        tuple(loads),
        tuple(base + p for p in scatters),
        tuple(words),
    )


# -- the swizzle of shared memory


def _swizzled(tile: MoveTile) -> MoveTile:
    """The tile with the swizzle whose scatters have the fewest conflicts of banks, or none where that is as good."""
    lines = tile.bits // RUN_BITS
    if tile.bits % RUN_BITS or any(p < RUN_BITS < p * n or (p > RUN_BITS and p % RUN_BITS) for n, p, _ in tile.stored):
        return tile
    phases = [None, *(1 << k for k in range(lines.bit_length() - 1))]
    return min((replace(tile, phase=phase) for phase in phases), key=conflicts)


def conflicts(tile: MoveTile) -> int:
    """The words that the busiest bank takes, added over the scatters of the first warp."""
    return sum(_busiest(tile, part, first) for part in tile.parts for first in part.scatters)


def _busiest(tile: MoveTile, part: TilePart, first: int) -> int:
    sizes = [n for n, _, _ in reversed(part.items)]
    lanes = min(LANES, prod(sizes), max(1, LANES * WORD_BITS // max(part.width, WORD_BITS)))
    banks: dict[int, set[int]] = {}
    for lane in range(lanes):
        values = unflatten(lane, sizes) if sizes else ()
        place = first + sum(int(v) * p for v, (_, _, p) in zip(values, reversed(part.items), strict=True))
        if tile.phase is not None:
            line, within = divmod(place, RUN_BITS)
            place = line * RUN_BITS + (within ^ line // tile.phase % (RUN_BITS // UNIT_BITS) * UNIT_BITS)
        for word in range(place // WORD_BITS, (place + max(part.width, WORD_BITS) - 1) // WORD_BITS + 1):
            banks.setdefault(word % BANKS, set()).add(word)
    return max(len(words) for words in banks.values())
