"""A few tiles for all numbers of rows of an order of magnitude, of which a call takes the quickest for its own.

Each tile of a class of products is a kernel to compile, and one tile for all of them is far from the best for many. So
there are MOST tiles at most, chosen by the model of the time: first the tile that is best on average over M from half a
power of two to the whole, then the one that saves most with it, as long as that pays.

>>> few = covering({"wide": [4.0, 4.0, 9.0], "narrow": [6.0, 6.0, 6.0], "odd": [4.1, 4.1, 8.9]}, 3)
>>> few
('wide', 'narrow')
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from lego_mlir.choices import warp_tiles, warpgroup_tiles
from lego_mlir.choices.product_counts import WARPGROUP_ROWS, ProductSize
from lego_mlir.choices.product_device import ProductDevice
from lego_mlir.choices.product_tile import ProductTile
from lego_mlir.choices.product_time import product_time
from lego_mlir.choices.warpgroup_tiles import Wanted

MOST: Final = 5
"""Kernels of a class: each takes about a second to compile, once."""
PAYS: Final = 0.005
"""The mean share of the time that a further tile must save."""
LEADERS: Final = 6
"""Candidates of each number of rows that are compared at all others."""
RANKED_AT: Final = (0.5625, 0.6875, 0.8125, 0.9375, 1.0)
"""Shares of the power of two at which all candidates are ranked."""
COMPARED_AT: Final = tuple(share / 32 for share in range(17, 33))
"""Shares of it at which the best of them are compared."""
KEPT: Final = 1024
"""Choices of tiles that a process keeps."""
T = TypeVar("T")


def octave(m: int) -> int:
    """The power of two from m on, at least 4.

    >>> octave(300), octave(512), octave(1)
    (512, 512, 4)
    """
    return 1 << max(2, (m - 1).bit_length())


def covering(times: Mapping[T, Sequence[float]], most: int = MOST) -> tuple[T, ...]:
    """The candidates whose least times together are lowest on average: the best one, then what saves most with it."""
    found: list[T] = []
    least = [math.inf] * len(next(iter(times.values())))
    while len(found) < most:
        together = {one: [min(pair) for pair in zip(of_one, least, strict=True)] for one, of_one in times.items()}
        best = min(together, key=lambda one: _mean(together[one]))
        if found and _mean(least) - _mean(together[best]) < PAYS:
            break
        found.append(best)
        least = together[best]
    return tuple(found)


def _mean(times: list[float]) -> float:
    """The mean logarithm."""
    return math.fsum(map(math.log, times)) / len(times)


def rows_of(top: int) -> list[int]:
    """Numbers of rows from half of `top` to `top`, at which the best candidates are compared."""
    return list(dict.fromkeys(max(1, round(share * top)) for share in COMPARED_AT))


def few_tiles(
    candidates: Sequence[T], time: Callable[[T, int], float], top: int, rows: Sequence[int] | None = None
) -> tuple[T, ...]:
    """The tiles of a class for M from half of `top` to `top`, or for the given `rows`; `time` of a candidate for M."""
    compared = rows_of(top) if rows is None else rows
    ranked = [m for m in (max(1, round(share * top)) for share in RANKED_AT) if compared[0] <= m <= compared[-1]]
    leading: dict[T, None] = {}
    for m in ranked or compared[:1]:
        leading |= dict.fromkeys(sorted(candidates, key=lambda candidate: time(candidate, m))[:LEADERS])
    return covering({candidate: [time(candidate, m) for m in compared] for candidate in leading})


@lru_cache(KEPT)
def _by_warpgroups(top: Wanted) -> tuple[ProductTile, ...]:
    """The tiles of warpgroups for M up to that of `top`, in its lockstep; an early start is that of the mean M."""
    found = few_tiles(warpgroup_tiles.candidates(top), lambda tile, m: replace(top, m=m).microseconds(tile), top.m)
    mean = replace(top, m=3 * top.m // 4)
    return tuple(mean.finished(tile, mean.microseconds(tile)) for tile in found)


@lru_cache(KEPT)
def _clustered(top: Wanted) -> tuple[ProductTile, ...]:
    """The tiles in clusters of 4 and 8 blocks for M from half of `top` to it, as far as such products are short."""
    short = [one for one in (replace(top, m=m) for m in rows_of(top.m)) if one.is_short_and_unaligned]
    ends = dict.fromkeys([*short[:1], *short[-1:]])
    tiles = dict.fromkeys(tile for one in ends for tile in warpgroup_tiles.clustered_tiles(one))
    fitting = [tile for tile in tiles if all(warpgroup_tiles.fits(tile, one) for one in short)]
    if not fitting:
        return ()
    rows = [one.m for one in short]
    found = few_tiles(fitting, lambda tile, m: replace(top, m=m).microseconds(tile), top.m, rows)
    return tuple(replace(tile, dependent=True) for tile in found)


def by_warpgroups(wanted: Wanted) -> ProductTile:
    """The tile of the class of a product by warpgroups."""
    top = replace(wanted, m=max(octave(wanted.m), WARPGROUP_ROWS))
    tiles = _by_warpgroups(top)
    if wanted.plain and wanted.is_short_and_unaligned:
        tiles += _clustered(top)
    return min(tiles, key=wanted.microseconds)


@lru_cache(KEPT)
def _by_warps(top: ProductSize, room: int, device: ProductDevice) -> tuple[ProductTile, ...]:
    """The tiles of mma.sync for M up to that of `top`."""
    fitting = warp_tiles.all_fitting(top.k, room, top.element)
    return few_tiles(
        fitting, lambda tile, m: product_time(replace(top, m=m), tile, device, "steady").microseconds, top.m
    )


def by_warps(product: ProductSize, room: int, device: ProductDevice) -> ProductTile:
    """The tile of the class of a product by mma.sync; `room` is the shared memory of a block, in bytes."""
    tiles = _by_warps(replace(product, m=octave(product.m)), room, device)
    return min(tiles, key=lambda tile: product_time(product, tile, device, "steady").microseconds)
