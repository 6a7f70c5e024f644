"""The remarks of `lego-mlir analyze`: diagnose the memory access of one source line and suggest a repair.

Advice is given only where it is known to hold. The contiguous segments of each request distinguish uncoalesced lanes
from misaligned ones; a wider access is recommended only where the kernel's compiler would accept it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lego_mlir.aliases import Json
from lego_mlir.hardware.memory import SECTOR_BYTES
from lego_mlir.hardware.sectors import Segments

SHOWN_LANES: Final = 4


def of_site(site: Json, repairs: Mapping[str, Sequence[Json]], tiles: Mapping[str, Json]) -> list[str]:
    """The remarks on one row of the table; `repairs` and `tiles` are by the name of the buffer."""
    lines = []
    if site["conflicts"]:
        lines += [_conflict(site), *_remedies(repairs.get(site["buffer"], ()), tiles.get(site["buffer"]))]
    if site.get("worst_sharing", 0) > 1:
        lines.append(
            f"{_title(site)}: up to {site['worst_sharing']} lanes of a warp update one element, which takes "
            f"{site['rounds']} rounds in {site['requests']} requests; combine the lanes first, with lego.warp_reduce "
            "or in a shared tile for each block or warp"
        )
    if site["space"] == "global" and site["sectors"] > site["ideal_sectors"]:
        lines.append(
            f"{_title(site)} moves {site['sectors']} sectors of 32 bytes where "
            f"{site['ideal_sectors']} would hold the requested bytes; {_sectors_remedy(site)}"
        )
    if site["space"] == "global" and site["widest"] and site["widest"] > site["width"]:
        lines += _wider(site)
    return lines


def repair_text(repair: Json) -> str:
    """One layout, its remaining conflicts, its extra memory, and how both are known."""
    left = repair["wavefronts"] - repair["ideal"]
    effect = "no conflict" if left == 0 else f"{left} conflicts left"
    memory = "no extra memory" if repair["extra_bytes"] == 0 else f"{repair['extra_bytes']} bytes more"
    return f"{repair['layout']}: {effect}, {memory} ({repair['by']})"


def _title(site: Json) -> str:
    return f"line {site['line']}: {site['kind']} of {site['buffer']}"


def _conflict(site: Json) -> str:
    lanes = ", ".join(map(str, site["worst_lanes"][:SHOWN_LANES]))
    more = ", .." if len(site["worst_lanes"]) > SHOWN_LANES else ""
    article = "an" if site["ways"] in (8, 11, 18) else "a"
    return (
        f"{_title(site)} has {article} {site['ways']}-way bank conflict: lanes {lanes}{more} "
        f"access {site['ways']} words of bank {site['worst_bank']}, {site['conflicts']} extra wavefronts"
    )


def _remedies(layouts: Sequence[Json], tile: Json | None) -> list[str]:
    """Repairs for the `lego.shared` of a line, with their assumptions; or the reason why there are none."""
    if tile is None:
        return []
    if not layouts:
        return [f"  {tile['note']} (the tile of line {tile['line']})"]
    partial = not tile["note"] and any(repair["wavefronts"] > repair["ideal"] for repair in layouts)
    note = "counted in one block" if partial else tile["note"]  # of the trace; a run's conflicts are of all its blocks
    rest = f", {note}" if note else ""
    words = (f"remedy at line {tile['line']}{rest}", "    or")
    return [f"  {word}: {repair_text(repair)}" for word, repair in zip(words, layouts, strict=False)]


def _sectors_remedy(site: Json) -> str:
    """Advice for excess sectors: coalesced lanes are not told to coalesce, only to align or lengthen their segments."""
    if site["runs"] is None:
        return "let adjacent lanes access adjacent elements, starting at multiples of 32 bytes"
    runs = Segments(**site["runs"])
    if runs.apart == runs.packed:
        return "some begin or end inside a sector: start rows at multiples of 32 bytes"
    if runs.bytes >= 2 * site["width"] * runs.count:
        return (
            f"a warp accesses contiguous segments of {runs.bytes / runs.count:.3g} bytes on average: make them whole "
            f"sectors, starting at multiples of {SECTOR_BYTES} bytes"
        )
    return "let adjacent lanes access adjacent elements"


def _wider(site: Json) -> list[str]:
    takes = f"{_title(site)} accesses {site['width']} bytes per lane where"
    if "wider" not in site:  # a module without a spec: only its addresses are known
        return [f"{takes} the addresses of this run allow {site['widest']}"]
    wider = site["wider"]
    if wider is None:
        return []
    allowed = f"{takes} {{}} {wider['bytes']}"
    more = f"let a lane access {wider['bytes'] // site['width']} times as many elements at once"
    if wider["along"] is not None:
        return [
            f"{allowed.format('its addresses would allow')}, but as indexed here {site['buffer']} is contiguous along "
            f"dimension {wider['along']}, and a vector extends along the last one; with that dimension last, {more}"
        ]
    if wider["sizes"]:
        declared = ", ".join(f'lego.size("{name}", multiple_of={wider["elements"]})' for name in wider["sizes"])
        return [f"{allowed.format('its addresses at these sizes allow')}: declare {declared}, and {more}"]
    return [f"{allowed.format('layout and alignment allow')}: {more}"]
