"""Recursion: the frames of a gang, and which functions call themselves.

A function that may call itself is one piece of code; a call keeps the registers that are needed after it, and the
return puts them back. Its local variables have a place for each depth, so that what a deeper call stores is elsewhere.
The lanes of a gang have one depth: lanes that call are a gang apart from those that do not.

    frames     the calls that the gang is in, the innermost last
    origin     of a frame: gangs that come from one call have equal ones, and only they may merge
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import numpy as np

from lego_mlir.aliases import Array

MOST_FRAMES: Final = 64
"""Calls within each other; a stack of hardware has some hundreds of bytes, and 1 KiB unless the host sets another."""
_numbers = count()


@dataclass(frozen=True, slots=True)
class CallFrame:
    """One call: where it returns to, and the registers that are needed then, a value each lane of the gang."""

    returns_to: int
    saved: Mapping[int, Array]
    origin: int

    @classmethod
    def new(cls, returns_to: int, saved: Mapping[int, Array]) -> CallFrame:
        """A frame of its own origin."""
        return cls(returns_to, saved, next(_numbers))

    def of(self, lanes: Array) -> CallFrame:
        """The frame of a part of the gang: a truth value for each lane."""
        return replace(self, saved={slot: value[lanes] for slot, value in self.saved.items()})


def merged_frames(
    frames: Sequence[tuple[CallFrame, ...]], targets: Sequence[Array], sources: Sequence[Array], lanes: int
) -> tuple[CallFrame, ...]:
    """The frames of gangs of one origin: lanes `sources` of each go to `targets`."""
    found = []
    for level in zip(*frames, strict=True):
        saved = {}
        for slot, first in level[0].saved.items():
            values = [frame.saved[slot] for frame in level]
            if len(first) == lanes and all(value is first for value in values):
                saved[slot] = first
                continue
            out = np.zeros(lanes, first.dtype)
            for value, to, at in zip(values, targets, sources, strict=True):
                out[to] = value[at]
            saved[slot] = out
        found.append(replace(level[0], saved=saved))
    return tuple(found)


def recursive_functions(calls: Mapping[str, set[str]]) -> set[str]:
    """The functions that reach themselves; `calls` has the functions that each one calls."""
    found = set()
    for name in calls:
        reached: set[str] = set()
        waiting = list(calls[name])
        while waiting:
            other = waiting.pop()
            if other not in reached:
                reached.add(other)
                waiting += calls.get(other, ())
        if name in reached:
            found.add(name)
    return found
