"""Asynchronous operations in groups: issued, committed together, and waited for but the newest groups.

A wait for at most `left` groups in flight covers the older ones. PTX ISA, "cp.async.wait_group",
"cp.async.bulk.wait_group", "wgmma.wait_group".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class GroupQueue(Generic[T]):
    """The operations of a warp or lane: those not committed, and the groups not waited for, oldest first.

    >>> queue = GroupQueue([], [["first"], ["second"]])
    >>> list(queue.covered(1)), list(queue.covered(3))
    (['first'], [])
    """

    open: list[T] = field(default_factory=list)
    groups: list[list[T]] = field(default_factory=list)

    def __iter__(self) -> Iterator[T]:
        """All operations in flight, oldest first."""
        for group in (*self.groups, self.open):
            yield from group

    def commit(self) -> None:
        """What was issued since the last commit is a group."""
        self.groups.append(self.open)
        self.open = []

    def covered(self, left: int) -> Iterator[T]:
        """The operations that a wait for at most `left` groups in flight waits for."""
        for group in self.groups[: max(0, len(self.groups) - left)]:
            yield from group

    def drop(self, left: int) -> None:
        """These operations have been waited for."""
        del self.groups[: max(0, len(self.groups) - left)]
