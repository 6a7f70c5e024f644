"""Attention of decoding: a few queries a sequence, keys and values in pages, the keys of a sequence in several parts.

    q, o [B, H group, queries, D]     keys, values [P, H, page, D]     table [B, MOST]     lengths [B]

A block has a part of the keys of one sequence and one head (`key_parts`), and a row of the tensor core's tile for each
query of the head's group. Each of its warps takes tiles of the part in turns, with a ring of tiles and a softmax of its
own, so that no warp waits for another before the end. Rows are gathered by the table and copied by `cp.async`; those
after the last key are zeros.

Keys and values in f8e4m3fn are converted in registers. The scale of a head of keys is a factor of the exponents, that
of its values of the result.

Queries are the last positions of their sequence: query i attends to keys up to i + length - queries. The result of a
query without keys is 0.

(Dao et al., "Flash-Decoding for long-context inference", 2023; Ye et al., "FlashInfer", 2025.)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, i32
from lego_mlir.aliases import Operand
from lego_mlir.hardware.limits import WARP
from lego_mlir.kernels.attention_forms import MOST_PAGES, MOST_PAGES_OF_EACH, MOST_SEQUENCES, WARPS, PagedForm
from lego_mlir.kernels.attention_forms import PAGED_ROWS as ROWS
from lego_mlir.kernels.attention_tiles import staged, strided
from lego_mlir.kernels.fused_attention import in_lanes
from lego_mlir.kernels.key_parts import LOWEST, Found, KeyPart, combined, part_of_block
from lego_mlir.tracing.definition.named_parameters import with_parameters

if TYPE_CHECKING:
    from lego_mlir.f2.linear import LinearLayout
    from lego_mlir.tracing.definition.kernel import Kernel

WORD: Final = 4
"""Bytes of a register, whose elements are neighbours along K."""
VECTOR: Final = 4
"""Elements that a thread combines at once."""


def build(form: PagedForm | None = None) -> Kernel:
    """The kernel. B, H, P, MOST and the blocks U of a head, more than B, are sizes of the launch; counters are 0.

    For a cache of f8e4m3fn it takes scales of keys and of values [S] of f32: one for each head, or one for all.
    """
    form = form or PagedForm()
    B, H, U = lego.size("B", max=MOST_SEQUENCES), lego.size("H", max=2**12), lego.size("U", max=2**16 - 1)
    D, keys_of_step, threads = form.features, WARPS * form.keys, WARPS * WARP
    tiles, rows = lego.cdiv(form.queries * form.group, ROWS), form.rows
    size = form.stored.bytes
    operand = f2.MmaOperand(0, f2.MmaSync((1, 1)), WORD // size).layout((ROWS, D))
    staging = staged(form.keys, D, WARPS * form.stages, size)

    def paged_attention(
        q: Operand, keys: Operand, values: Operand, table: Operand, lengths: Operand, *more: Operand
    ) -> None:
        *scales, o, partial, sums, counters = more
        place, number = lego.block_id[:2]
        queries = QueryTile(form, place // tiles, place % tiles * ROWS)
        rings = [lego.shared(form.stored, staging, f"ring_{name}") for name in "kv"]
        found, logs = lego.shared(f32, Row(WARPS, rows, D), "found"), lego.shared(f32, Row(WARPS, rows), "logs")
        part = part_of_block(lengths, number, B, U, keys_of_step)
        with lego.warps(0, WARPS, groups=WARPS), lego.when(part.exists == 1):
            x = queries.load(q, part.b, operand)
            attended = WarpRows(form, scales, queries.head)
            _, query = queries.at(lego.arange((ROWS,)))
            ends = lego.minimum(part.end, part.length - form.queries + query + 1)[:, None]
            for key, k, v in warp_tiles(form, part, (keys, values), rings, table, queries.head):
                attended.add(x, k, v, key + lego.arange((ROWS, form.keys), 1) < ends)
            attended.store(found, logs)
        lego.barrier()

        def of_warp(row: Operand, column: Operand, warp: Operand) -> Found:
            return logs[warp, row], found.load(warp, row, column, width=VECTOR)

        def of_part(row: Operand, column: Operand, block: Operand) -> Found:
            vector = partial.atomic_load(block, place, row, column, width=VECTOR)
            return sums.atomic_load(block, place, row), vector

        with lego.when(part.exists == 1):
            for row, column in queries.vectors(threads):
                log, vector = combined(0, WARPS, functools.partial(of_warp, row, column), VECTOR)
                with lego.when(part.parts == 1):
                    queries.store(o, part.b, row, column, vector)
                with lego.otherwise():
                    partial.atomic_store(vector, number, place, row, column)
                    with lego.when(column == 0):
                        sums.atomic_store(log, number, place, row)
            with lego.when(part.parts > 1), lego.when(part.is_last(counters, place)):
                for row, column in queries.vectors(threads):
                    _, vector = combined(part.first, part.parts, functools.partial(of_part, row, column), VECTOR)
                    queries.store(o, part.b, row, column, vector)

    return lego.kernel(grid=(H * tiles, U), block=threads)(
        with_parameters(paged_attention, parameter_types(form, (B, H, U), tiles))
    )


def parameter_types(form: PagedForm, sizes: tuple[Operand, Operand, Operand], tiles: Operand) -> dict[str, Operand]:
    """The types of the kernel's parameters for these B, H and U, and tiles of the queries of a head of keys."""
    B, H, U = sizes
    P, MOST = lego.size("P", max=MOST_PAGES), lego.size("MOST", max=MOST_PAGES_OF_EACH)
    D, rows = form.features, form.rows
    of_q, of_o = (strided(form.dtype, name, (B, H * form.group, form.queries, D)) for name in "qo")
    of_k, of_v = (strided(form.stored, name, (P, H, form.page, D), 2**31 - 1) for name in "kv")
    types = {
        "q": of_q,
        "keys": of_k,
        "values": of_v,
        "table": lego.Tensor(i32, Row(B, MOST), range=(0, P)),
        "lengths": lego.Tensor(i32, Row(B), range=(0, MOST * form.page + 1)),
    }
    if form.cache is not None:
        S = lego.size("S", min=1, max=2**12)
        types |= dict.fromkeys(("key_scales", "value_scales"), lego.Tensor(f32, Row(S)))
    return types | {
        "o": of_o,
        "partial": lego.Tensor(f32, Row(U, H * tiles, rows, D)),
        "sums": lego.Tensor(f32, Row(U, H * tiles, rows)),
        "counters": lego.Tensor(i32, Row(B, H * tiles)),
    }


class WarpRows:
    """The queries of a warp: their largest scores, and the sums of their weights and of the weighted values.

    Scores times `exponent` are exponents of 2; the result is multiplied by `factor`.
    """

    def __init__(self, form: PagedForm, scales: Sequence[Operand], head: Operand) -> None:
        self.form, self.exponent, self.factor = form, form.exponent, 1.0
        self.zeros = lego.zeros(f32, (ROWS, form.keys))
        if scales:
            of_keys, self.factor = (x[lego.minimum(head, x.dims()[0] - 1)] for x in scales)
            self.exponent = form.exponent * of_keys
        self.best: Operand = lego.register(lego.full(f32, (ROWS,), LOWEST))
        self.total: Operand = lego.register(in_lanes(self.zeros))
        self.out: Operand = lego.register(lego.zeros(f32, (ROWS, form.features)))

    def add(self, x: Operand, k: Operand, v: Operand, inside: Operand) -> None:
        """Attend to a tile of keys, where they are `inside`."""
        best, total, out = self.best, self.total, self.out
        s = lego.where(inside, lego.mma(x, k.T, self.zeros), -math.inf)
        top = lego.maximum(best.get(), s.max(axis=1))
        with lego.when(lego.warp_any(top > best.get())):  # which few tiles after the first ones need
            fade = lego.exp2((best.get() - top) * self.exponent, fast=True)[:, None]
            total.set(total.get() * fade)
            out.set(out.get() * fade)
            best.set(top)
        p = lego.exp2((s - best.get()[:, None]) * self.exponent, fast=True)
        total.set(total.get() + in_lanes(p))
        multiplied = self.form.dtype if self.form.cache is None else f16  # to which f8 is converted
        out.set(lego.mma(p.to(multiplied), v, out.get()))

    def store(self, found: Operand, logs: Operand) -> None:
        """Store the result of this warp's keys, and the logarithm of its weights."""
        weights = self.total.get().sum(axis=1)
        scale = lego.where(weights > 0.0, self.factor / weights, 0.0)
        layout = f2.MmaSync((1, 1)).layout((ROWS, self.form.features))
        own = lego.convert(self.out.get() * scale[:, None], to=layout)
        own.store(found, at=(lego.group_id, 0, 0))  # as products leave it: scratch would take a second block's room
        lego.fma(self.best.get(), self.exponent, lego.log2(weights)).store(logs, at=(lego.group_id, 0))


@dataclass(frozen=True, slots=True)
class QueryTile:
    """The queries of a head of keys from `first` on, as many as a tile has rows: all heads of a group, one by one."""

    form: PagedForm
    head: Operand
    first: Operand

    def at(self, row: Operand) -> tuple[Operand, Operand]:
        """Head and number of the query in a row; rows past the last query repeat it."""
        group = self.form.group
        row = lego.minimum(self.first + row, self.form.queries * group - 1)
        return self.head * group + row % group, row // group

    def load(self, q: Operand, b: Operand, layout: LinearLayout) -> Operand:
        """The rows as an operand in registers, without a conversion through shared memory."""
        return q.load(b, *self.at(lego.arange(layout, 0)), lego.arange(layout, 1))

    def vectors(self, threads: int) -> Iterator[tuple[Operand, Operand]]:
        """Row and column of each vector of this thread."""
        rows, across = self.form.queries * self.form.group - self.first, self.form.features // VECTOR
        for number in lego.range(lego.thread_id[0], lego.minimum(rows, ROWS) * across, threads):
            yield number // across, number % across * VECTOR

    def store(self, o: Operand, b: Operand, row: Operand, column: Operand, vector: Operand) -> None:
        """Store a vector of the result."""
        o.store(vector.to(self.form.dtype), b, *self.at(row), column)


def warp_tiles(
    form: PagedForm, part: KeyPart, sources: tuple[Operand, Operand], rings: Sequence[Operand], table: Operand,
    head: Operand,
) -> Iterator[tuple[Operand, Operand, Operand]]:  # fmt: skip
    """The tiles of this warp: the first key, keys and values; the next ones are copied meanwhile.

    A lane looks up the row of its key for the tile that is copied next: page * positions + position.
    """
    size, stages, warp, run = form.keys, form.stages, lego.group_id, math.gcd(form.page, form.keys)
    pages, found = sources[0].dims()[0], lego.register(i32, 0)
    count = lego.cdiv(lego.maximum(part.end - part.begin - warp * size, 0), WARPS * size)

    def first_of(n: Operand) -> Operand:
        return part.begin + (n * WARPS + warp) * size

    def tile(ring: Operand, n: Operand) -> Operand:
        return ring.part(((warp * stages + n % stages) * size, 0), (size, form.features))

    def look_up(n: Operand) -> None:
        key = lego.minimum(first_of(n) + lego.lane_id % size, lego.maximum(part.end - 1, 0)) // run * run
        found.set(table[part.b, key // form.page] * form.page + lego.i32(key % form.page))

    def row_of(n: Operand, row: Operand) -> tuple[Operand, ...]:
        begin = lego.assume(lego.shuffle(found.get(), row // run * run), aligned=run, range=(0, pages * form.page))
        number = begin + row % run
        page = lego.where(first_of(n) + row < part.end, number // form.page, pages)  # zeros after the last key
        return page, head, number % form.page, 0

    def fill(n: Operand) -> None:
        with lego.when(n < count):
            for source, ring in zip(sources, rings, strict=True):
                lego.copy_async(source, tile(ring, n), at=lambda row: row_of(n, row))
        lego.commit_copies()
        look_up(n + 1)

    look_up(0)
    for ahead in range(stages - 1):
        fill(ahead)
    for n in lego.range(count):
        lego.wait_copies(stages - 2)
        lego.barrier()  # of the warp: all lanes have read the tile that is replaced
        fill(n + stages - 1)
        yield first_of(n), *(tile(ring, n) for ring in rings)
