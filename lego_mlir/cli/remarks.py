"""What is wrong with one line's access to memory, and what would repair it: the sentences of `lego-mlir analyze`.

A sentence gives advice only where it is known to be true: that lanes go apart, or only begin at the wrong place, is
told by the runs of bytes in each request; a wider access is recommended where the kernel's compiler would grant it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lego_mlir.hardware.sectors import SECTOR_BYTES, Runs

SHOWN_LANES: Final = 4


def of_site(site: Mapping[str, Any], repairs: Mapping[str, Any], tiles: Mapping[str, Any]) -> list[str]:
    """The remarks on one row of the table; `repairs` and `tiles` are by the name of the buffer."""
    lines = []
    if site["conflicts"]:
        lines += [_conflict(site), *_remedies(repairs.get(site["buffer"], ()), tiles.get(site["buffer"]))]
    if site["space"] == "global" and site["sectors"] > site["ideal_sectors"]:
        lines.append(
            f"{_who(site)} moves {site['sectors']} sectors of 32 bytes where "
            f"{site['ideal_sectors']} hold what it asks for; {_sectors_remedy(site)}"
        )
    if site["space"] == "global" and site["widest"] and site["widest"] > site["width"]:
        lines += _wider(site)
    return lines


def repair_text(repair: Mapping[str, Any]) -> str:
    """One layout, what it leaves and costs, and how that is known."""
    left = repair["wavefronts"] - repair["ideal"]
    effect = "no conflict" if left == 0 else f"{left} conflicts left"
    memory = "no extra memory" if repair["extra_bytes"] == 0 else f"{repair['extra_bytes']} bytes more"
    return f"{repair['layout']}: {effect}, {memory} ({repair['by']})"


def _who(site: Mapping[str, Any]) -> str:
    return f"line {site['line']}: {site['kind']} of {site['buffer']}"


def _conflict(site: Mapping[str, Any]) -> str:
    lanes = ", ".join(map(str, site["worst_lanes"][:SHOWN_LANES]))
    more = ", .." if len(site["worst_lanes"]) > SHOWN_LANES else ""
    article = "an" if site["ways"] in (8, 11, 18) else "a"
    return (
        f"{_who(site)} has {article} {site['ways']}-way bank conflict: lanes {lanes}{more} "
        f"want {site['ways']} words of bank {site['worst_bank']}, {site['conflicts']} extra wavefronts"
    )


def _remedies(layouts: Any, tile: Mapping[str, Any] | None) -> list[str]:
    """The layouts for the `lego.shared` of a line, and on what they rest; or why there is none."""
    if tile is None:
        return []
    if not layouts:
        return [f"  {tile['note']} (the tile of line {tile['line']})"]
    rest = f", {tile['note']}" if tile["note"] else ""
    words = (f"remedy at line {tile['line']}{rest}", "    or")
    return [f"  {word}: {repair_text(repair)}" for word, repair in zip(words, layouts, strict=False)]


def _sectors_remedy(site: Mapping[str, Any]) -> str:
    """Lanes that go together are not told to: then only where their runs begin, or how long these are, is wrong."""
    if site["runs"] is None:
        return "let neighbouring lanes take neighbouring elements, from multiples of 32 bytes on"
    runs = Runs(**site["runs"])
    if runs.apart == runs.packed:
        return "some begin or end inside a sector: let rows begin at multiples of 32 bytes"
    if runs.bytes >= 2 * site["width"] * runs.count:
        return (
            f"a warp takes runs of {runs.bytes / runs.count:.3g} bytes on average: let runs be whole sectors, from "
            f"multiples of {SECTOR_BYTES} bytes on"
        )
    return "let neighbouring lanes take neighbouring elements"


def _wider(site: Mapping[str, Any]) -> list[str]:
    takes = f"{_who(site)} takes {site['width']} bytes a lane where"
    if "wider" not in site:  # a module that somebody else wrote: nothing but addresses is known
        return [f"{takes} the addresses of this run allow {site['widest']}"]
    wider = site["wider"]
    if wider is None:
        return []
    allowed = f"{takes} {{}} {wider['bytes']}"
    more = f"let a lane take {wider['bytes'] // site['width']} times as many elements at once"
    if wider["along"] is not None:
        return [
            f"{allowed.format('its addresses would allow')}, but neighbours lie along dimension {wider['along']} of "
            f"{site['buffer']} as indexed here, and a vector runs along the last; with that dimension last, {more}"
        ]
    if wider["sizes"]:
        declared = ", ".join(f'lego.size("{name}", multiple_of={wider["elements"]})' for name in wider["sizes"])
        return [f"{allowed.format('its addresses at these sizes allow')}: declare {declared}, and {more}"]
    return [f"{allowed.format('layout and alignment allow')}: {more}"]
