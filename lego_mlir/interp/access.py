"""The memory accesses of a compiled program, numbered: counters, shadow memory and fault reports refer to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lego_mlir.interp.report import SourceLocation

Side = tuple[int, int]
"""One side of a branch: its number and the region, 0 if the condition holds and 1 if not."""


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """One memory access of one operation; a race names its two accesses by their numbers.

    `counted_at` is the side of a branch into which the compiler sinks the access (`load_sinking`): counted there.
    """

    number: int
    place: SourceLocation
    operation: str
    kind: str
    counted_at: Side | None = None
