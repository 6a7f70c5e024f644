"""Bank conflicts and sectors of loads and stores by line: the models of `lego_mlir.hardware` on emulated accesses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware import banks, sectors
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.bank_remedies import SharedRequests, best_placement
from lego_mlir.interp.report import Site, SourceLocation

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.address_spaces import Located
    from lego_mlir.interp.ptx.gangs import Gang
    from lego_mlir.interp.ptx.ptx_machine import PtxMachine, SharedArray

WIDEST: Final = 16
MOST_KEPT: Final = 64
"""Requests of a line that remedies are tried on."""
OPERATIONS: Final = {"read": "ld", "write": "st"}


class RequestCounts:
    """A site for each line of PTX that accesses shared or global memory, and some requests of each for remedies."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str, str], Site] = {}
        self._requests: dict[tuple[str, int, str], SharedRequests] = {}

    def count(self, machine: PtxMachine, gang: Gang, place: Located, size: int, line: int, kind: str) -> None:
        """One access of a gang: a request for each of its warps that takes part."""
        if place.space not in ("shared", "global") or size > WIDEST:
            return
        at = np.zeros((len(gang.warps), WARP), np.int64)
        active = np.zeros((len(gang.warps), WARP), np.bool_)
        at.reshape(-1)[place.lanes] = place.at
        active.reshape(-1)[place.lanes] = True
        taking = active.any(axis=1)
        at, active = at[taking], active[taking]
        site = self._site(machine, place, size, line, kind)
        site.requests += len(at)
        site.lanes += len(place.lanes)
        site.lane_bytes += len(place.lanes) * size
        if place.space == "shared":
            at = at % machine.stride  # a block's memory begins at a multiple of the banks
            self._count_banks(site, at, active)
            self._keep(machine.shape.shared_array(int(at[0][active[0]][0])), site, line, at, active)
        else:
            found = sectors.requests(at, size, active, look_for_wider=False)
            site.sectors += int(found.sectors.sum())
            site.ideal_sectors += int(found.ideal.sum())

    def _site(self, machine: PtxMachine, place: Located, size: int, line: int, kind: str) -> Site:
        site = self._found.get((line, place.space, kind))
        if site is None:
            owner = machine.globals.owner(int(place.at[0])) if place.space == "global" else None
            name = place.space if owner is None else owner.name
            where = SourceLocation(machine.source, line)
            site = self._found[line, place.space, kind] = Site(where, OPERATIONS[kind], name, place.space, kind, size)
        return site

    def _count_banks(self, site: Site, at: IntArray, active: Array) -> None:
        passes = banks.wavefronts_per_pass(at, site.width, active)
        site.wavefronts += int(passes.sum())
        site.ideal_wavefronts += int(np.sum(banks.ideal_wavefronts(site.width, active)))
        worst = int(passes.max(initial=0))
        if worst > site.worst_wavefronts:
            row = int(np.argmax(passes.max(axis=-1)))
            collision = banks.worst_collision(at[row], site.width, active[row])
            site.worst_wavefronts, site.worst_bank, site.worst_lanes = worst, collision.bank, collision.lanes

    def _keep(self, array: SharedArray | None, site: Site, line: int, at: IntArray, active: Array) -> None:
        """Remember a site's first requests for an array."""
        if array is None:
            return
        before = self._requests.get((array.name, line, site.kind))
        room = MOST_KEPT - (len(before.at) if before is not None else 0)
        at, active = at[:room] - array.start, active[:room]
        if before is not None:
            at, active = np.concatenate([before.at, at]), np.concatenate([before.active, active])
        self._requests[array.name, line, site.kind] = SharedRequests(site.width, at, active)

    def sites(self) -> list[Site]:
        """What was counted, with a remedy for bank conflicts where another placement of the array has fewer."""
        for name in {name for name, _, _ in self._requests}:
            of_array = {key: requests for key, requests in self._requests.items() if key[0] == name}
            placement = best_placement(list(of_array.values()))
            for (_, line, kind), requests in of_array.items():
                site = self._found[line, "shared", kind]
                site.buffer = name
                if placement is not None and site.conflicts:
                    before, after = (requests.wavefronts(at) for at in (requests.at, placement.moved(requests.at)))
                    if after < before:
                        site.remedy, site.remedied = str(placement), round(site.wavefronts * after / before)
        return list(self._found.values())
