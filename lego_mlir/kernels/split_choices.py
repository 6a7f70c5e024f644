"""When K is split among blocks, with which tile and into how many parts: a model of products limited by memory.

With few rows a product reads B once and computes little: its time is that of the bytes, if enough blocks load at once.
A block loads (m + n) k elements a step; blocks of a multiprocessor share its bandwidth; blocks beyond those that fit
wait for another round. More parts fill the device, and cost sums that are written and added:

    rounds * (start + steps * bytes * resident / bandwidth) + sums, if there is more than one part

>>> found = choose(16, 4096, 4096, 132)
>>> found.tiling.m, found.tiling.n, found.parts
(16, 64, 2)
>>> choose(16, 50304, 768, 132).parts
1
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lego_mlir.kernels.choices import Choice
from lego_mlir.kernels.matmul import LEAST_STEPS, Tiling
from lego_mlir.kernels.split_k import MOST_PARTS

MOST_ROWS: Final = 64
LEAST_DEPTH: Final = 512
TILES: Final = (
    Choice(Tiling(16, 64, 128, (1, 4)), 5),
    Choice(Tiling(32, 64, 128, (1, 4)), 4),
    Choice(Tiling(64, 64, 128, (2, 2)), 3),
)
"""The tiles by their rows; stages for two blocks on a multiprocessor of 228 KB."""
RESIDENT: Final = 2
BYTES: Final = 2
BYTES_PER_NS: Final = 36  # of device memory for one of 132 multiprocessors: 4.8 TB/s, NVIDIA H200 data sheet
START_NS: Final = 1500  # until a block's first tiles arrive, and to store its last; ranks parts
SUM_NS: Final = 1500  # for the arrival of a tile's blocks; ranks parts
PART_NS: Final = 60  # to read one more part of a tile's sums; ranks parts


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """A kernel: its tile and stages, and the parts of K; 1 leaves K whole."""

    choice: Choice
    parts: int

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
    parts = min(
        range(1, most_parts(k, tile.tiling) + 1), key=lambda count: nanoseconds(m, n, k, tile, count, multiprocessors)
    )
    steps = max(LEAST_STEPS, -(-k // (tile.tiling.k * parts)))
    return SplitChoice(replace(tile, stages=max(2, min(tile.stages, steps + 1))), parts)


def most_parts(k: int, tiling: Tiling) -> int:
    """Parts of at least LEAST_STEPS steps each."""
    return max(1, min(MOST_PARTS, k // (tiling.k * LEAST_STEPS)))


def nanoseconds(m: int, n: int, k: int, tile: Choice, parts: int, multiprocessors: int) -> float:
    """The model's time of a product with K in `parts`; it ranks parts and predicts no times."""
    t = tile.tiling
    blocks = -(-m // t.m) * -(-n // t.n) * parts
    rounds = -(-blocks // (multiprocessors * RESIDENT))
    resident = min(RESIDENT, -(-blocks // multiprocessors))
    steps = max(LEAST_STEPS, -(-k // (t.k * parts)))
    step = (min(m, t.m) + t.n) * t.k * BYTES * resident / BYTES_PER_NS
    return rounds * (START_NS + steps * step) + (SUM_NS + PART_NS * parts if parts > 1 else 0)
