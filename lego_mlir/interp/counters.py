"""Count memory requests: one `Site` for each access operation of the program.

The models of banks and sectors are in `lego_mlir.hardware`; this module reshapes the addresses of a batch into rows of
32, one for each warp. A shared access with the same addresses in all blocks is counted once and multiplied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.hardware import banks
from lego_mlir.hardware import sectors as coalescing
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.interp import repeats, values
from lego_mlir.interp.report import Site
from lego_mlir.interp.shadow import ATOMIC_KIND
from lego_mlir.interp.values import Array, like_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from lego_mlir.interp.access import MemoryAccess, Side
    from lego_mlir.interp.machine import Machine
    from lego_mlir.interp.memory import Touch

    Observe = Callable[[Site, Array, Array | None, int], None]

WIDER_SAMPLES = 64
_NOWHERE = np.iinfo(np.int64).max


class Counters:
    """The sites of a launch, by access number and buffer. `observe` is called with every counted request."""

    def __init__(self, observe: Observe | None = None) -> None:
        self.observe = observe
        self.sites: dict[tuple[int, str], Site] = {}
        self._samples: dict[tuple[int, str], int] = {}
        self._repeated: dict[tuple[int, str], dict[Hashable, repeats.Numbers]] = {}
        self._sunk: dict[Side, list[tuple[MemoryAccess, Touch]]] = {}

    def count(self, m: Machine, access: MemoryAccess, touch: Touch) -> None:
        """Count one touch, immediately or at the branch into which the compiler sinks it."""
        if touch.buffer.is_local:
            return
        if access.counted_at is None:
            self._count(m, access, touch)
        else:
            self._sunk.setdefault(access.counted_at, []).append((access, touch))

    def count_sunk(self, m: Machine, side: Side, taken: Array) -> None:
        """Count the touches sunk into one side of a branch, for the lanes that take it."""
        for access, touch in self._sunk.pop(side, ()):
            here = taken if touch.ok is None else touch.ok & like_vector(taken, touch.ok.ndim)
            if here.any():
                self._count(m, access, replace(touch, ok=None if here.all() else here))

    def _count(self, m: Machine, access: MemoryAccess, touch: Touch) -> None:
        """Count a touch as one instruction, or as several if it exceeds the widest access of a lane."""
        key = (access.number, touch.name)
        if self.observe is not None or access.kind == ATOMIC_KIND or self._samples.get(key, 0) < WIDER_SAMPLES:
            self._count_instructions(m, access, touch)
            return
        pattern = repeats.pattern(m, touch)
        site, known = self.sites[key], self._repeated.setdefault(key, {})
        if pattern is not None and (added := known.get(pattern)) is not None:
            repeats.add(site, added)
            return
        before = repeats.numbers(site)
        self._count_instructions(m, access, touch)
        if pattern is not None and len(known) < repeats.REMEMBERED:
            known[pattern] = repeats.difference(site, before)

    def _count_instructions(self, m: Machine, access: MemoryAccess, touch: Touch) -> None:
        for address, active, width in instructions(m, touch):
            self.count_warps(m, access, touch, address, active, width)

    def count_warps(
        self, m: Machine, access: MemoryAccess, touch: Touch, address: Array, active: Array | None, width: int
    ) -> None:
        """Count requests given as `(blocks, warps, 32)` byte addresses; a single block row represents all blocks."""
        key = (access.number, touch.name)
        site = self.sites.get(key)
        if site is None:
            site = self.sites[key] = Site(
                access.place, access.operation, touch.name, touch.buffer.space.value, access.kind, width
            )
        times = m.blocks if address.shape[0] == 1 else 1
        alive = address.shape[0] * address.shape[1] if active is None else int(active.any(axis=-1).sum())
        lanes = address.size if active is None else int(active.sum())
        site.requests += alive * times
        site.lanes += lanes * times
        site.lane_bytes += lanes * width * times
        if self.observe is not None:
            self.observe(site, address, active, width)
        if access.kind == ATOMIC_KIND:
            most = _most_at_one_element(address, active)
            site.rounds += int(most.sum()) * times
            site.worst_sharing = max(site.worst_sharing, int(most.max(initial=0)))
            site.widest = width
        if touch.buffer.is_shared:
            self._count_shared(key, site, address, active, width, times)
        else:
            self._count_global(key, site, address, active, width, times)

    def _count_shared(
        self, key: tuple[int, str], site: Site, address: Array, active: Array | None, width: int, times: int
    ) -> None:
        seen = self._samples.get(key, 0)
        self._samples[key] = seen + 1
        if seen < WIDER_SAMPLES and (site.widest is None or site.widest > width):
            widest = coalescing.requests(address, width, active).widest
            site.widest = widest if site.widest is None else min(site.widest, widest)
        per_pass = banks.wavefronts_per_pass(address, width, active)
        site.wavefronts += int(per_pass.sum()) * times
        ideal = banks.ideal_wavefronts(width, active)
        site.ideal_wavefronts += times * (int(ideal.sum()) if ideal.ndim else int(ideal) * address[..., 0].size)
        worst = int(per_pass.max(initial=0))
        if worst > site.worst_wavefronts:
            row = np.unravel_index(int(per_pass.argmax()), per_pass.shape)[:2]
            collision = banks.worst_collision(address[row], width, None if active is None else active[row])
            site.worst_wavefronts, site.worst_bank, site.worst_lanes = worst, collision.bank, collision.lanes

    def _count_global(
        self, key: tuple[int, str], site: Site, address: Array, active: Array | None, width: int, times: int
    ) -> None:
        seen = self._samples.get(key, 0)
        self._samples[key] = seen + 1
        look = seen < WIDER_SAMPLES and (site.widest is None or site.widest > width)
        found = coalescing.requests(address, width, active, look_for_wider=look)
        site.sectors += int(found.sectors.sum()) * times
        site.ideal_sectors += int(found.ideal.sum()) * times
        if look:
            site.widest = found.widest if site.widest is None else min(site.widest, found.widest)


def _most_at_one_element(address: Array, active: Array | None) -> Array:
    """For each request the most lanes that name the same address; 0 without active lanes."""
    rows = np.sort(address if active is None else np.where(active, address, -1 - np.arange(WARP)), axis=-1)
    run = np.ones(rows.shape[:-1], np.int64)
    most = np.ones(rows.shape[:-1], np.int64)
    for lane in range(1, WARP):
        run = (run + 1) * (rows[..., lane] == rows[..., lane - 1]) + (rows[..., lane] != rows[..., lane - 1])
        np.maximum(most, run, out=most)
    return most if active is None else most * active.any(axis=-1)


def instructions(m: Machine, touch: Touch) -> Iterator[tuple[Array, Array | None, int]]:
    """The touch as instructions of at most 16 bytes a lane: (byte addresses by warp, active lanes, width)."""
    if touch.by_warp:
        yield (*_over_the_lanes(m, touch), touch.item)
        return
    if touch.elem.ndim > 2:
        flat = touch.elem.reshape(*touch.elem.shape[:2], -1)
        ok = None if touch.ok is None else np.broadcast_to(touch.ok, _joint(touch)).reshape(*_joint(touch)[:2], -1)
        for i in range(flat.shape[2]):
            yield (*per_warp(m, flat[:, :, i] * touch.item, None if ok is None else ok[:, :, i]), touch.item)
        return
    start, left, offset = touch.elem * touch.item, touch.bytes_per_lane, 0
    while left > 0:
        width = min(left & -left if left < WIDEST_ACCESS else WIDEST_ACCESS, left)
        yield (*per_warp(m, start + offset, touch.ok), width)
        offset, left = offset + width, left - width


def _joint(touch: Touch) -> tuple[int, ...]:
    assert touch.ok is not None
    return np.broadcast_shapes(touch.elem.shape, touch.ok.shape)


def _over_the_lanes(m: Machine, touch: Touch) -> tuple[Array, Array | None]:
    """A warp's vector, its elements assigned to the lanes 32 at a time in the order of their addresses.

    The real assignment is fixed only when the vector is distributed; this one gives a lower bound.
    """
    assert touch.ok is not None
    shape = (*np.broadcast_shapes(_joint(touch)[:2], (1, m.threads)), *_joint(touch)[2:])
    first = slice(0, None, WARP)
    address = np.broadcast_to(touch.elem, shape)[:, first].reshape(shape[0], m.warps, -1) * touch.item
    active = np.broadcast_to(touch.ok, shape)[:, first].reshape(shape[0], m.warps, -1)
    address = np.sort(np.where(active, address, _NOWHERE), axis=-1)
    short = -address.shape[2] % WARP
    address = np.pad(address, ((0, 0), (0, 0), (0, short)), constant_values=_NOWHERE)
    active = address != _NOWHERE
    rows = (shape[0], -1, WARP)
    return np.where(active, address, 0).reshape(rows), active.reshape(rows)


def per_warp(m: Machine, address: Array, ok: Array | None) -> tuple[Array, Array | None]:
    """Per-lane addresses as `(blocks, warps, 32)` and the active lanes; a partial last warp is padded."""
    shape = (max(address.shape[0], 1 if ok is None else ok.shape[0]), m.threads)
    address = np.broadcast_to(address, shape)
    active = None if ok is None else np.broadcast_to(ok, shape)
    short = m.warps * WARP - m.threads
    if short:
        address = np.pad(address, ((0, 0), (0, short)))
        real: Array = np.ones(shape, bool) if active is None else active
        active = np.pad(real, ((0, 0), (0, short)))
    rows = (shape[0], m.warps, WARP)
    return address.reshape(rows), None if active is None else active.reshape(rows)


def leaders(m: Machine) -> Array:
    """The first lane of each warp."""
    return np.asarray(m.linear_thread() % WARP == 0)


def same_in_warp(m: Machine, value: Array) -> bool:
    """Whether the lanes of every warp agree on a per-lane value."""
    if values.is_uniform(value) or value.shape[1] == 1:
        return True
    full = m.threads // WARP * WARP
    rows = value[:, :full].reshape(value.shape[0], -1, WARP)
    rest = value[:, full:]
    return bool((rows == rows[..., :1]).all() and (rest == rest[:, :1]).all())
