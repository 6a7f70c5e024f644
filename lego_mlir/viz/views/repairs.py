"""A tile before and after its cheapest repair, on one scale, with what each costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lego_mlir.analysis.patterns import AccessPattern
from lego_mlir.analysis.repair import TileAccess, repairs, wavefronts_of
from lego_mlir.viz.panels import Panel, TablePanel
from lego_mlir.viz.views.subjects import subject_of
from lego_mlir.viz.views.warp_request import request

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout


def before_and_after(layout: Layout, pattern: AccessPattern, element_bytes: int, width: int) -> list[Panel]:
    """The tile with its conflicts, the tile as repaired, and a table of all repairs found."""
    uses = [TileAccess.of(pattern, width)]
    total, ideal = wavefronts_of(layout, uses, element_bytes)
    found = repairs(subject_of(layout).dims, uses, element_bytes) if total > ideal else []
    rows = [(repr(layout), total, ideal, 0, layout.derive().after)]
    rows += [(repr(r.layout), r.wavefronts, r.ideal, r.extra_bytes, r.layout.derive().after) for r in found]
    note = "no conflict to repair" if total == ideal else "no repair found" if not found else found[0].by
    shown = [layout, *([found[0].layout] if found else [])]
    panels: list[Panel] = []
    for tile in shown:
        panels.append(request(tile, subject_of(tile), pattern, element_bytes, width)[0])
    header = ("layout", "wavefronts", "at best", "bytes more", "operations of the index")
    return [*panels, TablePanel.of("cost", header, rows, note)]
