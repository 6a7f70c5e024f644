"""Placement of blocks: the SM that runs each, and the order in which they start.

CUDA promises nothing about it. `round_robin` is the textbook's placement; on 48 or 132 SMs it makes reuse between
blocks that a chip does not have. `scattered` fills the SMs slot by slot, then gives each `sms` further blocks to the
SMs in random order, as if each SM took the next block when one of its own ended. `recorded` replays what a kernel saw
in `%smid` (PTX ISA, "Special Registers"); `bench/columns.py placement` records it.

>>> scattered(6, sms=2, slots=2, seed=1).sm[:4].tolist()
[0, 1, 0, 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Placement:
    """The SM of each block, and the blocks in the order in which they start; `slots` run on an SM at once."""

    sm: Array
    start: Array
    sms: int
    slots: int


def round_robin(blocks: int, *, sms: int, slots: int) -> Placement:
    """Block b runs on SM b mod `sms`."""
    _require(blocks, sms, slots)
    order = np.arange(blocks)
    return Placement(order % sms, order, sms, slots)


def scattered(blocks: int, *, sms: int, slots: int, seed: int = 0) -> Placement:
    """The first wave slot by slot over the SMs; then each `sms` blocks go to the SMs in random order."""
    _require(blocks, sms, slots)
    order = np.arange(blocks)
    sm = order % sms
    later = -(-max(blocks - sms * slots, 0) // sms)
    if later:
        mixed = np.random.default_rng(seed).permuted(np.tile(np.arange(sms), (later, 1)), axis=1)
        sm[sms * slots :] = mixed.ravel()[: blocks - sms * slots]
    return Placement(sm, order, sms, slots)


def recorded(sm: Array, clock: Array | None = None, *, slots: int) -> Placement:
    """What `%smid` was for each block; `clock` orders their starts (`%globaltimer`), else blocks start in order."""
    of = np.asarray(sm, np.int64)
    if of.ndim != 1 or of.size == 0 or of.min() < 0:
        raise UsageError(f"recorded: one SM for each block, at least 0, got an array of shape {of.shape}")
    if clock is not None and np.shape(clock) != of.shape:
        raise UsageError(f"recorded: {of.size} blocks, but clocks of shape {np.shape(clock)}; one clock a block")
    order = np.arange(of.size) if clock is None else np.argsort(np.asarray(clock), kind="stable")
    used, numbers = np.unique(of, return_inverse=True)
    _require(of.size, used.size, slots)
    return Placement(np.asarray(numbers, np.int64), order, int(used.size), slots)


def _require(blocks: int, sms: int, slots: int) -> None:
    if min(blocks, sms, slots) < 1:
        raise UsageError(f"a placement needs at least 1 block, SM and slot, got {blocks}, {sms} and {slots}")
