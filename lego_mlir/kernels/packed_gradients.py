"""The gradients of attention of packed sequences, in one pass: `added_gradients` with the blocks of `packed_attention`.

A block holds keys of one sequence and visits its queries. Rows of the next sequence in a tile of queries get an
infinite log-sum-exp, and keys of the next one a weight of 0: what a tile adds to their sums is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.aliases import Operand
from lego_mlir.kernels.added_gradients import (
    REGISTERS,
    AddedGradients,
    AddedTile,
    GradientGroup,
    GradientMemory,
    QueryTilesOfKeys,
    RowTensors,
    by_rows,
    default_tile,
    require_parts,
)
from lego_mlir.kernels.attention_forms import WARPS, AttentionForm
from lego_mlir.kernels.attention_tiles import Place, strided
from lego_mlir.kernels.packed_attention import PackedSequence, PackedTarget, copy_rows, parts, sizes, starts_type


def build(form: AttentionForm | None = None, heads: int = 1, tile: AddedTile | None = None) -> AddedGradients:
    """The kernels for `heads` heads of k and v; sums are [heads group, T, D], and rows [heads group, T].

    Raises UsageError for heads of 256 features.
    """
    form = form or AttentionForm()
    tile = tile or default_tile(form)
    require_parts(form, tile)
    T, S, B = sizes()
    count = heads * form.group
    of_q, of_o, of_do, of_dq = (strided(form.dtype, name, (count, T, form.features)) for name in ("q", "o", "do", "dq"))
    of_k, of_v, of_dk, of_dv = (strided(form.dtype, name, (heads, S, form.features)) for name in ("k", "v", "dk", "dv"))
    of_rows, of_sums = lego.Tensor(f32, Row(count, T)), lego.Tensor(f32, Row(count, T, form.features))
    of_starts = starts_type(B)

    @lego.kernel(
        grid=(S // tile.keys + B, heads), block=32 * (tile.warps + WARPS), name="packed_attention_added_gradients"
    )
    def main(  # type: ignore[no-untyped-def]
        q: of_q,  # type: ignore[valid-type]
        k: of_k,  # type: ignore[valid-type]
        v: of_v,  # type: ignore[valid-type]
        do: of_do,  # type: ignore[valid-type]
        lse: of_rows,  # type: ignore[valid-type]
        delta: of_rows,  # type: ignore[valid-type]
        starts_q: of_starts,  # type: ignore[valid-type]
        starts_k: of_starts,  # type: ignore[valid-type]
        sums: of_sums,  # type: ignore[valid-type]
        dk: of_dk,  # type: ignore[valid-type]
        dv: of_dv,  # type: ignore[valid-type]
    ):
        head, memory, n = lego.block_id[1], GradientMemory(form, tile), tile.queries
        copies, computes = REGISTERS if tile.groups == 2 else (None, None)
        with lego.warps(tile.warps, tile.warps + WARPS, registers=copies):
            for at, first in parts(starts_q, starts_k, B, tile.keys, False, of_keys=True):
                memory.hold(k, v, (head,), at.keys_from + first)
                for t, of, i in span_of(form, tile, head, first, at).all():
                    memory.fill((q, do, lse, delta), t, (of,), at.queries_from + i * n, at.queries - i * n)
                memory.close(q, span_of(form, tile, head, first, at).visits, (0,), T)
        with lego.warps(0, tile.warps, groups=tile.groups, registers=computes):
            for at, first in parts(starts_q, starts_k, B, tile.keys, False, of_keys=True):
                span = span_of(form, tile, head, first, at)
                group = PackedGradients(form, tile, memory, first, at)
                for t, of, i, mask in span.segments():
                    group.visit(sums, t, (of,), i * n, mask)
                group.copy_out(dk, dv, (head,))

    prepare, round_ = by_rows(form, RowTensors(of_o, of_do, of_dq, of_rows, of_sums), (T, count), "packed_attention")
    return AddedGradients(prepare, main, round_)


def span_of(
    form: AttentionForm, tile: AddedTile, head: Operand, first: Operand, at: PackedSequence
) -> PackedQueryTiles:
    """The tiles of queries that attend to the keys from `first` on of a sequence."""
    position = first - at.shift if form.causal else first
    return PackedQueryTiles(form, tile, head, position, at.queries, at.keys - first)


@dataclass(frozen=True, slots=True)
class PackedQueryTiles(QueryTilesOfKeys):
    """The tiles of queries of a sequence; `first` is the position of the first key among the queries.

    All have a mask if fewer keys than those of a block are `left`.
    """

    left: Operand

    @property
    def begin(self) -> Operand:
        """The first tile of each head."""
        return lego.maximum(self.first, 0) // self.tile.queries if self.form.causal else 0

    @property
    def masks(self) -> bool:
        """Some tiles have one."""
        return True

    @property
    def middle(self) -> Operand:
        """The end of the tiles with a mask."""
        if self.form.window is not None:
            return self.end
        diagonal = lego.cdiv(self.first + self.tile.keys, self.tile.queries) if self.form.causal else 0
        partial = lego.minimum(lego.maximum(self.tile.keys - self.left, 0), 1) * self.end
        return lego.maximum(lego.maximum(lego.minimum(diagonal, self.end), partial), self.begin)


class PackedGradients(GradientGroup):
    """64 keys of a sequence."""

    def __init__(
        self,
        form: AttentionForm,
        tile: AddedTile,
        memory: GradientMemory,
        first: Operand,
        at: PackedSequence,
    ) -> None:
        super().__init__(form, tile, memory, first)
        self.at, self.queries_from = at, at.queries_from

    def seen(self, head: Place, query: Operand, key: Operand) -> Operand:
        """Whether a query attends to a key, of those of the sequence."""
        return self.form.allowed(query + self.at.shift if self.form.causal else query, key, self.at.keys)

    def copy_out(self, dk: Operand, dv: Operand, head: Place) -> None:
        """The gradients of the keys and values."""
        to = PackedTarget(head, self.at.keys_from + self.first, self.at.keys - self.first)
        for part, target in self.staged(dk, dv):
            copy_rows(part, target, to)
