"""Tiles for `mma.sync`: candidates as rows, what fits a target, and the choice for a size, K whole or in parts.

The time model ranks the candidates at exactly this size (`product_time`): a table of measured sizes, of which the
nearest was taken, chose kernels that were 16 % slower than the best at the sizes that it had not seen.

>>> choose(ProductSize(4096, 4096, 4096), shared_bytes=227 * 1024).threads
256
>>> str(choose(ProductSize(96, 96, 4096), shared_bytes=227 * 1024))
'32x32x128, 1x2 warps, 6 stages, grouped'

With few rows a product reads B once and computes little: its time is that of the bytes, if enough blocks load at once.
A block has a few stages in flight and so a rate, the device has one, and blocks beyond those that fit either wait for
another round or are persistent and take several parts. More parts fill the device, and cost sums that are written and
added.

>>> found = choose_parts(ProductSize(16, 4096, 4096, "NT"))
>>> found.m, found.n, found.parts, found.resident
(16, 64, 2, 0)
>>> choose_parts(ProductSize(16, 50304, 768, "NT")).parts
1

Rows of an odd number of 2-byte elements are copied by the threads themselves, which hold the next tile's elements in
registers beside their accumulators (`lego-load-tiles-early`): 32 of them in a tile of 128 x 128 x 32 with 256 threads.

>>> str(choose_narrow(1001, 1001)), str(choose_narrow(4097, 4097))
('64x64x32, 2x2 warps, 1 stages, grouped', '128x128x32, 2x4 warps, 1 stages, grouped')
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import REFERENCE_DEVICE, ProductDevice
from lego_mlir.choices.product_tile import LEAST_STEPS, ProductTile
from lego_mlir.choices.product_time import product_time
from lego_mlir.errors import UsageError

LAYOUTS: Final = ("NN", "NT", "TN", "TT")
LEAST_STAGES: Final = 2
# The benchmark's candidates, largest first: the tile of C and its step along K, the warps, stages and resident blocks.
CANDIDATES: Final = tuple(
    ProductTile(*sides, warps, stages, resident=resident)
    for sides, warps, stages, resident in (
        ((128, 256, 64), (2, 4), 4, 0),
        ((128, 256, 64), (2, 4), 3, 1),
        ((256, 128, 64), (4, 2), 4, 0),
        ((256, 128, 64), (4, 2), 3, 1),
        ((128, 128, 64), (2, 2), 3, 0),
        ((128, 64, 64), (2, 2), 4, 0),
        ((64, 128, 128), (2, 2), 3, 0),
        ((64, 128, 64), (2, 2), 4, 0),
        ((64, 128, 64), (1, 4), 4, 0),
        ((64, 64, 64), (2, 2), 4, 0),
        ((32, 64, 128), (1, 2), 4, 0),
        ((32, 64, 64), (1, 2), 6, 0),
        ((32, 32, 128), (1, 2), 6, 0),
    )
)
PARTED: Final = (
    ProductTile(16, 64, 128, (1, 4), 5),
    ProductTile(32, 64, 128, (1, 4), 4),
    ProductTile(64, 64, 64, (2, 2), 6),
)
"""Tiles for K in parts by their rows; stages for RESIDENT blocks on a multiprocessor of SHARED_PER_SM bytes."""
RESIDENT: Final = 2
MOST_ROWS: Final = 64
LEAST_DEPTH: Final = 512
MOST_PARTS: Final = 64
CLOSE: Final = 1.02
"""Fewer parts need less memory, and the model is less precise than this."""
NARROW: Final = (ProductTile(16, 64, 64, (1, 4)), ProductTile(64, 64, 32, (2, 2)), ProductTile(128, 128, 32, (2, 4)))
"""Tiles whose threads copy: for few rows, for few tiles, and others."""


def choose(product: ProductSize, shared_bytes: int, device: ProductDevice = REFERENCE_DEVICE) -> ProductTile:
    """The tile for a product on a device with `shared_bytes` of shared memory per block.

    Raises UsageError for layouts outside LAYOUTS, and where no candidate fits.
    """
    if product.layouts not in LAYOUTS:
        raise UsageError(
            f"the layouts of A and B are one of {', '.join(LAYOUTS)} (N: rows, T: columns), got {product.layouts}"
        )
    fitted = all_fitting(product.k, shared_bytes, product.element)
    return min(fitted, key=lambda tile: product_time(product, tile, device, "steady").microseconds)


def all_fitting(k: int, shared_bytes: int, element: int = 4) -> list[ProductTile]:
    """The candidates, each as it fits."""
    return list(dict.fromkeys(fitting(candidate, k, shared_bytes, element) for candidate in CANDIDATES))


def fitting(tile: ProductTile, k: int, shared_bytes: int, element: int = 4) -> ProductTile:
    """The tile with as many stages as the depth and the shared memory of a block allow, or a smaller one.

    If it does not fit with two stages, the fallbacks are the same tile without persistent blocks, which has room for
    another stage, then the largest candidate that fits.
    """
    smaller = (c for c in CANDIDATES if c.threads <= tile.threads)
    alone = replace(tile, resident=0, stages=tile.stages + bool(tile.resident))
    for candidate in (tile, alone, *smaller):
        iterations = max(LEAST_STEPS, -(-k // candidate.k))
        for stages in range(min(candidate.stages, iterations + 1), LEAST_STAGES - 1, -1):
            fitted = replace(candidate, stages=stages)
            if fitted.shared_bytes(element) <= shared_bytes:
                return fitted
    raise UsageError(f"no kernel of the family fits {shared_bytes} bytes of shared memory a block")


def is_parted(m: int, k: int) -> bool:
    """Whether a product has few rows and long sums."""
    return m <= MOST_ROWS and k >= LEAST_DEPTH


def choose_parts(product: ProductSize, device: ProductDevice = REFERENCE_DEVICE) -> ProductTile:
    """The tile for these rows, and the fewest parts whose time by the model is within CLOSE of the least."""
    tile = next(tile for tile in PARTED if tile.m >= min(product.m, MOST_ROWS))
    found = [with_parts(product, tile, parts, device.sms) for parts in range(1, most_parts(product.k, tile) + 1)]
    times = [product_time(product, one, device, "rotated").microseconds for one in found]
    return next(one for one, time in zip(found, times, strict=True) if time <= CLOSE * min(times))


def with_parts(product: ProductSize, tile: ProductTile, parts: int, multiprocessors: int) -> ProductTile:
    """K in these parts: stages for their steps, and persistent blocks where not all parts fit at once."""
    units = -(-product.m // tile.m) * -(-product.n // tile.n) * parts
    steps = max(LEAST_STEPS, -(-product.k // (tile.k * parts)))
    persistent = parts > 1 and units > multiprocessors * RESIDENT
    stages = max(LEAST_STAGES, min(tile.stages, steps + 1))
    return replace(tile, stages=stages, parts=parts, resident=RESIDENT if persistent else 0)


def most_parts(k: int, tile: ProductTile) -> int:
    """Parts of at least LEAST_STEPS steps each."""
    return max(1, min(MOST_PARTS, k // (tile.k * LEAST_STEPS)))


def choose_narrow(m: int, n: int, multiprocessors: int = REFERENCE_DEVICE.sms) -> ProductTile:
    """The tile whose threads copy: a large one if there are enough of them for the device."""
    few, small, large = NARROW
    if m <= few.m:
        return few
    tiles = -(-m // large.m) * -(-n // large.n)
    return large if tiles >= multiprocessors else small
