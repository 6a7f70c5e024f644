"""Tiles for `wgmma`, for sm_90a: the candidates as rows, their schedules, and the choice for a size.

The time model of all products ranks tiles and clusters (`product_time`): large ones where they fill the device, smaller
ones where they would leave it idle. In a cluster of two blocks, each copies half of the shared operand, which pays
where rows are not whole lines. An odd size is best divided by a width that fills the last round.

A product of few rows, or of few tiles and long sums, leaves most of a device idle unless many blocks copy at once:

    narrow tiles      64 x 24, ..       every block copies all rows of A
    clusters          1 x 2, 1 x 4      .. a part of them, for all: fewer bytes from L2, and blocks that wait
    parts of K        2, 4              blocks of a cluster add their sums through distributed shared memory
    splits of K       2, 3, .. 16       .. and clusters in memory
    transposed        8, 16, .. x 64    rows of B fill the 64 rows of the unit, and A has its true height

>>> choose(4096, 4096, 4096).lockstep, choose(512, 512, 512).m
(32, 64)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import log2, prod
from typing import Final

from lego_mlir.aliases import Json
from lego_mlir.choices.product_counts import ProductSize, reached_by
from lego_mlir.choices.product_device import REFERENCE_DEVICE, ProductDevice
from lego_mlir.choices.product_tile import BUFFERS, BYTES, STEP, WARPGROUP, Knob, ProductTile, exchanged, warpgroup_tile
from lego_mlir.choices.product_time import product_time
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import SECTOR_BYTES
from lego_mlir.hardware.stage_rings import ENOUGH_STAGES, StageRing

Clusters = Sequence[tuple[int, int]]
UNIT: Final = 8
"""Rows or columns of a tile are a multiple, and so is what each block of a cluster copies of them."""
ALONE: Final = ((1, 1),)
PAIRS: Final = ((1, 1), (1, 2), (2, 1))


@dataclass(frozen=True, slots=True)
class TileRows:
    """Candidates of a kind: columns for each number of rows, clusters, and numbers of parts of K in a cluster."""

    sides: Sequence[tuple[int, Sequence[int]]]
    clusters: Clusters = PAIRS
    parts: Sequence[int] = (1,)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The rows and columns."""
        return [(rows, columns) for rows, widths in self.sides for columns in widths]

    def each(self) -> Iterator[tuple[int, int, tuple[int, int], int]]:
        """Every combination."""
        yield from ((*sides, *one) for sides in self.shapes for one in product(self.clusters, self.parts))


WHOLE: Final = TileRows(((256, range(192, 56, -8)), (64, range(256, 56, -8)), (128, range(256, 56, -8))))
GROUPS_ROWS: Final = 192
THREE_GROUPS: Final = TileRows(((GROUPS_ROWS, range(200, 56, -8)),))
"""Of three groups of warps, whose threads have registers for 200 columns; where the largest tiles have several rounds.

In one round they were slower than others; the device's file has the run.
"""
NARROW: Final = TileRows(((64, range(56, 8, -8)),))
"""Considered where tiles of 64 x 64 do not fill a device: more blocks copy the other operand."""
TRANSPOSED: Final = TileRows(
    (
        (64, range(256, 56, -16)), (128, range(256, 56, -16)), (256, range(192, 48, -16)),
    )
)  # fmt: skip
"""Of transposed products, by their columns, which are the rows of the unit, and rows of C."""
TRANSPOSED_GROUPS: Final = TileRows(((GROUPS_ROWS, range(GROUPS_ROWS, 48, -16)),))
PARTED: Final = TileRows(((64, range(24, 177, 8)), (128, range(24, 177, 8))), ALONE, (2, 4))
"""Parts of K within a cluster: 8 were slower."""
PARTED_ROWS: Final = TileRows(((64, range(80, 177, 16)),), ALONE, (2,))
"""The same of transposed products, by their columns, and rows of C that are all of them."""
SPLIT: Final = TileRows(((64, range(64, 193, 32)), (128, range(64, 193, 32))), ((1, 1), (2, 1), (1, 2)))
FEW_ROWS: Final = TileRows(((16, (64, 128)), (32, (64, 128)), (48, (64, 128)), (64, (64, 128))), ALONE, (1, 2, 4))
"""Of transposed products of few rows: K whole or in parts."""
SHARED: Final = TileRows(
    ((64, range(240, 56, -8)), (128, range(240, 56, -8))), ((1, 4), (4, 1), (2, 4), (4, 2))
)  # fmt: skip
"""Clusters of more blocks, where rows of operands are not whole lines; the sides of NN are the other way around."""
THREE: Final = TileRows(((64, range(256, 56, -8)), (128, range(256, 56, -8))), ((3, 1),))
"""For three rows of tiles in one round, which read the same columns of B at the same time."""
LARGEST: Final = ((256, 192), (1, 2))
TRANSPOSED_ROWS: Final = tuple(rows for rows, _ in FEW_ROWS.sides)
TRACED_ROWS: Final = 16
"""Rows of a tile are a multiple, as the kernel is traced."""
MOST_SPLITS: Final = 16
"""Clusters for a tile: the last one reads the sums of all."""
FEWEST_PARTS: Final = 2
LEAST_PART: Final = 4
"""Steps along K of a part."""
SECTOR: Final = SECTOR_BYTES // BYTES
"""Elements of a sector: boxes that begin within one are slow, so tiles are whole ones."""
MOST_PROMOTED: Final = 192
"""Sums of a thread that are kept twice to be promoted, in columns of a tile of up to 128 rows."""
PLAIN_ROWS: Final = 128
"""Rows of a tile whose consumers have 64 each."""
LEAST_STAGES: Final = 2
MOST_STAGES: Final = 12
DEEP: Final = 16
"""Stages of the rings of transposed tiles of few rows."""
MORE_BUFFERS: Final = 4
LEAST_ROOMY: Final = 3
"""Buffers of a consumer for 8-bit types, and the stages from which they are taken."""
LEAST_BYTES: Final = 32
"""Columns of a tile of results of 8 bits, at least."""
OUT_BUFFER: Final = 8192
"""Bytes of a consumer's buffer for C, at most."""
GROUP: Final = 2048
"""Rows of C in a group of the tile order."""
KEPT: Final = 1024
"""Choices that a process keeps."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A product to divide, on a device. K counts elements of 16 bits, whatever their `bytes_`.

    With `exact`, sums are promoted after that number of steps, which takes every sum twice. `fused` products have an
    epilogue, with that number of `operands`, or a result of 32 or 8 bits.
    """

    m: int
    n: int
    k: int
    device: ProductDevice = REFERENCE_DEVICE
    layouts: str = "NT"
    bytes_: int = BYTES
    exact: int = 0
    fused: bool = False
    operands: int = 0

    @property
    def alone(self) -> bool:
        """Whether there are products alone, without an epilogue or promoted sums."""
        return not (self.exact or self.fused)

    @property
    def plain(self) -> bool:
        return self.alone and self.bytes_ == BYTES

    @property
    def few(self) -> bool:
        """Whether tiles of 64 x 64 leave multiprocessors idle."""
        return -(-self.m // STEP) * -(-self.n // STEP) < self.device.sms

    @property
    def has_rounds(self) -> bool:
        """Whether the largest tiles of a plain product fill a device more than once."""
        rows, columns = LARGEST[0]
        return self.plain and -(-self.m // rows) * -(-self.n // columns) > self.device.sms

    @property
    def whole_lines(self) -> bool:
        """Whether rows of the operands are whole lines of 128 bytes."""
        return (self.k if self.layouts == "NT" else self.n) % STEP == 0

    @property
    def shares_lines(self) -> bool:
        """Whether rows of both operands are not whole halves of lines, so that most boxes touch two lines a row."""
        contiguous = self.k if self.layouts[0] == "N" else self.m, self.n if self.layouts[1] == "N" else self.k
        return all(extent % (STEP // 2) for extent in contiguous)

    @property
    def is_few_rows(self) -> bool:
        """Whether a large B is multiplied by few rows, of which a tile of 64 rows has not all."""
        rows, least = self.device.choice.few_rows
        return STEP < self.m <= rows and self.n * self.k >= least

    @property
    def is_short_and_unaligned(self) -> bool:
        """Whether clusters of 4 and 8 blocks may be quicker than smaller ones."""
        least, most = self.device.choice.shared_work
        return least <= self.m * self.n * self.k < most and self.shares_lines

    @property
    def unit(self) -> int:
        """What the width of a tile is a multiple of: some types of one byte have instructions for 16 columns."""
        return 16 if self.bytes_ == 1 else UNIT

    def microseconds(self, tile: ProductTile) -> float:
        """The estimate of the model of all products (`product_time`)."""
        gain, size = 1.0, ProductSize(self.m, self.n, self.k, self.layouts)
        rules, (down, across) = self.device.choice, tile.cluster
        pair = self.bytes_ < BYTES and tile.sharing == 2
        if (tile.cluster in SHARED.clusters or pair) and tile.parts == 1 and self.shares_lines:
            gain = rules.shared_gain[tile.sharing]
        blocks = prod(tile.tiles(self.m, self.n)) * tile.sharing
        filled = blocks >= rules.few_filled * self.device.sms and tile.cluster not in SHARED.clusters
        if tile.m < self.m and tile.splits == 1 and self.is_few_rows and filled:
            gain *= rules.few_shared[0] ** log2(down) * rules.few_shared[1] ** log2(across)
        return gain * product_time(size, tile, self.device, "steady").microseconds

    def finished(self, tile: ProductTile, us: float) -> ProductTile:
        """The tile for the type of the operands; short products without lockstep start early."""
        dependent = us < self.device.choice.short and tile.lockstep == 0
        return replace(tile, dependent=dependent, k=STEP * BYTES // self.bytes_, exact=self.exact)


@lru_cache(KEPT)
def choose(
    m: int, n: int, k: int, device: ProductDevice = REFERENCE_DEVICE, layouts: str = "NT", bytes_: int = BYTES,
    exact: int = 0, fused: bool = False, operands: int = 0,
) -> ProductTile:  # fmt: skip
    """The quickest division of a product on a device by the model; the other arguments are those of `Wanted`.

    128 bytes of K take the same time for all types, since the units multiply twice as many elements of half the size.
    """
    wanted = Wanted(m, n, k * bytes_ // BYTES, device, layouts, bytes_, exact, fused, operands)
    rules, tiles = device.choice, candidates(wanted)
    tiles += clustered_tiles(wanted) if wanted.plain else []
    times = {tile: wanted.microseconds(tile) for tile in tiles}
    if bytes_ == 1:
        times = {tile: time - rules.beside * leaves_half(tile, wanted) for tile, time in times.items()}
    found = min(times, key=lambda tile: times[tile] / gain_of(tile, wanted))
    us = times[found]
    if found.lockstep == 0:
        divided = {
            tile: wanted.microseconds(tile) * parted_scale(tile, wanted)
            for tile in divided_tiles(wanted)
            if tile.n % wanted.unit == 0
        }
        best = min(divided, key=divided.__getitem__, default=found)
        if best != found and divided[best] < (rules.parted_gain if m >= STEP else 1.0) * us:
            return wanted.finished(best, divided[best])
    if bytes_ == 1 and operands and not exact:
        found = in_rectangles(with_more_buffers(found), wanted)
    found = wanted.finished(found, us)
    return by_two_consumers(found, wanted) if found.dependent and wanted.plain else found


def gain_of(tile: ProductTile, wanted: Wanted) -> float:
    """The predicted time, relative to that of others, from which a tile is taken: 1 but for newer kinds."""
    uneven = tile.n % (UNIT * tile.cluster[0]) > 0 or tile.m % (UNIT * tile.cluster[1]) > 0
    if not (tile.transposed or uneven) or tile.cluster not in PAIRS or wanted.is_few_rows:
        return 1.0
    rules = wanted.device.choice
    twice_new = tile.transposed and tile.n == GROUPS_ROWS
    return (rules.shallow_gain if tile.stages < ENOUGH_STAGES else rules.newer_gain) * rules.newer_gain**twice_new


def parted_scale(tile: ProductTile, wanted: Wanted) -> float:
    """What the predicted time of parts of K in a cluster is multiplied by, where M has more rows than a unit."""
    if tile.parts == 1 or wanted.m <= STEP or wanted.bytes_ < BYTES:
        return 1.0
    rules, one_row = wanted.device.choice, wanted.m <= tile.m and tile.parts == FEWEST_PARTS
    return rules.parted_row if one_row else rules.parted_rows


def by_two_consumers(tile: ProductTile, wanted: Wanted) -> ProductTile:
    """A tile of 128 x 64, which two consumers store, in place of 64 x 128 where it makes no more tiles."""
    turned = warpgroup_tile(128, 64, tile.stages, group=GROUP // 128, dependent=tile.dependent)
    alone = (tile.m, tile.n, tile.clustered) == (64, 128, 1) and not tile.transposed
    size = wanted.m, wanted.n
    return turned if alone and prod(turned.tiles(*size)) <= prod(tile.tiles(*size)) else tile


def with_more_buffers(tile: ProductTile) -> ProductTile:
    """A wide tile with more buffers for C in place of stages; itself where that would leave too few.

    Steps of 8-bit types take as long as others, and K has half as many: the stores of a tile take twice the share.
    """
    stages = ring_of(tile, tile.m, tile.n, "NT").fitting(MORE_BUFFERS)
    if tile.n <= STEP * BUFFERS or stages < LEAST_ROOMY:
        return tile
    return replace(tile, stages=min(tile.stages, stages), buffers=MORE_BUFFERS)


def in_rectangles(tile: ProductTile, wanted: Wanted) -> ProductTile:
    """The tile in groups such that a round is a rectangle, where there are several rounds."""
    rows, columns = tile.tiles(wanted.m, wanted.n)
    at_once = tile.clusters(wanted.device.sms)
    if tile.lockstep == 0 or rows * columns < wanted.device.choice.least_rounds[1] * at_once:
        return tile
    return replace(tile, group=rectangle(tile, rows, at_once, 1.0))


def shares_rows(tile: ProductTile, m: int, n: int) -> bool:
    """Whether each block of a cluster copies something of a shared operand: boxes outside of a matrix are slow."""
    along_m, along_n = tile.cluster
    return tile.m // along_n * (along_n - 1) < m and tile.n // along_m * (along_m - 1) < n


def fits(tile: ProductTile, wanted: Wanted, most: int = 2) -> bool:
    """Whether the blocks of a cluster share what they can.

    Two rows of tiles, or up to `most`, read the same columns of B in one round at the same time: clusters copy them
    once.
    """
    down, across = -(-wanted.m // tile.m), -(-wanted.n // tile.n)
    once = down * across * tile.parts <= wanted.device.sms
    alone = 2 <= down <= most and tile.cluster[0] == 1 and once
    return shares_rows(tile, wanted.m, wanted.n) and not alone


def leaves_half(tile: ProductTile, wanted: Wanted) -> bool:
    """Whether all blocks, in one row of tiles, leave as many multiprocessors to others as they take."""
    return wanted.m <= tile.m <= STEP and 2 * -(-wanted.n // tile.n) <= wanted.device.sms


def keeps_sums(tile: ProductTile, m: int, layouts: str) -> bool:
    """Whether the ring has room for the sums of a block, which those of other parts of K read from there."""
    stage = min(tile.m, m) + columns_of(tile.n, layouts)
    return tile.parts == 1 or tile.m * tile.n * 4 <= tile.stages * stage * STEP * BYTES


def candidates(wanted: Wanted) -> list[ProductTile]:
    """All divisions in whole sums that are ranked."""
    w, rules, kinds = wanted, wanted.device.choice, [WHOLE]
    ample, narrow = w.plain and not w.few, w.bytes_ == 1
    if w.few and (w.alone or w.bytes_ == BYTES or (narrow and not w.exact and w.m <= STEP)):
        kinds.append(NARROW)
    elif ample and w.m * w.n >= rules.large * w.device.sms and w.whole_lines:
        return [tile_of(w, LARGEST[0], LARGEST[1])]
    if w.has_rounds:
        kinds.append(THREE_GROUPS)
    each = (one for kind in kinds for one in kind.each() if not (kind is NARROW and narrow and one[1] < LEAST_BYTES))
    made = [
        tile_of(w, (rows, columns), cluster)
        for rows, columns, cluster, _ in each
        if _is_possible(w, (rows, columns), cluster, halves=not ample or w.layouts[1] == "N")
    ]
    whole = w.layouts[1] == "N" and w.n % SECTOR == 0
    sharing = rules.most_sharing if narrow else 2
    found = [
        tile
        for tile in made
        if fits(tile, w, 2 if w.m % tile.m else sharing) and not (whole and tile.n % SECTOR)
    ]  # fmt: skip
    found = found or [tile for tile in made if shares_rows(tile, w.m, w.n)]  # columns too few for a cluster
    return [*found, *three_rows(w), *(transposed_tiles(w) if ample else ())]


def three_rows(wanted: Wanted) -> list[ProductTile]:
    """Tiles of which three rows are one cluster, where all of them run at once."""
    w, most, found = wanted, reached_by(prod(THREE.clusters[0]), wanted.device) // prod(THREE.clusters[0]), []
    for height, width, cluster, _ in THREE.each():
        fitting = width % w.unit == 0 and (w.layouts[1] == "T" or width % (UNIT * cluster[0]) == 0)
        if not w.exact and fitting and 2 * height < w.m <= 3 * height and -(-w.n // width) <= most:
            found.append(tile_of(w, (height, width), cluster))
    return found


def _is_possible(wanted: Wanted, sides: tuple[int, int], cluster: tuple[int, int], *, halves: bool) -> bool:
    """Whether kernels in this tile are written, and quick. With `halves`, blocks that share columns copy equal parts.

    8-bit types with rows of whole halves of lines are computed in single blocks where clusters were slower: in several
    rounds with an epilogue, or in one round where tiles reach past the last row, whose boxes are slow, along N or of
    rows that one tile has.
    """
    (height, width), narrow = sides, wanted.bytes_ == 1
    tall = wanted.device.choice.tall_columns[wanted.operands > 0]
    several = -(-wanted.m // height) * -(-wanted.n // width) > wanted.device.sms
    past = wanted.m % height > 0 and (cluster[1] > 1 or wanted.m <= PLAIN_ROWS)
    slow = wanted.operands > 0 if several else past
    return (
        width % wanted.unit == 0 == width % (UNIT * (cluster[0] if halves else 1))
        and (height <= GROUPS_ROWS or width <= (0 if wanted.exact or narrow else tall))
        and (width <= MOST_PROMOTED or not wanted.exact)
        and not (narrow and cluster != (1, 1) and slow and not wanted.shares_lines)
    )


def transposed_tiles(wanted: Wanted) -> list[ProductTile]:
    """Tiles of B^T A^T, where they are not the same as those of A B.

    Rows of B are whole columns of 128 bytes of the unit's side of 64, and A, whose rows are along K, is divided as
    finely as M needs.
    """
    w = wanted
    if w.layouts != "NN" and (w.m == w.n or w.layouts == "TT"):
        return []
    kinds = (TRANSPOSED, TRANSPOSED_GROUPS)[: 1 + w.has_rounds]
    each = (one for kind in kinds for one in kind.each())
    made = (tile_of(w, (rows, columns), c, transposed=True) for columns, rows, c, _ in each)
    return [tile for tile in made if fits(tile, w)]


def divided_tiles(wanted: Wanted) -> list[ProductTile]:
    """Divisions of a product that fills no device in whole tiles: K in parts in a cluster, and but for 8 bits among
    clusters; of plain products of few rows, transposed ones too."""
    found = parted_tiles(wanted)
    found += split_tiles(wanted) if wanted.bytes_ >= BYTES else []
    return found + (few_row_tiles(wanted) if wanted.plain else [])


def parted_tiles(wanted: Wanted) -> list[ProductTile]:
    """Divisions of a product of few tiles whose K the blocks of a cluster divide; all blocks run at once."""
    w, found = wanted, []
    ways = [(height, width, parts, False) for height, width, _, parts in PARTED.each()]
    if w.plain:
        each = ((height, width, parts, True) for width, height, _, parts in PARTED_ROWS.each())
        ways += [way for way in each if way[0] - TRACED_ROWS < w.m <= way[0]]
    for height, width, parts, transposed in ways:
        blocks, reached = -(-w.m // height) * -(-w.n // width) * parts, reached_by(parts, w.device)
        filled = w.device.choice.least_filled * w.device.sms <= blocks <= reached // parts * parts
        if filled and w.k >= STEP * LEAST_PART * parts:
            schedule: Json = {"group": GROUP // height, "parts": parts, "transposed": transposed}
            found.append(ringed(w, warpgroup_tile(height, width, 1, **schedule)))
    return [tile for tile in found if keeps_sums(tile, w.m, w.layouts)]


def split_tiles(wanted: Wanted) -> list[ProductTile]:
    """Divisions of a product among as many clusters for each tile as run at once; all read the same part of K."""
    w, found = wanted, []
    for height, width, cluster, _ in SPLIT.each():
        shared = cluster[0] * cluster[1]
        blocks = -(-w.m // (height * cluster[0])) * -(-w.n // (width * cluster[1])) * shared
        splits = min(reached_by(shared, w.device) // blocks, MOST_SPLITS, w.k // (STEP * LEAST_PART))
        outside = height * (cluster[0] - 1) >= w.m or width * (cluster[1] - 1) >= w.n
        if splits >= 2 and splits * blocks >= w.device.choice.least_filled * w.device.sms and not outside:
            group = max(1, GROUP // (height * cluster[0]))
            found.append(ringed(w, warpgroup_tile(height, width, 1, cluster=cluster, group=group, splits=splits)))
    return [tile for tile in found if fits(tile, w)]


def few_row_tiles(wanted: Wanted) -> list[ProductTile]:
    """Divisions of a product of few rows by its columns, 64 or 128 of which fill the rows of the unit."""
    w, rules, found = wanted, wanted.device.choice, []
    height = next((rows for rows in TRANSPOSED_ROWS if rows >= w.m), 0)
    most = min(w.device.sms // -(-w.n // STEP), MOST_SPLITS)
    ways = [(width, parts, 1) for rows, width, _, parts in FEW_ROWS.each() if rows == height]
    for width, parts, splits in [*ways, *([(STEP, 1, most)] if height and most >= rules.least_splits else [])]:
        blocks, reached = -(-w.n // width) * parts * splits, reached_by(parts, w.device)
        filled = rules.transposed_filled * w.device.sms <= blocks <= reached
        if filled and w.k >= STEP * LEAST_PART * parts * splits:
            divided = {"group": GROUP // height, "parts": parts, "splits": splits}
            found.append(ringed(w, warpgroup_tile(height, width, 1, transposed=True, **divided), DEEP))
    return [tile for tile in found if keeps_sums(tile, w.m, w.layouts)]


def clustered_tiles(wanted: Wanted) -> list[ProductTile]:
    """Tiles in clusters of 4 and 8 blocks, for short products of rows that touch two lines each: they share them."""
    w, turned = wanted, wanted.layouts == "NN"
    if w.few or not w.is_short_and_unaligned:
        return []
    found = []
    for rows, columns, cluster, _ in SHARED.each():
        tile = (columns, rows) if turned else (rows, columns)
        if (columns % SECTOR and w.layouts == "TN") or tile[0] % TRACED_ROWS:
            continue
        made = tile_of(w, tile, cluster, transposed=turned)
        found += [made] * (made.lockstep == 0 and fits(made, w))
    return found


def tile_of(
    wanted: Wanted, sides: tuple[int, int], cluster: tuple[int, int] = (1, 1), group: int | None = None,
    lockstep: int | None = None, **given: Knob,
) -> ProductTile:  # fmt: skip
    """The schedule of a tile for a product: as many stages as fit, and lockstep where there are several rounds."""
    rules, of_all = wanted.device.choice, group or max(1, GROUP // (sides[0] * cluster[0]))
    schedule: Json = {"cluster": cluster, "group": of_all, **given}
    found = ringed(wanted, warpgroup_tile(*sides, 1, **schedule))
    rows, columns = found.tiles(wanted.m, wanted.n)
    at_once = found.clusters(wanted.device.sms)
    if lockstep is None:
        several = rows * columns >= rules.least_rounds[not wanted.whole_lines] * at_once
        lockstep = rules.meeting if several else 0
    if group is None and lockstep:
        of_all = rectangle(found, rows, at_once, rules.clearly)
    elif group is None and cluster == (1, 1) and rows >= of_all and rows * columns <= at_once:
        of_all //= 2  # a round as two groups
    return replace(found, group=of_all, lockstep=lockstep)


def rectangle(tile: ProductTile, rows: int, at_once: int, clearly: float) -> int:
    """The rows of tiles in a group: such that a round of clusters is a rectangle, where that is `clearly` smaller.

    A round reads the rows and columns of its tiles once. 66 clusters of 256 x 384 are 11 x 6 in place of 8 rows of 8 or
    9. Groups of all rows are of about the same height.

    >>> tall = warpgroup_tile(256, 192, 3, cluster=(1, 2), group=8)
    >>> wide = warpgroup_tile(128, 256, 4, cluster=(2, 1), group=8)
    >>> [rectangle(tile, 64, 66, 0.97) for tile in (tall, wide)]
    [11, 8]
    """
    height, width, given = tile.m * tile.cluster[0], tile.n * tile.cluster[1], tile.group

    def read(group: int) -> int:
        return group * height + -(-at_once // group) * width

    found = min((group for group in range(1, at_once + 1) if at_once % group == 0), key=read)
    if read(found) > clearly * read(given):
        return given
    return -(-rows // -(-rows // found))


def ringed(wanted: Wanted, tile: ProductTile, most: int = MOST_STAGES) -> ProductTile:
    """The tile with the stages that shared memory has room for, up to `most` and its steps, and LEAST_STAGES at least.

    Each consumer has two buffers for C, or one where that makes room for a fourth stage.
    """
    (down, across), layouts = tile.cluster, wanted.layouts
    height, width = (-(-side // (UNIT * by)) * UNIT * by for side, by in ((tile.m, across), (tile.n, down)))
    if tile.transposed:
        height, width, layouts = width, height, exchanged(layouts)
    steps = -(-wanted.k // (STEP * tile.parts * tile.splits))
    return replace(tile, stages=max(LEAST_STAGES, min(ring_of(tile, height, width, layouts).roomy, most, steps)))


def ring_of(tile: ProductTile, height: int, width: int, layouts: str) -> StageRing:
    """The ring of a tile's stages of these rows and columns, and the buffers of its consumers."""
    groups = tile.threads // (WARP * WARPGROUP)
    return StageRing((height + columns_of(width, layouts)) * STEP * BYTES, groups * OUT_BUFFER)


def columns_of(width: int, layouts: str) -> int:
    """The columns of B that are copied: whole columns of 128 bytes where N is contiguous."""
    return -(-width // STEP) * STEP if layouts[1] == "N" else width
