"""Repeated requests are counted once: a loop's accesses differ only by a shift of all addresses.

Banks repeat every 128 bytes and sectors every 32, so two requests whose addresses differ by a multiple of 128 bytes
cost the same. A request's pattern (its addresses relative to the first, and the first one modulo 128 bytes) leads to
what it added to its `Site` when it was counted.

>>> from lego_mlir.interp.report import Site, SourceLocation
>>> site = Site(SourceLocation("-", 1), "memref.load", "x", "global", "read", 4)
>>> before = numbers(site)
>>> site.requests, site.sectors = 1, 4
>>> added = difference(site, before)
>>> add(site, added)
>>> site.requests, site.sectors
(2, 8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lego_mlir.interp.machine import Machine
    from lego_mlir.interp.memory import Touch
    from lego_mlir.interp.report import Site

PERIOD: Final = 128
"""Bytes by which a shift of all addresses changes neither banks nor sectors: 32 banks of 4 bytes, 4 sectors."""
LARGEST: Final = 4096
"""Addresses of a request beyond which counting costs less than comparing patterns."""
REMEMBERED: Final = 1024
SUMMED: Final = ("requests", "lanes", "lane_bytes", "wavefronts", "ideal_wavefronts", "sectors", "ideal_sectors")

Numbers = tuple[int, ...]


def pattern(m: Machine, touch: Touch) -> Hashable | None:
    """What decides the traffic of a touch; None if it is too large to compare."""
    elem, ok = touch.elem, touch.ok
    if touch.by_warp or elem.size > LARGEST:
        return None
    first = elem.flat[0]
    where = (elem.shape, (elem - first).tobytes()) if elem.size > 1 else ()
    active = None if ok is None else (ok.shape, ok.tobytes())
    return m.lanes, int(first) * touch.item % PERIOD, where, touch.item, touch.run, active


def numbers(site: Site) -> Numbers:
    """The sums of a site."""
    return tuple(getattr(site, name) for name in SUMMED)


def difference(site: Site, before: Numbers) -> Numbers:
    """What was added to a site since `before`."""
    return tuple(now - then for now, then in zip(numbers(site), before, strict=True))


def add(site: Site, added: Numbers) -> None:
    """Count a repeated request."""
    site.requests += added[0]
    site.lanes += added[1]
    site.lane_bytes += added[2]
    site.wavefronts += added[3]
    site.ideal_wavefronts += added[4]
    site.sectors += added[5]
    site.ideal_sectors += added[6]
