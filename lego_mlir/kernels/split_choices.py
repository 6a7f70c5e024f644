"""When K is split among blocks, with which tile and into how many parts: the candidates, and the model's choice.

With few rows a product reads B once and computes little: its time is that of the bytes, if enough blocks load at once.
A block has a few stages in flight and so a rate, the device has one, and blocks beyond those that fit either wait for
another round or are persistent and take several parts. More parts fill the device, and cost sums that are written and
added. The time model of all products has these terms (`product_time`), for B that comes from memory.

>>> found = choose(16, 4096, 4096, 132)
>>> found.tiling.m, found.tiling.n, found.split
(16, 64, SplitK(parts=2, blocks=None))
>>> choose(16, 50304, 768, 132).split is None
True
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lego_mlir.kernels.choices import Choice
from lego_mlir.kernels.matmul import LEAST_STEPS, Tiling, steps_of
from lego_mlir.kernels.product_counts import BlockTile, ProductSize
from lego_mlir.kernels.product_time import H200, product_time
from lego_mlir.kernels.split_k import MOST_PARTS, SplitK

MOST_ROWS: Final = 64
LEAST_DEPTH: Final = 512
TILES: Final = (
    Choice(Tiling(16, 64, 128, (1, 4)), 5),
    Choice(Tiling(32, 64, 128, (1, 4)), 4),
    Choice(Tiling(64, 64, 64, (2, 2)), 6),
)
"""The tiles by their rows; stages for two blocks on a multiprocessor of 228 KB."""
RESIDENT: Final = 2
CLOSE: Final = 1.02
"""Fewer parts need less memory, and the model is less precise than this."""


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """A kernel: its tile and stages, the parts of K, 1 for K whole, and the persistent blocks that share them."""

    choice: Choice
    parts: int
    blocks: int | None = None

    @property
    def split(self) -> SplitK | None:
        """How the kernel splits K."""
        return SplitK(self.parts, self.blocks) if self.parts > 1 else None

    @property
    def block_tile(self) -> BlockTile:
        """What the time model takes."""
        tile = self.choice.block_tile()
        return replace(tile, parts=self.parts, resident=RESIDENT if self.blocks else 0)

    @property
    def tiling(self) -> Tiling:
        """The tile of a block."""
        return self.choice.tiling


def applies(m: int, k: int) -> bool:
    """Whether a product has few rows and long sums."""
    return m <= MOST_ROWS and k >= LEAST_DEPTH


def choose(m: int, n: int, k: int, multiprocessors: int, layouts: str = "NT") -> SplitChoice:
    """The tile for these rows, and the fewest parts whose time by the model is within CLOSE of the least."""
    tile = next(choice for choice in TILES if choice.tiling.m >= min(m, MOST_ROWS))
    product, device = ProductSize(m, n, k, layouts), replace(H200, sms=multiprocessors)
    found = [with_parts(m, n, k, tile, parts, multiprocessors) for parts in range(1, most_parts(k, tile.tiling) + 1)]
    times = [product_time(product, one.block_tile, device, "rotated").microseconds for one in found]
    return next(one for one, time in zip(found, times, strict=True) if time <= CLOSE * min(times))


def with_parts(m: int, n: int, k: int, tile: Choice, parts: int, multiprocessors: int) -> SplitChoice:
    """A kernel with K in these parts: stages for its steps, and persistent blocks where not all parts fit at once."""
    slots, units = multiprocessors * RESIDENT, _tiles(m, n, tile.tiling) * parts
    stages = max(2, min(tile.stages, steps_of(k, tile.tiling.k, parts) + 1))
    return SplitChoice(replace(tile, stages=stages), parts, slots if parts > 1 and units > slots else None)


def most_parts(k: int, tiling: Tiling) -> int:
    """Parts of at least LEAST_STEPS steps each."""
    return max(1, min(MOST_PARTS, k // (tiling.k * LEAST_STEPS)))


def _tiles(m: int, n: int, tiling: Tiling) -> int:
    return -(-m // tiling.m) * -(-n // tiling.n)
