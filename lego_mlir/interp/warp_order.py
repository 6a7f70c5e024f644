"""Accesses ordered by barriers of a warp: which accesses of a block are unordered if its warps synchronise.

A barrier of the block raises the epoch of all its threads; a barrier of a warp raises the epoch of that warp alone. So
equal epochs no longer mean the same time: two accesses are unordered if

    their threads are of one warp and their epochs are equal, or
    their threads are of two warps and no barrier of the block came in between: the earlier epoch is not below the
    *fence*, the epoch at which the block's last barrier began.

Several threads that read an element are remembered as one: those of one warp as MANY_OF_WARP plus its number.

>>> import numpy as np
>>> unordered(np.array([0, 0, 0]), 5, np.array([1, 1, 40]), np.array([5, 4, 4]), 3).tolist()
[True, False, True]
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.values import Array

MANY_OF_WARP: Final = 1024
"""The code of several threads of warp 0; above the largest thread of a block."""


def warp_of(thread: Array) -> Array:
    """The warp of a thread, or of a code for several; codes for threads of several warps give a warp that none has."""
    return np.where(thread < MANY_OF_WARP, thread // WARP, thread - MANY_OF_WARP)


def unordered(thread: Array, epoch: Array | int, other: Array, other_epoch: Array, fence: Array | int) -> Array:
    """Where nothing orders an access and an earlier one of another thread of the block."""
    one_warp = warp_of(thread) == warp_of(other)
    return np.asarray((thread != other) & np.where(one_warp, epoch == other_epoch, other_epoch >= fence))


def together(thread: Array, other: Array, many: int) -> Array:
    """The code for two threads: of their warp, or `many` if they are of two."""
    warp = warp_of(thread)
    return np.where(warp == warp_of(other), MANY_OF_WARP + warp, many)
