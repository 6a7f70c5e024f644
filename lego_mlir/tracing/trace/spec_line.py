"""Lines of users' files, which messages and modules name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's spec."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
