"""Fused attention, forward: softmax(q k^T / sqrt(D)) v by warpgroups, with the products of two tiles in flight.

A block computes 64 rows of the result for each warpgroup. In an iteration the scores of the next tile of keys and the
result of the present one are products that run while the softmax computes (`wgmma` on sm_90a; `mma.sync` elsewhere):

    scores = q k[j + 1]^T        asynchronous
    out += weights v[j]          asynchronous
    weights of the scores        while the second product runs
    scale out, if a maximum grew

Weights are relative to the maximum that is known, which is found anew only where the sums of a tile pass `LARGE`, since
results are divided by the sum of the weights in the end: most tiles need no maximum. The log-sum-exp of each row is
stored for the gradients (`kernels.attention_gradients`).

(Dao, "FlashAttention-2", 2023; Shah et al., "FlashAttention-3", 2024, on products in flight.)
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, f2, f16, f32, gallery
from lego_mlir.errors import UsageError
from lego_mlir.tracing.dtypes import DType, bf16

if TYPE_CHECKING:
    from lego_mlir.aliases import Operand
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition import Kernel

LARGE: Final = 2.0**14
"""Weights whose sums are at most this are numbers of 16 bits."""
LOWEST: Final = -1e30
"""Where a tile has no key for a row: finite, so that differences of maxima are numbers."""
HEADS: Final = (64, 128, 256)
LOG2_E: Final = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """What attends to what: with a `window`, to that many keys up to the query's own. `group` heads share k, v."""

    features: int = 64
    dtype: DType = f16
    causal: bool = False
    window: int | None = None
    group: int = 1

    def __post_init__(self) -> None:
        if self.features not in HEADS or self.dtype not in (f16, bf16):
            raise UsageError(
                f"attention: heads of {', '.join(map(str, HEADS))} features in f16 or bf16, got {self.features} in "
                f"{self.dtype}"
            )
        if self.window is not None and (not self.causal or self.window < 1):
            raise UsageError(f"attention: window={self.window} is a number of keys from 1 on, with causal=True")
        if self.group < 1:
            raise UsageError(f"attention: group={self.group} query heads share a head of k and v, at least 1")

    @property
    def scale(self) -> float:
        """Of the scores, as exponents of 2."""
        return LOG2_E / math.sqrt(self.features)

    def reaches(self, row: Operand, column: Operand) -> Operand:
        """Whether a query attends to a key, with `causal`."""
        return column <= row if self.window is None else (column <= row) & (column > row - self.window)

    def allowed(self, row: Operand, column: Operand, keys: Operand) -> Operand:
        """Whether a query attends to a key, of `keys` there are."""
        return (column < keys) & self.reaches(row, column) if self.causal else column < keys


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """Rows of a block, keys of a tile, warps."""

    rows: int = 128
    keys: int = 128
    warps: int = 8


def staged(rows: int, features: int, stages: int = 1) -> Layout:
    """Row-major tiles of `rows` x `features` in blocks of 64 columns, whose rows of 128 bytes are swizzled."""
    blocks = RegP([stages, rows, features // 64, 64], [1, 3, 2, 4])
    swizzled = gallery.xor_swizzle(stages * rows * features // 64, 64, 8, 1, 8)
    return OrderBy(swizzled).OrderBy(blocks).GroupBy([stages * rows, features])


def in_lanes(x: Operand) -> Operand:
    """The sums of each row in its 4 lanes."""
    rows, columns = x.shape
    return x.reshape(rows, columns // 8, 4, 2).sum(axis=1).sum(axis=2)


def default_tile(form: AttentionForm) -> AttentionTile:
    """Accumulators and weights of a thread fit its registers."""
    return AttentionTile(128, 64 if form.features == 256 else 128, 8)


def build(form: AttentionForm | None = None, tile: AttentionTile | None = None) -> Kernel:
    """The kernel: q and o are [H group, M, D], k and v [H, N, D], log-sum-exps [H group, M] in units of log 2.

    Causal queries attend to keys of no larger position.
    """
    form = form or AttentionForm()
    tile = tile or default_tile(form)
    H, M, N = (lego.size(name, min=1, max=most) for name, most in (("H", 2**12 - 1), ("M", 2**20), ("N", 2**20)))
    of_q, of_k = (lego.Tensor(form.dtype, Row(heads, n, form.features)) for heads, n in ((H * form.group, M), (H, N)))
    of_rows = lego.Tensor(f32, Row(H * form.group, M))

    @lego.kernel(grid=(lego.cdiv(M, tile.rows), H * form.group), block=32 * tile.warps)
    def attention(q: of_q, k: of_k, v: of_k, o: of_q, lse: of_rows):  # type: ignore[no-untyped-def,valid-type]
        blocks = lego.cdiv(M, tile.rows)
        first = (blocks - 1 - lego.block_id[0] if form.causal else lego.block_id[0]) * tile.rows  # long ones first
        Attention(form, tile, (q, k, v, o, lse), N, lego.block_id[1]).rows(first)

    return attention


class Attention:
    """The text of a block: `tensors` are q, k, v, o and the log-sum-exps; `keys` is the number of keys."""

    out: Operand
    weights: Operand
    following: Operand
    best: Operand
    fade: Operand
    total: Operand
    sums: Operand

    def __init__(
        self, form: AttentionForm, tile: AttentionTile, tensors: tuple[Operand, ...], keys: Operand, head: Operand
    ):
        self.form, self.tile, self.keys, self.head = form, tile, keys, head
        self.q, self.k, self.v, self.o, self.lse = tensors
        self.parent = f2.MmaSync((tile.warps, 1))
        self.left = f2.MmaOperand(0, self.parent)
        self.zeros = lego.zeros(f32, self.parent.layout((tile.rows, tile.keys)))
        self.out = lego.register(lego.zeros(f32, self.parent.layout((tile.rows, form.features))))
        held = self.left.layout((tile.rows, tile.keys))
        self.weights, self.following = (lego.register(lego.zeros(form.dtype, held)) for _ in range(2))
        self.best, self.fade = (lego.register(self.zeros.max(axis=1)) for _ in range(2))
        self.total, self.sums = (lego.register(in_lanes(self.zeros)) for _ in range(2))

    # -- softmax

    def masked(self, scores: Operand, first: Operand, j: Operand) -> Operand:
        row, column = first + scores.index(0), j * self.tile.keys + scores.index(1)
        return lego.where(self.form.allowed(row, column, self.keys), scores, -math.inf)

    def weigh(self, scores: Operand) -> None:
        """Weights relative to the maximum that is known, and their sums."""
        scale = self.form.scale
        p = lego.exp2(lego.fma(scores, scale, (self.best * -scale)[:, None]), approximate=True)
        self.following.set(lego.convert(p.to(self.form.dtype), to=self.left.layout(p.shape)))
        self.sums.set(in_lanes(p))

    def grow(self, scores: Operand) -> None:
        """Weights relative to a new maximum."""
        new = lego.maximum(self.best, scores.max(axis=1))
        self.fade.set(lego.exp2((self.best - new) * self.form.scale, approximate=True))
        self.best.set(new)
        self.weigh(scores)

    # -- tiles of keys

    def segments(self, first: Operand) -> Iterator[tuple[Operand, Operand, bool]]:
        """Tiles of keys from, to, and whether some query of the block does not attend to some of their keys."""
        rows, keys, n = self.tile.rows, self.tile.keys, self.keys
        last = lego.minimum(n, first + rows) if self.form.causal else n
        end, whole = lego.cdiv(last, keys), (lego.minimum(n, first) if self.form.causal else n) // keys
        if self.form.window is None:
            yield 0, whole, False
            yield whole, end, True
            return
        yield lego.maximum(first - self.form.window + 1, 0) // keys, end, True

    def rows(self, first: Operand) -> None:
        """The result for the queries from `first` on."""
        form, tile = self.form, self.tile
        of_keys = self.head // form.group if form.group > 1 else self.head
        shapes = ((tile.rows, 1), (tile.keys, 2), (tile.keys, 2))
        queries, *rings = (lego.shared(form.dtype, staged(rows, form.features, n)) for rows, n in shapes)

        def stage(ring: Operand, j: Operand) -> Operand:
            return ring.part((j % 2 * tile.keys, 0), (tile.keys, form.features))

        keys, values = (functools.partial(stage, ring) for ring in rings)

        def fetch(source: Operand, target: Operand, head: Operand, position: Operand) -> None:
            lego.copy_async(source, target, at=(head, position, 0))

        segments = list(self.segments(first))
        begin, end = segments[0][0], segments[-1][1]
        fetch(self.q, queries, self.head, first)
        fetch(self.k, keys(begin), of_keys, begin * tile.keys)
        lego.commit_copies()
        fetch(self.k, keys(begin + 1), of_keys, (begin + 1) * tile.keys)
        fetch(self.v, values(begin), of_keys, begin * tile.keys)
        lego.commit_copies()
        lego.wait_copies(1)
        lego.barrier()
        scores = self.masked(lego.mma(queries, keys(begin).T, self.zeros), first, begin)
        self.best.set(lego.maximum(scores.max(axis=1), LOWEST))
        self.weigh(scores)
        self.total.set(self.sums)
        self.weights.set(self.following)
        for start, stop, mask in segments:
            for j in lego.range(lego.maximum(start - 1, begin), lego.maximum(stop - 1, begin)):
                lego.wait_copies()
                lego.barrier()
                fetch(self.k, keys(j), of_keys, (j + 2) * tile.keys)
                fetch(self.v, values(j + 1), of_keys, (j + 1) * tile.keys)
                lego.commit_copies()
                scores = lego.mma(queries, keys(j + 1).T, self.zeros)
                added = lego.mma(self.weights, values(j), self.out)
                self.update(self.masked(scores, first, j + 1) if mask else scores, added)
        lego.wait_copies()
        lego.barrier()
        self.out.set(lego.mma(self.weights, values(end - 1), self.out))
        self.store(first)

    def update(self, scores: Operand, added: Operand) -> None:
        """Take the scores of a tile into account."""
        self.weigh(scores)
        large = lego.warp_any(functools.reduce(operator.or_, (self.sums > LARGE).registers))
        with lego.when(large):
            self.grow(scores)
        self.out.set(added)
        with lego.when(large):
            self.out.set(self.out * self.fade[:, None])
            self.total.set(self.total * self.fade[:, None])
        self.total.set(self.total + self.sums)
        self.weights.set(self.following)

    def store(self, first: Operand) -> None:
        total = self.total.sum(axis=1)
        (self.out * (1.0 / total)[:, None]).to(self.form.dtype).store(self.o, at=(self.head, first, 0))
        (lego.fma(self.best, self.form.scale, lego.log2(total))).store(self.lse, at=(self.head, first))
