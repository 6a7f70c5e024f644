"""The gradients of fused attention by warp roles: all in one kernel, which adds those of queries to global memory.

`attention_gradients` computes scores twice, once for the gradients of keys and once for those of queries: 7 products
for each pair of tiles. Here a block holds keys, visits queries, and also multiplies what it needs for the queries:

    scores, slopes = k q^T, v do^T               p = exp(scores - lse),  ds = p (slopes - delta)
    dv += p do,  dk += ds q                      the weights in registers
    sums[queries] += ds^T k                      ds through shared memory, the sum by `lego.copy_async(.., add=True)`

5 products, as for one pass. Several blocks add to one row of `sums`, f32, in any order: two runs may differ in the last
bits. The first kernel computes the deltas and clears the sums, the last one rounds the sums.

One role copies tiles of queries and of the gradients of results into rings. Each group of 4 warps of the other holds 64
keys. The groups share `ds`: each writes the rows of its keys, and computes a part of 64 x 64 of the sums for all keys.

Products are in flight during all other work: slopes during the exponentials, dv during ds, dk while the groups wait for
each other, and the scores of the next tile while the part of the sums is stored and added. The scarcest resource is
shared memory: a product of 64 x 64 x 16 with both operands there reads 4 KB in its 32 cycles, all that the memory can
deliver. So heads of 64 features hold keys in registers, and what is added is stored without bank conflicts.
(Shah et al., "FlashAttention-3", 2024, section 3.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, f2, f32, gallery
from lego_mlir.aliases import Operand
from lego_mlir.errors import UsageError
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.kernels.attention_forms import ADDED_HEADS, ROWS, WARPS, AttentionForm
from lego_mlir.kernels.attention_tiles import (
    HeadTensors,
    Place,
    VisitedTiles,
    by_rows_of,
    head_and_tile,
    launch_sizes,
    staged,
)
from lego_mlir.kernels.rule_tiles import (
    TableShape,
    pairs_of,
    query_tiles,
    read_types,
    table_type,
)
from lego_mlir.kernels.score_gradients import add_reads, score_and_slopes, types_of_sums, with_slope
from lego_mlir.tracing.definition.named_parameters import with_parameters

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition.kernel import Kernel

WORDS: Final = 32
"""f32 elements of a row of 128 bytes, the widest that the copy unit swizzles."""
REGISTERS: Final = (24, 240)
"""Of a thread that copies, and of one that computes, for two groups."""


@dataclass(frozen=True, slots=True)
class AddedGradients:
    """The kernels, in the order of their launches."""

    prepare: Kernel
    main: Kernel
    round: Kernel


@dataclass(frozen=True, slots=True)
class AddedTile:
    """Queries of a visited tile, tiles of a ring, and groups of 64 keys."""

    queries: int = 64
    stages: int = 2
    groups: int = 2

    @property
    def keys(self) -> int:
        """Keys of a block."""
        return ROWS * self.groups

    @property
    def warps(self) -> int:
        """Those that compute; 4 more copy."""
        return WARPS * self.groups


def default_tile(form: AttentionForm) -> AddedTile:
    """Each group has one part of 64 x 64 of the queries' gradients."""
    return AddedTile(64 if form.features > ROWS else 128)


def table_shape(tile: AddedTile) -> TableShape:
    """What a table of a mask's tiles is for."""
    return TableShape(tile.keys, tile.queries, of_keys=True)


def require_parts(form: AttentionForm, tile: AddedTile) -> None:
    """Raise UsageError where the sums do not fit the registers, or a group had not one part of the queries' sums."""
    parts = tile.queries // ROWS * (form.features // ROWS)
    if form.features not in ADDED_HEADS or parts != tile.groups:
        raise UsageError(
            f"added gradients: heads of 64 or 128 features, and {tile.groups} parts of {ROWS} x {ROWS} in a tile of "
            f"{tile.queries} queries, one for each group, got {form.features} features; kernels.attention_gradients "
            "takes all"
        )


def word_panels(rows: int, columns: int, count: int) -> Layout:
    """`count` row-major tiles of f32 in blocks of 32 columns, whose rows of 128 bytes are swizzled."""
    blocks = RegP([count, rows, columns // WORDS, WORDS], [1, 3, 2, 4])
    swizzled = gallery.xor_swizzle(count * rows * columns // WORDS, WORDS, 4, 1, 8)
    return OrderBy(swizzled).OrderBy(blocks).GroupBy([count * rows, columns])


def build(form: AttentionForm | None = None, tile: AddedTile | None = None) -> AddedGradients:
    """The kernels for q, o, do, dq, sums [B, H group, M, D], k, v, dk, dv [B, H, N, D] and rows [B, H group, M].

    The strides of all but rows and sums are the launch's, multiples of 8 elements, and 1 for features.

    Raises UsageError for heads of 256 features, whose sums do not fit the registers.
    """
    form = form or AttentionForm()
    tile = tile or default_tile(form)
    require_parts(form, tile)
    of = HeadTensors(form, launch_sizes())
    B, H, M, N = of.sizes.batch, of.sizes.heads, of.sizes.queries, of.sizes.keys
    of_q, of_o, of_do, of_dq = (of.of_queries(name) for name in ("q", "o", "do", "dq"))
    of_k, of_v, of_dk, of_dv = (of.of_keys(name) for name in ("k", "v", "dk", "dv"))
    of_rows, of_sums = of.of_rows, of.of_sums

    reads, listed = read_types(form.rules), form.rules.listed and not form.by_shared_head
    tables = {"tiles_of_keys": table_type(form, table_shape(tile))} if listed else {}
    learned = types_of_sums(form.rules)
    taken = {"q": of_q, "k": of_k, "v": of_v, "do": of_do, "lse": of_rows, "delta": of_rows}
    taken |= {**reads, **tables, **learned}

    def main(
        q: Operand, k: Operand, v: Operand, do: Operand, lse: Operand, delta: Operand, *more: Operand
    ) -> None:  # fmt: skip
        *given, sums, dk, dv = more
        place, head, batch = lego.block_id  # no division, whose results would take registers of the products
        first = place * tile.keys
        memory = GradientMemory(form, tile)
        if form.pairs is None:
            span = QueryTilesOfKeys(form, tile, head, first, M)
        else:
            tables_given = given[len(reads) : len(reads) + len(tables)]
            tiles = query_tiles(form, (first, tile.keys), tile.queries, M, tables_given, (batch, head))
            span = RuleTilesOfKeys(form, tile, head, first, M, tiles)
        copies, computes = REGISTERS if tile.groups == 2 else (None, None)
        with lego.warps(tile.warps, tile.warps + WARPS, registers=copies):
            memory.hold(k, v, (batch, head), first)
            for t, member, i in span.all():
                memory.fill((q, do, lse, delta), t, (batch, member), i * tile.queries)
            memory.close(q, span.visits, (0, 0), M)
        with lego.warps(0, tile.warps, groups=tile.groups, registers=computes):
            read = dict(zip(reads, given, strict=False))
            added = dict(zip(learned, given[len(reads) + len(tables) :], strict=True))
            group = GradientGroup(form, tile, memory, first, read, N, added)
            for t, member, i, mask in span.segments():
                group.visit(sums, t, (batch, member), i * tile.queries, mask)
            group.store(dk, dv, (batch, head))

    grid, threads = (lego.cdiv(N, tile.keys), H, B), 32 * (tile.warps + WARPS)
    made = with_parameters(main, {**taken, "sums": of_sums, "dk": of_dk, "dv": of_dv})
    main_ = lego.kernel(grid=grid, block=threads, name="attention_added_gradients")(made)
    types = RowTensors(of_o, of_do, of_dq, of_rows, of_sums)
    prepare, round_ = by_rows(form, types, (M, B * H * form.group), "attention", of.query_place)
    return AddedGradients(prepare, main_, round_)


class RowTensors(NamedTuple):
    """The types of the kernels before and after: o, do, dq, deltas and sums."""

    o: Operand
    do: Operand
    dq: Operand
    rows: Operand
    sums: Operand


def by_rows(
    form: AttentionForm,
    types: RowTensors,
    counts: tuple[Operand, Operand],
    name: str,
    place: Callable[[Operand], Place] = lambda head: (head,),
) -> tuple[Kernel, Kernel]:
    """The kernels before and after: the deltas of queries and zeros as their sums; the sums as results."""
    rows, heads = counts
    of_o, of_do, of_dq, of_rows, of_sums = types
    tiles = lego.cdiv(rows, ROWS)
    blocks = {"grid": (tiles * heads,), "block": 128}
    layout = by_rows_of(form.features)

    @lego.kernel(**blocks, name=f"{name}_prepared_gradients")
    def prepare(o: of_o, do: of_do, delta: of_rows, sums: of_sums):  # type: ignore[no-untyped-def,valid-type]
        head, i = head_and_tile(tiles)
        at = (*place(head), i * ROWS, 0)
        for inside in in_and_past(at[-2], rows):
            with lego.when(inside):
                result, gradient = (lego.load(x, layout, at=at) for x in (o, do))
                lego.zeros(f32, layout).store(sums, at=at)
                (result.to(f32) * gradient.to(f32)).sum(axis=1).store(delta, at=at[:-1])

    @lego.kernel(**blocks, name=f"{name}_rounded_gradients")
    def round_(sums: of_sums, dq: of_dq):  # type: ignore[no-untyped-def,valid-type]
        head, i = head_and_tile(tiles)
        at = (*place(heads - 1 - head), i * ROWS, 0)  # the last sums are in the cache
        for inside in in_and_past(at[-2], rows):
            with lego.when(inside):
                found = (lego.load(sums, layout, at=at) * form.factor).to(form.dtype)
                lego.convert(exchanged(found, back=True), to=layout).store(dq, at=at)

    return prepare, round_


def in_and_past(first: Operand, rows: Operand) -> tuple[Operand, Operand]:
    """Whether the tile from row `first` on is inside a tensor, so that no access needs a mask, or not."""
    return first <= rows - ROWS, first > rows - ROWS


@dataclass(frozen=True, slots=True)
class QueryTilesOfKeys:
    """The tiles of queries that attend to the keys from `first` on, of all heads that share the keys."""

    form: AttentionForm
    tile: AddedTile
    head: Operand
    first: Operand
    queries: Operand

    @property
    def begin(self) -> Operand:
        """The first tile of each head."""
        return self.first // self.tile.queries if self.form.causal else 0

    @property
    def masks(self) -> bool:
        """Whether there are tiles in which some query does not attend to some key."""
        return self.form.causal

    @property
    def middle(self) -> Operand:
        """The end of these tiles."""
        if self.form.window is not None:
            return self.end
        return lego.minimum(lego.cdiv(self.first + self.tile.keys, self.tile.queries), self.end)

    @property
    def end(self) -> Operand:
        """The end, not below the first."""
        end = lego.cdiv(self.queries, self.tile.queries)
        if self.form.window is not None:
            end = lego.minimum(end, lego.cdiv(self.first + self.tile.keys + self.form.window, self.tile.queries))
        return lego.maximum(end, self.begin)

    @property
    def visits(self) -> Operand:
        """How many there are."""
        return self.form.group * (self.end - self.begin)

    def _heads(self) -> Iterator[tuple[Operand, Operand]]:
        """Each head, and how many tiles the heads before it have."""
        group = self.form.group
        if group == 1:
            yield self.head, 0
            return
        for member in lego.range(group):
            yield self.head * group + member, member * (self.end - self.begin)

    def all(self) -> Iterator[tuple[Operand, Operand, Operand]]:
        """The number of each visit, its head and its tile."""
        for head, before in self._heads():
            for i in lego.range(self.begin, self.end):
                yield before + i - self.begin, head, self.visited(i)

    def visited(self, number: Operand) -> Operand:
        """The tile of a visit: they are numbered by themselves."""
        return number

    def segments(self) -> Iterator[tuple[Operand, Operand, Operand, bool]]:
        """The same, and whether some query of the tile does not attend to some key."""
        for head, before in self._heads():
            middle = self.middle if self.masks else self.begin
            if self.masks:
                for i in lego.range(self.begin, middle):
                    yield before + i - self.begin, head, i, True
            if self.form.window is None:
                for i in lego.range(middle, self.end):
                    yield before + i - self.begin, head, i, False


@dataclass(frozen=True, slots=True)
class RuleTilesOfKeys(QueryTilesOfKeys):
    """The tiles of queries that a user's mask allows for the keys."""

    tiles: VisitedTiles

    @property
    def begin(self) -> Operand:
        """The first visit of each head."""
        return self.tiles.begin

    @property
    def end(self) -> Operand:
        """The end of its visits."""
        return self.tiles.end

    def visited(self, number: Operand) -> Operand:
        """The tile of a visit."""
        return self.tiles.visited(number)

    def segments(self) -> Iterator[tuple[Operand, Operand, Operand, bool]]:
        """The number of each visit, its head and its tile, and whether some query does not attend to some key."""
        for head, before in self._heads():
            for start, stop, mask in self.tiles.segments():
                for number in lego.range(start, stop):
                    yield before + number - self.begin, head, self.tiles.visited(number, mask), mask


class GradientMemory:
    """What the roles share: the keys and values of the block, rings of visited tiles, and `ds`."""

    def __init__(self, form: AttentionForm, tile: AddedTile) -> None:
        self.form, self.tile = form, tile
        held, visited = staged(tile.keys, form.features), staged(tile.queries, form.features, tile.stages)
        self.keys, self.values = (lego.shared(form.dtype, held) for _ in range(2))
        self.q, self.do = (lego.shared(form.dtype, visited) for _ in range(2))
        self.rows = lego.shared(f32, Row(2 * tile.stages, tile.queries))
        self.ds = lego.shared(form.dtype, staged(tile.keys, tile.queries, 2))
        self.dq = lego.shared(f32, word_panels(ROWS, ROWS, tile.groups))
        self.held = lego.barriers(1, arrivals=WARPS)
        self.full = lego.barriers(tile.stages, arrivals=WARPS)
        self.empty = lego.barriers(tile.stages, arrivals=tile.warps)
        self.written = lego.barriers(2, arrivals=tile.warps)
        self.done = lego.barriers(1, arrivals=tile.warps)

    def hold(self, k: Operand, v: Operand, head: Place, first: Operand) -> None:
        """Copy the keys and values of the block."""
        for source, target in ((k, self.keys), (v, self.values)):
            whole = target.part((0, 0), (self.tile.keys, self.form.features))
            lego.copy_async(source, whole, at=(*head, first, 0), barrier=self.held[0])
        self.held[0].arrive()

    def fill(self, of: tuple[Operand, ...], t: Operand, head: Place, i: Operand, left: Operand = None) -> None:
        """Copy `of`, q, do, lse and delta, from row i on as visit t; rows past the end have an infinite log-sum-exp.

        So have those from `left` on.
        """
        q, do, lse, delta = of
        n, slot = self.tile.queries, t % self.tile.stages
        self.empty[t - self.tile.stages].wait()
        for source, ring in ((q, self.q), (do, self.do)):
            lego.copy_async(source, self.visited(ring, t, 0, n), at=(*head, i, 0), barrier=self.full[t])
        along = f2.Blocked((1,), (32,), (WARPS,), (0,)).layout((n,))
        found = lego.load(lse, along, at=(*head, i), other=math.inf)
        if left is not None:
            found = lego.where(found.index(0) < left, found, math.inf)
        found.store(self.rows, at=(2 * slot, 0))
        lego.load(delta, along, at=(*head, i)).store(self.rows, at=(2 * slot + 1, 0))
        self.full[t].arrive()

    def close(self, q: Operand, t: Operand, head: Place, end: Operand) -> None:
        """Zeros as the queries of visit t, one more than there are: rows from the `end` of a head on; none is read.

        So each visit computes the scores of the next one, the last one too.
        """
        self.empty[t - self.tile.stages].wait()
        lego.copy_async(q, self.visited(self.q, t, 0, self.tile.queries), at=(*head, end, 0), barrier=self.full[t])
        self.full[t].arrive()

    def visited(self, ring: Operand, t: Operand, start: int, count: int = ROWS) -> Operand:
        """Rows of the tile of visit t."""
        return ring.part((t % self.tile.stages * self.tile.queries + start, 0), (count, self.form.features))


class GradientGroup:
    """64 keys of a group of warps, and the sums of their gradients. Query 0 is row `queries_from` of the tensors.

    Products are issued in the order in which tensor cores run them: each runs while what comes before it is used.
    """

    queries_from: Operand = 0

    def __init__(
        self, form: AttentionForm, tile: AddedTile, memory: GradientMemory, first: Operand,
        reads: Mapping[str, Operand] | None = None, keys: Operand = 0, learned: Mapping[str, Operand] | None = None,
    ) -> None:  # fmt: skip
        self.form, self.tile, self.memory, self.reads, self.keys_of_head = form, tile, memory, reads or {}, keys
        self.learned = learned or {}
        self.top = lego.group_id * ROWS
        self.first = first + self.top
        parent = f2.MmaSync((WARPS, 1))
        self.left = f2.MmaOperand(0, parent).layout((ROWS, ROWS))
        self.zeros = lego.zeros(f32, parent.layout((ROWS, ROWS)))
        self.along = parent.layout((ROWS, ROWS)).slice("dim0").rename(dim1="dim0")
        self.dk, self.dv = (lego.register(lego.zeros(f32, parent.layout((ROWS, form.features)))) for _ in range(2))
        self.own: list[Operand] = [x.part((self.top, 0), (ROWS, form.features)) for x in (memory.keys, memory.values)]
        memory.held[0].wait()
        self.keys, self.values = self.own
        if form.features == ROWS:  # registers suffice, and products read half as much memory
            self.keys = lego.load(self.own[0], self.left)
        memory.full[0].wait()
        self.scores: Operand = lego.register(self.scored(0))

    def scored(self, t: Operand, start: int = 0) -> Operand:
        """The scores of the queries from `start` on of visit t."""
        return lego.mma(self.keys, self.memory.visited(self.memory.q, t, start).T, self.zeros)

    def visit(self, sums: Operand, t: Operand, head: Place, i: Operand, mask: bool) -> None:
        """Add what the queries from i on contribute, and to their sums what these keys do."""
        memory, dk, dv, scores = self.memory, self.dk.get(), self.dv.get(), self.scores.get()
        for start in range(0, self.tile.queries, ROWS):
            q, do = (memory.visited(ring, t, start) for ring in (memory.q, memory.do))
            slopes = lego.mma(self.values, do.T, self.zeros)
            query, key = i + start + scores.index(1), self.first + scores.index(0)
            scores, slope, read = score_and_slopes(self.form, scores, (query, key), head, self.reads, axis_of_query=1)
            p = lego.exp2(lego.fma(scores, self.form.exponent, -self.row(t, 0, start)), fast=True)
            if mask:
                p = lego.where(self.seen(head, query, key), p, 0.0)
            dv = lego.mma(self.operand(p.to(self.form.dtype)), do, dv)
            weighted = with_slope(p, slope, key, self.keys_of_head)
            slopes = slopes - self.row(t, 1, start)
            ds = (weighted * slopes).to(self.form.dtype)
            add_reads(self.learned, read, p, slopes, key, self.keys_of_head)
            shared: Operand = memory.ds.part((t % 2 * self.tile.keys + self.top, start), (ROWS, ROWS))
            ds.store(shared)
            if start + ROWS < self.tile.queries:
                dk = lego.mma(self.operand(ds), q, dk)
                scores = self.scored(t, start + ROWS)
        lego.wait_copies()  # the last part of the queries' gradients has been read
        memory.written[t].arrive(products=False)  # nobody writes what they read before this group has used the results
        dk = lego.mma(self.operand(ds), q, dk)
        self.add(sums, t, head, i, dk, dv)

    def seen(self, head: Place, query: Operand, key: Operand) -> Operand:
        """Whether a query of a head attends to a key."""
        return self.form.reaches(query, key, pairs_of(self.form, head, self.reads))

    def row(self, t: Operand, k: int, start: int) -> Operand:
        """The log-sum-exps, 0, or deltas, 1, of the queries from `start` of a tile on."""
        return lego.load(self.memory.rows, self.along, at=(2 * (t % self.tile.stages) + k, start))[None, :]

    def operand(self, x: Operand) -> Operand:
        """The left operand of a product."""
        return lego.convert(x, to=self.left)

    def add(self, sums: Operand, t: Operand, head: Place, i: Operand, dk: Operand, dv: Operand) -> None:
        """Multiply the part of this group by all keys, and add it; the scores of the next visit run meanwhile.

        `dk` and `dv` are products in flight. After the last visit come the scores of zeros, in vain.
        """
        tile, memory, panels = self.tile, self.memory, self.form.features // ROWS
        memory.full[t + 1].wait()
        memory.written[t].wait()
        row, column = lego.group_id // panels * ROWS, lego.group_id % panels * ROWS
        ds = memory.ds.part((t % 2 * tile.keys, row), (tile.keys, ROWS))
        product = lego.mma(ds.T, memory.keys.part((0, column), (tile.keys, ROWS)), self.zeros)
        self.dk.set(dk)
        self.dv.set(dv)
        scores = self.scored(t + 1)
        staging: Operand = memory.dq.part((self.top, 0), (ROWS, ROWS))
        exchanged(product).store(staging)
        lego.barrier(products=False)
        lego.copy_async(staging, sums, at=(*head, self.queries_from + i + row, column), add=True)
        lego.commit_copies()
        memory.empty[t].arrive(products=False)  # the scores in flight read the next tile
        self.scores.set(scores)

    def store(self, dk: Operand, dv: Operand, head: Place) -> None:
        """The gradients of the keys and values."""
        for part, target in self.staged(dk, dv):
            lego.copy_async(part, target, at=(*head, self.first, 0))

    def staged(self, dk: Operand, dv: Operand) -> list[tuple[Operand, Operand]]:
        """Tiles with the gradients, for each target: where the keys and values were, once no group reads them."""
        self.memory.done[0].arrive()
        self.memory.done[0].wait()
        for part, value in zip(self.own, (self.dk * self.form.factor, self.dv), strict=True):
            value.to(self.form.dtype).store(part)
        lego.barrier()
        return list(zip(self.own, (dk, dv), strict=True))


def exchanged(x: Operand, back: bool = False) -> Operand:
    """A tile with its columns in another order: of each 32, 4 blocks of 4 pairs become 4 pairs of 4 blocks.

    So the two pairs of a thread in neighbouring blocks of a product's result are 16 contiguous bytes, and threads that
    store these at once have no bank conflict.
    """
    of_block, of_pair = (2, 8) if back else (8, 2)

    def place(row: int, column: int) -> tuple[int, int]:
        return row, column // 32 * 32 + column // of_block % 4 * of_pair + column // of_pair % 4 * of_block + column % 2

    bases = {name: [place(*basis) for basis in images] for name, images in x.layout.bases.items()}
    return lego.Spread(LinearLayout(bases, dict(x.layout.out_sizes)), x.dtype, list(x.registers))
