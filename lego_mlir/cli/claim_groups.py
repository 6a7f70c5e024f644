"""Claims in groups, as `check` prints them and as `--json` has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Json
from lego_mlir.errors import brief
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict

if TYPE_CHECKING:
    from lego_mlir.sanitize.findings import SourceFinding

RULES: Final = {
    "refuted": "a claim is false, with a counter-example",
    "unknown": "a claim is neither proved nor refuted",
}
"""What a code host shows about each kind of finding."""
_PLACE: Final = re.compile(r"([^\s,]+\.\w+):(\d+)\b")
_REASON_COLUMNS: Final = 300
_EXPLANATION_COLUMNS: Final = 600  # names two places with their files


@dataclass(frozen=True, slots=True)
class Line:
    """One claim with its verdict."""

    claim: str
    verdict: Verdict

    def __str__(self) -> str:
        match self.verdict:
            case Proved(by):
                return f"  proved   {self.claim}: {by}"
            case Refuted(counter_example, explanation):
                told = all(str(value) in explanation for value in counter_example.values())
                shown = "" if told else f" ({_values(counter_example)})"
                return f"  REFUTED  {self.claim}: {brief(explanation, _EXPLANATION_COLUMNS)}{shown}"
            case Unknown(reason):
                return f"  unknown  {self.claim}: {brief(reason, _REASON_COLUMNS)}"

    def to_dict(self) -> Json:
        """What `--json` prints."""
        match self.verdict:
            case Proved(by):
                return {"claim": self.claim, "verdict": "proved", "by": by}
            case Refuted(counter_example, explanation):
                values = {str(name): _plain(value) for name, value in counter_example.items()}
                return {"claim": self.claim, "verdict": "refuted", "why": explanation, "counter_example": values}
            case Unknown(reason):
                return {"claim": self.claim, "verdict": "unknown", "why": reason}


def _plain(value: object) -> int | str:
    """A value of a counter-example as JSON has it."""
    return int(value) if isinstance(value, Integral) else str(value)


@dataclass(frozen=True, slots=True)
class Note:
    """A possible mistake that is not a claim: it has no verdict and does not change the exit code."""

    text: str

    def __str__(self) -> str:
        return f"  note     {self.text}"


@dataclass(frozen=True, slots=True)
class Group:
    """The claims about one layout, kernel or template, under their title."""

    kind: str
    name: str
    title: str
    lines: Sequence[Line | Note]

    def to_dict(self) -> Json:
        """What `--json` prints."""
        return {
            "kind": self.kind,
            "name": self.name,
            "title": self.title,
            "claims": [line.to_dict() for line in self.lines if isinstance(line, Line)],
            "notes": [line.text for line in self.lines if isinstance(line, Note)],
        }

    def findings(self, spec: str) -> Iterator[SourceFinding]:
        """The claims that are not proved, at the line that each or its refutation names, else the title's."""
        from lego_mlir.sanitize.findings import SourceFinding

        for line in self.lines:
            if isinstance(line, Note) or isinstance(line.verdict, Proved):
                continue
            refuted = isinstance(line.verdict, Refuted)
            why = line.verdict.explanation if isinstance(line.verdict, Refuted) else ""
            place = _PLACE.match(line.claim) or _PLACE.search(why) or _PLACE.search(self.title)
            file, number = (place[1], int(place[2])) if place else (spec, 1)
            text = f"{self.name}: {str(line).strip()}"
            yield SourceFinding("refuted" if refuted else "unknown", "error" if refuted else "note", text, file, number)


def _values(counter_example: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in counter_example.items())
