"""`lego-mlir analyze --html`: the spec's source with the counts of each line in the margin, and drawings on demand."""

from __future__ import annotations

import math
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lego_mlir.aliases import Json
from lego_mlir.analysis.recorded_requests import RecordedRequests
from lego_mlir.cli import remarks
from lego_mlir.viz.source_page import LineCounts, source_page
from lego_mlir.viz.views import repairs
from lego_mlir.viz.views.kernel_line import LineRecorder

if TYPE_CHECKING:
    from lego_mlir.hardware.banks import Array
    from lego_mlir.viz.panels import Panel


class DrawnRequests(RecordedRequests):
    """The requests of a launch, and the worst one of each line to be drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = LineRecorder()

    def __call__(self, site: Any, address: Array, active: Array | None, width: int) -> None:
        super().__call__(site, address, active, width)
        self.lines(site, address, active, width)

    def repaired(self) -> dict[int, tuple[Panel, ...]]:
        """For each line with bank conflicts: the tiles that it accesses, before and after their repair."""
        drawn: dict[int, tuple[Panel, ...]] = {}
        for name, found in self.tiles.items():
            assert self.kernel is not None
            for line in repairs.conflicting_lines(self.kernel, name, found):
                drawn[line] = (*drawn.get(line, ()), *repairs.of_tile(self.kernel, name, found, line))
        return drawn


def analysis_page(path: Path, kernels: Sequence[Json], observed: Sequence[DrawnRequests]) -> str:
    """The page for one file; `kernels` as `--json` prints them, `observed` their launches."""
    lines: dict[int, LineCounts] = {}
    requests = {place: tuple(grids) for each in observed for place, grids in each.lines.by_line().items()}
    repaired = {line: panels for each in observed for line, panels in each.repaired().items()}
    for kernel in kernels:
        for site in kernel["sites"]:
            if Path(site["file"]).name != path.name:
                continue
            before = lines.get(site["line"], LineCounts(()))
            said = remarks.of_site(site, kernel["repairs"], kernel["tiles"])
            lines[site["line"]] = LineCounts(
                (*before.counts, _count(site)),
                (*before.remarks, *said),
                requests.get((site["file"], site["line"]), ()),
                repaired.get(site["line"], ()),
                before.is_costly or _costly(site),
            )
    notes = list(dict.fromkeys(map(_blocks, kernels)))
    return source_page(f"lego-mlir analyze {path.name}", _text(path), lines, notes)


def _text(path: Path) -> str:
    """The text of a spec, in the encoding that Python reads it in."""
    with tokenize.open(path) as file:
        return file.read()


def _blocks(kernel: Json) -> str:
    sizes = "".join(f", {name}={n}" for name, n in kernel["sizes"].items())
    return f"kernel {kernel['kernel']}: {kernel['blocks_run']} of {math.prod(kernel['grid'])} blocks counted{sizes}"


def _count(site: Json) -> str:
    if site["space"] == "shared":
        counted = f"{site['wavefronts']} wavefronts, {site['wavefronts'] - site['conflicts']} at best"
    else:
        counted = f"{site['sectors']} sectors, {site['ideal_sectors']} at best"
    return f"{site['kind']} of {site['buffer']}: {counted}"


def _costly(site: Json) -> bool:
    return bool(site["conflicts"]) or (site["space"] == "global" and site["sectors"] > site["ideal_sectors"])
