"""The annotated source of checked kernels: faults, conflicts and sectors at their lines, as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lego_mlir.interp.report import Report, Site, SourceLocation, describe
from lego_mlir.viz.source_page import LineCounts, source_page


def fault_page(reports: Sequence[Report]) -> str:
    """The page of the source file that most findings are in; the notes at its head have those of other files."""
    places = [place for report in reports for place in _places(report)]
    files = [place.file for place in places if Path(place.file).is_file()]
    shown = max(sorted(set(files)), key=files.count, default="")
    lines: dict[int, LineCounts] = {}
    notes = [f"{r.kernel}: {r.blocks_run} blocks of {r.block}, {len(r.faults)} faults" for r in reports]
    for report in reports:
        for fault in report.faults:
            if fault.place.file == shown:
                _note(lines, fault.place.line, fault.kind.value, str(fault).partition(": ")[2], costly=True)
            else:
                notes.append(str(fault))
        for site in report.by_line():
            if site.place.file == shown:
                costly = bool(site.conflicts) or site.sectors > site.ideal_sectors
                _note(lines, site.place.line, _count(site), describe(site) if costly else "", costly=costly)
        for line in report.mix_by_line():
            if line.place.file == shown:
                _note(lines, line.place.line, str(line), "", costly=bool(line.divided))
    text = Path(shown).read_text() if shown else ""
    return source_page(f"lego-mlir sanitize {Path(shown).name}".strip(), text, lines, notes)


def _places(report: Report) -> list[SourceLocation]:
    return [fault.place for fault in report.faults] + [site.place for site in report.sites]


def _count(site: Site) -> str:
    if site.space == "shared":
        return f"{site.kind} of {site.buffer}: {site.wavefronts} wavefronts, {site.ideal_wavefronts} at best"
    return f"{site.kind} of {site.buffer}: {site.sectors} sectors, {site.ideal_sectors} at best"


def _note(lines: dict[int, LineCounts], number: int, count: str, remark: str, *, costly: bool) -> None:
    before = lines.get(number, LineCounts(()))
    remarks = (*before.remarks, remark) if remark else before.remarks
    lines[number] = LineCounts((*before.counts, count), remarks, is_costly=before.is_costly or costly)
