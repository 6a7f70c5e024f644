"""Collect faults: one entry for each kind, location and conflicting location, with the first lane and a count."""

from __future__ import annotations

from lego_mlir.interp.report import Fault, Kind, SourceLocation


class Faults:
    """Faults in the order of detection; repetitions at one site increment its count."""

    def __init__(self) -> None:
        self._found: dict[tuple[Kind, SourceLocation, SourceLocation | None, str], Fault] = {}

    def add(
        self,
        kind: Kind,
        message: str,
        place: SourceLocation,
        block: tuple[int, int, int],
        thread: tuple[int, int, int],
        *,
        address: int | None = None,
        other: SourceLocation | None = None,
        buffer: str = "",
        count: int = 1,
    ) -> None:
        key = (kind, place, other, buffer)
        found = self._found.get(key)
        if found is None:
            self._found[key] = Fault(kind, message, place, block, thread, address, other, count, buffer)
        else:
            found.count += count

    def all(self) -> list[Fault]:
        return list(self._found.values())
