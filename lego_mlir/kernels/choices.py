"""The kernel of a matrix product on `mma.sync` for its size: the candidates, what fits a target, and the choice.

The time model ranks the candidates at exactly this size (`product_time`): a table of measured sizes, of which the
nearest was taken, chose kernels that were 16 % slower than the best at the sizes that it had not seen.

>>> choose(4096, 4096, 4096, "NN", shared_bytes=227 * 1024).tiling.threads
256
>>> str(choose(96, 96, 4096, "NN", shared_bytes=227 * 1024).tiling)
'32x32x128, 1x2 warps'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from lego_mlir.errors import UsageError
from lego_mlir.kernels.matmul import LEAST_STEPS, OUT_PAD, Tiling
from lego_mlir.kernels.product_counts import BlockTile, ProductSize
from lego_mlir.kernels.product_time import H200, product_time
from lego_mlir.tracing.dtypes import f32

LAYOUTS: Final = ("NN", "NT", "TN", "TT")
BYTES: Final = 2  # of an element of A or B
LEAST_STAGES: Final = 2


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel of the family. It is persistent with `resident` blocks per SM; with 0, there is one block per tile."""

    tiling: Tiling
    stages: int
    order: str = "grouped"
    resident: int = 0

    def shared_bytes(self, element: int = f32.bytes) -> int:
        """Shared memory of a block: its staged tiles, and the tile of C with `element` bytes per element.

        The tile of C reuses the staged tiles' memory, except in a persistent block, which prefetches its next tiles.
        """
        t = self.tiling
        staged = self.stages * (t.m + t.n) * t.k * BYTES
        result = (t.m + OUT_PAD) * (t.n + OUT_PAD) * element
        return staged + result if self.resident else max(staged, result)

    def block_tile(self, element: int = f32.bytes) -> BlockTile:
        """What the time model takes: C has `element` bytes per element in shared memory."""
        t = self.tiling
        return BlockTile("mma.sync", t.m, t.n, t.k, t.warps, self.shared_bytes(element), self.stages, self.resident)

    def blocks(self, multiprocessors: int) -> int | None:
        """The number of blocks of a persistent kernel; None otherwise."""
        return self.resident * multiprocessors or None

    def __str__(self) -> str:
        persistent = f", {self.resident} resident" if self.resident else ""
        return f"{self.tiling}, {self.stages} stages, {self.order}{persistent}"

    def to_data(self) -> dict[str, Any]:
        """The choice as JSON data."""
        t = self.tiling
        return {
            "tile": [t.m, t.n, t.k], "warps": list(t.warps), "stages": self.stages, "order": self.order,
            "resident": self.resident,
        }  # fmt: skip


def choice_from(data: dict[str, Any]) -> Choice:
    """The choice from JSON data."""
    (m, n, k), warps = data["tile"], data["warps"]
    return Choice(Tiling(m, n, k, (warps[0], warps[1])), data["stages"], data["order"], data["resident"])


# The benchmark's candidates, largest first: the tile of C and its step along K, the warps, and the stages.
CANDIDATES: Final = (
    Choice(Tiling(128, 256, 64, (2, 4)), 4),
    Choice(Tiling(128, 256, 64, (2, 4)), 3, resident=1),
    Choice(Tiling(256, 128, 64, (4, 2)), 4),
    Choice(Tiling(256, 128, 64, (4, 2)), 3, resident=1),
    Choice(Tiling(128, 128, 64, (2, 2)), 3),
    Choice(Tiling(128, 64, 64, (2, 2)), 4),
    Choice(Tiling(64, 128, 128, (2, 2)), 3),
    Choice(Tiling(64, 128, 64, (2, 2)), 4),
    Choice(Tiling(64, 128, 64, (1, 4)), 4),
    Choice(Tiling(64, 64, 64, (2, 2)), 4),
    Choice(Tiling(32, 64, 128, (1, 2)), 4),
    Choice(Tiling(32, 64, 64, (1, 2)), 6),
    Choice(Tiling(32, 32, 128, (1, 2)), 6),
)


def choose(
    m: int, n: int, k: int, layouts: str, shared_bytes: int, element: int = f32.bytes, multiprocessors: int = H200.sms
) -> Choice:
    """The kernel for a product of these sizes, on a device with `shared_bytes` of shared memory per block.

    `element` is the size in bytes of an element of C in shared memory. Devices without constants of their own are taken
    for an H200 with another number of multiprocessors. Raises UsageError for layouts outside LAYOUTS, and where no
    candidate fits.
    """
    if layouts not in LAYOUTS:
        raise UsageError(f"the layouts of A and B are one of {', '.join(LAYOUTS)} (N: rows, T: columns), got {layouts}")
    product, device = ProductSize(m, n, k, layouts), replace(H200, sms=multiprocessors)
    fitted = dict.fromkeys(fitting(candidate, k, shared_bytes, element) for candidate in CANDIDATES)
    return min(
        fitted, key=lambda choice: product_time(product, choice.block_tile(element), device, "steady").microseconds
    )


def fitting(choice: Choice, k: int, shared_bytes: int, element: int = f32.bytes) -> Choice:
    """The choice with as many stages as the depth and the shared memory of a block allow, or a smaller one.

    If its tiles do not fit with two stages, the fallbacks are the same choice without persistent blocks, which has room
    for another stage, then the largest candidate that fits.
    """
    smaller = (c for c in CANDIDATES if c.tiling.threads <= choice.tiling.threads)
    alone = replace(choice, resident=0, stages=choice.stages + bool(choice.resident))
    for candidate in (choice, alone, *smaller):
        iterations = max(LEAST_STEPS, -(-k // candidate.tiling.k))
        for stages in range(min(candidate.stages, iterations + 1), LEAST_STAGES - 1, -1):
            fitted = replace(candidate, stages=stages)
            if fitted.shared_bytes(element) <= shared_bytes:
                return fitted
    raise UsageError(f"no kernel of the family fits {shared_bytes} bytes of shared memory a block")
