"""Findings at lines of source, the faults of launches among them, as code hosts take them: SARIF 2.1.0, annotations.

>>> print(annotation(SourceFinding("race", "error", "two writes", "a,b.py", 3)))
::error file=a%2Cb.py,line=3,title=race::two writes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lego_mlir.aliases import Json
from lego_mlir.interp.report import Fault, Kind, Report

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class SourceFinding:
    """One finding; lines and columns count from 1, and a column of 0 is unknown.

    `other` is a second place with what it is, such as the other access of a race.
    """

    rule: str
    level: Literal["error", "warning", "note"]
    message: str
    file: str
    line: int
    column: int = 0
    other: tuple[str, SourceFinding] | None = None


def sarif_document(tool: str, version: str, rules: Mapping[str, str], findings: Iterable[SourceFinding]) -> Json:
    """A log of one run; `rules` has the text of each rule by its name."""
    described = [{"id": name, "shortDescription": {"text": text}} for name, text in rules.items()]
    driver = {"name": tool, "version": version, "rules": described}
    results = [_result(finding) for finding in findings]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def annotation(finding: SourceFinding) -> str:
    """The command of a workflow that shows a finding at its line of a pull request."""
    level = {"note": "notice"}.get(finding.level, finding.level)
    places = {"file": _relative(finding.file), "line": finding.line, "title": finding.rule}
    shown = ",".join(f"{name}={_escaped(str(value), property=True)}" for name, value in places.items())
    return f"::{level} {shown}::{_escaped(finding.message)}"


def _escaped(text: str, property: bool = False) -> str:
    for character in "%\r\n" + (":," if property else ""):
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _result(finding: SourceFinding) -> Json:
    found: Json = {
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": _physical(finding)}],
    }
    if finding.other is not None:
        what, place = finding.other
        found["relatedLocations"] = [{"physicalLocation": _physical(place), "message": {"text": what}}]
    return found


def _physical(finding: SourceFinding) -> Json:
    region: Json = {"startLine": max(finding.line, 1)}
    if finding.column:
        region["startColumn"] = finding.column
    return {"artifactLocation": {"uri": _relative(finding.file)}, "region": region}


def _relative(file: str) -> str:
    """A path as code hosts know it: from the current folder, where the file is inside it."""
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_posix()


def sarif(reports: Iterable[Report], version: str) -> Json:
    """The faults of launches; `version` is this package's."""
    return sarif_document("lego-mlir sanitize", version, RULES, findings_of(reports))


def findings_of(reports: Iterable[Report]) -> Iterator[SourceFinding]:
    """A finding for each fault."""
    return (_finding(report, fault) for report in reports for fault in report.faults)


def rule_id(kind: Kind) -> str:
    """`out-of-bounds` and the like."""
    return kind.name.lower().replace("_", "-")


RULES: Final = {rule_id(kind): kind.value for kind in Kind}
"""The text of each rule by its name."""


def _finding(report: Report, fault: Fault) -> SourceFinding:
    text = f"{report.kernel}: {fault.message} (block {fault.block}, thread {fault.thread})"
    rule, place, other = rule_id(fault.kind), fault.place, fault.other
    second = None if other is None else SourceFinding(rule, "error", text, other.file, other.line, other.column)
    related = None if second is None else ("the other access", second)
    return SourceFinding(rule, "error", text, place.file, place.line, place.column, related)
