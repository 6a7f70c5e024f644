"""The tiles of products whose rows no asynchronous copy takes: those of an odd number of 2-byte elements.

A thread holds the next tile's elements in registers beside its accumulators (`lego-load-tiles-early`), one register for
each element: 32 of them in a tile of 128 x 128 x 32 with 256 threads, and no more in the others.

>>> is_narrow(64, 64, 63, "NN"), is_narrow(63, 64, 64, "NN")
(True, False)
>>> str(choose(1001, 1001, 132).tiling), str(choose(4097, 4097, 132).tiling)
('64x64x32, 2x2 warps', '128x128x32, 2x4 warps')
"""

from __future__ import annotations

from typing import Final

from lego_mlir.kernels.aligned_products import BYTES, stored
from lego_mlir.kernels.choices import Choice
from lego_mlir.kernels.matmul import Tiling

LEAST_COPY: Final = 4  # bytes that an asynchronous copy moves at least; PTX ISA, "cp.async"
FEW: Final = Choice(Tiling(16, 64, 64, (1, 4)), 1)
SMALL: Final = Choice(Tiling(64, 64, 32, (2, 2)), 1)
LARGE: Final = Choice(Tiling(128, 128, 32, (2, 4)), 1)


def is_narrow(m: int, n: int, k: int, layouts: str) -> bool:
    """Whether rows of A or B, as they are stored, begin at odd elements."""
    return any(row * BYTES % LEAST_COPY for _, row in stored(m, n, k, layouts))


def choose(m: int, n: int, multiprocessors: int) -> Choice:
    """The tile: a large one if there are enough of them for the device."""
    if m <= FEW.tiling.m:
        return FEW
    tiles = -(-m // LARGE.tiling.m) * -(-n // LARGE.tiling.n)
    return LARGE if tiles >= multiprocessors else SMALL
