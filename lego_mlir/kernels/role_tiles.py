"""The tiles of products with warp roles, and the resources that they take: numbers alone, for machines that launch."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

from lego_mlir.errors import UsageError
from lego_mlir.hardware.tensor_maps import LINE

WARPS: Final = 4
"""Warps of a group that computes, and of the role that copies."""
GROUPS: Final = 2
ROWS: Final = 64
"""Rows of C that a group's instruction computes on sm_90a."""
DEPTH: Final = 64
"""A step along K: rows of 128 bytes, the widest swizzle."""
UNIT: Final = 16
"""Columns of a tile are a multiple: those of each of two groups are then one of 8."""
BUFFERS: Final = 2
"""Buffers of a group for C, in turn."""
BARRIER_BYTES: Final = 1024
"""Room for barriers, and for the alignment of tiles."""


@dataclass(frozen=True, slots=True)
class RoleTile:
    """A block's tile of C and its stages: 64 rows are divided by columns among the groups, more rows by rows.

    The tiles of a cluster's blocks are below each other: each block copies its part of B's tile for all of them.
    """

    rows: int = 128
    columns: int = 256
    stages: int = 4
    cluster: int = 1

    def __post_init__(self) -> None:
        if self.rows not in (ROWS, 2 * ROWS, 4 * ROWS) or self.columns % UNIT or not 64 <= self.columns <= 256:
            raise UsageError(
                f"a tile of {self.rows} x {self.columns}: products by roles take 64, 128 or 256 rows, and a multiple "
                f"of {UNIT} columns from 64 to 256"
            )
        if self.part[0] * self.part[1] > ROWS * 256 or self.part[1] < ROWS:
            raise UsageError(
                f"a tile of {self.rows} x {self.columns}: a group sums {self.part[0]} x {self.part[1]} numbers, at "
                f"least {ROWS} columns and at most {ROWS} x 256; take 64 x 128, 64 x 256, 128 x 64, .., 256 x 128"
            )
        if self.stages < 2:
            raise UsageError(f"a ring of {self.stages} stages: at least 2")
        if self.cluster not in (1, 2):
            raise UsageError(f"clusters of {self.cluster} blocks: 1 or 2")

    @property
    def part(self) -> tuple[int, int]:
        """Rows and columns of a group."""
        return (self.rows, self.columns // GROUPS) if self.rows == ROWS else (self.rows // GROUPS, self.columns)

    @property
    def threads(self) -> int:
        return 32 * WARPS * (GROUPS + 1)

    @property
    def height(self) -> int:
        """Rows of a cluster's tiles."""
        return self.rows * self.cluster

    def together(self, blocks: int) -> int:
        """Tiles along M of a panel, whose tiles along N follow each other: those of all blocks are as high as wide."""
        return max(1, round(sqrt(blocks // self.cluster * self.columns / self.height)))

    def shared_bytes(self, element: int = 2) -> int:
        """Bytes of shared memory for elements of A and B, whose columns may take whole lines."""
        return self.stages * self.stage_bytes(element) + GROUPS * BUFFERS * ROWS * LINE

    def stage_bytes(self, element: int = 2) -> int:
        """Bytes of a stage of both rings."""
        return (self.rows + in_lines(self.columns, element)) * DEPTH * element

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.stages}" + (f"x{self.cluster}" if self.cluster > 1 else "")


def in_lines(columns: int, element: int = 2) -> int:
    """The columns of whole lines of 128 bytes."""
    line = LINE // element
    return -(-columns // line) * line
