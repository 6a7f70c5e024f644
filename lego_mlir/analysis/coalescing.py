"""Global memory: how many 32-byte sectors a warp's request moves, and how few could hold what it asked for.

Memory moves in sectors of 32 bytes. One load or store instruction of a warp moves every sector that at least one lane
touches, whole; two lanes in one sector share it. So `sectors` against `ideal` (the distinct bytes asked for, packed)
is how well a request is coalesced, and nothing else matters within the request: not the order of the lanes.

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

Array = np.ndarray[Any, Any]

SECTOR_BYTES: Final = 32
WIDEST_ACCESS: Final = 16
"""Bytes of the widest load or store instruction of a lane (128 bits)."""


@dataclass(frozen=True, slots=True)
class Requests:
    """For each warp: sectors moved, the fewest that would do; and over all of them, the widest possible access."""

    sectors: Array
    ideal: Array
    widest: int


def requests(address: Array, width: int, active: Array | None = None, *, look_for_wider: bool = True) -> Requests:
    """The sectors of each warp's request: `address` is `(..., 32)` in bytes, each lane wanting `width` bytes from it.

    `widest` is the largest power of two w, at most 16, such that the bytes of every request are whole aligned chunks of
    w: the width that the lanes could use if they shared the same bytes out differently.
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
        spill &= next_first != sector  # the last lane of a sector decides whether the next one is begun
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
