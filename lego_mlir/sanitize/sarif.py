"""Reports in SARIF 2.1.0, the form in which code hosts take findings and show them at their lines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.interp.report import Fault, Kind, Report, SourceLocation

if TYPE_CHECKING:
    from lego_mlir.aliases import Json

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(reports: Iterable[Report], version: str) -> Json:
    """The faults of launches; `version` is this package's."""
    faults = [(report, fault) for report in reports for fault in report.faults]
    rules = [{"id": rule_id(kind), "shortDescription": {"text": kind.value}} for kind in Kind]
    driver = {"name": "lego-mlir sanitize", "version": version, "rules": rules}
    results = [_result(report, fault) for report, fault in faults]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def rule_id(kind: Kind) -> str:
    """`out-of-bounds` and the like."""
    return kind.name.lower().replace("_", "-")


def _result(report: Report, fault: Fault) -> Json:
    found: Json = {
        "ruleId": rule_id(fault.kind),
        "level": "error",
        "message": {"text": f"{report.kernel}: {fault.message} (block {fault.block}, thread {fault.thread})"},
        "locations": [{"physicalLocation": _physical(fault.place)}],
    }
    if fault.other is not None:
        found["relatedLocations"] = [
            {"physicalLocation": _physical(fault.other), "message": {"text": "the other access"}}
        ]
    return found


def _physical(place: SourceLocation) -> Json:
    path = Path(place.file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    region: Json = {"startLine": max(place.line, 1)}
    if place.column:
        region["startColumn"] = place.column
    return {"artifactLocation": {"uri": path.as_posix()}, "region": region}
