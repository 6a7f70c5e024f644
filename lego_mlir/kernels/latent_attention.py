"""Decoding with multi-head latent attention by warpgroups: a cached latent is the keys and the values of all heads.

    q [B, rows, 576], rows = queries heads    cache [P, 64, 576]    table [B, MOST]    lengths [B]    o [B, rows, 512]

A block has 64 rows, and parts of the tokens of some sequences. One role copies pages to shared memory; two
groups of warps take the pages in turns. Each has the scores of its page, and half of the columns of the result, to
which it adds the products of both pages; the weights of the other group are read from shared memory:

    group 0   scores of page 0  weights 0  weights 0 * left half of page 0  weights 1 * left half of page 1
    group 1     scores of page 1  weights 1  weights 0 * right half of page 0  weights 1 * right half of page 1

While a group computes weights, the products of the other one run. Half of a page is replaced as soon as its group has
added it. Weights are relative to a maximum that the groups hand to each other, and that is renewed only where a weight
exceeds `GROWTH`; the sum of the weights divides the result at the end. Blocks have equal shares of all pages, and thus
the ends of some sequences and all of those between (`key_parts.share_of_block`).

Queries are the last positions of their sequence: query i attends to keys up to i + length - queries. The result of a
query without keys is 0.

(DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1; on groups in turns: DeepSeek-AI, "FlashMLA", 2025.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, Strided, f2, f32, i32
from lego_mlir.aliases import Operand
from lego_mlir.hardware.limits import WARP
from lego_mlir.kernels.attention_forms import (
    CHUNK,
    LATENT,
    MOST_PAGES,
    MOST_PAGES_OF_EACH,
    MOST_SEQUENCES,
    RECORD,
    ROTARY,
    SCALED,
    TOKENS,
    WARPS,
    WIDTH,
    LatentForm,
)
from lego_mlir.kernels.attention_tiles import staged
from lego_mlir.kernels.fused_attention import in_lanes
from lego_mlir.kernels.key_parts import LOWEST, EvenShare, Found, SequencePart, combined, share_of_block
from lego_mlir.tracing.definition.named_parameters import with_parameters

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

HALF: Final = LATENT // 2
"""Columns of the result of a group."""
LOADED: Final = 8
"""Elements of 8 bits that a thread converts at once, and so stores 16 bytes."""
LOADS: Final = 4
"""Vectors of that size that a thread loads before it converts the first."""
GROWTH: Final = 2.0**8
"""Weights up to this need no new maximum."""
VECTOR: Final = 4
"""Elements of the result that a thread combines at once."""
REGISTERS: Final = (40, 232)
"""Registers of a thread that copies, and of one that computes."""


def build(form: LatentForm | None = None) -> tuple[Kernel, Kernel]:
    """The kernel that attends, and the one that combines the parts of sequences that have several.

    Sizes of the launch are B, P, MOST, the number U of the parts of all sequences, B more than the blocks of a tile of
    rows, and the number G of the blocks that combine a sequence.
    """
    form = form or LatentForm(128)
    B, U = lego.size("B", max=MOST_SEQUENCES), lego.size("U", max=2**16 - 1)
    G = lego.size("G", min=1, max=2**12)
    tiles = -(-form.rows // TOKENS)
    o = {"o": lego.Tensor(form.dtype, Row(B, form.rows, LATENT))}
    parts = {
        "partial": lego.Tensor(f32, Row(U, tiles, TOKENS, LATENT)),
        "sums": lego.Tensor(f32, Row(U, tiles, TOKENS)),
        "spans": lego.Tensor(i32, Row(B, 2)),  # of each sequence the first part, and their number
    }

    def latent_attention(q: Operand, *more: Operand) -> None:
        *cache, table, lengths, o, partial, sums, spans = more
        place, number = lego.block_id[:2]
        pages = PageRing(form)
        share = share_of_block(lengths, number, B, U - B, 2 * TOKENS)
        copies, computes = REGISTERS
        with lego.warps(2 * WARPS, 3 * WARPS, registers=copies):
            for part in parts_of(share, lengths):
                with lego.when((part.turns.begin == 0) & (lego.lane_id < 1) & (lego.warp_id < 1) & (place < 1)):
                    spans[part.b, 0] = part.turns.first
                    spans[part.b, 1] = part.turns.parts
                pages.fill_queries(q, part, place)
                for n in lego.range(2 * part.count):
                    pages.fill(cache, table, part, n)
        for g in range(2):
            with lego.warps(g * WARPS, (g + 1) * WARPS, registers=computes):
                for part in parts_of(share, lengths):
                    rows = LatentRows(form, pages, part, place, g)
                    for turn in lego.range(part.count):
                        rows.visit(turn)
                    rows.finish()
                    with lego.when(part.turns.parts == 1):
                        rows.store(o)
                    with lego.otherwise():
                        rows.store_part(partial, sums, lego.index(lego.i32(number + part.b), range=(0, U)))
                    pages.free[part.number].arrive()

    def latent_parts(partial: Operand, sums: Operand, spans: Operand, o: Operand) -> None:
        first, b = lego.block_id[:2]
        begin, count = (lego.index(spans[b, n], range=(n, U + n)) for n in range(2))
        with lego.when(count > 1):
            for row in lego.range(first, form.rows, G):
                column = lego.thread_id[0] * VECTOR

                def of_part(block: Operand) -> Found:
                    at = block, row // TOKENS, row % TOKENS  # noqa: B023
                    return sums[at], partial.load(*at, column, width=VECTOR)  # noqa: B023

                _, vector = combined(begin, lego.minimum(count, U - begin), of_part, VECTOR)
                o.store(vector.to(form.dtype), b, row, column)

    attends = with_parameters(latent_attention, given_types(form, B) | o | parts)
    combines = with_parameters(latent_parts, parts | o)
    return (
        lego.kernel(grid=(tiles, U - B), block=3 * WARPS * WARP)(attends),
        lego.kernel(grid=(G, B), block=LATENT // VECTOR)(combines),
    )


def given_types(form: LatentForm, sequences: Operand) -> dict[str, Operand]:
    """The types of the queries, the cache, its table and the lengths."""
    P, MOST = lego.size("P", max=MOST_PAGES), lego.size("MOST", max=MOST_PAGES_OF_EACH)
    return {
        "q": lego.Tensor(form.dtype, Row(sequences, form.rows, WIDTH)),
        **cached(form, P),
        "table": lego.Tensor(i32, Row(sequences, MOST), range=(0, P)),
        "lengths": lego.Tensor(i32, Row(sequences), range=(0, MOST * TOKENS + 1)),
    }


def cached(form: LatentForm, pages: Operand) -> dict[str, Operand]:
    """The types of the cache: one array, or the parts of its records."""
    if form.cache is None:
        return {"cache": lego.Tensor(form.dtype, Row(pages, TOKENS, WIDTH))}
    parts = (("latents", form.cache, LATENT), ("scales", f32, LATENT // SCALED), ("rotary", form.dtype, ROTARY))
    rows = ((name, dtype, n, RECORD // dtype.bytes) for name, dtype, n in parts)
    return {
        name: lego.Tensor(dtype, Strided((pages, TOKENS, n), (TOKENS * row, row, 1))) for name, dtype, n, row in rows
    }


@dataclass(frozen=True, slots=True)
class TokenPart:
    """Tokens `begin` to `end` of sequence `b`, in `count` turns of two pages.

    It is the part `number` of its block, after those with `used` turns.
    """

    turns: SequencePart
    number: Operand
    used: Operand
    count: Operand
    begin: Operand
    end: Operand

    @property
    def b(self) -> Operand:
        """The sequence."""
        return self.turns.b

    @property
    def length(self) -> Operand:
        """Its tokens."""
        return lego.index(self.turns.length, range=(0, 2**30))

    def page(self, n: Operand) -> Operand:
        """The number of page n among all of the block."""
        return 2 * self.used + n


def parts_of(share: EvenShare, lengths: Operand) -> Iterator[TokenPart]:
    """The parts of a block, in a loop."""
    used = lego.register(i32, 0)
    for turns in share.parts(lengths, 2 * TOKENS):
        begin, end = (lego.index(n, range=(0, 2**24)) for n in (turns.begin, turns.end))
        length = lego.index(turns.length, range=(0, 2**30))
        before = lego.index(used.get(), range=(0, 2**30))
        last = lego.minimum(length, 2 * TOKENS * end)
        yield TokenPart(turns, turns.b - share.first, before, end - begin, 2 * TOKENS * begin, last)
        used.set(used + (turns.end - turns.begin))


class PageRing:
    """Shared memory of a block: its queries, two pages, of which halves are replaced, and what the groups exchange.

    The weights of group 1 take the place of the rotary part of the queries, which the groups keep in registers.
    """

    def __init__(self, form: LatentForm) -> None:
        self.queries = lego.shared(form.dtype, staged(TOKENS, WIDTH), "queries")
        self.ring = lego.shared(form.dtype, staged(TOKENS, WIDTH, 2), "pages")
        first = lego.shared(form.dtype, staged(TOKENS, TOKENS), "weights")
        self.weights = first.part((0, 0), (TOKENS, TOKENS)), self.queries.part((0, LATENT), (TOKENS, ROTARY))
        self.tops = lego.shared(f32, Row(2, TOKENS), "tops")
        self.asked = lego.barriers(1, arrivals=WARPS)
        self.full = [lego.barriers(2, arrivals=WARPS) for _ in range(2)]
        self.empty = [lego.barriers(2, arrivals=WARPS) for _ in range(2)]
        self.weighed = [lego.barriers(1, arrivals=WARPS) for _ in range(2)]
        self.met, self.free = (lego.barriers(1, arrivals=2 * WARPS) for _ in range(2))

    def half(self, n: Operand, side: int) -> Operand:
        """Columns of a page: those of the result of a group, and the rotary ones with those of group 1."""
        return self.ring.part((n % 2 * TOKENS, side * HALF), (TOKENS, HALF + side * (ROTARY)))

    def values(self, n: Operand, side: int) -> Operand:
        """The values of a page for a group."""
        return self.ring.part((n % 2 * TOKENS, side * HALF), (TOKENS, HALF))

    def fill_queries(self, q: Operand, part: TokenPart, place: Operand) -> None:
        """Copy the queries of a part, when the last ones are not needed; rows past the last one are zeros."""
        self.free[part.number - 1].wait()
        asked = self.asked[part.number]
        lego.copy_async(q, self.queries, at=(part.b, place * TOKENS, 0), barrier=asked)
        asked.arrive()

    def fill(self, cache: Sequence[Operand], table: Operand, part: TokenPart, n: Operand) -> None:
        """Copy page n of the part, each half as soon as the last one is added; zeros for a page after the last."""
        first, pages, use = part.begin + n * TOKENS, cache[0].dims()[0], part.page(n)
        page = lego.index(table[part.b, lego.maximum(lego.minimum(first, part.end - 1), 0) // TOKENS])
        found = lego.where(first < part.end, page, pages)
        for side in range(2):
            full = self.full[side][use]
            self.empty[side][use - 2].wait()
            if len(cache) > 1:
                self._convert(cache, found, use, side)
            else:
                lego.copy_async(cache[0], self.half(use, side), at=(found, 0, side * HALF), barrier=full)
            full.arrive()

    def _convert(self, cache: Sequence[Operand], page: Operand, n: Operand, side: int) -> None:
        """Half of a page of records: latents times their scales, and the rotary part as it is."""
        latents, scales, rotary = cache
        if side:
            at = n % 2 * TOKENS, LATENT
            lego.copy_async(rotary, self.ring.part(at, (TOKENS, ROTARY)), at=(page, 0, 0), barrier=self.full[side][n])
        thread, across = lego.warp_id * WARP + lego.lane_id, HALF // LOADED
        for begin in lego.range(0, TOKENS * across, LOADS * WARPS * WARP):
            places = []
            for k in range(LOADS):
                v = begin + k * WARPS * WARP + thread
                places.append((v // across, side * HALF + v % across * LOADED))
            given = [latents.halo("zero").load(page, *place, width=LOADED).to(f32) for place in places]
            for (row, column), x in zip(places, given, strict=True):
                x = (x * scales.halo("zero")[page, row, column // SCALED]).to(self.ring.dtype)
                self.ring.store(x, n % 2 * TOKENS + row, column)

    def clear(self, n: Operand, end: Operand, thread: Operand) -> None:
        """Make values of page n zeros from token `end` on, whose weights are 0: what was there may not be finite."""
        lego.barrier()  # all warps have their scores
        across = LATENT // CHUNK
        zeros = lego.register(self.ring.dtype, 0.0, CHUNK).get()
        for v in lego.range(end * across + thread, TOKENS * across, WARPS * WARP):
            self.ring.store(zeros, n % 2 * TOKENS + v // across, v % across * CHUNK)
        lego.barrier()


class LatentRows:
    """64 rows of a group of warps: its half of their results, and the sums of the weights of its pages."""

    best: Operand
    total: Operand
    out: Operand
    following: Operand
    sum: Operand

    def __init__(self, form: LatentForm, pages: PageRing, part: TokenPart, place: Operand, group: int) -> None:
        self.form, self.pages, self.part, self.place, self.group = form, pages, part, place, group
        self.thread = lego.thread_id[0] - group * WARPS * WARP
        parent = f2.MmaSync((WARPS, 1))
        self.scores, self.whole = (parent.layout((TOKENS, n)) for n in (TOKENS, HALF))
        self.left = f2.MmaOperand(0, parent).layout((TOKENS, TOKENS))
        self.sliced = f2.Sliced(1, parent).layout((TOKENS,))
        pages.asked[part.number].wait()
        self.rotary = pages.queries.load(lego.arange(self.left, 0), LATENT + lego.arange(self.left, 1))
        self.best = lego.register(lego.full(f32, self.sliced, LOWEST))
        self.total = lego.register(in_lanes(lego.zeros(f32, self.scores)))
        self.out = lego.register(lego.zeros(f32, self.whole))
        self.following = lego.register(lego.zeros(f32, self.scores))
        query = (place * TOKENS + lego.arange(self.sliced, 0)) // form.heads
        self.ends = lego.minimum(part.end, part.length - form.queries + query + 1)
        self.whole_end = lego.minimum(part.end, part.length - form.queries + 1)

    def visit(self, turn: Operand) -> None:
        """Add two pages, of which this group weighs one."""
        pages, g, turns = self.pages, self.group, self.part.used + turn
        n = 2 * turns + g
        self.score(n, 2 * turn + g)
        if g == 1:
            pages.weighed[0][turns].wait()
            self.fade(self.top(0))
        top = lego.maximum(self.following.get().max(axis=1), LOWEST)
        known = self.best.get()
        new = lego.where((top - known) * self.form.exponent > math.log2(GROWTH), top, known)
        p = lego.exp2(
            lego.fma(self.following.get(), self.form.exponent, (new * -self.form.exponent)[:, None]), fast=True
        )
        weights = p.to(self.form.dtype)
        new.store(pages.tops, at=(g, 0))
        weights.store(pages.weights[g])
        pages.weighed[g][turns].arrive()
        own = lego.convert(weights, to=self.left)
        if g == 0:
            self.fade(new)
            self.total.set(self.total.get() + in_lanes(p))
            self.add(own, n)
            pages.weighed[1][turns].wait()
            self.fade(self.top(1))
            pages.empty[0][n].arrive()
            self.add(pages.weights[1], n + 1)
        else:
            self.add(pages.weights[0], n - 1)
            self.fade(new)
            pages.empty[1][n - 1].arrive()
            self.total.set(self.total.get() + in_lanes(p))
            self.add(own, n)
        pages.empty[g][2 * turns + 1].arrive()

    def score(self, n: Operand, of_part: Operand) -> None:
        """The scores of page n, page `of_part` of the part, without those of tokens that a query does not attend to."""
        pages = self.pages
        pages.full[0][n].wait()
        queries = pages.queries
        s = lego.mma(queries.part((0, 0), (TOKENS, HALF)), pages.half(n, 0).T, lego.zeros(f32, self.scores))
        pages.full[1][n].wait()
        s = lego.mma(queries.part((0, HALF), (TOKENS, HALF)), pages.values(n, 1).T, s)
        rest = pages.ring.part((n % 2 * TOKENS, LATENT), (TOKENS, ROTARY))
        self.following.set(lego.mma(self.rotary, rest.T, s))
        first = self.part.begin + of_part * TOKENS
        with lego.when(first + TOKENS > self.whole_end):
            key = first + lego.arange(self.scores, 1)
            self.following.set(lego.where(key < self.ends[:, None], self.following.get(), -math.inf))
            with lego.when((first < self.part.end) & (self.part.end < first + TOKENS)):
                pages.clear(n, self.part.end - first, self.thread)

    def top(self, group: int) -> Operand:
        """The maximum to which the weights of a group are relative."""
        return self.pages.tops.load(group, lego.arange(self.sliced, 0))

    def fade(self, new: Operand) -> None:
        """Relate what is summed to a new maximum, if one of the warp's rows has one."""
        known = self.best.get()
        with lego.when(lego.warp_any(new > known)):
            factor = lego.exp2((known - new) * self.form.exponent, fast=True)[:, None]
            self.total.set(self.total.get() * factor)
            self.out.set(self.out.get() * factor)
            self.best.set(new)

    def add(self, weights: Operand, n: Operand) -> None:
        """Add the values of page n."""
        self.out.set(lego.mma(weights, self.pages.values(n, self.group), self.out.get()))

    def finish(self) -> None:
        """Divide the result by the sum of the weights of both groups."""
        pages = self.pages
        self.total.get().sum(axis=1).store(pages.tops, at=(1 - self.group, 0))  # which this group has read last
        pages.met[self.part.number].arrive()
        pages.met[self.part.number].wait()
        self.sum = self.top(0) + self.top(1)
        share = lego.where(self.sum > 0.0, 1.0 / self.sum, 0.0)
        self.out.set(self.out.get() * share[:, None])

    def store(self, o: Operand) -> None:
        """The rows of the result, through the place of their queries."""
        held = self.pages.queries.part((0, self.group * HALF), (TOKENS, HALF))
        self.out.get().to(self.form.dtype).store(held)
        lego.barrier()
        across, first = HALF // CHUNK, self.place * TOKENS
        for v in lego.range(self.thread, lego.minimum(self.form.rows - first, TOKENS) * across, WARPS * WARP):
            row, column = v // across, self.group * HALF + v % across * CHUNK
            o.store(self.pages.queries.load(row, column, width=CHUNK), self.part.b, first + row, column)

    def store_part(self, partial: Operand, sums: Operand, number: Operand) -> None:
        """The result of a part of the tokens, and the logarithm of the sum of its weights."""
        self.out.get().store(partial, at=(number, self.place, 0, self.group * HALF))
        if self.group == 0:
            lego.fma(self.best.get(), self.form.exponent, lego.log2(self.sum)).store(sums, at=(number, self.place, 0))
