"""Other placements of a shared array that take fewer wavefronts: rows with padding, or with exchanged columns.

A column of 32 rows of 128 bytes lies in one bank. With 4 bytes more a row, or with column XOR row, it lies in all:

    offset 128 * row + 4 * column  -->  132 * row + 4 * column      float tile[32][33]
                                   -->  128 * row + 4 * (column ^ row % 32)

All recorded requests of the array are counted under each placement, reads and writes together, so that a remedy of one
line costs no other.

>>> lanes = np.arange(32)
>>> column = SharedRequests(4, np.array([128 * lanes]), np.ones((1, 32), bool))
>>> row = SharedRequests(4, np.array([4 * lanes]), np.ones((1, 32), bool))
>>> str(best_placement([column, row]))
'rows of 128 bytes with 4 bytes of padding (32 elements of 4 bytes as 33)'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware import banks

PITCHES: Final = (64, 128, 256, 512, 1024)
"""Bytes of a row that are tried besides the distances between the lanes of a request."""
SHORTEST_ROW: Final = 32


@dataclass(frozen=True, slots=True)
class SharedRequests:
    """Requests of one line for an array: `width` bytes a lane at `at` (requests, 32) from its start, where `active`."""

    width: int
    at: IntArray
    active: Array

    def wavefronts(self, at: IntArray) -> int:
        """Of all the requests, at other positions."""
        return int(banks.wavefronts_per_pass(at, self.width, self.active).sum())


@dataclass(frozen=True, slots=True)
class Padding:
    """`extra` bytes after each row of `pitch` bytes; elements have `width` bytes."""

    pitch: int
    extra: int
    width: int

    def moved(self, at: IntArray) -> IntArray:
        """Where the bytes at these positions are then."""
        return at + at // self.pitch * self.extra

    def __str__(self) -> str:
        columns = self.pitch // self.width
        return (
            f"rows of {self.pitch} bytes with {self.extra} bytes of padding ({columns} elements of {self.width} bytes "
            f"as {columns + self.extra // self.width})"
        )


@dataclass(frozen=True, slots=True)
class ColumnExchange:
    """Elements of `width` bytes at column XOR row in rows of `pitch` bytes, a power of two."""

    pitch: int
    width: int

    def moved(self, at: IntArray) -> IntArray:
        """Where the bytes at these positions are then."""
        columns = self.pitch // self.width
        return at ^ (at // self.pitch % columns * self.width)

    def __str__(self) -> str:
        return f"element (row, column) at column ^ row % {self.pitch // self.width}, in rows of {self.pitch} bytes"


SharedPlacement = Padding | ColumnExchange


def best_placement(requests: Sequence[SharedRequests]) -> SharedPlacement | None:
    """The placement with the fewest wavefronts, padding before exchange; None if none has fewer than now."""
    least = sum(request.wavefronts(request.at) for request in requests)
    best: SharedPlacement | None = None
    for placement in _candidates(requests):
        count = sum(request.wavefronts(placement.moved(request.at)) for request in requests)
        if count < least:
            least, best = count, placement
    return best


def _candidates(requests: Sequence[SharedRequests]) -> Iterator[SharedPlacement]:
    width = max(request.width for request in requests)
    pitches = sorted({*PITCHES, *_distances(requests)})
    rows = [pitch for pitch in pitches if pitch >= SHORTEST_ROW and pitch % width == 0]
    yield from (Padding(pitch, width, width) for pitch in rows)
    yield from (Padding(pitch, 2 * width, width) for pitch in rows)
    yield from (ColumnExchange(pitch, width) for pitch in rows if pitch & (pitch - 1) == 0)


def _distances(requests: Sequence[SharedRequests]) -> set[int]:
    """Between lanes beside each other."""
    found: set[int] = set()
    for request in requests:
        both = request.active[:, 1:] & request.active[:, :-1]
        found |= set(map(int, np.unique(np.abs(np.diff(request.at, axis=1))[both])))
    return found
