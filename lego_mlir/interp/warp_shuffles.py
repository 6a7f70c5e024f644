"""Exchange among the lanes of a warp, for both interpreters: shuffles, votes and matches on arrays of (.., 32).

`live` are the lanes that take part. PTX ISA, "shfl.sync", "vote.sync", "match.sync".

>>> votes = np.arange(32) % 2 == 0
>>> hex(int(VOTES["ballot"](votes, np.arange(32) < 8)))
'0x55'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware.limits import WARP

LANES: Final = np.arange(WARP)
_WEIGHTS: Final = np.uint32(1) << LANES.astype(np.uint32)


def lane_bits(lanes: Array) -> Array:
    """The lanes of each warp as the bits of a word."""
    found: Array = (lanes * _WEIGHTS).sum(axis=-1, dtype=np.uint32)
    return found


VOTES: Final[dict[str, Callable[[Array, Array], Any]]] = {
    "any": lambda votes, live: (votes & live).any(axis=-1),
    "all": lambda votes, live: (votes | ~live).all(axis=-1),
    "uni": lambda votes, live: (votes | ~live).all(axis=-1) | ~(votes & live).any(axis=-1),
    "ballot": lambda votes, live: lane_bits(votes & live),
}


def matching_lanes(values: Array, live: Array) -> Array:
    """For each lane, the lanes with its value, as bits."""
    return lane_bits((values[..., :, None] == values[..., None, :]) & live[..., None, :])


def shuffle_source(mode: str, by: IntArray, clamp: IntArray) -> tuple[IntArray, Array]:
    """The lane that each lane reads, its own if that is outside of its segment, and whether it is inside.

    Lanes and distances are taken modulo 32; `clamp` has the bits of lanes that name a segment, and its bound.
    """
    by, segment = by & WARP - 1, clamp >> 8 & WARP - 1
    first = LANES & segment
    last = first | (clamp & WARP - 1 & ~segment)
    if mode == "up":
        source, inside = LANES - by, LANES - by >= last
    else:
        source = {"down": LANES + by, "xor": LANES ^ by, "idx": first | (by & ~segment)}[mode]
        inside = source <= last
    return np.where(inside, source, LANES), inside


def clamp_of(mode: str, width: IntArray) -> IntArray:
    """The clamp of segments of `width` lanes, a power of two."""
    return (WARP - width) << 8 | (0 if mode == "up" else WARP - 1)
