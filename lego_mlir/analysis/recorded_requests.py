"""The memory requests of a run, recorded one by one: they cover accesses whose address depends on data.

The interpreter passes each request of a warp to a callback (`interp.launch(.., observe=..)`). For shared tiles the
addresses are kept, so that other layouts can be evaluated on exactly these requests. For global memory the number of
contiguous segments of each request is enough: it distinguishes an unaligned request from an uncoalesced one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.analysis.repair import TileAccess
from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.sectors import Segments, segments

if TYPE_CHECKING:
    from lego_mlir.analysis.kernel_repairs import TileRepairs
    from lego_mlir.tracing.definition.kernel import Kernel

KEPT_WARPS: Final = 2048
"""Requests to a shared tile that are kept for each line; later ones are not evaluated under other layouts."""

Key = tuple[str, int, str, str]
Requests = tuple[Array, Array, int]


def key_of(site: Mapping[str, Any]) -> Key:
    """The line, buffer and direction of a site in the form of `--json`."""
    return site["file"], site["line"], site["buffer"], site["kind"]


class RecordedRequests:
    """The requests of one launch; pass it as `observe`. `tiles` are the repairs found for it, once they are sought."""

    def __init__(self) -> None:
        self.kernel: Kernel | None = None
        self.tiles: Mapping[str, TileRepairs] = {}
        self._shared: dict[Key, list[Requests]] = {}
        self.runs: dict[Key, Segments] = {}

    def __call__(self, site: Any, address: Array, active: Array | None, width: int) -> None:
        """Record one request for each warp of some blocks: byte addresses shaped `(blocks, warps, 32)`."""
        key = (site.place.file, site.place.line, site.buffer, site.kind)
        if site.space != "shared":
            found = segments(address, width, active)
            self.runs[key] = self.runs[key] + found if key in self.runs else found
            return
        kept = self._shared.setdefault(key, [])
        room = KEPT_WARPS - sum(len(rows) for rows, _, _ in kept)
        taking = np.ones(address.shape, bool) if active is None else np.broadcast_to(active, address.shape)
        taking = taking.reshape(-1, WARP)
        some = np.flatnonzero(taking.any(axis=-1))[: max(room, 0)]
        if some.size:
            kept.append((address.reshape(-1, WARP)[some].copy(), taking[some].copy(), width))

    def uses(
        self, buffer: str, inverse: Callable[[Array], tuple[Array, ...]], size: int, element_bytes: int
    ) -> list[TileAccess]:
        """The accesses of a tile as logical indices, by its layout's `inverse`; empty if one exceeds its `size`."""
        found = []
        for (_, line, name, _), kept in self._shared.items():
            for address, taking, width in kept if name == buffer else ():
                position = np.where(taking, address // element_bytes, 0)
                if width % element_bytes or position.max() >= size:
                    return []
                index = tuple(np.asarray(i) for i in inverse(position))
                active = None if taking.all() else taking
                found.append(TileAccess(f"line {line}", index, width // element_bytes, active, line))
        return found
