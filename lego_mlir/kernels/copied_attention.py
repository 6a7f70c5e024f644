"""Fused attention with queries and results by tensor copies: `fused_attention`, for short sequences.

The role that copies also fills a ring of query tiles: those of a block's next part arrive during this one. Each group
of warps copies its rows of the result out of the shared memory that held its queries. Tiles that need a new maximum
compute their scores again by `mma.sync`, which a warp executes alone: scores and weights take the same registers, and
no kernel spills.

`lego_mlir.attention` does not use this kernel: it is right in the interpreter and in the emulator, and its first launch
on an H200 did not end, for a cause that is not known yet.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.kernels.fused_attention import (
    LARGE,
    LOWEST,
    MEMORY,
    ROWS,
    WARPS,
    AttentionForm,
    AttentionRows,
    AttentionTile,
    KeyRings,
    KeyTiles,
    PartOrder,
    RingUses,
    default_tile,
    staged,
)

if TYPE_CHECKING:
    from lego_mlir.aliases import Operand
    from lego_mlir.tracing.definition import Kernel

STEP: Final = 32
"""Features of an iteration of the loop that computes scores again: few addresses, so that no register spills."""


def build(
    form: AttentionForm | None = None,
    tile: AttentionTile | None = None,
    sizes: tuple[int, int, int] | None = None,
    blocks: int | None = None,
) -> Kernel:
    """The kernel, with the arguments of `fused_attention.build`."""
    form = form or AttentionForm()
    tile = tile or default_tile(form)
    names = (("H", 2**12 - 1), ("M", 2**20), ("N", 2**20))
    H, M, N = sizes or (lego.size(name, min=1, max=most) for name, most in names)
    of_q, of_k = (lego.Tensor(form.dtype, Row(heads, n, form.features)) for heads, n in ((H * form.group, M), (H, N)))
    of_rows = lego.Tensor(f32, Row(H * form.group, M))
    threads = 32 * (tile.warps + WARPS)

    order = PartOrder(lego.cdiv(M, tile.rows), H * form.group, form.causal, blocks)

    @lego.kernel(grid=order.grid, block=threads, name="copied_attention")
    def attention(q: of_q, k: of_k, v: of_k, o: of_q, lse: of_rows):  # type: ignore[no-untyped-def,valid-type]
        queries = QueryTiles(form, tile, order)
        rings = KeyRings(form, tile)
        copies, computes = tile.registers
        with lego.warps(tile.warps, tile.warps + WARPS, registers=copies):
            used = RingUses(order)
            for number, head, place in order.numbered():
                first = place * tile.rows
                queries.fill(q, head, first, number)
                span = KeyTiles(form, tile, first, N)
                rings.fill(k, v, head // form.group if form.group > 1 else head, span, used)
        with lego.warps(0, tile.warps, groups=tile.groups, registers=computes):
            used = RingUses(order)
            for number, head, place in order.numbered():
                first = place * tile.rows
                group = RowsByCopies(form, tile, first + lego.group_id * ROWS, N)
                release = functools.partial(queries.release, number)
                group.attend_with(queries.take(number), rings, KeyTiles(form, tile, first, N), used, release)
                group.copy_out(queries.part(number), o, lse, head)
                queries.release(number, stored=True)
            lego.wait_copies()  # the last rows have been read

    return attention


class QueryTiles:
    """Tiles of queries, 64 rows for each group, which one role fills and the others replace by the result.

    Where a block computes several parts and memory suffices, the tiles of the next part are copied during this one.
    """

    def __init__(self, form: AttentionForm, tile: AttentionTile, order: PartOrder) -> None:
        self.features, self.groups = form.features, tile.groups
        taken = 2 * form.features * (2 * tile.keys * tile.stages + tile.rows)  # bytes, with one tile for each group
        several = order.blocks is not None and taken + 2 * form.features * tile.rows <= MEMORY
        self.delay = 1 if several else 0  # parts
        self.count = tile.groups * (1 + self.delay)
        self.tiles = lego.shared(form.dtype, staged(ROWS, form.features, self.count))
        self.full, self.empty = (lego.barriers(self.count, arrivals=WARPS) for _ in range(2))
        self.repeated = order.blocks is not None

    def _part(self, use: Operand) -> Operand:
        return self.tiles.part((use % self.count * ROWS, 0), (ROWS, self.features))

    def fill(self, q: Operand, head: Operand, first: Operand, number: Operand) -> None:
        """Copy the queries of a part for all groups, as soon as their last results are out."""
        for group in range(self.groups):
            use = number * self.groups + group
            self.empty[use - self.count].wait()
            lego.copy_async(q, self._part(use), at=(head, first + group * ROWS, 0), barrier=self.full[use])
            self.full[use].arrive()

    def part(self, number: Operand) -> Operand:
        """The tile of this group."""
        return self._part(number * self.groups + lego.group_id)

    def take(self, number: Operand) -> Operand:
        """The queries of this group, once they are there."""
        self.full[number * self.groups + lego.group_id].wait()
        return self.part(number)

    def release(self, number: Operand, stored: bool = False) -> None:
        """Let the tile of a part be filled again: where there are several, during the next part, else when `stored`."""
        if not self.repeated or stored == bool(self.delay):
            return
        with lego.when(number >= self.delay):
            lego.wait_copies()
            self.empty[(number - self.delay) * self.groups + lego.group_id].arrive()


class RowsByCopies(AttentionRows):
    """64 queries of a group of warps, whose scores are computed again where a maximum grows."""

    def attend_with(
        self, queries: Operand, rings: KeyRings, span: KeyTiles, used: RingUses, after_first: Callable[[], None]
    ) -> None:
        """Visit all tiles of keys; call `after_first` behind the first one."""
        before = used.before
        scores = self.masked(lego.mma(queries, rings.take(0, before).T, self.zeros), span.begin)
        self.best.set(lego.maximum(scores.max(axis=1), LOWEST))
        self.weigh(scores)
        self.total.set(self.sums)
        self.round()
        rings.empty[0][before].arrive()
        after_first()
        for start, stop, mask in span.segments():
            for j in lego.range(start, stop):
                t = before + j - span.begin
                scores = lego.mma(queries, rings.take(0, t).T, self.zeros)
                added = lego.mma(self.weights, rings.take(1, t - 1), self.out)
                self.weigh(self.masked(scores, j) if mask else scores)
                large = lego.warp_any(functools.reduce(operator.or_, (self.sums > LARGE).registers))
                self.out.set(added)
                with lego.when(large):
                    again = self.again(queries, rings.part(0, t))
                    self.renew(self.masked(again, j) if mask else again)
                self.total.set(self.total + self.sums)
                self.round()
                rings.empty[0][t].arrive()
                rings.empty[1][t - 1].arrive()
        last = before + span.end - 1 - span.begin
        self.out.set(lego.mma(self.weights, rings.take(1, last), self.out))
        rings.empty[1][last].arrive()
        used.add(span)

    def again(self, queries: Operand, keys: Operand) -> Operand:
        """The scores, by one warp."""
        scores = lego.register(self.zeros)
        for step in lego.range(self.form.features // STEP):
            a, b = (x.view.part((x.at[0], step * STEP), (x.shape[0], STEP)) for x in (queries, keys))
            scores.set(lego.mma(a, b.T, scores, warpgroups=False))
        return scores.get()

    def renew(self, scores: Operand) -> None:
        """Weights relative to a new maximum; the sums under the old one fade."""
        new = lego.maximum(self.best, scores.max(axis=1))
        fade = lego.exp2((self.best - new) * self.form.scale, approximate=True)
        self.total.set(self.total * fade[:, None])
        self.out.set(self.out * fade[:, None])
        self.best.set(new)
        self.weigh(scores)

    def copy_out(self, part: Operand, o: Operand, lse: Operand, head: Operand) -> None:
        """The rows of the result, through the tile of the queries, and their log-sum-exps."""
        total = self.total.sum(axis=1)
        (self.out * (1.0 / total)[:, None]).to(self.form.dtype).store(part)
        lego.barrier()
        lego.copy_async(part, o, at=(head, self.first, 0))
        lego.commit_copies()
        lego.fma(self.best, self.form.scale, lego.log2(total)).store(lse, at=(head, self.first))
