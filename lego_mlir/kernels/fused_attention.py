"""Fused attention, forward: softmax(q k^T / sqrt(D)) v by warp roles, with the products of two tiles in flight.

One role copies tiles of keys and values into rings. Each group of 4 warps of the other computes 64 rows of the result.
In an iteration the scores of the next tile of keys and the result of the present one are products that run while the
softmax computes (`wgmma` on sm_90a; `mma.sync` elsewhere):

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
from lego_mlir import OrderBy, RegP, Row, f2, f16, f32, gallery, i32
from lego_mlir.errors import UsageError
from lego_mlir.expr.index import Index
from lego_mlir.tracing.dtypes import DType, bf16
from lego_mlir.tracing.tracer import current

if TYPE_CHECKING:
    from lego_mlir.aliases import Operand
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition import Kernel

LARGE: Final = 2.0**14
"""Weights whose sums are at most this are numbers of 16 bits."""
LOWEST: Final = -1e30
"""Where a tile has no key for a row: finite, so that differences of maxima are numbers."""
ROWS: Final = 64
"""Queries of a group of warps."""
WARPS: Final = 4
"""Warps of a group, and of the role that copies."""
ROUNDING: Final = 1.5 * 2**23
COEFFICIENTS: Final = (0.055171666, 0.242611122, 0.693260986, 0.999928074)
"""Of 2^f for |f| <= 1/2, highest power first: the least relative error of degree 3, 1e-4."""
HEADS: Final = (64, 128, 256)
MEMORY: Final = 224 * 1024
"""Bytes of shared memory for tiles: 227 KB of a block on sm_90, without those of barriers (CUDA C++ guide)."""
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
    """Groups of 4 warps with 64 rows each, keys of a tile, tiles in each ring, and which weights are polynomials.

    Of every `polynomials` weights one is computed by multiply-adds, which relieves the unit of exponentials; 0: none.
    """

    groups: int = 2
    keys: int = 128
    stages: int = 2
    polynomials: int = 0

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return ROWS * self.groups

    @property
    def warps(self) -> int:
        """Those that compute; 4 more copy."""
        return WARPS * self.groups

    @property
    def registers(self) -> tuple[int | None, int | None]:
        """Of a thread that copies, and of one that computes: all those of an SM."""
        return {1: (None, None), 2: (24, 240), 3: (32, 160)}[self.groups]


def staged(rows: int, features: int, stages: int = 1) -> Layout:
    """Row-major tiles of `rows` x `features` in blocks of 64 columns, whose rows of 128 bytes are swizzled."""
    blocks = RegP([stages, rows, features // 64, 64], [1, 3, 2, 4])
    swizzled = gallery.xor_swizzle(stages * rows * features // 64, 64, 8, 1, 8)
    return OrderBy(swizzled).OrderBy(blocks).GroupBy([stages * rows, features])


def exp2(x: Operand, polynomials: int) -> Operand:
    """2^x of f32, of every `polynomials` elements of a thread one by a polynomial."""
    if not polynomials:
        return lego.exp2(x, approximate=True)
    found = [
        polynomial_exp2(value) if number % polynomials == 0 else lego.exp2(value, approximate=True)
        for number, value in enumerate(x.registers)
    ]
    return lego.Spread(x.layout, f32, found)


def polynomial_exp2(x: Operand) -> Operand:
    """2^x to 1e-4: x = n + f, n to nearest by adding 1.5 2^23; 2^f by a polynomial, n added to the exponent's bits."""
    x = lego.maximum(x, -126.0)
    shifted = x + ROUNDING
    fraction = x - (shifted - ROUNDING)
    power = lego.f32(COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        power = lego.fma(power, fraction, coefficient)
    exponent = lego.mlir_op("arith.bitcast", shifted, result=i32) << 23
    return lego.mlir_op("arith.bitcast", lego.mlir_op("arith.bitcast", power, result=i32) + exponent, result=f32)


def in_lanes(x: Operand) -> Operand:
    """The sums of each row in its 4 lanes."""
    rows, columns = x.shape
    return x.reshape(rows, columns // 8, 4, 2).sum(axis=1).sum(axis=2)


def default_tile(form: AttentionForm) -> AttentionTile:
    """Accumulators and weights of a thread fit its registers."""
    return {64: AttentionTile(3, 64, 4), 128: AttentionTile(2, 128), 256: AttentionTile(2, 64)}[form.features]


def build(
    form: AttentionForm | None = None,
    tile: AttentionTile | None = None,
    sizes: tuple[int, int, int] | None = None,
    blocks: int | None = None,
) -> Kernel:
    """The kernel: q and o are [H group, M, D], k and v [H, N, D], log-sum-exps [H group, M] in units of log 2.

    Causal queries attend to keys of no larger position. `sizes` are H, M and N as constants of the kernel; without them
    they are sizes of the launch. With `blocks` there are that many, which compute several parts of
    the result each: the tiles of the next part are copied while the last rows are stored.
    """
    form = form or AttentionForm()
    tile = tile or default_tile(form)
    names = (("H", 2**12 - 1), ("M", 2**20), ("N", 2**20))
    H, M, N = sizes or (lego.size(name, min=1, max=most) for name, most in names)
    of_q, of_k = (lego.Tensor(form.dtype, Row(heads, n, form.features)) for heads, n in ((H * form.group, M), (H, N)))
    of_rows = lego.Tensor(f32, Row(H * form.group, M))
    threads = 32 * (tile.warps + WARPS)

    order = PartOrder(lego.cdiv(M, tile.rows), H * form.group, form.causal, blocks)

    @lego.kernel(grid=order.grid, block=threads)
    def attention(q: of_q, k: of_k, v: of_k, o: of_q, lse: of_rows):  # type: ignore[no-untyped-def,valid-type]
        queries = lego.shared(form.dtype, staged(ROWS, form.features, tile.groups))
        rings = KeyRings(form, tile)
        copies, computes = tile.registers
        with lego.warps(tile.warps, tile.warps + WARPS, registers=copies):
            used = RingUses(order)
            for head, place in order.parts():
                span = KeyTiles(form, tile, place * tile.rows, N)
                rings.fill(k, v, head // form.group if form.group > 1 else head, span, used)
        with lego.warps(0, tile.warps, groups=tile.groups, registers=computes):
            top = lego.group_id * ROWS
            part = queries.part((top, 0), (ROWS, form.features))
            used = RingUses(order)
            for head, place in order.parts():
                first = place * tile.rows
                lego.barrier()  # the queries of the last part have been read
                lego.copy_async(q, part, at=(head, first + top, 0))
                lego.commit_copies()
                lego.wait_copies()
                lego.barrier()
                group = AttentionRows(form, tile, first + top, N)
                group.attend(part, rings, KeyTiles(form, tile, first, N), used)
                group.store(o, lse, head)

    return attention


@dataclass(frozen=True, slots=True)
class PartOrder:
    """Which parts of the result a block computes: `count` for each of `heads`, one a block or several.

    Long parts of a causal head come first. Those of a block among several are at different places of their heads.
    """

    count: Operand
    heads: Operand
    causal: bool
    blocks: int | None

    @property
    def grid(self) -> tuple[Operand, ...]:
        """The blocks of the launch."""
        return (self.count, self.heads) if self.blocks is None else (self.blocks,)

    def parts(self) -> Iterator[tuple[Operand, Operand]]:
        """The head and the place of each part."""
        if self.blocks is None:
            head, place = lego.block_id[1], lego.block_id[0]
            yield head, self.count - 1 - place if self.causal else place
            return
        for _, head, place in self.numbered():
            yield head, place

    def numbered(self) -> Iterator[tuple[Operand, Operand, Operand]]:
        """The number of each part in its block, its head and its place."""
        if self.blocks is None:
            yield 0, *next(self.parts())
            return
        turn = max(1, self.blocks // self.count)
        for part in lego.range(lego.block_id[0], self.count * self.heads, self.blocks):
            head, place = part // self.count, part % self.count
            yield part // self.blocks, head, (place + head // turn) % self.count if self.causal else place


class RingUses:
    """How often a role has used the rings for the parts before this one."""

    def __init__(self, order: PartOrder) -> None:
        self.count = None if order.blocks is None else lego.register(i32, 0)

    @property
    def before(self) -> Operand:
        """Uses by earlier parts, an index."""
        return 0 if self.count is None else Index(current("a ring").index(self.count.get()))

    def add(self, span: KeyTiles) -> None:
        """The uses of a part."""
        if self.count is not None:
            self.count.set(self.count + lego.i32(span.end - span.begin))


@dataclass(frozen=True, slots=True)
class KeyTiles:
    """The tiles of keys that a block visits, for the queries from `first` on."""

    form: AttentionForm
    tile: AttentionTile
    first: Operand
    keys: Operand

    @property
    def begin(self) -> Operand:
        """The first tile."""
        window = self.form.window
        return 0 if window is None else lego.maximum(self.first - window + 1, 0) // self.tile.keys

    @property
    def end(self) -> Operand:
        """The end."""
        return self.reached

    @property
    def reached(self) -> Operand:
        """The end of the tiles that have a key for some query."""
        last = lego.minimum(self.keys, self.first + self.tile.rows) if self.form.causal else self.keys
        return lego.cdiv(last, self.tile.keys)

    def segments(self) -> Iterator[tuple[Operand, Operand, bool]]:
        """Tiles after the first one from, to, and whether some query does not attend to some of their keys."""
        begin, end = self.begin + 1, self.end
        if self.form.window is not None:
            yield begin, end, True
            return
        whole = (lego.minimum(self.keys, self.first) if self.form.causal else self.keys) // self.tile.keys
        yield begin, whole, False
        yield lego.maximum(whole, begin), end, True


class KeyRings:
    """Rings of tiles of keys and values, which one role fills and the other empties."""

    def __init__(self, form: AttentionForm, tile: AttentionTile) -> None:
        self.form, self.tile = form, tile
        self.rings = [lego.shared(form.dtype, staged(tile.keys, form.features, tile.stages)) for _ in range(2)]
        self.full = [lego.barriers(tile.stages, arrivals=WARPS) for _ in range(2)]
        self.empty = [lego.barriers(tile.stages, arrivals=tile.warps) for _ in range(2)]

    def part(self, ring: int, t: Operand) -> Operand:
        """The tile of use t of the keys' ring, 0, or the values', 1."""
        n = self.tile.keys
        return self.rings[ring].part((t % self.tile.stages * n, 0), (n, self.form.features))

    def fill(self, k: Operand, v: Operand, head: Operand, span: KeyTiles, used: RingUses, first: Operand = 0) -> None:
        """Copy all tiles of a part, each as soon as its stage is empty; key 0 is row `first`."""
        before = used.before
        for j in lego.range(span.begin, span.end):
            t = before + j - span.begin
            for ring, source in enumerate((k, v)):
                self.empty[ring][t - self.tile.stages].wait()
                full = self.full[ring][t]
                lego.copy_async(source, self.part(ring, t), at=(head, first + j * self.tile.keys, 0), barrier=full)
                full.arrive()
        used.add(span)

    def take(self, ring: int, t: Operand) -> Operand:
        """The tile of use t, once it is there."""
        self.full[ring][t].wait()
        return self.part(ring, t)


class AttentionRows:
    """64 queries of a group of warps, from `first` on: what is known of their softmax, and the sums of its weights.

    The weights of a tile are f32 while products are in flight, and rounded when these have read those of the last tile.
    """

    out: Operand
    weights: Operand
    following: Operand
    best: Operand
    total: Operand
    sums: Operand

    def __init__(self, form: AttentionForm, tile: AttentionTile, first: Operand, keys: Operand) -> None:
        self.form, self.tile, self.first, self.keys = form, tile, first, keys
        parent = f2.MmaSync((WARPS, 1))
        self.left = f2.MmaOperand(0, parent).layout((ROWS, tile.keys))
        self.zeros = lego.zeros(f32, parent.layout((ROWS, tile.keys)))
        self.out = lego.register(lego.zeros(f32, parent.layout((ROWS, form.features))))
        self.weights = lego.register(lego.zeros(form.dtype, self.left))
        self.following = lego.register(self.zeros)
        self.each_row = lego.zeros(f32, f2.Sliced(1, parent).layout((ROWS,)))
        self.best = lego.register(self.each_row)
        self.total, self.sums = (lego.register(in_lanes(self.zeros)) for _ in range(2))

    def attend(self, queries: Operand, rings: KeyRings, span: KeyTiles, used: RingUses) -> None:
        """Visit all tiles of keys."""
        before = used.before
        scores = self.masked(lego.mma(queries, rings.take(0, before).T, self.zeros), span.begin)
        self.best.set(lego.maximum(scores.max(axis=1), LOWEST))
        self.weigh(scores)
        self.total.set(self.sums)
        self.round()
        rings.empty[0][before].arrive()
        for start, stop, mask in span.segments():
            for j in lego.range(start, stop):
                t = before + j - span.begin
                scores = lego.mma(queries, rings.take(0, t).T, self.zeros)
                added = lego.mma(self.weights, rings.take(1, t - 1), self.out)
                self.update(self.masked(scores, j) if mask else scores, added)
                rings.empty[0][t].arrive()
                rings.empty[1][t - 1].arrive()
        last = before + span.end - 1 - span.begin
        self.out.set(lego.mma(self.weights, rings.take(1, last), self.out))
        rings.empty[1][last].arrive()
        used.add(span)

    def masked(self, scores: Operand, j: Operand) -> Operand:
        """The scores, without those of keys that a query does not attend to."""
        row, column = self.first + scores.index(0), j * self.tile.keys + scores.index(1)
        return lego.where(self.form.allowed(row, column, self.keys), scores, -math.inf)

    def weigh(self, scores: Operand) -> None:
        """Weights relative to the maximum that is known, and their sums."""
        scale = self.form.scale
        p = exp2(lego.fma(scores, scale, (self.best * -scale)[:, None]), self.tile.polynomials)
        self.following.set(p)
        self.sums.set(in_lanes(p))

    def grow(self, scores: Operand, fade: Operand) -> None:
        """Weights relative to a new maximum, and by how much the sums under the old one fade."""
        new = lego.maximum(self.best, scores.max(axis=1))
        fade.set(lego.exp2((self.best - new) * self.form.scale, approximate=True))
        self.total.set(self.total * fade[:, None])
        self.best.set(new)
        self.weigh(scores)

    def update(self, scores: Operand, added: Operand) -> None:
        """Take the scores of a tile into account, and the sums of the tile before it."""
        self.weigh(scores)
        large = lego.warp_any(functools.reduce(operator.or_, (self.sums > LARGE).registers))
        fade = lego.register(self.each_row)
        with lego.when(large):
            self.grow(scores, fade)
        self.total.set(self.total + self.sums)
        self.out.set(added)
        with lego.when(large):
            self.out.set(self.out * fade[:, None])
        self.round()

    def round(self) -> None:
        """The weights as an operand."""
        self.weights.set(lego.convert(self.following.to(self.form.dtype), to=self.left))

    def store(self, o: Operand, lse: Operand, head: Operand) -> None:
        """The rows of the result, and their log-sum-exps."""
        total = self.total.sum(axis=1)
        (self.out * (1.0 / total)[:, None]).to(self.form.dtype).store(o, at=(head, self.first, 0))
        lego.fma(self.best, self.form.scale, lego.log2(total)).store(lse, at=(head, self.first))
