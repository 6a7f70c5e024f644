"""The faults of launches as findings, and as a log in SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from lego_mlir.aliases import Json
from lego_mlir.interp.report import Fault, Kind, Report
from lego_mlir.sanitize.findings import SourceFinding, sarif_document


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
