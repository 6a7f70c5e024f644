"""The gradients of fused attention: of v and k by tiles of keys, of q by tiles of queries, without atomics.

With s = q k^T / sqrt(D), p = exp(s - lse) from the log-sum-exps of the forward kernel, and do the gradient of o = p v:

    delta[i] = sum_d do[i, d] o[i, d]              kernel `deltas`
    dv = p^T do                                    kernel `of_keys`: a block holds keys, and visits queries
    ds = p (do v^T - delta)                        times the derivative of a user's score
    dk = ds^T q / sqrt(D)
    dq = ds k / sqrt(D)                            kernel `of_queries`: a block holds queries, and visits keys

Scores are computed again by both, so that each sum has one block and one order: two runs give the same bits. The
kernel of keys computes s^T and p^T, which are the left operands of the products that add to dv and dk in the same
registers. Zeros past the end of a sequence add nothing, and rows past the end have an infinite log-sum-exp: only causal
tiles at the diagonal need a mask. (Dao, "FlashAttention-2", 2023, algorithm 2.)
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import lego_mlir as lego
from lego_mlir import f2, f32
from lego_mlir.aliases import Operand
from lego_mlir.kernels.attention_forms import WIDE, AttentionForm, passes_of_keys
from lego_mlir.kernels.attention_tiles import HeadTensors, Place, by_rows_of, head_and_tile, launch_sizes, staged
from lego_mlir.kernels.rule_tiles import pairs_of, read_types
from lego_mlir.kernels.score_gradients import ScoreRead, add_reads, score_and_slopes, types_of_sums, with_slope
from lego_mlir.tracing.definition.named_parameters import with_parameters

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel


@dataclass(frozen=True, slots=True)
class AttentionGradients:
    """The kernels, in the order of their launches; one for dk and dv, or one for each."""

    deltas: Kernel
    of_keys: tuple[Kernel, ...]
    of_queries: Kernel


@dataclass(frozen=True, slots=True)
class GradientTile:
    """Rows of a block, rows of the tiles that it visits, and warps."""

    rows: int = 128
    visited: int = 64
    warps: int = 8


def default_tile(form: AttentionForm) -> GradientTile:
    """Rows of a block, and rows of the tiles that it visits: four tensors and two more stages fit shared memory."""
    return GradientTile(128, 64 if form.features <= WIDE else 32, 8)


def build(form: AttentionForm | None = None, tile: GradientTile | None = None) -> AttentionGradients:
    """The kernels for q, o, do, dq [B, H group, M, D], k, v, dk, dv [B, H, N, D] and rows [B, H group, M].

    The strides of all but rows are the launch's, multiples of 8 elements, and 1 for features.
    """
    form = form or AttentionForm()
    of = HeadTensors(form, launch_sizes())
    B, H, M, N = of.sizes.batch, of.sizes.heads, of.sizes.queries, of.sizes.keys
    of_q, of_o, of_do, of_dq = (of.of_queries(name) for name in ("q", "o", "do", "dq"))
    of_k, of_v, of_dk, of_dv = (of.of_keys(name) for name in ("k", "v", "dk", "dv"))
    of_rows = of.of_rows
    tile = tile or default_tile(form)

    @lego.kernel(grid=(lego.cdiv(M, 64) * B * H * form.group,), block=128, name="attention_deltas")
    def deltas(o: of_o, do: of_do, delta: of_rows):  # type: ignore[no-untyped-def,valid-type]
        head, i = head_and_tile(lego.cdiv(M, 64))
        at, width = (*of.query_place(head), i * 64), form.features & -form.features
        layout, parts = by_rows_of(width), range(0, form.features, width)
        results, gradients = ([lego.load(x, layout, at=(*at, n)).to(f32) for n in parts] for x in (o, do))
        products = map(operator.mul, results, gradients)
        functools.reduce(operator.add, products).sum(axis=1).store(delta, at=at)

    blocks = {"grid": (lego.cdiv(N, tile.rows) * B * H,), "block": 32 * tile.warps}

    reads, sums = read_types(form.rules), types_of_sums(form.rules)
    types = {"q": of_q, "k": of_k, "v": of_v, "do": of_do, "lse": of_rows, "delta": of_rows, **reads}

    def of_held_keys(name: str, results: Mapping[str, Operand]) -> Kernel:
        """The kernel that computes dk or dv, or both."""

        def gradients(
            q: Operand, k: Operand, v: Operand, do: Operand, lse: Operand, delta: Operand, *more: Operand
        ) -> None:
            given, made = dict(zip(reads, more, strict=False)), dict(zip(results, more[len(reads) :], strict=True))
            block = Gradients(of, tile, (q, do), (k, v), (of.query_place, of.key_place), N, given)
            block.of_keys(lse, delta, made.get("dk"), made.get("dv"), M)

        return lego.kernel(**blocks, name=f"attention_gradients_of_{name}")(
            with_parameters(gradients, {**types, **results})
        )

    def of_held_queries(
        q: Operand, k: Operand, v: Operand, do: Operand, lse: Operand, delta: Operand, *more: Operand
    ) -> None:
        given = dict(zip(reads, more, strict=False))
        added = dict(zip(sums, more[len(reads) :], strict=False))
        block = Gradients(of, tile, (k, v), (q, do), (of.key_place, of.query_place), M, given)
        block.of_queries(lse, delta, more[-1], N, added)

    of_queries = lego.kernel(
        grid=(lego.cdiv(M, tile.rows) * B * H * form.group,), block=32 * tile.warps, name="attention_gradients_of_q"
    )(with_parameters(of_held_queries, {**types, **sums, "dq": of_dq}))
    both = {"dk": of_dk, "dv": of_dv}
    if passes_of_keys(form) == 1:
        return AttentionGradients(deltas, (of_held_keys("keys", both),), of_queries)
    apart = tuple(of_held_keys(name[1:], {name: kind}) for name, kind in both.items())
    return AttentionGradients(deltas, apart, of_queries)


class Gradients:
    """A block that holds rows of two tensors, of `rows` each, from `first` on, and visits tiles of two others.

    `places` tell which heads of the visited and of the held tensors numbers are.
    """

    def __init__(
        self,
        of: HeadTensors,
        tile: GradientTile,
        visited: tuple[Operand, Operand],
        held: tuple[Operand, Operand],
        places: tuple[Callable[[Operand], Place], Callable[[Operand], Place]],
        rows: Operand,
        reads: Mapping[str, Operand],
    ) -> None:
        form = of.form
        self.of = of
        self.form, self.tile, self.visited, self.reads = form, tile, visited, reads
        self.head, number = head_and_tile(lego.cdiv(rows, tile.rows))
        self.first = number * tile.rows
        self.place, held_place = places
        self.held_head = held_place(self.head)
        self.parent = f2.MmaSync((tile.warps, 1))
        self.layout = self.parent.layout((tile.rows, tile.visited))
        self.zeros = lego.zeros(f32, self.layout)
        self.held = [lego.shared(form.dtype, staged(tile.rows, form.features)) for _ in held]
        self.rings = [lego.shared(form.dtype, staged(tile.visited, form.features, 2)) for _ in visited]
        for source, target in zip(held, self.held, strict=True):
            lego.copy_async(source, target, at=(*self.held_head, self.first, 0))

    def stage(self, t: Operand) -> list[Operand]:
        """The visited tiles in stage t."""
        return [
            ring.part((t % 2 * self.tile.visited, 0), (self.tile.visited, self.form.features)) for ring in self.rings
        ]

    def fetch(self, t: Operand, head: Operand, j: Operand) -> None:
        """Start to copy tiles j of a head."""
        for source, target in zip(self.visited, self.stage(t), strict=True):
            lego.copy_async(source, target, at=(*self.place(head), j * self.tile.visited, 0))
        lego.commit_copies()

    def sums(self) -> Operand:
        """An accumulator of the result."""
        return lego.register(lego.zeros(f32, self.parent.layout((self.tile.rows, self.form.features))))

    def operand(self, x: Operand) -> Operand:
        """Scores as the left operand of a product."""
        left = f2.MmaOperand(0, self.parent).layout(x.shape)
        return lego.convert(x.to(self.form.dtype), to=left)

    def weights(
        self, scores: Operand, lse: Operand, pair: tuple[Operand, Operand], head: Place, axis: int | None = None
    ) -> tuple[Operand, Operand, Sequence[ScoreRead]]:
        """exp(s - lse), 0 where a query of a head does not attend to a key, and that times the score's derivative.

        With the `axis` of queries also what the score read of arrays that have gradients.
        """
        row, column = pair
        scores, slope, read = score_and_slopes(self.form, scores, pair, head, self.reads, axis)
        p = lego.exp2(lego.fma(scores, self.form.exponent, -lse), fast=True)
        if self.form.masks:
            p = lego.where(self.form.reaches(row, column, pairs_of(self.form, head, self.reads)), p, 0.0)
        return p, with_slope(p, slope, column, self.of.sizes.keys), read

    def of_keys(self, lse: Operand, delta: Operand, dk: Operand, dv: Operand, queries: Operand) -> None:
        """The gradients of the keys and values that are held, from all queries of the heads that share them."""
        form, n, group = self.form, self.tile.visited, self.form.group
        start = self.first // n if form.causal else 0
        end = lego.cdiv(queries, n)
        if form.window is not None:
            end = lego.minimum(end, lego.cdiv(self.first + self.tile.rows + form.window, n))
        along = self.layout.slice("dim0").rename(dim1="dim0")
        of_k, of_v = self.sums(), self.sums()
        for member in lego.range(group):
            head = self.head * group + member
            lego.barrier()  # the stages of the last head have been read
            self.fetch(start, head, start)
            for i in lego.range(start, end):
                lego.wait_copies()
                lego.barrier()
                self.fetch(i + 1, head, i + 1)
                rows = lego.load(lse, along, at=(*self.place(head), i * n), other=math.inf)[None, :]
                means = lego.load(delta, along, at=(*self.place(head), i * n))[None, :]
                (keys, values), (q, do) = self.held, self.stage(i)
                scores = lego.mma(keys, q.T, self.zeros)
                slopes: Operand = lego.mma(values, do.T, self.zeros) if dk is not None else None
                row, column = i * n + scores.index(1), self.first + scores.index(0)
                p, weighted, _ = self.weights(scores, rows, (row, column), self.place(head))
                added: Operand = lego.mma(self.operand(p), do, of_v) if dv is not None else None
                if slopes is not None:
                    of_k.set(lego.mma(self.operand(weighted * (slopes - means)), q, of_k))
                if added is not None:
                    of_v.set(added)
            lego.wait_copies()
        if dk is not None:
            (of_k * form.factor).to(form.dtype).store(dk, at=(*self.held_head, self.first, 0))
        if dv is not None:
            of_v.to(form.dtype).store(dv, at=(*self.held_head, self.first, 0))

    def of_queries(self, lse: Operand, delta: Operand, dq: Operand, keys: Operand, sums: Mapping[str, Operand]) -> None:
        """The gradients of the queries that are held, and of arrays that the score reads, which are added to `sums`."""
        form, n = self.form, self.tile.visited
        start = 0 if form.window is None else lego.maximum(self.first - form.window + 1, 0) // n
        end = lego.cdiv(lego.minimum(keys, self.first + self.tile.rows) if form.causal else keys, n)
        along = self.layout.slice("dim1")
        of_q, head = self.sums(), self.head // form.group if form.group > 1 else self.head
        rows = lego.load(lse, along, at=(*self.held_head, self.first), other=math.inf)[:, None]
        means = lego.load(delta, along, at=(*self.held_head, self.first))[:, None]
        self.fetch(start, head, start)
        for j in lego.range(start, end):
            lego.wait_copies()
            lego.barrier()
            self.fetch(j + 1, head, j + 1)
            tiles = self.stage(j)
            scores, slopes = (lego.mma(x, y.T, self.zeros) for x, y in zip(self.held, tiles, strict=True))
            row, column = self.first + scores.index(0), j * n + scores.index(1)
            p, weighted, read = self.weights(scores, rows, (row, column), self.held_head, axis=0)
            slopes = slopes - means
            of_q.set(lego.mma(self.operand(weighted * slopes), tiles[0], of_q))
            add_reads(sums, read, p, slopes, column, keys)
        lego.wait_copies()
        (of_q * form.factor).to(form.dtype).store(dq, at=(*self.held_head, self.first, 0))
