"""When K is split among blocks, with which tile and into how many parts: a model of products limited by memory.

With few rows a product reads B once and computes little: its time is that of the bytes, if enough blocks load at once.
A block has a few stages in flight and so a rate, the device has one, and blocks beyond those that fit either wait for
another round or are persistent and take several parts. More parts fill the device, and cost sums that are written and
added:

    start + max(bytes / device's rate, bytes of the longest block / block's rate) + sums, if there is more than one part

The constants are fitted to times of an H200 (`bench/small_products.py`).

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
BYTES: Final = 2
DEVICE_BYTES_PER_NS: Final = 4200  # read from device memory, of the 4800 of an H200's data sheet
BLOCK_BYTES_PER_NS: Final = {16: 42, 32: 42, 64: 25}  # of B, by a block with a tile of these rows
START_NS: Final = 2500  # a launch, its first tiles and its last store
SUM_NS: Final = 500  # for the arrival of a tile's blocks
PART_NS: Final = 120  # to read one more part of a tile's sums


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
    def tiling(self) -> Tiling:
        """The tile of a block."""
        return self.choice.tiling


def applies(m: int, k: int) -> bool:
    """Whether a product has few rows and long sums."""
    return m <= MOST_ROWS and k >= LEAST_DEPTH


def choose(m: int, n: int, k: int, multiprocessors: int) -> SplitChoice:
    """The tile for these rows, and the parts by the model."""
    tile = next(choice for choice in TILES if choice.tiling.m >= min(m, MOST_ROWS))
    t = tile.tiling
    parts = min(range(1, most_parts(k, t) + 1), key=lambda count: nanoseconds(m, n, k, t, count, multiprocessors))
    return with_parts(m, n, k, tile, parts, multiprocessors)


def with_parts(m: int, n: int, k: int, tile: Choice, parts: int, multiprocessors: int) -> SplitChoice:
    """A kernel with K in these parts: stages for its steps, and persistent blocks where not all parts fit at once."""
    slots, units = multiprocessors * RESIDENT, _tiles(m, n, tile.tiling) * parts
    stages = max(2, min(tile.stages, steps_of(k, tile.tiling.k, parts) + 1))
    return SplitChoice(replace(tile, stages=stages), parts, slots if parts > 1 and units > slots else None)


def most_parts(k: int, tiling: Tiling) -> int:
    """Parts of at least LEAST_STEPS steps each."""
    return max(1, min(MOST_PARTS, k // (tiling.k * LEAST_STEPS)))


def nanoseconds(m: int, n: int, k: int, tiling: Tiling, parts: int, multiprocessors: int) -> float:
    """The model's time of a product with K in `parts`; it ranks parts."""
    units, slots = _tiles(m, n, tiling) * parts, multiprocessors * RESIDENT
    longest = -(-units // slots) * min(n, tiling.n) * steps_of(k, tiling.k, parts) * tiling.k * BYTES
    bytes_ = -(-m // tiling.m) * n * k * BYTES
    loads = max(bytes_ / DEVICE_BYTES_PER_NS, longest / BLOCK_BYTES_PER_NS[tiling.m])
    return START_NS + loads + (SUM_NS + PART_NS * parts if parts > 1 else 0)


def _tiles(m: int, n: int, tiling: Tiling) -> int:
    return -(-m // tiling.m) * -(-n // tiling.n)
