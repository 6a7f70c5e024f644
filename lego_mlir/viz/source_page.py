"""A page of a source file with counts in the margin, and the drawing of a line's requests on demand."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.viz.panels import Panel
from lego_mlir.viz.svg import svg

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 90rem; padding: 0 1rem 2rem; color: #1a1a1a; }
table { border-collapse: collapse; width: 100%; }
td, th { font: 13px/1.5 "DejaVu Sans Mono", Menlo, Consolas, monospace; padding: 0 0.6rem; vertical-align: top; }
th { text-align: left; border-bottom: 1px solid #767676; }
td.number { color: #555555; text-align: right; user-select: none; }
td.count { white-space: nowrap; }
td.source { white-space: pre; width: 70%; border-left: 1px solid #d0d0d0; }
tr.costly { background: #fff1dc; }
tr.note td { white-space: normal; color: #6b3b00; }
details { margin: 0.3rem 0; }
summary { cursor: pointer; }
svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; }
"""


@dataclass(frozen=True, slots=True)
class LineCounts:
    """What one line costs: texts for the margin, remarks, and drawings; `is_costly` marks avoidable cost.

    `drawings` are its worst requests, `repairs` the tiles that it accesses, before and after their repair.
    """

    counts: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    drawings: tuple[Panel, ...] = ()
    repairs: tuple[Panel, ...] = ()
    is_costly: bool = False


def source_page(title: str, source: str, lines: Mapping[int, LineCounts], notes: Sequence[str] = ()) -> str:
    """The page as one file. `lines` are by line number of `source`, from 1."""
    rows = []
    for number, text in enumerate(source.splitlines(), 1):
        found = lines.get(number)
        counts = "<br>".join(map(html.escape, found.counts)) if found else ""
        costly = ' class="costly"' if found and found.is_costly else ""
        rows.append(
            f'<tr{costly} id="L{number}"><td class="number">{number}</td><td class="count">{counts}</td>'
            f'<td class="source">{html.escape(text)}</td></tr>'
        )
        if found and (found.remarks or found.drawings):
            rows.append(f'<tr class="note"><td></td><td colspan="2">{_notes(number, found)}</td></tr>')
    head = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{html.escape(title)}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body><main><h1>{html.escape(title)}</h1>\n{head}\n"
        f'<div class="scroll"><table>\n<tr><th scope="col">line</th><th scope="col">cost</th>'
        f'<th scope="col">source</th></tr>\n' + "\n".join(rows) + "\n</table></div></main></body>\n</html>\n"
    )


def _notes(number: int, found: LineCounts) -> str:
    parts = [f"<p>{html.escape(remark)}</p>" for remark in found.remarks]
    for words, panels in (("the worst request", found.drawings), ("the repair of the tile", found.repairs)):
        if panels:
            drawn = svg(f"{words} at line {number}", panels)
            parts.append(f"<details><summary>draw {words} at line {number}</summary>{drawn}</details>")
    return "".join(parts)
