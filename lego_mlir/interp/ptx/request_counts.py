"""Bank conflicts and sectors of loads and stores by line: the models of `lego_mlir.hardware` on emulated accesses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.hardware import banks, sectors
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.report import Site, SourceLocation

if TYPE_CHECKING:
    from lego_mlir.aliases import Array, IntArray
    from lego_mlir.interp.ptx.address_spaces import Located
    from lego_mlir.interp.ptx.gangs import Gang
    from lego_mlir.interp.ptx.ptx_machine import PtxMachine

WIDEST: Final = 16
OPERATIONS: Final = {"read": "ld", "write": "st"}


class RequestCounts:
    """A site for each line of PTX that accesses shared or global memory."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], Site] = {}

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
            self._count_banks(site, at % machine.stride, active)  # a block's memory begins at a multiple of the banks
        else:
            found = sectors.requests(at, size, active, look_for_wider=False)
            site.sectors += int(found.sectors.sum())
            site.ideal_sectors += int(found.ideal.sum())

    def _site(self, machine: PtxMachine, place: Located, size: int, line: int, kind: str) -> Site:
        site = self._found.get((line, place.space))
        if site is None:
            owner = machine.globals.owner(int(place.at[0])) if place.space == "global" else None
            name = place.space if owner is None else owner.name
            where = SourceLocation(machine.source, line)
            site = self._found[line, place.space] = Site(where, OPERATIONS[kind], name, place.space, kind, size)
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

    def sites(self) -> list[Site]:
        """What was counted."""
        return list(self._found.values())
