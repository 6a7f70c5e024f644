"""The gradients of fused attention by warp roles: all in one kernel, which adds those of queries to global memory.

`attention_gradients` computes scores twice, once for the gradients of keys and once for those of queries: 7 products
for each pair of tiles. Here a block holds keys, visits queries, and also multiplies what it needs for the queries:

    scores, slopes = k q^T, v do^T               p = exp(scores - lse),  ds = p (slopes - delta)
    dv += p do,  dk += ds q                      the weights in registers
    sums[queries] += ds^T k                      ds through shared memory, the sum by `lego.copy_async(.., add=True)`

5 products, as for one pass. Several blocks add to one row of `sums`, f32, in any order: two runs may differ in the last
bits. The first kernel computes the deltas and clears the sums, the last one rounds the sums.

One role copies tiles of queries and of the gradients of results into rings. Each group of 4 warps of the other holds 64
keys. The groups share `ds`: each writes the rows of its keys, and multiplies parts of 64 x 64 of the sums by all keys.
(Shah et al., "FlashAttention-3", 2024, section 3.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, f2, f32, gallery
from lego_mlir.errors import UsageError
from lego_mlir.kernels.attention_tiles import ROWS, WARPS, staged
from lego_mlir.kernels.fused_attention import AttentionForm

if TYPE_CHECKING:
    from lego_mlir.aliases import Operand
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition import Kernel

WIDEST: Final = 128
"""Features of a head up to which the sums of a group fit its registers."""
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
    """Each group has the same number of 64 x 64 parts of the queries' gradients."""
    return AddedTile(64 if form.features > ROWS else 128)


def require_parts(form: AttentionForm, tile: AddedTile) -> None:
    """Raise UsageError where the sums do not fit the registers, or groups had different numbers of parts."""
    parts = tile.queries // ROWS * (form.features // ROWS)
    if form.features > WIDEST or parts % tile.groups:
        raise UsageError(
            f"added gradients: heads of 64 or 128 features, and a multiple of {tile.groups} parts of {ROWS} x {ROWS} "
            f"in a tile of {tile.queries} queries, got {form.features} features; kernels.attention_gradients takes all"
        )


def word_panels(rows: int, columns: int, count: int) -> Layout:
    """`count` row-major tiles of f32 in blocks of 32 columns, whose rows of 128 bytes are swizzled."""
    blocks = RegP([count, rows, columns // WORDS, WORDS], [1, 3, 2, 4])
    swizzled = gallery.xor_swizzle(count * rows * columns // WORDS, WORDS, 4, 1, 8)
    return OrderBy(swizzled).OrderBy(blocks).GroupBy([count * rows, columns])


def build(form: AttentionForm | None = None, tile: AddedTile | None = None) -> AddedGradients:
    """The kernels for q, o, do, dq, sums [H group, M, D], k, v, dk, dv [H, N, D] and rows [H group, M].

    Raises UsageError for heads of 256 features, whose sums do not fit the registers.
    """
    form = form or AttentionForm()
    tile = tile or default_tile(form)
    require_parts(form, tile)
    H, M, N = (lego.size(name, min=1, max=most) for name, most in (("H", 2**12 - 1), ("M", 2**20), ("N", 2**20)))
    of_q, of_k = (lego.Tensor(form.dtype, Row(heads, n, form.features)) for heads, n in ((H * form.group, M), (H, N)))
    of_rows, of_sums = lego.Tensor(f32, Row(H * form.group, M)), lego.Tensor(f32, Row(H * form.group, M, form.features))
    by_rows = {"grid": (lego.cdiv(M, ROWS), H * form.group), "block": 128}
    layout = f2.Blocked((1, 8), (4, 8), (4, 1), (1, 0)).layout((ROWS, form.features))

    @lego.kernel(**by_rows, name="attention_prepared_gradients")
    def prepare(o: of_q, do: of_q, delta: of_rows, sums: of_sums):  # type: ignore[no-untyped-def,valid-type]
        at = (lego.block_id[1], lego.block_id[0] * ROWS, 0)
        product = lego.load(o, layout, at=at).to(f32) * lego.load(do, layout, at=at).to(f32)
        product.sum(axis=1).store(delta, at=at[:2])
        lego.zeros(f32, layout).store(sums, at=at)

    @lego.kernel(grid=(lego.cdiv(N, tile.keys), H), block=32 * (tile.warps + WARPS), name="attention_added_gradients")
    def main(q: of_q, k: of_k, v: of_k, do: of_q, lse: of_rows, delta: of_rows, sums: of_sums, dk: of_k, dv: of_k):  # type: ignore[no-untyped-def,valid-type]
        head, first = lego.block_id[1], lego.block_id[0] * tile.keys
        span = QueryTilesOfKeys(form, tile, head, first, M)
        memory = GradientMemory(form, tile)
        copies, computes = REGISTERS if tile.groups == 2 else (None, None)
        with lego.warps(tile.warps, tile.warps + WARPS, registers=copies):
            memory.hold(k, v, head, first)
            for t, of, i in span.all():
                memory.fill((q, do, lse, delta), t, of, i * tile.queries)
        with lego.warps(0, tile.warps, groups=tile.groups, registers=computes):
            group = GradientGroup(form, tile, memory, first)
            for t, of, i, mask in span.segments():
                group.visit(sums, t, of, i * tile.queries, mask)
            lego.wait_copies()
            group.store(dk, dv, head)

    @lego.kernel(**by_rows, name="attention_rounded_gradients")
    def round_(sums: of_sums, dq: of_q):  # type: ignore[no-untyped-def,valid-type]
        at = (lego.block_id[1], lego.block_id[0] * ROWS, 0)
        (lego.load(sums, layout, at=at) * form.factor).to(form.dtype).store(dq, at=at)

    return AddedGradients(prepare, main, round_)


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
        """The end."""
        end = lego.cdiv(self.queries, self.tile.queries)
        if self.form.window is None:
            return end
        return lego.minimum(end, lego.cdiv(self.first + self.tile.keys + self.form.window, self.tile.queries))

    def _heads(self) -> Iterator[tuple[Operand, Operand]]:
        """Each head, and how many tiles the heads before it have."""
        group = self.form.group
        if group == 1:
            yield self.head, 0
            return
        for member in lego.range(group):
            yield self.head * group + member, member * lego.maximum(self.end - self.begin, 0)

    def all(self) -> Iterator[tuple[Operand, Operand, Operand]]:
        """The number of each visit, its head and its tile."""
        for head, before in self._heads():
            for i in lego.range(self.begin, self.end):
                yield before + i - self.begin, head, i

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

    def hold(self, k: Operand, v: Operand, head: Operand, first: Operand) -> None:
        """Copy the keys and values of the block."""
        for source, target in ((k, self.keys), (v, self.values)):
            whole = target.part((0, 0), (self.tile.keys, self.form.features))
            lego.copy_async(source, whole, at=(head, first, 0), barrier=self.held[0])
        self.held[0].arrive()

    def fill(self, of: tuple[Operand, ...], t: Operand, head: Operand, i: Operand, left: Operand = None) -> None:
        """Copy `of`, q, do, lse and delta, from row i on as visit t; rows past the end have an infinite log-sum-exp.

        So have those from `left` on.
        """
        q, do, lse, delta = of
        n, slot = self.tile.queries, t % self.tile.stages
        self.empty[t - self.tile.stages].wait()
        for source, ring in ((q, self.q), (do, self.do)):
            lego.copy_async(source, self.visited(ring, t, 0, n), at=(head, i, 0), barrier=self.full[t])
        along = f2.Blocked((1,), (32,), (WARPS,), (0,)).layout((n,))
        found = lego.load(lse, along, at=(head, i), other=math.inf)
        if left is not None:
            found = lego.where(found.index(0) < left, found, math.inf)
        found.store(self.rows, at=(2 * slot, 0))
        lego.load(delta, along, at=(head, i)).store(self.rows, at=(2 * slot + 1, 0))
        self.full[t].arrive()

    def visited(self, ring: Operand, t: Operand, start: int, count: int = ROWS) -> Operand:
        """Rows of the tile of visit t."""
        return ring.part((t % self.tile.stages * self.tile.queries + start, 0), (count, self.form.features))


class GradientGroup:
    """64 keys of a group of warps, and the sums of their gradients. Query 0 is row `queries_from` of the tensors."""

    queries_from: Operand = 0

    def __init__(self, form: AttentionForm, tile: AddedTile, memory: GradientMemory, first: Operand) -> None:
        self.form, self.tile, self.memory = form, tile, memory
        self.top = lego.group_id * ROWS
        self.first = first + self.top
        parent = f2.MmaSync((WARPS, 1))
        self.left = f2.MmaOperand(0, parent).layout((ROWS, ROWS))
        self.zeros = lego.zeros(f32, parent.layout((ROWS, ROWS)))
        self.along = parent.layout((ROWS, ROWS)).slice("dim0").rename(dim1="dim0")
        self.dk, self.dv = (lego.register(lego.zeros(f32, parent.layout((ROWS, form.features)))) for _ in range(2))
        self.keys, self.values = (x.part((self.top, 0), (ROWS, form.features)) for x in (memory.keys, memory.values))
        memory.held[0].wait()

    def visit(self, sums: Operand, t: Operand, head: Operand, i: Operand, mask: bool) -> None:
        """Add what the queries from i on contribute, and to their sums what these keys do."""
        memory, dk, dv = self.memory, self.dk.get(), self.dv.get()
        memory.full[t].wait()
        for start in range(0, self.tile.queries, ROWS):
            q, do = (memory.visited(ring, t, start) for ring in (memory.q, memory.do))
            scores = lego.mma(self.keys, q.T, self.zeros)
            slopes = lego.mma(self.values, do.T, self.zeros)
            p = lego.exp2(lego.fma(scores, self.form.exponent, -self.row(t, 0, start)), approximate=True)
            if mask:
                p = lego.where(self.seen(i + start + scores.index(1), self.first + scores.index(0)), p, 0.0)
            dv = lego.mma(self.operand(p.to(self.form.dtype)), do, dv)
            ds = (p * (slopes - self.row(t, 1, start))).to(self.form.dtype)
            shared: Operand = memory.ds.part((t % 2 * self.tile.keys + self.top, start), (ROWS, ROWS))
            ds.store(shared)
            if start + ROWS < self.tile.queries:
                dk = lego.mma(self.operand(ds), q, dk)
        lego.wait_copies()  # the last parts of the queries' gradients have been read
        lego.barrier()
        self.dv.set(dv)
        memory.written[t].arrive()
        dk = lego.mma(self.operand(ds), q, dk)
        memory.written[t].wait()
        self.add(sums, t, head, i, dk)

    def seen(self, query: Operand, key: Operand) -> Operand:
        """Whether a query attends to a key."""
        return self.form.reaches(query, key)

    def row(self, t: Operand, k: int, start: int) -> Operand:
        """The log-sum-exps, 0, or deltas, 1, of the queries from `start` of a tile on."""
        return lego.load(self.memory.rows, self.along, at=(2 * (t % self.tile.stages) + k, start))[None, :]

    def operand(self, x: Operand) -> Operand:
        """The left operand of a product."""
        return lego.convert(x, to=self.left)

    def add(self, sums: Operand, t: Operand, head: Operand, i: Operand, added: Operand) -> None:
        """Multiply the parts of this group by all keys, and add them; `added` is the product in flight."""
        tile, memory, panels = self.tile, self.memory, self.form.features // ROWS
        count = tile.queries // ROWS * panels // tile.groups
        for turn in range(count):
            number = turn * tile.groups + lego.group_id
            row, column = number // panels * ROWS, number % panels * ROWS
            ds = memory.ds.part((t % 2 * tile.keys, row), (tile.keys, ROWS))
            product = lego.mma(ds.T, memory.keys.part((0, column), (tile.keys, ROWS)), self.zeros)
            if turn == 0:
                self.dk.set(added)
            else:
                lego.wait_copies()
                lego.barrier()
            if turn == count - 1:
                memory.empty[t].arrive()
            staging: Operand = memory.dq.part((self.top, 0), (ROWS, ROWS))
            product.store(staging)
            lego.barrier()
            lego.copy_async(staging, sums, at=(head, self.queries_from + i + row, column), add=True)
            lego.commit_copies()

    def store(self, dk: Operand, dv: Operand, head: Operand) -> None:
        """The gradients of the keys and values."""
        (self.dk * self.form.factor).to(self.form.dtype).store(dk, at=(head, self.first, 0))
        self.dv.to(self.form.dtype).store(dv, at=(head, self.first, 0))
