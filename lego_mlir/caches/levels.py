"""A level of a memory hierarchy: its capacity, lines and sectors, placement, eviction and write policy.

A line is what a tag names; a sector is what is fetched. Most GPUs have lines of 128 bytes in 4 sectors: a miss brings
only the missing sectors. A set-associative cache keeps a line in one of `ways` places of its set; `ways=None` is a
fully associative cache, one set.

>>> l1 = CacheLevel("L1", 256 * 1024)
>>> l1.lines, l1.sets
(2048, 1)
>>> CacheLevel("L2", 4 << 20, ways=16).sets
2048
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from lego_mlir.errors import UsageError
from lego_mlir.hardware.memory import LINE_BYTES, SECTOR_BYTES

MOST_SECTORS = 32  # of a line: the sectors present are the bits of one word


class Eviction(IntEnum):
    """Which line makes room.

    `RANDOM` evicts a random aligned group of `evicted_together` ways, as Volta and Turing evict 4 consecutive sectors
    of 32 bytes once their L1 is full (Z. Jia et al., "Dissecting the NVIDIA Turing T4 GPU", 2019, section 3.2.2).
    """

    LRU = 0
    RANDOM = 1


class WritePolicy(IntEnum):
    """What a store does. Sectors keep masks of written bytes, so that no policy fetches before it writes.

    `AROUND` updates a line that is present and passes the store on; `THROUGH` also allocates the line; `BACK` allocates
    it and passes dirty sectors on when the line is evicted.
    """

    AROUND = 0
    THROUGH = 1
    BACK = 2


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """One level. Bytes throughout; `fetched_together` sectors, aligned, are fetched on a miss of one of them.

    `shared` levels serve all SMs, others exist once for each SM. `hashed` sets take mixed bits of the line's address
    instead of the lowest: without it, a pitch that is a power of two fills few sets.
    """

    name: str
    capacity: int
    line: int = LINE_BYTES
    sector: int = SECTOR_BYTES
    ways: int | None = None
    eviction: Eviction = Eviction.LRU
    evicted_together: int = 1
    write: WritePolicy = WritePolicy.AROUND
    fetched_together: int = 1
    shared: bool = False
    hashed: bool = True

    def __post_init__(self) -> None:
        sizes = {"capacity": self.capacity, "line": self.line, "sector": self.sector, "ways": self.ways or 1}
        for name, value in {**sizes, "evicted_together": self.evicted_together}.items():
            if value < 1:
                raise UsageError(f"cache {self.name}: {name} must be at least 1, got {value}")
        if self.line & (self.line - 1) or self.sector & (self.sector - 1):
            raise UsageError(
                f"cache {self.name}: lines and sectors are powers of two, got {self.line} and {self.sector} bytes"
            )
        if self.line % self.sector or self.line // self.sector > MOST_SECTORS:
            raise UsageError(
                f"cache {self.name}: a line has 1 to {MOST_SECTORS} whole sectors, got a line of {self.line} and "
                f"sectors of {self.sector} bytes"
            )
        if self.capacity % (self.line * (self.ways or 1)):
            raise UsageError(
                f"cache {self.name}: {self.capacity} bytes are not whole sets of {self.ways or 1} lines of "
                f"{self.line} bytes"
            )
        for name, value, whole in (
            ("fetched_together", self.fetched_together, self.sectors),
            ("evicted_together", self.evicted_together, self.ways or self.lines),
        ):
            if value < 1 or whole % value:
                raise UsageError(f"cache {self.name}: {name} must divide {whole}, got {value}")

    @property
    def lines(self) -> int:
        return self.capacity // self.line

    @property
    def sectors(self) -> int:
        """Sectors of a line."""
        return self.line // self.sector

    @property
    def sets(self) -> int:
        return 1 if self.ways is None else self.lines // self.ways


def require_hierarchy(levels: tuple[CacheLevel, ...]) -> None:
    """Raise UsageError unless the levels can serve each other: nearest first, one sector size, shared ones last."""
    if not levels:
        raise UsageError("a hierarchy needs at least one level of cache, got none")
    if len({level.sector for level in levels}) > 1:
        shown = ", ".join(f"{level.name} {level.sector}" for level in levels)
        raise UsageError(f"all levels need sectors of one size, got {shown} bytes")
    order = [level.shared for level in levels]
    if order != sorted(order):
        raise UsageError(
            f"levels of one SM come before shared ones, got {', '.join(level.name for level in levels)}: nearest first"
        )
