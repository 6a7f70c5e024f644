"""Global memory: the 32-byte sectors that a warp's request moves, and the minimum that could hold the same bytes.

Memory moves in sectors of 32 bytes. One load or store instruction of a warp moves every sector that at least one lane
touches, whole; two lanes in one sector share it. So `sectors` against `ideal` (the distinct bytes requested, packed)
measures how well a request is coalesced; the order of the lanes within the request does not matter.

Source: CUDA C++ Programming Guide, "Device Memory Accesses" (32-byte transactions, naturally aligned); CUDA C++ Best
Practices Guide, "Coalesced Access to Global Memory".

>>> import numpy as np
>>> lane = np.arange(32)
>>> requests(4 * lane, 4).sectors, requests(8 * lane, 4).sectors, requests(128 * lane, 4).sectors
(array(4), array(8), array(32))
>>> requests(8 * lane, 4).ideal
array(4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lego_mlir.hardware.memory import SECTOR_BYTES, WIDEST_ACCESS

Array = np.ndarray[Any, Any]

_NOWHERE: Final = np.int64(-(1 << 62))


@dataclass(frozen=True, slots=True)
class Requests:
    """For each warp the sectors moved and the minimum; over all warps the widest possible access."""

    sectors: Array
    ideal: Array
    widest: int


def requests(address: Array, width: int, active: Array | None = None, *, look_for_wider: bool = True) -> Requests:
    """The sectors of each warp's request: `address` is `(..., 32)` in bytes, each lane accessing `width` bytes.

    `widest` is the largest power of two w, at most 16, such that the bytes of every request are whole aligned chunks of
    w: the access width possible if the same bytes were distributed differently over the lanes.
    """
    address = np.asarray(address, np.int64)
    if active is not None:
        address = np.where(active, address, -1 - SECTOR_BYTES)
    if not (address[..., 1:] >= address[..., :-1]).all():
        address = np.sort(address, axis=-1)
    real = None if active is None else address >= 0
    sector = address // SECTOR_BYTES
    moved = _distinct(sector, real)
    if width > 1 and not (address % width == 0).all():
        spill = (address + width - 1) // SECTOR_BYTES > sector
        next_first = np.concatenate([sector[..., 1:], np.full((*sector.shape[:-1], 1), -9)], axis=-1)
        spill &= next_first != sector  # only the last lane in a sector can spill into a new one
        spill &= next_first != sector + 1
        moved = moved + (spill if real is None else spill & real).sum(axis=-1)
    asked = _distinct(address, real) * width
    ideal = -(-asked // SECTOR_BYTES)
    widest = _widest(address, width, asked, real) if look_for_wider else width
    return Requests(np.asarray(moved), np.asarray(ideal), widest)


def _distinct(ascending: Array, real: Array | None) -> Array:
    """Distinct values along the last, sorted axis, of those that are real."""
    first = np.ones(ascending.shape, bool)
    np.not_equal(ascending[..., 1:], ascending[..., :-1], out=first[..., 1:])
    return np.asarray((first if real is None else first & real).sum(axis=-1))


def _widest(address: Array, width: int, asked: Array, real: Array | None) -> int:
    chunk = WIDEST_ACCESS
    while chunk > width:
        if (_distinct(address // chunk, real) * chunk == asked).all():
            return chunk
        chunk //= 2
    return width


@dataclass(frozen=True, slots=True)
class Segments:
    """Contiguous segments of some requests: their number, their bytes, and two sector counts.

    `packed` sectors could hold the bytes of each request; `apart` counts the sectors of separate, aligned segments. If
    `apart` is not larger, the lanes are well grouped, and sectors moved beyond it are due to misaligned segments.

    >>> import numpy as np
    >>> lane = np.arange(32)
    >>> segments(4 * lane + 4, 4)
    Segments(count=1, bytes=128, packed=4, apart=4)
    >>> segments(128 * lane, 4)
    Segments(count=32, bytes=128, packed=4, apart=32)
    """

    count: int
    bytes: int
    packed: int
    apart: int

    def __add__(self, other: Segments) -> Segments:
        return Segments(
            self.count + other.count, self.bytes + other.bytes, self.packed + other.packed, self.apart + other.apart
        )


def segments(address: Array, width: int, active: Array | None = None) -> Segments:
    """The contiguous segments in requests of `(..., 32)` byte addresses, `width` bytes a lane."""
    address = np.asarray(address, np.int64)
    if active is not None:
        address = np.where(active, address, _NOWHERE)
    rows = np.sort(address.reshape(-1, address.shape[-1]), axis=-1)
    real = rows > _NOWHERE
    begins = real.copy()
    begins[:, 1:] &= (rows[:, 1:] > rows[:, :-1] + width) | ~real[:, :-1]
    ends = real.copy()
    ends[:, :-1] &= begins[:, 1:]
    length = rows[ends] + width - rows[begins]
    of_row = np.bincount(begins.nonzero()[0], weights=length).astype(np.int64)
    packed, apart = (int((-(-n // SECTOR_BYTES)).sum()) for n in (of_row, length))
    return Segments(len(length), int(length.sum()), packed, apart)
