"""The shared memory of a block that copies tiles ahead: a ring of stages, and buffers for what it stores.

A stage holds a tile of A, a tile of B, and two barriers. Beside the ring, each group of warps that stores has two
buffers in turn, or one where that makes room for a stage. The script that writes such a kernel and the choice of its
stages count with the same ring, so no choice is refused.

>>> ring = StageRing(stage_bytes=(128 + 256) * 128, buffer_bytes=2 * 8192)  # 128 x 256 x 64, 16 bits, two warpgroups
>>> ring.roomy, ring.buffers(4), ring.shared_bytes(4)
(4, 2, 229440)
>>> StageRing((256 + 128) * 128 + 1024, 2 * 8192).roomy  # with one buffer each
4
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES

BARRIERS: Final = 16
"""Bytes of the two barriers of a stage."""
BUFFERS: Final = 2
"""Buffers in turn: one is filled while the other is stored."""
ENOUGH_STAGES: Final = 4
"""Stages for which one buffer is given up."""


@dataclass(frozen=True, slots=True)
class StageRing:
    """The bytes of a stage without its barriers, and those of one buffer of each group of warps that stores."""

    stage_bytes: int
    buffer_bytes: int

    def fitting(self, buffers: int) -> int:
        """The stages that fit together with this number of buffers."""
        return (LARGEST_SHARED_BYTES - buffers * self.buffer_bytes) // (self.stage_bytes + BARRIERS)

    @property
    def most(self) -> int:
        """The most stages that fit."""
        return self.fitting(1)

    @property
    def roomy(self) -> int:
        """The stages that fit with all buffers, or up to ENOUGH_STAGES with one."""
        return max(self.fitting(BUFFERS), min(self.most, ENOUGH_STAGES))

    def buffers(self, stages: int, wanted: int = BUFFERS) -> int:
        """The buffers that fit with this number of stages: those that are wanted, or one where two have no room."""
        return wanted if wanted > BUFFERS or stages <= self.fitting(wanted) else 1

    def shared_bytes(self, stages: int) -> int:
        """Shared memory of a block."""
        return stages * (self.stage_bytes + BARRIERS) + self.buffers(stages) * self.buffer_bytes
