"""Collect faults: one for each kind, location, conflicting location and scope, with the first lane and a count."""

from __future__ import annotations

from lego_mlir.interp.report import Fault, Kind, LoopRound, SourceLocation, names_other_block

RunningLoop = tuple[SourceLocation, int]
"""A loop that runs, and its round."""


class Faults:
    """Faults in the order of detection; repetitions at one site increment its count.

    `loops` are those that run, with their rounds.
    """

    def __init__(self) -> None:
        self.loops: list[RunningLoop] = []
        self.printed: list[str] = []
        self._found: dict[tuple[Kind, SourceLocation, SourceLocation | None, str, bool], Fault] = {}

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
        key = (kind, place, other, buffer, names_other_block(message))
        found = self._found.get(key)
        if found is None:
            rounds = self.rounds()
            self._found[key] = Fault(kind, message, place, block, thread, address, other, count, buffer, rounds)
        else:
            found.count += count

    def merge(self, fault: Fault) -> None:
        """Add a fault that was found elsewhere, or its count to the same one."""
        key = (fault.kind, fault.place, fault.other, fault.buffer, names_other_block(fault.message))
        if key in self._found:
            self._found[key].count += fault.count
        else:
            self._found[key] = fault

    def has(self, fault: Fault) -> bool:
        """Whether this fault has been found."""
        return (fault.kind, fault.place, fault.other, fault.buffer, fault.across_blocks) in self._found

    def rounds(self) -> tuple[LoopRound, ...]:
        """The rounds of the loops that run, the outermost first."""
        return tuple(LoopRound(place, number) for place, number in self.loops)

    def all(self) -> list[Fault]:
        return list(self._found.values())


class BlockStopped(Exception):  # noqa: N818  it ends a block, and is not an error of the interpreter
    """A block in which everything waits runs no further; its faults are reported, and other blocks go on."""
