"""Fused attention, forward: softmax(q k^T / sqrt(D)) v by warp roles, with the products of two tiles in flight.

One role copies tiles of queries, keys and values (`attention_tiles`). Each group of 4 warps of the other computes 64
rows of the result, which leave through the shared memory that held their queries. In an iteration the scores of the
next tile of keys and the result of the present one are products that run while the softmax computes (`wgmma` on
sm_90a; `mma.sync` elsewhere):

    scores = q k[j + 1]^T        asynchronous
    out += weights v[j]          asynchronous
    weights of the scores        while the second product runs
    scale out, if a maximum grew

Weights are relative to the maximum that is known, which is found anew only where the sums of a tile pass `LARGE`, since
results are divided by the sum of the weights in the end: most tiles need no maximum. A tile that needs one computes its
scores again by `mma.sync`, which a warp executes alone: scores and weights take the same registers, and nothing spills.
The log-sum-exp of each row is stored for the gradients (`kernels.added_gradients`).

(Dao, "FlashAttention-2", 2023; Shah et al., "FlashAttention-3", 2024, on products in flight.)
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, f2, f32
from lego_mlir.aliases import Operand
from lego_mlir.kernels.attention_forms import (
    ROWS,
    WARPS,
    AttentionForm,
    AttentionTile,
    HeadSizes,
    default_tile,
    is_by_sections,
)
from lego_mlir.kernels.attention_tiles import (
    HeadTensors,
    KeyRings,
    KeyTiles,
    PartOrder,
    Place,
    QueryTiles,
    RingUses,
    VisitedTiles,
    heads_in_cache,
    in_words,
    launch_sizes,
)
from lego_mlir.kernels.pair_rules import PairsOf
from lego_mlir.kernels.rule_spans import spans
from lego_mlir.kernels.rule_tiles import (
    ListedTiles,
    ProvedTiles,
    TableShape,
    pairs_of,
    read_types,
    table_place,
    table_type,
)
from lego_mlir.tracing.definition.named_parameters import with_parameters

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

LARGE: Final = 2.0**14
"""Weights whose sums are at most this are numbers of 16 bits."""
LARGEST: Final = 448.0
"""The same of f8e4m3fn, its largest number."""
LEVEL: Final = 7
"""The exponent of 2 of the largest of a row's sums in its lanes in the first tile, of weights in f8e4m3fn."""
HEAD: Final = 3
"""That of a weight, of which as many as a lane has are no more than `LARGEST`."""
HUGE: Final = 2.0**100
"""Sums up to this are numbers that a factor makes smaller; beyond it weights may be infinite."""
LOWEST: Final = -1e30
"""Where a tile has no key for a row: finite, so that differences of maxima are numbers."""
STEP: Final = 32
"""Features of an iteration of the loop that computes scores again: few addresses, so that no register spills."""


def in_lanes(x: Operand) -> Operand:
    """The sums of each row in its 4 lanes."""
    rows, columns = x.shape
    return x.reshape(rows, columns // 8, 4, 2).sum(axis=1).sum(axis=2)


def build(
    form: AttentionForm | None = None,
    tile: AttentionTile | None = None,
    sizes: HeadSizes | None = None,
    blocks: int | None = None,
) -> Kernel:
    """The kernel: q and o are [B, H group, M, D], k and v [B, H, N, D], log-sum-exps [B, H group, M] in units of log 2.

    Features D of v and o may be fewer than those of q and k.
    The strides of q, k, v and o are the launch's, multiples of 8 elements, and 1 for features. Causal queries attend to
    keys of no larger position. With `sizes` these are constants of the kernel, otherwise sizes of the launch. With
    `blocks` there are that many, which compute several parts of the result each: the tiles of the next part are copied
    while the last rows are stored. Raises UsageError for a window that leaves queries without keys; a launch refuses
    such sizes.
    """
    form = form or AttentionForm()
    tile = tile or default_tile(form)
    if sizes is not None:
        form.require_keys(sizes.queries, sizes.keys)
    of = HeadTensors(form, sizes or launch_sizes())
    M, N = of.sizes.queries, of.sizes.keys
    types = {"q": of.of_queries("q"), "k": of.of_keys("k"), "v": of.of_keys("v", form.width)}
    reads, listed = read_types(form.rules), form.rules.listed
    back = form.rules.score is not None  # near keys, whose scores are often the largest, first: no maximum grows later
    tables = {"tiles": table_type(form, TableShape(tile.rows, tile.keys))} if listed else {}
    types |= {**scale_types(form), **reads, **tables, "o": of.of_queries("o", form.width), "lse": of.of_rows}
    threads = 32 * (tile.warps + WARPS)

    order = _order_of(form, tile, of.sizes, blocks)

    def attention(q: Operand, k: Operand, v: Operand, *more: Operand) -> None:
        *given, o, lse = more
        scales, given = (given[:3], given[3:]) if form.narrow else ([], given)

        def of_part(head: Operand, place: Operand) -> tuple[PairsOf, VisitedTiles]:
            """The pairs of a head of queries, and the tiles of keys of a block of them."""
            first = place * tile.rows
            pairs = pairs_of(form, of.query_place(head), dict(zip(reads, given, strict=False)))
            if form.pairs is None:
                return pairs, KeyTiles(form, tile, first, N)
            if listed:
                return pairs, ListedTiles(given[-1], table_place(form, pairs.batch, pairs.head, place), back=back)
            of_rows = spans(lambda i, j: form.reaches(i, j, pairs), first, tile.rows)
            return pairs, ProvedTiles(of_rows, tile.keys, N, back=back)

        queries = QueryTiles(form, tile, order)
        rings = KeyRings(form, tile)
        if form.window is not None and sizes is None:
            lego.require(M - form.window < N)
        copies, computes = tile.registers(form)
        with lego.warps(tile.warps, tile.warps + WARPS, registers=copies):
            used = RingUses(order)
            for number, head, place in order.numbered():
                first = place * tile.rows
                queries.fill(q, of.query_place(head), first, number)
                _, span = of_part(head, place)
                rings.fill(k, v, of.key_place(head // form.group if form.group > 1 else head), span, used)
        with lego.warps(0, tile.warps, groups=tile.groups, registers=computes):
            used = RingUses(order)
            for number, head, place in order.numbered():
                first = place * tile.rows
                pairs, span = of_part(head, place)
                scale = HeadScales.of(scales, of.query_place(head)[1], form.group)
                group = AttentionRows(form, tile, first + lego.group_id * ROWS, N, pairs, scale)
                release = functools.partial(queries.release, number)
                group.attend(queries.take(number), rings, span, used, release)
                group.store(queries.result(number), o, lse, of.query_place(head))
                queries.release(number, stored=True)
            lego.wait_copies()  # the last rows have been read

    return lego.kernel(grid=order.grid, block=threads)(with_parameters(attention, types))


def _order_of(form: AttentionForm, tile: AttentionTile, sizes: HeadSizes, blocks: int | None) -> PartOrder:
    """In which order the parts of the result are computed: long ones first, where they differ."""
    count, together = lego.cdiv(sizes.queries, tile.rows), None
    if blocks is None and is_by_sections(form):
        together = heads_in_cache(form, sizes.keys) * form.group
    elif blocks is not None and tile.sections:
        together = lego.cdiv(tile.sections * blocks, count)
    by_proof = form.rules.mask is not None and not form.rules.listed
    return PartOrder(count, sizes.batch * sizes.heads * form.group, form.causal or by_proof, together, blocks)


def scale_types(form: AttentionForm) -> dict[str, Operand]:
    """The types of the scales of q, k and v: one for each head, or one for all."""
    if not form.narrow:
        return {}
    of_q, of_k = (lego.size(name, min=1, max=2**16) for name in ("SQ", "SK"))
    return {f"scale_{name}": lego.Tensor(f32, Row(n)) for name, n in (("q", of_q), ("k", of_k), ("v", of_k))}


@dataclass(frozen=True, slots=True)
class HeadScales:
    """The factor of the products of a head, and that of its values."""

    products: Operand = 1.0
    values: Operand = 1.0

    @classmethod
    def of(cls, scales: Sequence[Operand], head: Operand, group: int) -> HeadScales:
        """Those of a head of queries."""
        if not scales:
            return cls()
        places = (head, head // group, head // group)
        q, k, v = (x[lego.minimum(n, x.dims()[0] - 1)] for x, n in zip(scales, places, strict=True))
        return cls(q * k, v)


class AttentionRows:
    """64 queries of a group of warps, from `first` on: what is known of their softmax, and the sums of its weights.

    The weights of a tile are f32 while products are in flight, and rounded when these have read those of the last tile.
    """

    queries: Operand
    out: Operand
    weights: Operand
    following: Operand
    best: Operand
    total: Operand
    sums: Operand

    def __init__(
        self, form: AttentionForm, tile: AttentionTile, first: Operand, keys: Operand, pairs: PairsOf | None = None,
        scales: HeadScales | None = None,
    ) -> None:  # fmt: skip
        self.form, self.tile, self.first, self.keys, self.pairs = form, tile, first, keys, pairs
        self.scales = scales or HeadScales()
        of_rule, exponent = form.rules.score is not None, form.exponent
        self.exponent = exponent * self.scales.products if form.narrow and not of_rule else exponent
        self.factor = form.factor * self.scales.products if form.narrow else form.factor
        self.skips = tile.skips and form.causal
        parent = self.parent = f2.MmaSync((WARPS, 1))
        self.left = f2.MmaOperand(0, parent, 32 // form.dtype.bits).layout((ROWS, tile.keys))
        self.zeros = lego.zeros(f32, parent.layout((ROWS, tile.keys)))
        self.out = lego.register(lego.zeros(f32, parent.layout((ROWS, form.width))))
        self.weights = lego.register(lego.zeros(form.dtype, self.left))
        self.following = lego.register(self.zeros)
        self.each_row = lego.zeros(f32, f2.Sliced(1, parent).layout((ROWS,)))
        self.best = lego.register(self.each_row)
        self.total, self.sums = (lego.register(in_lanes(self.zeros)) for _ in range(2))

    def attend(
        self,
        queries: Operand,
        rings: KeyRings,
        span: VisitedTiles,
        used: RingUses,
        after_first: Callable[[], None] = lambda: None,
    ) -> None:
        """Visit all tiles of keys; call `after_first` after the first one."""
        before = used.before
        first = rings.take(0, before)
        rings.turns.begin(before)
        self.queries = self.held(queries)
        scores = lego.mma(self.queries, first.T, self.zeros)
        rings.turns.end(before)
        scores = self.scored(scores, span.visited(span.begin, True), True)
        self.best.set(lego.maximum(self.reference(scores), LOWEST))
        self.weigh(scores)
        if self.form.narrow:
            self.level()
        self.total.set(self.sums)
        self.round()
        rings.empty[0][before].arrive()
        after_first()
        for start, stop, mask in span.segments():
            for number in lego.range(start, stop):
                t, j = before + number - span.begin, span.visited(number, mask)
                if mask and self.skips:
                    self.visit_needed(queries, rings, t, j)
                else:
                    self.visit(queries, rings, rings.take, t, j, mask)
                rings.empty[0][t].arrive()
                rings.empty[1][t - 1].arrive()
        last = before + span.end - 1 - span.begin
        values = rings.take(1, last)
        with lego.when(self.needs(span.end - 1)) if self.skips else nullcontext():
            self.out.set(lego.mma(self.weights, values, self.out))
        rings.empty[1][last].arrive()
        used.add(span)

    def held(self, queries: Operand) -> Operand:
        """The queries as products read them: of 8 bits in registers, so that more of shared memory's rate is left."""
        if not self.form.narrow:
            return queries
        return lego.load(queries, f2.MmaOperand(0, self.parent, 32 // self.form.dtype.bits).layout(queries.shape))

    def visit_needed(self, queries: Operand, rings: KeyRings, t: Operand, j: Operand) -> None:
        """Visit a tile, the use t of the rings, as far as it has keys for these rows: all groups wait for it."""
        rings.take(0, t)
        values = rings.take(1, t - 1)
        with lego.when(self.needs(j - 1)):
            with lego.when(self.needs(j)):
                self.visit(queries, rings, rings.part, t, j, True)
            with lego.otherwise():
                self.out.set(lego.mma(self.weights, values, self.out))

    def needs(self, j: Operand) -> Operand:
        """Whether some row reaches tile j, with `causal`."""
        return j * self.tile.keys < self.first + ROWS

    def visit(
        self, queries: Operand, rings: KeyRings, take: Callable[[int, Operand], Operand], t: Operand, j: Operand,
        mask: bool,
    ) -> None:  # fmt: skip
        """Weights of tile j, which is the use t of the rings, while the values of the one before are added."""
        following = take(0, t)
        rings.turns.begin(t)
        scores = lego.mma(self.queries, following.T, self.zeros)
        added = lego.mma(self.weights, take(1, t - 1), self.out)
        rings.turns.end(t)
        self.weigh(self.scored(scores, j, mask))
        large = self.any_above(LARGEST if self.form.narrow else LARGE)
        self.out.set(added)
        with lego.when(large):
            with lego.when(self.any_above(HUGE)) if self.form.narrow else nullcontext():
                again = self.again(queries, rings.part(0, t))
                self.renew(self.scored(again, j, mask))
            if self.form.narrow:
                self.level(0.0)
        self.total.set(self.total + self.sums)
        self.round()

    def scored(self, products: Operand, j: Operand, mask: bool) -> Operand:
        """The scores of tile j; with `mask`, without those of keys that a query does not attend to."""
        row, column = self.first + products.index(0), j * self.tile.keys + products.index(1)
        if self.pairs is not None and self.form.rules.score is not None:
            products = self.pairs.scored(products * self.factor, row, column)
        return (
            lego.where(self.form.allowed(row, column, self.keys, self.pairs), products, -math.inf) if mask else products
        )

    def weigh(self, scores: Operand) -> None:
        """Weights relative to the maximum that is known, and their sums."""
        scale = self.exponent
        p = lego.exp2(lego.fma(scores, scale, (self.best * -scale)[:, None]), fast=True)
        self.following.set(p)
        self.sums.set(in_lanes(p))

    def any_above(self, most: float) -> Operand:
        """Whether a sum of this warp is."""
        return lego.warp_any(functools.reduce(operator.or_, (self.sums > most).registers))

    def reference(self, scores: Operand) -> Operand:
        """What the weights of a tile are relative to: the maximum, of 8 bits HEAD below it."""
        most = scores.max(axis=1)
        return most - HEAD / self.exponent if self.form.narrow else most

    def level(self, least: float | None = None) -> None:
        """Bring the sums of this tile's weights to 2^LEVEL in a lane of each row, or down to that where least is 0."""
        shift = lego.log2(lego.maximum(self.sums.max(axis=1), 1.0)) - LEVEL
        shift = shift if least is None else lego.maximum(shift, least)
        fade = lego.exp2(-shift, fast=True)[:, None]
        self.best.set(self.best + shift / self.exponent)
        sums = (self.following, self.sums) if least is None else (self.following, self.sums, self.total, self.out)
        for held in sums:
            held.set(held * fade)

    def again(self, queries: Operand, keys: Operand) -> Operand:
        """The scores, by one warp."""
        scores = lego.register(self.zeros)
        for step in lego.range(self.form.features // STEP):
            a, b = (x.view.part((x.at[0], step * STEP), (x.shape[0], STEP)) for x in (queries, keys))
            scores.set(lego.mma(a, b.T, scores, warpgroups=False))
        return scores.get()

    def renew(self, scores: Operand) -> None:
        """Weights relative to a new maximum; the sums under the old one fade."""
        new = lego.maximum(self.best, self.reference(scores))
        fade = lego.exp2((self.best - new) * self.exponent, fast=True)
        self.total.set(self.total * fade[:, None])
        self.out.set(self.out * fade[:, None])
        self.best.set(new)
        self.weigh(scores)

    def round(self) -> None:
        """The weights as an operand."""
        rounded = self.following.to(self.form.dtype)
        self.weights.set(lego.convert(in_words(rounded) if self.form.narrow else rounded, to=self.left))

    def store(self, part: Operand, o: Operand, lse: Operand, head: Place) -> None:
        """The rows of the result, through the tile of the queries, and their log-sum-exps."""
        total, rules = self.total.sum(axis=1), self.form.pairs
        factor = 1.0 / total if rules is None else lego.where(total > 0.0, 1.0 / total, 0.0)
        factor = factor * self.scales.values if self.form.narrow else factor
        if self.form.values is not None:
            part = part.view.part(part.at, (ROWS, self.form.width))
        (self.out * factor[:, None]).to(self.form.stored).store(part)
        lego.barrier()
        lego.copy_async(part, o, at=(*head, self.first, 0))
        lego.commit_copies()
        found = lego.fma(self.best, self.exponent, lego.log2(total))
        found = found if rules is None else lego.where(total > 0.0, found, math.inf)
        found.store(lse, at=(*head, self.first))
