"""Forms of attention, and the tiles that its kernels may have: choices, made without tracing or SymPy.

A kernel takes all numbers of heads, queries and keys: a new length compiles nothing. For a form there are at most four
kernels, of which `fastest` takes one by the lengths.

>>> form = AttentionForm(64, causal=True)
>>> len({fastest(form, HeadSizes(1, 32, n, n), 132) for n in range(64, 9000, 64)})
4
>>> [fastest(form, HeadSizes(21, 32, n, n), 132)[0].rows for n in (300, 512, 777, 1024, 3001)]
[128, 256, 128, 256, 256]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Final, Literal

from lego_mlir.aliases import Operand
from lego_mlir.errors import UsageError
from lego_mlir.hardware.devices import reference
from lego_mlir.kernels.pair_rules import PairRules, PairsOf
from lego_mlir.tracing.trace.dtypes import DType, bf16, f8e4m3fn, f16

HEADS: Final = (64, 96, 128, 192, 256)
NARROW_HEADS: Final = (64, 128, 256)
"""Those of f8e4m3fn."""
ADDED_HEADS: Final = (64, 128)
"""Features of heads whose sums of gradients are whole parts of 64, and fit the registers of a group."""
ROWS: Final = 64
"""Queries of a group of warps."""
WARPS: Final = 4
"""Warps of a group, and of the role that copies."""
WIDE: Final = 192
"""Features of a head from which on accumulators of dk and dv together take more registers than a thread has."""
AXES: Final = ("batch", "head", "row", "feature")
"""Of arrays of queries, keys, values and results, as kernels index them."""
CHUNK: Final = 8
"""Elements of 16 bytes, of which the copy unit's strides are multiples."""
NARROW: Final = 128
"""Features up to which a tile has 128 keys."""
PAGED_ROWS: Final = 16
"""Queries of a tile of a paged kernel: the rows of `mma.sync`."""
PAGED_BYTES: Final = 112 * 1024
"""Shared memory of a block for tiles and results, of which two fit a multiprocessor."""
LOG2_E: Final = math.log2(math.e)
LATENT: Final = 512
"""Features of values, the first ones of keys."""
ROTARY: Final = 64
"""Features of the rotary part."""
WIDTH: Final = LATENT + ROTARY
"""Features of keys: those of values, then the rotary ones."""
SCALED: Final = 128
"""Elements of a latent of 8 bits with one scale."""
RECORD: Final = LATENT + 4 * (LATENT // SCALED) + 2 * ROTARY
"""Bytes of a token whose latent has 8 bits."""
LATENT_SCALE: Final = (128 + ROTARY) ** -0.5
"""Of scores, by the features of a head before its absorption."""
TOKENS: Final = 64
"""Tokens of a page of latents and of a tile, and rows of a block."""
MOST_SEQUENCES: Final = 2**15
"""Of a call to a cache of pages."""
MOST_PAGES: Final = 2**24
"""Of a cache."""
MOST_PAGES_OF_EACH: Final = 2**20
"""Of a sequence."""


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """Batches, heads of keys, queries and keys of a problem; each is a number, or a size of the launch."""

    batch: Operand
    heads: Operand
    queries: Operand
    keys: Operand


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """A form of attention: with a `window`, a query attends to that many keys up to its own. `group` heads share k, v.

    Scores are products times `scale`, 1 / sqrt(features) if left out.
    """

    features: int = 64
    dtype: DType = f16
    causal: bool = False
    window: int | None = None
    group: int = 1
    scale: float | None = None
    pairs: PairRules | None = None
    """Rules of the user, with `causal` and `window` for pairs that these allow."""
    values: int | None = None
    """Features of values and results, where queries and keys have more."""
    result: DType | None = None
    """The type of the result where q, k and v are of f8e4m3fn, numbers times a scale of their head; else theirs."""

    def __post_init__(self) -> None:
        if self.dtype == f8e4m3fn:
            if self.features not in NARROW_HEADS or self.result not in (f16, bf16):
                raise UsageError(
                    f"attention: heads of {', '.join(map(str, NARROW_HEADS))} features in f8e4m3fn, with a result in "
                    f"f16 or bf16, got {self.features} and {self.result}"
                )
        elif self.features not in HEADS or self.dtype not in (f16, bf16) or self.result is not None:
            raise UsageError(
                f"attention: heads of {', '.join(map(str, HEADS))} features in f16 or bf16, got {self.features} in "
                f"{self.dtype}" + ("" if self.result is None else f" with a result in {self.result}")
            )
        if self.values is not None and (self.narrow or self.values not in HEADS or self.values >= self.features):
            raise UsageError(
                f"attention: values have as many features as keys, or in f16 and bf16 fewer of "
                f"{', '.join(map(str, HEADS))}; got {self.values} and keys of {self.features}"
            )
        if self.window is not None and (not self.causal or type(self.window) is not int or self.window < 1):
            raise UsageError(f"attention: window={self.window!r} is a number of keys from 1 on, with causal=True")
        if self.group < 1:
            raise UsageError(f"attention: group={self.group} query heads share a head of k and v, at least 1")
        if self.scale is not None and not is_positive(self.scale):
            raise UsageError(f"attention: scale={self.scale!r} is a positive number; for a negative one, negate q")

    def require_keys(self, queries: int, keys: int) -> None:
        """Raise UsageError where the last queries are too far behind the last key for the window."""
        if self.window is not None and 0 < keys <= queries - self.window:
            lost = queries - self.window - keys + 1
            raise UsageError(
                f"attention of {queries} queries to {keys} keys with window={self.window}: the last {lost} queries "
                f"would attend to no key; pass at most {keys + self.window - 1} queries, or a window of at least "
                f"{queries - keys + 1}"
            )

    @property
    def width(self) -> int:
        """Features of values and results."""
        return self.features if self.values is None else self.values

    @property
    def narrow(self) -> bool:
        """Whether q, k and v have 8 bits, and scales."""
        return self.dtype == f8e4m3fn

    @property
    def stored(self) -> DType:
        """The type of the result."""
        return self.result or self.dtype

    @property
    def factor(self) -> float:
        """The factor of products of queries and keys."""
        return 1 / math.sqrt(self.features) if self.scale is None else float(self.scale)

    @property
    def exponent(self) -> float:
        """The factor of scores that are exponents of 2: of what a rule gives, where there is one, else of products."""
        if self.rules.score is not None:
            return LOG2_E
        return LOG2_E / math.sqrt(self.features) if self.scale is None else LOG2_E * self.factor

    @property
    def rules(self) -> PairRules:
        """The rules of the user, perhaps none."""
        return self.pairs or PairRules()

    @property
    def masks(self) -> bool:
        """Whether a query may not attend to all keys."""
        return self.causal or self.rules.mask is not None

    @property
    def by_shared_head(self) -> bool:
        """Whether heads of queries that share a head of keys differ in the user's mask."""
        return self.group > 1 and self.rules.by[1]

    def reaches(self, row: Operand, column: Operand, pairs: PairsOf | None = None) -> Operand:
        """Whether a query attends to a key, with a mask; `pairs` are those of the head where the user has one."""
        found = column <= row if self.causal else True
        if self.window is not None:
            found = found & (column > row - self.window)
        if self.rules.mask is None:
            return found
        assert pairs is not None
        seen = pairs.allowed(row, column)
        return found & seen if self.causal else seen

    def allowed(self, row: Operand, column: Operand, keys: Operand, pairs: PairsOf | None = None) -> Operand:
        """Whether a query attends to a key, among `keys` of them."""
        return (column < keys) & self.reaches(row, column, pairs) if self.masks else column < keys


@dataclass(frozen=True, slots=True)
class PagedForm:
    """Attention of `queries` of a sequence, in each of `group` heads that share keys, to pages of `page` keys.

    The pages are in the type `cache`, that of the queries if left out. With f8e4m3fn keys and values are its numbers
    times a scale of their head.
    """

    features: int = 128
    dtype: DType = f16
    group: int = 1
    queries: int = 1
    page: int = 16
    scale: float | None = None
    cache: DType | None = None

    def __post_init__(self) -> None:
        AttentionForm(self.features, self.dtype, group=self.group, scale=self.scale)
        if self.cache not in (None, f8e4m3fn):
            raise UsageError(f"attention_paged: pages in the type of the queries or in f8e4m3fn, got {self.cache}")
        for name, n in (("queries of a sequence", self.queries), ("positions of a page", self.page)):
            if n < 1:
                raise UsageError(f"attention_paged: {name} are at least 1, got {n}")

    @property
    def exponent(self) -> float:
        """The factor of scores that are exponents of 2."""
        return AttentionForm(self.features, scale=self.scale).exponent

    @property
    def keys(self) -> int:
        """Keys of a warp's tile."""
        return 32 if self.features == HEADS[0] or self.cache is not None else 16

    @property
    def stored(self) -> DType:
        """The type of keys and values in their pages."""
        return self.cache or self.dtype

    @property
    def rows(self) -> int:
        """Queries of a tile."""
        return min(PAGED_ROWS, self.queries * self.group)

    @property
    def stages(self) -> int:
        """Tiles of a warp's ring: as many as leave room for two blocks, but at least two."""
        ring, results = 2 * self.stored.bytes * self.keys, 4 * self.rows  # bytes for each feature of a warp
        return max(2, (PAGED_BYTES // (WARPS * self.features) - results) // ring)


def blocks_of_heads(form: PagedForm, batch: int, heads: int, multiprocessors: int) -> int:
    """The blocks of a head of keys, whatever the lengths: one a sequence, and as many as parts are wanted.

    These are all that run at once, or twice as many where sequences and heads alone are half of them.
    """
    tiles = heads * -(-form.queries * form.group // PAGED_ROWS)
    at_once = 2 * multiprocessors
    return batch + -(-at_once * (1 + (2 * batch * tiles > at_once)) // tiles)


@dataclass(frozen=True, slots=True)
class LatentForm:
    """Attention to latents: scores are products times `scale`.

    A `cache` of f8e4m3fn has records of 656 bytes: a latent, a scale of f32 for each 128 of its elements, and the
    rotary part in `dtype`. Raises UsageError for no heads or queries, and a scale that is not positive.
    """

    heads: int
    queries: int = 1
    dtype: DType = bf16
    scale: float = LATENT_SCALE
    cache: DType | None = None

    def __post_init__(self) -> None:
        for name, n in (("heads", self.heads), ("queries", self.queries)):
            if type(n) is not int or n < 1:
                raise UsageError(f"attention_latent: {name} are at least 1, got {n}")
        if not is_positive(self.scale):
            raise UsageError(f"attention_latent: the scale of scores is positive and finite, got {self.scale}")
        if self.cache not in (None, f8e4m3fn):
            raise UsageError(f"attention_latent: latents in the type of the queries or in f8e4m3fn, got {self.cache}")

    @property
    def rows(self) -> int:
        """Rows of a sequence: all heads of a query, one query after the other."""
        return self.heads * self.queries

    @property
    def exponent(self) -> float:
        """The factor of products in exponents of 2."""
        return self.scale * LOG2_E


def parts_of_rows(form: LatentForm, batch: int, multiprocessors: int) -> tuple[int, int]:
    """The most parts of all sequences, whatever the lengths, and the blocks that combine those of a sequence.

    All blocks run at once, one on a multiprocessor, with equal shares.
    """
    blocks = max(multiprocessors // -(-form.rows // TOKENS), 1)
    return batch + blocks, min(max(-(-16 * multiprocessors // batch), 64), form.rows)


def is_positive(scale: object) -> bool:
    """Whether this is a positive, finite number, NumPy's included."""
    return isinstance(scale, Real) and 0 < float(scale) < math.inf


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """Groups of 4 warps with 64 rows each, keys of a tile, and tiles in each ring.

    With `turns`, the groups multiply one after the other, so that each computes weights while another multiplies. With
    `skips`, a group leaves out tiles that are masked for all of its rows, under a causal mask. Blocks that compute
    several parts take them by length from sections of heads that have at least `sections` parts for each block.
    Raises UsageError for groups that skip tiles and multiply in turns.
    """

    groups: int = 2
    keys: int = 128
    stages: int = 2
    turns: bool = False
    skips: bool = False
    sections: int = 0

    def __post_init__(self) -> None:
        if self.turns and self.skips:
            raise UsageError(f"attention: {self}: groups that skip tiles have no turns; leave out turns or skips")

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return ROWS * self.groups

    @property
    def warps(self) -> int:
        """Those that compute; 4 more copy."""
        return WARPS * self.groups

    def registers(self, form: AttentionForm) -> tuple[int | None, int | None]:
        """Registers of a thread that copies, more if it transposes, and of one that computes: all those of an SM."""
        if form.narrow:
            return {1: (None, None), 2: (40, 232), 3: (56, 152), 4: (56, 112)}[self.groups]
        return {1: (None, None), 2: (24, 240), 3: (32, 160), 4: (24, 112)}[self.groups]


@dataclass(frozen=True, slots=True)
class CausalOrder:
    """The order of the parts of causal heads without a window, by the numbers of keys up to which it holds.

    Up to `several` keys a block computes several parts, head by head; with more, one block computes each part, by
    `heads` or by `sections` of them whose long parts come first, or several parts in an order of `lengths`. Up to
    `skips` keys groups skip tiles that are masked for all of their rows, where a block has several parts.
    """

    several: float
    longer: Literal["heads", "sections", "lengths"] = "heads"
    skips: int = 0


FITTED: Final = reference("attention")
LARGE: Final = AttentionTile(4, 64, 4)
"""Of heads of 64 features."""
COSTS: Final[dict[AttentionTile, float]] = {AttentionTile(**one["tile"]): one["time"] for one in FITTED["scores"]}
"""The time for a score that is computed, with a causal mask and 64 features."""
ORDERS: Final = {int(features): CausalOrder(**one) for features, one in FITTED["orders"].items()}
"""By features of a head."""
IN_ORDER: Final = CausalOrder(math.inf)
"""That of other heads."""


def default_tile(form: AttentionForm) -> AttentionTile:
    """Accumulators and weights of a thread fit its registers, and two tiles of each ring fit shared memory."""
    if form.narrow:
        return {64: AttentionTile(3, 128, 4), 128: AttentionTile(2, 128, 4), 256: AttentionTile(2, 64)}[form.features]
    if form.features < NARROW:
        return AttentionTile(3, 64, 4)
    return AttentionTile(2, 128 if form.features == NARROW else 64)


def fastest(form: AttentionForm, sizes: HeadSizes, multiprocessors: int) -> tuple[AttentionTile, int | None]:
    """The tile for these sizes, and the blocks of the launch: a block for each part, None, or one a multiprocessor.

    Blocks of several parts copy the next queries during the present part, which pays wherever they get like shares:
    with a causal mask parts differ, and where a head has as many as there are blocks, or nearly, some blocks get the
    long ones of every head, unless parts come by length (`in_parts`). With 64 features exponentials take as long as
    products: four groups of 64 keys, but for causal lengths whose last tile would be mostly empty (`with_least_work`).
    The numbers are those of the device file.
    """
    keys, tile, several = sizes.keys, default_tile(form), True
    if form.pairs is not None:
        several = not form.rules.listed
    elif form.narrow:
        several = not form.causal or keys <= FITTED["narrow_keys"][str(form.features)]
    elif form.window is not None:
        several = keys <= FITTED["window_keys"]
    elif form.features == HEADS[0]:
        if form.causal:
            tile = with_least_work(form, sizes)
        elif keys <= FITTED["large_keys"]:
            tile = LARGE
    elif form.causal:
        order = ORDERS[form.features]
        several = keys <= order.several or order.longer == "lengths"
    parts = -(-sizes.queries // tile.rows) * sizes.batch * sizes.heads * form.group
    if not several or parts <= multiprocessors:
        return tile, None
    return in_parts(form, tile, keys), multiprocessors


def in_parts(form: AttentionForm, tile: AttentionTile, keys: int) -> AttentionTile:
    """The tile of blocks that compute several parts each, which skip tiles or take parts by length where it pays.

    Parts by length read keys and values of several heads at a time, which costs more than it gains where heads have few
    parts. A tile of the diagonal is masked for a whole group where it has at most half as many keys as the block has
    rows.

    >>> form = AttentionForm(256, causal=True)
    >>> [(tile.skips, tile.sections) for tile in (in_parts(form, default_tile(form), n) for n in (2048, 8192))]
    [(True, 0), (False, 8)]
    """
    if not form.causal or form.narrow or form.window is not None or form.pairs is not None:
        return tile
    order = ORDERS.get(form.features, IN_ORDER)
    by_length = order.longer == "lengths" and keys > order.several
    return replace(tile, skips=keys <= order.skips, sections=FITTED["section_parts"] if by_length else 0)


def with_least_work(form: AttentionForm, sizes: HeadSizes) -> AttentionTile:
    """The tile of heads of 64 features that takes the least time, by the elements of scores that it computes.

    >>> with_least_work(AttentionForm(64, causal=True), HeadSizes(21, 32, 777, 777)).rows
    128
    """
    return min(COSTS, key=lambda tile: COSTS[tile] * computed_scores(form, tile, sizes))


def computed_scores(form: AttentionForm, tile: AttentionTile, sizes: HeadSizes) -> int:
    """The scores of a head that are computed, without a window: those of whole tiles, rows and keys outside included.

    >>> form = AttentionForm(64, causal=True)
    >>> computed_scores(form, AttentionTile(4, 64), HeadSizes(1, 1, 257, 257)) // (256 * 64)
    9
    """
    ends = (min(sizes.keys, first + tile.rows) if form.causal else sizes.keys
            for first in range(0, sizes.queries, tile.rows))  # fmt: skip
    return sum(-(-end // tile.keys) for end in ends) * tile.rows * tile.keys


def is_by_sections(form: AttentionForm) -> bool:
    """Whether the long parts of several heads come first, as many as the L2 cache holds."""
    return form.causal and ORDERS.get(form.features, IN_ORDER).longer == "sections"


def tiles(form: AttentionForm, multiprocessors: int) -> Iterator[tuple[AttentionTile, int | None]]:
    """What `fastest` takes for a form at all lengths: a tile and the blocks of the launch.

    >>> len(list(tiles(AttentionForm(64, causal=True), 132)))
    4
    """
    orders = (*FITTED["narrow_keys"].values(), *(order.several for order in ORDERS.values()))
    ends = {FITTED["window_keys"], FITTED["large_keys"], *orders}
    lengths = (*range(1, 2048, ROWS), *ends, *(end + 1 for end in ends))
    heads = (1, 2 * multiprocessors)
    yield from dict.fromkeys(fastest(form, HeadSizes(1, h, n, n), multiprocessors) for h in heads for n in lengths)


def passes_of_keys(form: AttentionForm) -> int:
    """The kernels of `attention_gradients` for dk and dv."""
    return 1 if form.features < WIDE else 2
