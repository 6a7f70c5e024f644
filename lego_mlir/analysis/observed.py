"""What a run asked of memory, request by request: for whatever an expression over ids and sizes cannot say.

The interpreter shows each request of a warp as it counts it (`interp.launch(.., observe=..)`). Of a shared tile the
addresses are kept, so that another layout can be tried on the very accesses of this run, places that came from data
included. Of global memory it is enough to know in how many runs of neighbouring bytes each request comes: that tells
a request that begins inside a sector from one whose lanes go apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from lego_mlir.analysis.repair import Use
from lego_mlir.hardware.banks import WARP, Array
from lego_mlir.hardware.sectors import Runs, runs

KEPT_WARPS: Final = 2048
"""Requests to a shared tile that are kept for each line; later ones are not tried with other layouts."""

Key = tuple[str, int, str, str]
Requests = tuple[Array, Array, int]


def key_of(site: Mapping[str, Any]) -> Key:
    """The line, buffer and direction of a site as `--json` prints it."""
    return site["file"], site["line"], site["buffer"], site["kind"]


class Observed:
    """An observer of one launch: pass it as `observe`."""

    def __init__(self) -> None:
        self._shared: dict[Key, list[Requests]] = {}
        self.runs: dict[Key, Runs] = {}

    def __call__(self, site: Any, address: Array, active: Array | None, width: int) -> None:
        """One request of every warp of some blocks, `(blocks, warps, 32)` byte addresses."""
        key = (site.place.file, site.place.line, site.buffer, site.kind)
        if site.space != "shared":
            found = runs(address, width, active)
            self.runs[key] = self.runs[key] + found if key in self.runs else found
            return
        kept = self._shared.setdefault(key, [])
        room = KEPT_WARPS - sum(len(rows) for rows, _, _ in kept)
        taking = np.ones(address.shape, bool) if active is None else np.broadcast_to(active, address.shape)
        taking = taking.reshape(-1, WARP)
        some = np.flatnonzero(taking.any(axis=-1))[: max(room, 0)]
        if some.size:
            kept.append((address.reshape(-1, WARP)[some].copy(), taking[some].copy(), width))

    def uses(self, buffer: str, inverse: Callable[[Array], Any], size: int, element_bytes: int) -> list[Use]:
        """The accesses of a tile as logical indices, by its layout's `inverse`; none where they leave its `size`."""
        found = []
        for (_, line, name, _), kept in self._shared.items():
            for address, taking, width in kept if name == buffer else ():
                position = np.where(taking, address // element_bytes, 0)
                if width % element_bytes or position.max() >= size:
                    return []
                index = tuple(np.asarray(i) for i in inverse(position))
                found.append(Use(f"line {line}", index, width // element_bytes, None if taking.all() else taking))
        return found
