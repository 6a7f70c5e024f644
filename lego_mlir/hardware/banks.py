"""Shared memory: the number of wavefronts of a warp's request.

Shared memory has 32 banks, each 4 bytes wide, and byte address a is in bank `a // 4 % 32`. One wavefront delivers one
word from every bank, to any number of lanes; so a pass takes as many wavefronts as the busiest bank has *distinct*
words requested, and lanes that request the same word cost nothing ("broadcast"). A warp's request of up to 4 bytes a
lane is one pass; of 8 bytes a lane it is two, one for each half of the warp; of 16 bytes, four, one for each quarter.

Sources: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later (banks, words, broadcast);
NVIDIA, "cuTENSOR: High-performance Tensor Operations in CUDA", GTC 2019 session S9593 (a 128-bit access is served in
four phases of eight threads, and only threads of one phase conflict); NVIDIA/cutlass issue 328 (half-warps for 8 bytes
a thread, quarter-warps for 16). Devices have been observed to merge passes whose lanes request the same words, so for
broadcasts of 8 and 16 bytes the count is an upper bound. Nsight Compute reports the same quantity as
`l1tex__data_pipe_lsu_wavefronts_mem_shared`.

>>> import numpy as np
>>> lane = np.arange(32)
>>> wavefronts(4 * lane, 4), wavefronts(4 * 32 * lane, 4), wavefronts(4 * 33 * lane, 4), wavefronts(0 * lane, 4)
(array(1), array(32), array(1), array(1))
>>> wavefronts(16 * lane, 16), wavefronts(64 * lane, 16)
(array(4), array(16))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import BANK_BYTES, BANKS

Array = np.ndarray[Any, Any]

_NO_WORD: Final = np.int64(-1)


def lanes_per_pass(width: int) -> int:
    """Lanes served in one pass when each requests `width` bytes."""
    return WARP if width <= 4 else WARP // 2 if width <= 8 else WARP // 4


def words(address: Array, width: int, active: Array | None = None) -> Array:
    """The 4-byte words of each pass, `(..., passes, words)`; -1 where a lane is inactive."""
    together = lanes_per_pass(width)
    per_lane = max(1, width // BANK_BYTES)
    word = np.asarray(address, np.int64) // BANK_BYTES
    word = word[..., None] + np.arange(per_lane, dtype=np.int64)
    if active is not None:
        word = np.where(np.asarray(active)[..., None], word, _NO_WORD)
    return word.reshape(*word.shape[:-2], WARP // together, together * per_lane)


def wavefronts_per_pass(address: Array, width: int, active: Array | None = None) -> Array:
    """Wavefronts of each pass of each warp. `address` is `(..., 32)` in bytes; the result is `(..., passes)`."""
    word = words(address, width, active)
    if not bool((word[..., 1:] >= word[..., :-1]).all()):
        word = np.sort(word, axis=-1)
    first = np.ones(word.shape, bool)
    np.not_equal(word[..., 1:], word[..., :-1], out=first[..., 1:])
    if active is not None:
        first &= word >= 0
    passes = word.reshape(-1, word.shape[-1]).shape[0]
    place = (word % BANKS).reshape(passes, -1) + BANKS * np.arange(passes, dtype=np.int64)[:, None]
    counts = np.bincount(place.reshape(-1)[first.reshape(-1)], minlength=passes * BANKS)
    return np.asarray(counts.reshape(*word.shape[:-1], BANKS).max(axis=-1))


def wavefronts(address: Array, width: int, active: Array | None = None) -> Array:
    """Wavefronts of each warp's request, all passes together."""
    return np.asarray(wavefronts_per_pass(address, width, active).sum(axis=-1))


def ideal_wavefronts(width: int, active: Array | None = None) -> Array:
    """The minimum wavefronts of a request of this width: one for each pass with an active lane."""
    together = lanes_per_pass(width)
    if active is None:
        return np.asarray(WARP // together)
    active = np.asarray(active)
    return np.asarray(active.reshape(*active.shape[:-1], WARP // together, together).any(axis=-1).sum(axis=-1))


@dataclass(frozen=True, slots=True)
class Collision:
    """The busiest bank of a pass: the lanes that request distinct words of it, and the number of those words."""

    bank: int
    lanes: tuple[int, ...]
    ways: int


def worst_collision(address: Array, width: int, active: Array | None = None) -> Collision:
    """The worst bank conflict of one warp, `address` of shape `(32,)`: the bank and the lanes."""
    word = words(address, width, active)
    per_lane = max(1, width // BANK_BYTES)
    together = lanes_per_pass(width)
    worst = Collision(0, (), 0)
    for number, in_pass in enumerate(word):
        lanes = number * together + np.arange(in_pass.size) // per_lane
        wanted = in_pass >= 0
        for bank in range(BANKS):
            here = wanted & (in_pass % BANKS == bank)
            distinct, first = np.unique(in_pass[here], return_index=True)
            if distinct.size > worst.ways:
                worst = Collision(bank, tuple(lanes[here][np.sort(first)].tolist()), int(distinct.size))
    return worst
