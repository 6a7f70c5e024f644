"""The tile of a product by warpgroups, for sm_90a: the candidates, their schedules, and the choice for a size.

The time model of all products ranks tiles and clusters (`product_time`): large ones where they fill the device, smaller
ones where they would leave it idle. In a cluster of two blocks, each copies half of the shared operand, which pays
where rows are not whole lines. An odd size is best divided by a width that fills the last round, and few rows by
narrow tiles.

>>> choose(4096, 4096, 4096, 132).lockstep, choose(512, 512, 512, 132).m
(32, 64)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Final

from lego_mlir.errors import UsageError
from lego_mlir.hardware.memory import SECTOR_BYTES
from lego_mlir.hardware.stage_rings import BUFFERS, ENOUGH_STAGES, StageRing
from lego_mlir.kernels.product_counts import BYTES, BlockTile, ProductSize, reached_by
from lego_mlir.kernels.product_time import H200, product_time

Sizes = tuple[int, int, int]
UNIT: Final = 8
"""Rows or columns of a tile are a multiple, and so is what each block of a cluster copies of them."""
STEP: Final = 64
"""Elements of 16 bits along K of a step: rows of 128 bytes."""
TILES: Final = tuple((m, n) for m in (256, 64, 128) for n in range(256 if m < 256 else 192, 56, -8))
NARROW_TILES: Final = tuple((64, n) for n in range(56, 8, -8))
"""Considered where tiles of 64 x 64 do not fill a device: more blocks copy the other operand."""
TRANSPOSED: Final = {64: range(256, 56, -16), 128: range(256, 56, -16), 256: range(192, 48, -16)}
"""Rows of C of tiles of transposed products by their columns, which are the rows of the unit."""
TRACED_ROWS: Final = 16
"""Rows of a tile are a multiple, as the kernel is traced."""
PARTS: Final = (2, 4)
"""Parts of K within a cluster: 8 were slower."""
PARTED_TILES: Final = tuple((m, n) for m in (64, 128) for n in range(24, 177, 8))
PARTED_ROWS: Final = 1.06
"""What parts of K within a cluster take of the predicted time with several rows of tiles: 1.04 to 1.28 on an H200,
where those among clusters took 0.97 to 1.03."""
TRANSPOSED_ROWS: Final = (16, 32, 48, 64)
TRANSPOSED_COLUMNS: Final = (64, 128)
"""The sides of tiles of transposed products, in rows and columns of C."""
TRANSPOSED_FILLED: Final = 0.9
"""The share of multiprocessors that they use, at least: with 112 blocks of 132, an H200 took 1.05 of the time of
others, with 128 blocks 0.9 to 0.99."""
DEEP: Final = 16
"""Stages of the rings of narrow tiles."""
SPLIT_TILES: Final = tuple((m, n) for m in (64, 128) for n in range(64, 193, 32))
SPLIT_CLUSTERS: Final = ((1, 1), (2, 1), (1, 2))
MOST_SPLITS: Final = 16
"""Clusters for a tile: the last one reads the sums of all."""
LEAST_SPLITS: Final = 4
"""Clusters for a tile of few rows: with 3, 1 x 2560 x 8192 took 1.3 times as long as in parts within clusters."""
MOST_BLOCKS: Final = 8
"""Blocks of a cluster."""
LEAST_PART: Final = 4
"""Steps along K of a part."""
LEAST_FILLED: Final = 0.6
"""The share of multiprocessors that blocks with parts of K use, at least."""
PARTED_GAIN: Final = 0.95
"""The time with parts relative to whole sums from which they are taken: kernels of a class have none."""
LARGEST: Final = ((256, 192), (1, 2))
LARGE: Final = 15 * 128 * 256
"""Elements of C for each multiprocessor from which power alone limits a product of whole lines, and neither rounds nor
tails: the largest tile moves the fewest bytes. It was 2 % quicker than others at 16384, as quick as them at 8192."""
CLUSTERS: Final = ((1, 1), (1, 2), (2, 1))
LARGER: Final = {4: ((1, 4), (4, 1)), 8: ((2, 4), (4, 2))}
LARGER_GAIN: Final = {4: 0.9, 8: 0.95}
"""Clusters of more blocks, and their time relative to the prediction, where rows of operands are not whole lines: on an
H200, they are the quickest at most of 16 such sizes, up to 1.3 times as quick. Clusters of 2 x 2 were slower."""
LARGER_TILES: Final = tuple((rows, n) for rows in (64, 128) for n in range(240, 56, -8))
SHARED_WORK: Final = range(5 * 10**8, 37 * 10**8)
"""M N K at which they are considered: from 800 to 1546 cubed. At 1656, 1744 and 1936 they took 1.08 to 1.15 of it."""
NEWER_GAIN: Final = 0.985
SHALLOW_GAIN: Final = 0.95
"""The predicted time relative to that of other tiles from which transposed and unevenly shared ones are taken, and
those in rings of fewer than ENOUGH_STAGES: predicted as quick, an H200 took as long or up to 2 and 5 % longer."""
SECTOR: Final = SECTOR_BYTES // BYTES
"""Elements of a sector: boxes that begin within one took 1.5 times as long at 2560 NN, so tiles are whole ones."""
MOST_PROMOTED: Final = 192
"""Sums of a thread that are kept twice to be promoted, in columns of a tile of up to 128 rows."""
PLAIN_ROWS: Final = 128
"""Rows of a tile whose consumers have 64 each."""
TALL_COLUMNS: Final = (192, 0)
"""The most columns of tiles of more rows, without operands of an epilogue and with: on an H200, 128 x 256 is faster."""
MOST_STAGES: Final = 12
LEAST_STAGES: Final = 2
GROUP: Final = 2048
"""Rows of C in a group of the tile order."""
CLEARLY: Final = 0.97
"""What the operands of a round take relative to those of groups of GROUP rows from which another height is chosen."""
MEETING: Final = 32
"""Steps between meetings of the producers: on an H200, 8 and 16 are no faster at squares from 4096 on."""
LEAST_ROUNDS: Final = (3, 5)
"""Tiles of a block from which producers meet: where rows of the operands are whole lines, and otherwise."""
KEPT: Final = 1024
"""Choices that a process keeps."""
SHORT: Final = 40.0
"""Microseconds of a product that begins while the kernel before it runs."""
MORE_BUFFERS: Final = 4
LEAST_ROOMY: Final = 3
"""Buffers of a consumer for 8-bit types, and the stages from which they are taken."""
BESIDE: Final = 1.0
"""Microseconds less of an 8-bit product whose blocks leave room for those of the next launch, which begin meanwhile."""
MOST_SHARING: Final = 4
"""Rows of tiles of 8-bit types that share columns of B: clusters took 0.93 to 0.99 of the time at 256 x 4096 x 4096,
and K of 14336."""
LEAST_BYTES: Final = 32
"""Columns of a tile of results of 8 bits, at least."""
OUT_BUFFER: Final = 8192
"""Bytes of a consumer's buffer for C, at most."""


@dataclass(frozen=True, slots=True)
class WarpgroupTile:
    """How a product is divided: the tile of a block, the blocks of a cluster along M and N, and their schedule.

    `group` is the number of rows of tiles in a group of the tile order, `lockstep` the steps between meetings. With
    `parts`, as many blocks of a cluster compute a tile, each a part of K, and a cluster has one tile; with `splits`, as
    many clusters do (`split_k`). `transposed` computes B^T A^T, whose rows are columns of C (`few_rows`).
    `resident` blocks run on a multiprocessor. Each consumer stores C through `buffers`.
    """

    m: int
    n: int
    stages: int
    cluster: tuple[int, int] = (1, 1)
    group: int = 16
    lockstep: int = 0
    dependent: bool = False
    step: int = STEP
    exact: int = 0
    parts: int = 1
    transposed: bool = False
    resident: int = 1
    buffers: int = BUFFERS
    splits: int = 1

    @property
    def block_tile(self) -> BlockTile:
        """What the time model of all products takes; of a transposed product, that of B^T A^T."""
        (m, n), cluster = (self.m, self.n), self.cluster
        if self.transposed:
            (m, n), cluster = (n, m), cluster[::-1]
        return BlockTile(
            "warpgroups", m, n, STEP, (m // 16, 1), 0, self.stages, resident=self.resident, cluster=cluster,
            parts=self.parts, lockstep=self.lockstep > 0, dependent=self.dependent,
            splits=self.splits,
        )  # fmt: skip

    @property
    def gain(self) -> float:
        """The predicted time, relative to that of others, from which the tile is taken: 1 but for newer kinds."""
        uneven = self.n % (UNIT * self.cluster[0]) > 0 or self.m % (UNIT * self.cluster[1]) > 0
        if not (self.transposed or uneven) or self.cluster not in CLUSTERS:
            return 1.0
        if self.stages < ENOUGH_STAGES:
            return SHALLOW_GAIN
        return NEWER_GAIN

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """The grid of clusters' tiles."""
        return -(-m // (self.m * self.cluster[0])), -(-n // (self.n * self.cluster[1]))

    def shares_rows(self, m: int, n: int) -> bool:
        """Whether each block of a cluster copies something of a shared operand.

        Boxes outside of a matrix are slow: with 16 rows in clusters of 1 x 2 that share 64, an H200 took 2.5 times as
        long as without clusters.
        """
        along_m, along_n = self.cluster
        return self.m // along_n * (along_n - 1) < m and self.n // along_m * (along_m - 1) < n

    def fits(self, m: int, n: int, multiprocessors: int, most: int = 2) -> bool:
        """Whether the blocks of a cluster share what they can.

        Two rows of tiles, or up to `most`, read the same columns of B in one round at the same time: in clusters of
        2 x 1 that copy them once, 128 x 6144 x 6144 took 0.81 of the time on an H200.
        """
        down, across = -(-m // self.m), -(-n // self.n)
        alone = 2 <= down <= most and self.cluster[0] == 1 and down * across * self.parts <= multiprocessors
        return self.shares_rows(m, n) and not alone

    def leaves_half(self, m: int, n: int, multiprocessors: int) -> bool:
        """Whether all blocks, in one row of tiles, leave as many multiprocessors to others as they take.

        On an H200, 64 blocks of 64 x 64 took 4.2 us in launches that follow each other where 128 of 64 x 32 took 4.7.
        """
        return m <= self.m <= STEP and 2 * -(-n // self.n) <= multiprocessors

    def keeps_sums(self, m: int, k: int, layouts: str) -> bool:
        """Whether the ring has room for the sums of a block, which those of other parts of K read from there."""
        stage = min(self.m, m) + columns_of(self.n, layouts)
        return self.parts == 1 or self.m * self.n * 4 <= self.stages * stage * STEP * BYTES

    def clusters(self, multiprocessors: int, at_once: Sequence[int] = ()) -> int:
        """Clusters that run at the same time: `resident` blocks on each multiprocessor.

        A device may run fewer, since a cluster is on one group of its multiprocessors: `at_once` has, with one block on
        each, those of 2, 4 and 8 blocks, where they are known.
        """
        blocks = self.cluster[0] * self.cluster[1] * self.parts
        found = multiprocessors * self.resident // blocks
        number = blocks.bit_length() - 2  # of these among clusters of 2, 4 and 8
        known = at_once[number] * self.resident if 0 <= number < len(at_once) else found
        return min(found, known) or found

    def __str__(self) -> str:
        beside = "" if self.cluster == (1, 1) else f" cluster {self.cluster[0]}x{self.cluster[1]}"
        meeting = f" every {self.lockstep}" if self.lockstep else ""
        parts = f" in {self.parts} parts" if self.parts > 1 else ""
        parts += f" by {self.splits} clusters" if self.splits > 1 else ""
        twice = f" resident {self.resident}" if self.resident > 1 else ""
        more = f" buffers {self.buffers}" if self.buffers > BUFFERS else ""
        words = f"{parts}{' transposed' * self.transposed}{' dependent' * self.dependent}{twice}{more}"
        return f"{self.m}x{self.n}{beside} group {self.group}{meeting}{words}"


def microseconds(sizes: Sizes, tile: WarpgroupTile, multiprocessors: int, layouts: str = "NT") -> float:
    """The estimate of the model of all products (`product_time`); of a transposed product, that of B^T A^T."""
    (m, n, k), device = sizes, replace(H200, sms=multiprocessors)
    size = ProductSize(n, m, k, exchanged(layouts)) if tile.transposed else ProductSize(m, n, k, layouts)
    larger = tile.cluster in LARGER.get(tile.cluster[0] * tile.cluster[1], ()) and tile.parts == 1
    gain = LARGER_GAIN[tile.cluster[0] * tile.cluster[1]] if larger and shares_lines(m, n, k, layouts) else 1.0
    return gain * product_time(size, tile.block_tile, device, "steady").microseconds


@lru_cache(KEPT)
def choose(
    m: int, n: int, k: int, multiprocessors: int, layouts: str = "NT", bytes_: int = BYTES, exact: int = 0,
    fused: bool = False, operands: int = 0,
) -> WarpgroupTile:  # fmt: skip
    """The division of a product on a device with this many multiprocessors, the quickest by the model.

    Elements have `bytes_`: 128 bytes of K take the same time for all types, since the units multiply twice as many
    elements of half the size. With `exact`, sums are promoted after that number of steps, which takes every sum twice.
    `fused` products have an epilogue, with that number of `operands`, or a result of 32 or 8 bits.
    """
    step, k = STEP * BYTES // bytes_, k * bytes_ // BYTES
    tiles = candidates(m, n, k, multiprocessors, layouts, bytes_, exact, fused, operands)
    plain = bytes_ == BYTES and not (exact or fused)
    tiles += clustered_tiles(m, n, k, multiprocessors, layouts) if plain else []
    times = {found: microseconds((m, n, k), found, multiprocessors, layouts) for found in tiles}
    if bytes_ == 1:
        times = {tile: time - BESIDE * tile.leaves_half(m, n, multiprocessors) for tile, time in times.items()}
    found = min(times, key=lambda tile: times[tile] / tile.gain)
    short = times[found] < SHORT
    if found.lockstep == 0:
        divided = {
            tile: microseconds((m, n, k), tile, multiprocessors, layouts)
            * (PARTED_ROWS if m > STEP and tile.parts > 1 and bytes_ >= BYTES else 1.0)
            for tile in divided_tiles(
                m, n, k, multiprocessors, layouts, fused or exact > 0 or bytes_ != BYTES, splits=bytes_ >= BYTES
            )
            if tile.n % unit_of(bytes_) == 0
        }
        best = min(divided, key=divided.__getitem__, default=found)
        gain = PARTED_GAIN if m >= STEP else 1.0
        if best != found and divided[best] < gain * times[found]:
            return replace(best, dependent=divided[best] < SHORT, step=step, exact=exact)
    if bytes_ == 1 and operands and not exact:
        found = in_rectangles(with_more_buffers(found), m, n, multiprocessors)
    dependent = short and found.lockstep == 0
    if dependent and plain:
        found = by_two_consumers(found, m, n)
    return replace(found, dependent=dependent, step=step, exact=exact)


def by_two_consumers(tile: WarpgroupTile, m: int, n: int) -> WarpgroupTile:
    """A tile of 128 x 64, which two consumers store, in place of 64 x 128 where it makes no more tiles.

    In a sequence of short launches, 1024 x 1024 x 1024 took 0.97 of the time on an H200. Fewer stages gain 1 % more
    there, and lose about 6 % where a single launch reads from DRAM.
    """
    turned = WarpgroupTile(128, 64, tile.stages, group=GROUP // 128)
    alone = (tile.m, tile.n, tile.cluster, tile.parts) == (64, 128, (1, 1), 1)
    return turned if alone and not tile.transposed and prod(turned.tiles(m, n)) <= prod(tile.tiles(m, n)) else tile


def with_more_buffers(tile: WarpgroupTile) -> WarpgroupTile:
    """A wide tile with more buffers for C in place of stages; itself where that would leave too few.

    Steps of 8-bit types take as long as others, and K has half as many: the stores of a tile take twice the share.
    On an H200, 128 x 256 x 4096 took 0.97 to 0.99 of the time.
    """
    stages = ring_of(tile.m, tile.n, "NT").fitting(MORE_BUFFERS)
    if tile.n <= STEP * BUFFERS or stages < LEAST_ROOMY:
        return tile
    return replace(tile, stages=min(tile.stages, stages), buffers=MORE_BUFFERS)


def in_rectangles(tile: WarpgroupTile, m: int, n: int, multiprocessors: int) -> WarpgroupTile:
    """The tile in groups such that a round is a rectangle, where there are several rounds.

    On an H200, 8192 x 8192 x 8192 took 0.95 to 0.98 of the time in groups of 11 rows rather than 16.
    """
    rows, columns = tile.tiles(m, n)
    at_once = tile.clusters(multiprocessors)
    if tile.lockstep == 0 or rows * columns < LEAST_ROUNDS[1] * at_once:
        return tile
    return replace(tile, group=rectangle(tile, rows, at_once, 1.0))


def candidates(
    m: int, n: int, k: int, multiprocessors: int, layouts: str = "NT", bytes_: int = BYTES, exact: int = 0,
    fused: bool = False, operands: int = 0,
) -> list[WarpgroupTile]:  # fmt: skip
    """All divisions that are ranked, for K in elements of 16 bits; the arguments are those of `choose`."""
    tiles, alone = list(TILES), not (exact or fused)
    few = -(-m // STEP) * -(-n // STEP) < multiprocessors
    plain = alone and not few and bytes_ == BYTES
    if few and (alone or bytes_ == BYTES or (bytes_ == 1 and not exact and m <= STEP)):
        tiles += [tile for tile in NARROW_TILES if bytes_ > 1 or tile[1] >= LEAST_BYTES]
    elif plain and m * n >= LARGE * multiprocessors and of_whole_lines(n, k, layouts):
        return [tile_of(m, n, k, LARGEST[0], multiprocessors, LARGEST[1], layouts=layouts)]
    halves = not plain or layouts[1] == "N"
    made = (
        tile_of(m, n, k, tile, multiprocessors, cluster, layouts=layouts)
        for tile, cluster in _candidates(tiles, (m, n), multiprocessors, bytes_, exact, operands, halves=halves)
    )
    whole = layouts[1] == "N" and n % SECTOR == 0
    most = MOST_SHARING if bytes_ == 1 else 2
    found = [
        tile for tile in made
        if tile.fits(m, n, multiprocessors, 2 if m % tile.m else most) and not (whole and tile.n % SECTOR)
    ]  # fmt: skip
    return [*found, *(transposed_tiles(m, n, k, multiprocessors, layouts) if plain else ())]


def transposed_tiles(m: int, n: int, k: int, multiprocessors: int, layouts: str) -> list[WarpgroupTile]:
    """Tiles of B^T A^T, where they are not the same as those of A B.

    Rows of B are whole columns of 128 bytes of the unit's side of 64, and A, whose rows are along K, is divided as
    finely as M needs.
    """
    if layouts != "NN" and (m == n or layouts == "TT"):
        return []
    tiles = ((m, n, c) for n, heights in TRANSPOSED.items() for m in heights for c in CLUSTERS)
    found = (
        tile_of(m, n, k, (rows, columns), multiprocessors, cluster, layouts=layouts, transposed=True)
        for rows, columns, cluster in tiles
    )
    return [tile for tile in found if tile.fits(m, n, multiprocessors)]


def divided_tiles(
    m: int, n: int, k: int, multiprocessors: int, layouts: str, fused: bool = False, *, splits: bool = True
) -> list[WarpgroupTile]:  # fmt: skip
    """Divisions of a product that fills no device in whole tiles: K in parts in a cluster, and with `splits` among
    clusters; of plain products of few rows, transposed ones too."""
    found = parted_tiles(m, n, k, multiprocessors, layouts)
    if splits:
        found += split_tiles(m, n, k, multiprocessors, layouts)
    return found if fused else [*found, *few_row_tiles(m, n, k, multiprocessors, layouts)]


def split_tiles(m: int, n: int, k: int, multiprocessors: int, layouts: str) -> list[WarpgroupTile]:
    """Divisions of a product among as many clusters for each tile as run at once; all read the same part of K."""
    found = []
    for height, width in SPLIT_TILES:
        for cluster in SPLIT_CLUSTERS:
            shared = cluster[0] * cluster[1]
            blocks = -(-m // (height * cluster[0])) * -(-n // (width * cluster[1])) * shared
            splits = min(reached_by(shared, multiprocessors) // blocks, MOST_SPLITS, k // (STEP * LEAST_PART))
            outside = height * (cluster[0] - 1) >= m or width * (cluster[1] - 1) >= n
            if splits < 2 or splits * blocks < LEAST_FILLED * multiprocessors or outside:
                continue
            stages = stages_of(height, width, -(-k // splits), layouts)
            tile = WarpgroupTile(height, width, stages, cluster, max(1, GROUP // (height * cluster[0])), splits=splits)
            if tile.fits(m, n, multiprocessors):
                found.append(tile)
    return found


def few_row_tiles(m: int, n: int, k: int, multiprocessors: int, layouts: str) -> list[WarpgroupTile]:
    """Divisions of a product of few rows by its columns, 64 or 128 of which fill the rows of the unit."""
    if m > TRANSPOSED_ROWS[-1]:
        return []
    height, found = next(rows for rows in TRANSPOSED_ROWS if rows >= m), []
    most = min(multiprocessors // -(-n // STEP), MOST_SPLITS)
    ways = [(width, parts, 1) for width in TRANSPOSED_COLUMNS for parts in (1, *PARTS)]
    for width, parts, splits in [*ways, *([(STEP, 1, most)] if most >= LEAST_SPLITS else [])]:
        blocks, reached = -(-n // width) * parts * splits, reached_by(parts, multiprocessors)
        filled = TRANSPOSED_FILLED * multiprocessors <= blocks <= reached
        if not filled or k < STEP * LEAST_PART * parts * splits:
            continue
        tile = WarpgroupTile(
            height, width, LEAST_STAGES, group=GROUP // height, parts=parts, transposed=True, splits=splits
        )  # fmt: skip
        tile = replace(tile, stages=deep_stages(tile, k, layouts))
        if tile.keeps_sums(m, k, layouts):
            found.append(tile)
    return found


def clustered_tiles(m: int, n: int, k: int, multiprocessors: int, layouts: str) -> list[WarpgroupTile]:
    """Tiles in clusters of 4 and 8 blocks, for short products of rows that touch two lines each: they share them."""
    few = -(-m // STEP) * -(-n // STEP) < multiprocessors
    if few or not is_short_and_unaligned(m, n, k, layouts):
        return []
    found = []
    for (rows, columns), cluster in product(LARGER_TILES, (c for clusters in LARGER.values() for c in clusters)):
        tile = (columns, rows) if layouts == "NN" else (rows, columns)
        if (columns % SECTOR and layouts == "TN") or tile[0] % TRACED_ROWS:
            continue
        made = tile_of(m, n, k, tile, multiprocessors, cluster, layouts=layouts, transposed=layouts == "NN")
        found += [made] * (made.lockstep == 0 and made.fits(m, n, multiprocessors))
    return found


def is_short_and_unaligned(m: int, n: int, k: int, layouts: str) -> bool:
    """Whether clusters of 4 and 8 blocks may be quicker than smaller ones."""
    return m * n * k in SHARED_WORK and shares_lines(m, n, k, layouts)


def shares_lines(m: int, n: int, k: int, layouts: str) -> bool:
    """Whether rows of both operands are not whole halves of lines of 128 bytes, so that most boxes touch two a row."""
    contiguous = k if layouts[0] == "N" else m, n if layouts[1] == "N" else k
    return all(extent % (STEP // 2) for extent in contiguous)


def parted_tiles(m: int, n: int, k: int, multiprocessors: int, layouts: str) -> list[WarpgroupTile]:
    """Divisions of a product of few tiles whose K the blocks of a cluster divide; all blocks run at once."""
    found = []
    for (height, width), parts in product(PARTED_TILES, PARTS):
        blocks, reached = -(-m // height) * -(-n // width) * parts, reached_by(parts, multiprocessors)
        filled = LEAST_FILLED * multiprocessors <= blocks <= reached // parts * parts
        if filled and k >= STEP * LEAST_PART * parts:
            stages = stages_of(height, width, -(-k // parts), layouts)
            found.append(WarpgroupTile(height, width, stages, group=max(1, GROUP // height), parts=parts))
    return [tile for tile in found if tile.keeps_sums(m, k, layouts) and tile.fits(m, n, multiprocessors)]


def unit_of(bytes_: int) -> int:
    """What the width of a block's tile is a multiple of: some types of one byte have instructions for 16 columns."""
    return 16 if bytes_ == 1 else 8


def _candidates(
    tiles: Sequence[tuple[int, int]], size: tuple[int, int], multiprocessors: int, bytes_: int, exact: int,
    operands: int, halves: bool,
) -> list[tuple[tuple[int, int], tuple[int, int]]]:  # fmt: skip
    """Tiles and clusters of elements of `bytes_`.

    8-bit types with an epilogue are computed in single blocks where there are several rounds, quicker on an H200. With
    `halves`, two blocks that share a tile's columns copy equal parts of them.
    """
    (m, n), narrow, unit = size, bytes_ == 1, unit_of(bytes_)
    tall = 0 if exact or narrow else TALL_COLUMNS[min(operands, len(TALL_COLUMNS) - 1)]
    return [
        ((height, width), cluster)
        for height, width in tiles
        for cluster in CLUSTERS
        if width % unit == 0 == width % (UNIT * (cluster[0] if halves else 1))
        and (height <= PLAIN_ROWS or width <= tall)
        and (width <= MOST_PROMOTED or not exact)
        and not (narrow and cluster != (1, 1) and _is_slow_together((m, n), (height, width), multiprocessors, operands))
    ]


def _is_slow_together(
    size: tuple[int, int], tile: tuple[int, int], multiprocessors: int, operands: int
) -> bool:  # fmt: skip
    """Whether clusters of 8-bit tiles were slower than single blocks: in several rounds with an epilogue, or in one
    round where tiles reach past the last row.

    Boxes outside of A are slow: 96 x 3584 x 3584 took 0.86 of the time in one row of tiles.
    """
    (m, n), (height, width) = size, tile
    several = -(-m // height) * -(-n // width) > multiprocessors
    return operands > 0 if several else m % height > 0


def tile_of(
    m: int, n: int, k: int, tile: tuple[int, int], multiprocessors: int, cluster: tuple[int, int] = (1, 1),
    group: int | None = None, lockstep: int | None = None, dependent: bool = False,
    layouts: str = "NN", transposed: bool = False,
) -> WarpgroupTile:  # fmt: skip
    """The schedule of a tile for a product: as many stages as fit, and lockstep where there are several rounds."""
    units = UNIT * cluster[1], UNIT * cluster[0]
    held = -(-tile[0] // units[0]) * units[0], -(-tile[1] // units[1]) * units[1]
    sides, given = (held[::-1], exchanged(layouts)) if transposed else (held, layouts)
    found = WarpgroupTile(
        *tile, stages_of(*sides, k, given), cluster, group or max(1, GROUP // (tile[0] * cluster[0])),
        transposed=transposed,
    )  # fmt: skip
    rows, columns = found.tiles(m, n)
    at_once = found.clusters(multiprocessors)
    if lockstep is None:
        whole = of_whole_lines(n, k, layouts)
        lockstep = MEETING if rows * columns >= LEAST_ROUNDS[not whole] * at_once else 0
    if group is None and lockstep:
        found = replace(found, group=rectangle(found, rows, at_once))
    elif group is None and cluster == (1, 1) and rows >= found.group and rows * columns <= at_once:
        found = replace(found, group=found.group // 2)  # a round as two groups: 1 % quicker at 2048
    return replace(found, lockstep=lockstep, dependent=dependent)


def of_whole_lines(n: int, k: int, layouts: str) -> bool:
    """Whether rows of the operands are whole lines of 128 bytes."""
    return (k if layouts == "NT" else n) % STEP == 0


def rectangle(tile: WarpgroupTile, rows: int, at_once: int, clearly: float = CLEARLY) -> int:
    """The rows of tiles in a group: such that a round of clusters is a rectangle, where that is `clearly` smaller.

    A round reads the rows and columns of its tiles once. 66 clusters of 256 x 384 are 11 x 6: on an H200 3 % quicker at
    16384 than 8 rows of 8 or 9. Groups of all rows are of about the same height.

    >>> [rectangle(WarpgroupTile(*tile), 64, 66) for tile in ((256, 192, 3, (1, 2), 8), (128, 256, 4, (2, 1), 8))]
    [11, 8]
    """
    height, width, given = tile.m * tile.cluster[0], tile.n * tile.cluster[1], tile.group

    def read(group: int) -> int:
        return group * height + -(-at_once // group) * width

    found = min((group for group in range(1, at_once + 1) if at_once % group == 0), key=read)
    if read(found) > clearly * read(given):
        return given
    return -(-rows // -(-rows // found))


LABEL: Final = re.compile(
    r"(\d+)x(\d+)(?: cluster (\d)x(\d))?(?: group (\d+)(?: every (\d+))?(?: in (\d) parts)?(?: by (\d+) clusters)?"
    r"( transposed)?( dependent)?(?: resident (\d))?(?: buffers (\d))?)?"
)


def tile_from(size: tuple[int, int, int], text: str, stages: int, multiprocessors: int) -> WarpgroupTile:
    """The tile that `str` printed, or its sizes alone, with the stages that a record names."""
    found = LABEL.fullmatch(text)
    if found is None:
        raise UsageError(f"not a tile of warpgroups: {text!r}; write 128x256, or 128x256 cluster 2x1 group 8 every 32")
    m, n, along_m, along_n, group, every, parts = (int(part or 0) for part in found.groups()[:7])
    tile = tile_of(
        *size, (m, n), multiprocessors, (along_m or 1, along_n or 1), group or None, every if group else None,
        dependent=found[10] is not None,
    )  # fmt: skip
    return replace(
        tile, stages=stages, parts=parts or 1, transposed=found[9] is not None, resident=int(found[11] or 1),
        buffers=int(found[12] or BUFFERS), splits=int(found[8] or 1),
    )  # fmt: skip


def exchanged(layouts: str) -> str:
    """The layouts of B^T and A^T.

    >>> exchanged("NT"), exchanged("NN"), exchanged("TT")
    ('NT', 'TT', 'NN')
    """
    return "".join("T" if letter == "N" else "N" for letter in reversed(layouts))


def stages_of(height: int, width: int, k: int, layouts: str = "NN") -> int:
    """The stages that shared memory has room for, not more than a tile's steps, and LEAST_STAGES at least.

    Each consumer has two buffers for C, or one where that makes room for a fourth stage.
    """
    return max(LEAST_STAGES, min(ring_of(height, width, layouts).roomy, MOST_STAGES, -(-k // STEP)))


def deep_stages(tile: WarpgroupTile, k: int, layouts: str) -> int:
    """The stages of narrow tiles: those that fit, up to DEEP and the steps of a part."""
    extent = (tile.n, tile.m) if tile.transposed else (tile.m, tile.n)
    given = exchanged(layouts) if tile.transposed else layouts
    steps = -(-k // (STEP * tile.parts * tile.splits))
    return max(LEAST_STAGES, min(ring_of(*extent, given).roomy, DEEP, steps))


def ring_of(height: int, width: int, layouts: str) -> StageRing:
    """The ring of a tile's stages, and the buffers of its consumers, of 128 bytes a row or less."""
    return StageRing((height + columns_of(width, layouts)) * STEP * BYTES, min(height // STEP, 2) * OUT_BUFFER)


def columns_of(width: int, layouts: str) -> int:
    """The columns of B that are copied: whole columns of 128 bytes where N is contiguous."""
    return -(-width // STEP) * STEP if layouts[1] == "N" else width
