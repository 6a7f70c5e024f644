"""Arrivals that come after writes which another unit reads: a walk over a program whose warps have roles.

What a thread writes to shared memory is visible to the units that copy and multiply tiles after a proxy fence of this
thread (PTX ISA, "Async proxy"). Each barrier of threads has one where there are such writes. An arrival at a barrier in
memory needs one where a write may come before it and no barrier in between; the others go without: one more in the main
loop of attention took about 1 % of its time.

>>> loop = Repeated([Arrival("first"), ProxyWrite(), Arrival("second"), Arrival("third"), ProxyWrite()])
>>> sorted(after_writes([loop]))
['first', 'second']
>>> sorted(after_writes([Role(0, 4, [ProxyWrite()]), Role(4, 8, [Arrival("of others")]), Role(0, 1, [Arrival("own")])]))
['own']
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProxyWrite:
    """A write to a tile that another unit reads."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A barrier of these threads, or a fence: what they wrote before it is visible."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """An arrival at a barrier in memory, which has a fence if it needs one."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Role:
    """What the warps from `first` to `end` - 1 do, while others do what adjacent roles say."""

    first: int
    end: int
    body: Sequence[Step]


@dataclass(frozen=True, slots=True)
class Paths:
    """Bodies of which one runs."""

    bodies: Sequence[Sequence[Step]]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A body that runs any number of times."""

    body: Sequence[Step]


Step = ProxyWrite | Fence | Arrival | Role | Paths | Repeated


def after_writes(program: Sequence[Step]) -> set[Hashable]:
    """The keys of the arrivals that need a fence."""
    found: set[Hashable] = set()
    _after(program, False, found)
    return found


def _after(body: Sequence[Step], written: bool, found: set[Hashable]) -> bool:
    """Whether writes may be unfenced after a body, if there are some before it."""
    roles: list[tuple[Role, bool]] = []
    for step in body:
        if not isinstance(step, Role):
            written = written or any(made for _, made in roles)
            roles.clear()
        match step:
            case Role(first, end, inside):
                before = written or any(made for r, made in roles if r.first < end and first < r.end)
                roles.append((step, _after(inside, before, found)))
            case ProxyWrite():
                written = True
            case Fence():
                written = False
            case Arrival(key):
                found |= {key} if written else set()
                written = False
            case Paths(bodies):
                ends = [_after(one, written, found) for one in bodies]
                written = any(ends)
            case Repeated(inside):
                once = _after(inside, written, found)
                written = written or _after(inside, written or once, found)
    return written or any(made for _, made in roles)
