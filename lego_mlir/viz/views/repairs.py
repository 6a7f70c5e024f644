"""A tile before and after its cheapest repair, on one scale, with what each costs: of an access, or of a kernel's line.

A kernel's tile is drawn with the worst request of the line; its table counts all accesses of the tile by one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lego_mlir.analysis.kernel_repairs import TileRepairs, guarded_accesses, tile_repairs
from lego_mlir.analysis.patterns import AccessPattern
from lego_mlir.analysis.recorded_requests import RecordedRequests
from lego_mlir.analysis.repair import Repair, TileAccess, repairs, wavefronts_of
from lego_mlir.errors import UsageError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.simplify import simplify
from lego_mlir.hardware import banks
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import Panel, TablePanel
from lego_mlir.viz.views.subjects import subject_of
from lego_mlir.viz.views.warp_request import (
    ServedRequest,
    WarpRequest,
    counted,
    in_tile,
    request_of,
    wavefronts,
    worst_warp,
)

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.trace.trace import Buffer

_HEADER: Final = ("layout", "wavefronts", "at best", "bytes more", "operations of the index")


def before_and_after(layout: Layout, pattern: AccessPattern, element_bytes: int, width: int) -> list[Panel]:
    """The tile with its conflicts, the tile as repaired, and a table of all repairs found."""
    asked = request_of(subject_of(layout), pattern, element_bytes, width)
    uses = [TileAccess.of(pattern, width)]
    total, ideal = wavefronts_of(layout, uses, element_bytes)
    found = repairs(subject_of(layout).dims, uses, element_bytes) if total > ideal else []
    note = "no conflict to repair" if total == ideal else "no repair found" if not found else found[0].by
    layouts = [layout, *(repair.layout for repair in found)]
    captions = [counted(each, pattern, asked) for each in layouts[:2]]
    costs = [each.derive().after for each in layouts]
    return [*side_by_side(layouts[:2], asked, captions), _cost("cost", layout, (total, ideal), found, costs, note)]


def of_kernel(kernel: Kernel, sizes: Mapping[str, int], line: int | None, recorded: RecordedRequests) -> list[Panel]:
    """The repairs of the tiles that a line accesses, or of every tile with bank conflicts.

    `recorded` are the requests of a run, for accesses that depend on data. Raises UsageError, with the reason, where
    nothing is to be repaired.
    """
    tiles = tile_repairs(kernel, sizes, recorded)
    drawn = [panel for name, found in tiles.items() for panel in of_tile(kernel, name, found, line)]
    if not drawn:
        where = "no tile" if line is None else f"line {line} accesses no tile"
        why = "".join(f"; {name}: {_reason(found)}" for name, found in tiles.items())
        raise UsageError(f"kernel {kernel.name}: {where} with bank conflicts{why}")
    return drawn


def _reason(found: TileRepairs) -> str:
    """Why a tile is not drawn for a line."""
    lines = sorted({use.line for use in found.uses if use.line is not None})
    return f"accessed at line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else found.note


def of_tile(kernel: Kernel, name: str, found: TileRepairs, line: int | None) -> list[Panel]:
    """The worst request of a line under a tile's layout and under its repair, and what all its repairs cost.

    Empty if the line does not access the tile, and for a tile whose accesses are not known.
    """
    uses = [use for use in found.uses if line is None or use.line == line]
    if not uses:
        return []
    tile = next(tile for tile in kernel.trace().shared if tile.name == name)
    asked = worst_warp(subject_of(tile.layout), uses, tile.dtype.bytes)
    layouts = [tile.layout, *(repair.layout for repair in found.repairs)]
    totals = [wavefronts_of(layout, found.uses, tile.dtype.bytes) for layout in layouts[:2]]
    captions = [_of_line(each, asked, total) for each, total in zip(layouts, totals, strict=False)]
    note = found.note or found.repairs[0].by
    cost = _cost(
        f"cost of {name}", tile.layout, totals[0], found.repairs, _operations(kernel, tile, asked, layouts), note
    )
    return [*side_by_side(layouts[:2], asked, captions), cost]


def conflicting_lines(kernel: Kernel, name: str, found: TileRepairs) -> list[int]:
    """The lines of a kernel whose accesses of a tile have bank conflicts that a repair removes or reduces."""
    tile = next(tile for tile in kernel.trace().shared if tile.name == name)
    lines = {use.line for use in found.uses if use.line is not None} if found.repairs else set()
    totals = {n: wavefronts_of(tile.layout, [u for u in found.uses if u.line == n], tile.dtype.bytes) for n in lines}
    return sorted(line for line, (total, ideal) in totals.items() if total > ideal)


def _of_line(layout: Layout, asked: WarpRequest, total: tuple[int, int]) -> tuple[str, ...]:
    """The caption of a kernel's tile: the request that is drawn, and all accesses of the tile."""
    address = asked.address(subject_of(layout))
    found = int(banks.wavefronts(address, asked.bytes, asked.active))
    ideal = int(banks.ideal_wavefronts(asked.bytes, asked.active))
    return (
        f"lanes of the worst request at line {asked.line}; light wavefronts come first",
        f"{wavefronts(found)}, {ideal} at best; all accesses of a block: {total[0]}, {total[1]} at best",
    )


def side_by_side(layouts: Sequence[Layout], asked: WarpRequest, captions: Sequence[tuple[str, ...]]) -> Iterator[Panel]:
    """A request in each tile; the colours of all of them end at the latest wavefront of any."""
    served = [ServedRequest.of(subject_of(layout), asked) for layout in layouts]
    most = max(each.last for each in served)
    for each, caption in zip(served, captions, strict=True):
        yield in_tile(each, most, caption)


def _cost(
    title: str, layout: Layout, total: tuple[int, int], found: Sequence[Repair], operations: Sequence[int], note: str
) -> TablePanel:
    rows = [(repr(layout), *total, 0), *((repr(r.layout), r.wavefronts, r.ideal, r.extra_bytes) for r in found)]
    table = TablePanel.of(title, _HEADER, [(*row, n) for row, n in zip(rows, operations, strict=True)], note)
    costly = {(0, 1): palettes.HEAT.at(0.25)} if total[0] > total[1] else {}
    return replace(table, colours=costly)


def _operations(kernel: Kernel, tile: Buffer, asked: WarpRequest, layouts: Sequence[Layout]) -> list[int]:
    """The operations of the index of the request's access under each layout.

    For an access through a view of the tile, those of the layout's index alone.
    """
    trace = kernel.trace()
    accesses = (access for access, _ in guarded_accesses(trace.body) if access.buffer.name == tile.name)
    access = next((a for a in accesses if a.source.line == asked.line and a.layout == tile.layout), None)
    if access is None:
        return [each.derive().after for each in layouts]
    positions = [as_expr(each.apply(*map(Index, access.index))) for each in layouts]
    return [simplify(position, trace.ranges).after for position in positions]
