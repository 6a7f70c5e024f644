"""Attention of packed sequences of different lengths: one launch, nothing read back on the host.

    q, o [T, heads, D], k, v [S, heads / group, D]      the sequences, one after the other
    starts_q, starts_k [B + 1], i32                     sequence b is the rows starts[b] to starts[b + 1] - 1

A block finds its sequence itself. With tiles of R rows, sequence b owns the block numbers from starts[b] // R + b on:
these are at least as many as it has tiles, since

    starts[b + 1] // R + b + 1 - (starts[b] // R + b)  =  starts[b + 1] // R - starts[b] // R + 1  >=  ceil(length / R)

so T // R + B blocks suffice for any lengths, and b is the number of starts that are not above the block's number, less
1: each lane compares one. A block past the tiles of its sequence does nothing.

Causal queries are aligned at the end, as in flash attention: query i attends to keys up to i + keys - queries. A query
without keys has the result 0 and an infinite log-sum-exp. Tiles reach into the next sequence: its keys have weight 0,
so its values must be finite. Results are copied row by row, from shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.aliases import Operand
from lego_mlir.expr.index import Index
from lego_mlir.f2.boxed import padded
from lego_mlir.hardware.limits import WARP
from lego_mlir.kernels.attention_forms import ROWS, WARPS, AttentionForm, AttentionTile, default_tile
from lego_mlir.kernels.attention_tiles import KeyRings, KeyTiles, PartOrder, Place, RingUses, staged, strided
from lego_mlir.kernels.fused_attention import AttentionRows
from lego_mlir.tracing.trace.tracer import current

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

MOST: Final = 2**20
"""Rows of all sequences."""
MOST_SEQUENCES: Final = 2**16


def build(form: AttentionForm | None = None, heads: int = 1, tile: AttentionTile | None = None) -> Kernel:
    """The kernel for `heads` heads of k and v; lse is [heads group, T]. T, S and B are sizes of the launch."""
    form = form or AttentionForm()
    tile = tile or default_tile(form)
    T, S, B = sizes()
    of_q, of_o = (strided(form.dtype, name, (heads * form.group, T, form.features)) for name in "qo")
    of_k, of_v = (strided(form.dtype, name, (heads, S, form.features)) for name in "kv")
    of_rows, of_starts = lego.Tensor(f32, Row(heads * form.group, T)), starts_type(B)
    grid = (T // tile.rows + B, heads * form.group)

    @lego.kernel(grid=grid, block=32 * (tile.warps + WARPS), name="packed_attention")
    def attention(q: of_q, k: of_k, v: of_v, starts_q: of_starts, starts_k: of_starts, o: of_o, lse: of_rows):  # type: ignore[no-untyped-def,valid-type]
        head, order = lego.block_id[1], PartOrder(1, 1, False, None, None)
        queries = lego.shared(form.dtype, staged(ROWS, form.features, tile.groups))
        rings = KeyRings(form, tile)
        rows = lego.shared(f32, Row(tile.groups, ROWS))
        copies, computes = tile.registers(form)
        with lego.warps(tile.warps, tile.warps + WARPS, registers=copies):
            for at, first in parts(starts_q, starts_k, B, tile.rows, form.causal):
                span = PackedKeyTiles(form, tile, first + at.shift, at.keys)
                of_keys = head // form.group if form.group > 1 else head
                rings.fill(k, v, (of_keys,), span, RingUses(order), at.keys_from)
        with lego.warps(0, tile.warps, groups=tile.groups, registers=computes):
            for at, first in parts(starts_q, starts_k, B, tile.rows, form.causal):
                mine = first + lego.group_id * ROWS
                part = queries.part((lego.group_id * ROWS, 0), (ROWS, form.features))
                lego.copy_async(q, part, at=(head, at.queries_from + mine, 0))
                lego.commit_copies()
                lego.wait_copies()
                lego.barrier()
                group = PackedRows(form, tile, mine + at.shift, at.keys)
                span = PackedKeyTiles(form, tile, first + at.shift, at.keys)
                group.attend(part, rings, span, RingUses(order))
                to = PackedTarget((head,), at.queries_from + mine, at.queries - mine)
                group.copy_out(part, rows, o, lse, to)

    return attention


def sizes() -> tuple[Operand, Operand, Operand]:
    """Rows of all queries, rows of all keys, and the number of sequences."""
    most = (("T", MOST), ("S", MOST), ("B", MOST_SEQUENCES))
    return tuple(lego.size(name, min=1, max=n) for name, n in most)  # type: ignore[return-value]


def starts_type(count: Operand) -> Operand:
    """The first row of each sequence, and the end."""
    return lego.Tensor(i32, Row(count + 1), range=(0, MOST + 1))


@dataclass(frozen=True, slots=True)
class PackedSequence:
    """Where a sequence begins among the queries and the keys, and how many it has of each."""

    queries_from: Operand
    queries: Operand
    keys_from: Operand
    keys: Operand

    @property
    def shift(self) -> Operand:
        """The position of the first query among the keys, with `causal`."""
        return self.keys - self.queries


def parts(
    starts_q: Operand, starts_k: Operand, count: Operand, rows: int, last_first: bool, of_keys: bool = False
) -> Iterator[tuple[PackedSequence, Operand]]:
    """The sequence of this block, and the first of its rows among those of the sequence; none past its end."""
    starts = starts_k if of_keys else starts_q
    number = sequence_of_block(starts, count, rows)
    of_q, of_k = (extent(x, number) for x in (starts_q, starts_k))
    at = PackedSequence(*of_q, *of_k)
    begin, length = of_k if of_keys else of_q
    tiles, place = lego.cdiv(length, rows), lego.block_id[0] - begin // rows - number
    for here in lego.range(place, lego.minimum(tiles, place + 1)):
        yield at, (tiles - 1 - here if last_first else here) * rows


def sequence_of_block(starts: Operand, count: Operand, rows: int) -> Operand:
    """How many sequences have a first block number of at most this block's, less 1."""
    found = lego.register(i32, 0)
    for turn in lego.range(lego.cdiv(count, WARP)):
        candidate = turn * WARP + lego.lane_id
        with_rows = starts.halo("zero")[candidate] // rows + lego.i32(candidate)
        begun = (with_rows <= lego.i32(lego.block_id[0])) & (lego.i32(candidate) < lego.i32(count))
        found.set(found + lego.popcount(lego.warp_ballot(begun)).to(i32))
    return as_index(found.get()) - 1


def extent(starts: Operand, number: Operand) -> tuple[Operand, Operand]:
    """The first row of a sequence, and its length."""
    begin, end = (as_index(starts.halo("zero")[number + k]) for k in range(2))
    return begin, end - begin


def as_index(value: Operand) -> Operand:
    """Data as an index."""
    return Index(current("packed attention").index(value))


class PackedKeyTiles(KeyTiles):
    """The tiles of keys that a block visits: at least one, which may be masked whole."""

    __slots__ = ()

    @property
    def end(self) -> Operand:
        """The end."""
        return lego.maximum(self.reached, self.begin + 1)


@dataclass(frozen=True, slots=True)
class PackedTarget:
    """Rows of the result: of a head, from a row of the tensor on, as many as are left of the sequence."""

    head: Place
    row: Operand
    left: Operand


class PackedRows(AttentionRows):
    """64 queries of a group of warps; `first` is the position of the first one among the keys."""

    def copy_out(self, part: Operand, rows: Operand, o: Operand, lse: Operand, to: PackedTarget) -> None:
        """The results of the sequence's rows, and their log-sum-exps; 0 and infinite where a row has no key."""
        total = self.total.sum(axis=1)
        has_keys = total > 0.0
        scaled = self.out * lego.where(has_keys, 1.0 / total, 0.0)[:, None]
        scaled.to(self.form.dtype).store(part)
        found = lego.fma(self.best, self.form.exponent, lego.log2(total))
        lego.where(has_keys, found, math.inf).store(rows, at=(lego.group_id, 0))
        lego.barrier()
        copy_rows(part, o, to)
        out = lego.warp_id * WARP + lego.lane_id
        with lego.when((out < to.left) & (out < ROWS)):
            lse.halo("zero")[*to.head, to.row + out] = rows[lego.group_id, out % ROWS]


def copy_rows(part: Operand, target: Operand, to: PackedTarget) -> None:
    """The rows of a tile in shared memory that belong to the sequence, a row for each warp at a time."""
    count, features = part.shape
    width = padded((lego.cdiv(features, WARP),))[0]
    column = lego.lane_id * width
    for row in lego.range(lego.warp_id, lego.minimum(count, to.left), WARPS):
        with lego.when(column < features):
            value = part.view.load(part.at[0] + row, part.at[1] + column, width=width)
            target.halo("zero").store(value, *to.head, to.row + row, column, width=width)
