"""The tiles that a block visits under a user's mask: those with an allowed pair, and which of them need no mask.

    by proof    begin .. end of the tiles are formulas of the block's first row: `rule_spans`
    by table    a kernel evaluates the mask for all pairs, and lists the tiles of each block

The table has a row of `i32` for each block of rows and each kind of tile, 0 those that have a mask and 1 those in which
all pairs are allowed: their number, then the tiles. A block visits at least one tile, whose pairs are masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir import Row, i32, i64
from lego_mlir.aliases import Operand
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.intervals import bounds
from lego_mlir.hardware.limits import WARP
from lego_mlir.kernels.attention_tiles import HeadTensors, Place, VisitedTiles, held, launch_sizes
from lego_mlir.kernels.pair_rules import PairRules, PairsOf
from lego_mlir.kernels.rule_spans import EVERYWHERE, NOWHERE, AllowedSpan, spans
from lego_mlir.tracing.definition.named_parameters import with_parameters
from lego_mlir.tracing.trace.tracer import current

if TYPE_CHECKING:
    from lego_mlir.kernels.attention_forms import AttentionForm
    from lego_mlir.tracing.definition.kernel import Kernel

MASKED, WHOLE = 0, 1
"""Kinds of tiles in a table."""
TABLE_WARPS: Final = 8
READ_DIM: Final = 2**31 - 1
READ_POSITIONS: Final = 2**20
"""Of the last two axes of an array with more of them."""


def read_types(rules: PairRules) -> dict[str, Operand]:
    """The types of the arrays that rules read, in rows; their sizes are the launch's."""
    return {
        x.name: lego.Tensor(
            x.dtype, Row(*(lego.size(f"{x.name}_{axis}", min=1, max=_largest(x.rank, axis)) for axis in range(x.rank)))
        )
        for x in rules.reads
    }


def _largest(rank: int, axis: int) -> int:
    """The limit of an axis, with which the number of elements fits i64."""
    if rank <= 2:
        return READ_DIM
    return READ_POSITIONS if axis >= rank - 2 else int(2 ** (22 // (rank - 2)))


def pairs_of(form: AttentionForm, place: Place, reads: Mapping[str, Operand]) -> PairsOf:
    """The pairs of a head, in a kernel: arrays are read within their bounds."""
    batch, head = place
    return PairsOf(form.rules, batch, head, {name: ReadInside(x) for name, x in reads.items()})


class ReadInside:
    """A tensor that is read by indices of any value: they are clamped, as data, so that no proof is tried for each."""

    def __init__(self, tensor: Operand) -> None:
        self.tensor = tensor.halo("clamp")

    def __getitem__(self, index: Operand) -> Operand:
        given = index if isinstance(index, tuple) else (index,)
        return self.read(tuple(_as_data(one) for one in given))

    def read(self, index: tuple[Operand, ...]) -> Operand:
        """The elements at indices that are data, or the same for a whole tile."""
        return self.tensor[index]


def _as_data(index: Operand) -> Operand:
    """A tile of indices as data, each distinct index converted once; anything else unchanged."""
    if not isinstance(index, lego.Spread) or index.dtype.family != "index":
        return index
    known: dict[Operand, Operand] = {}
    tracer = current("an array of a rule")

    def number(one: Operand) -> Operand:
        expr = as_expr(one)
        if expr not in known:
            at = bounds(expr, tracer.known(expr.free_symbols))
            small = at.lo is not None and at.hi is not None and -(2**31) <= at.lo <= at.hi < 2**31
            known[expr] = (i32 if small else i64)(one)
        return known[expr]

    return index.map(number, index)


class ProvedTiles:
    """The tiles that a block visits, of `size` of `length` positions, by the spans of its rows.

    With `apart` the first visit, which has a mask, is not in the segments. With `back` the last tile comes first.
    """

    def __init__(
        self, of_rows: tuple[AllowedSpan, AllowedSpan], size: int, length: Operand, *, apart: bool = True,
        back: bool = False,
    ) -> None:  # fmt: skip
        some, whole = of_rows
        tiles = lego.cdiv(length, size)
        self.begin: Operand = 0
        if some.low is not None:
            self.begin = held(lego.minimum(lego.maximum(some.low, 0) // size, tiles - 1), tiles + 1)
        end = tiles if some.high is None else lego.minimum(tiles, lego.cdiv(lego.maximum(some.high, 0), size))
        self.end = held(lego.maximum(end, self.begin + 1), tiles + 1)
        self.start: Operand = self.begin + apart
        self.middle = self.start
        if whole.low is not None:
            low = lego.cdiv(lego.maximum(whole.low, 0), size)
            self.middle = held(lego.minimum(lego.maximum(low, self.start), self.end), tiles + 1)
        high = length if whole.high is None else lego.minimum(length, lego.maximum(whole.high, 0))
        self.last = held(lego.maximum(lego.minimum(high // size, self.end), self.middle), tiles + 1)
        self.kinds, self.back = (whole is not NOWHERE, back or whole.low is not None), back
        if back:
            ends = self.begin + self.end - self.last, self.begin + self.end - self.middle
            self.middle = held(lego.maximum(ends[0], self.start), tiles + 1)
            self.last = held(lego.maximum(ends[1], self.middle), tiles + 1)

    def visited(self, number: Operand, mask: bool | None = None) -> Operand:
        """The tile of a visit: they are numbered by themselves, or backwards."""
        return self.begin + self.end - 1 - number if self.back else number

    def segments(self) -> Iterator[tuple[Operand, Operand, bool]]:
        """Visits from, to, and whether their tiles have a mask."""
        some_whole, some_before = self.kinds
        if not some_whole:
            yield self.start, self.end, True
            return
        if some_before:
            yield self.start, self.middle, True
        yield self.middle, self.last, False
        yield self.last, self.end, True


class ListedTiles:
    """The tiles that a block visits, by the rows of a table."""

    begin: Operand = 0

    def __init__(
        self, table: Operand, at: tuple[Operand, ...], *, apart: bool = True, back: bool = False
    ) -> None:  # fmt: skip
        self.table, self.at, self.start, self.back = table, at, int(apart), back
        masked, whole = (lego.index(table[*at, kind, 0]) for kind in (MASKED, WHOLE))
        self.masked = lego.maximum(masked, 1)
        self.end = self.masked + lego.maximum(whole, 0)

    def visited(self, number: Operand, mask: bool | None = None) -> Operand:
        """The tile of a visit, of a run of tiles with a mask or without, or of any."""
        masked = number < self.masked if mask is None else mask
        row, at = lego.where(masked, MASKED, WHOLE), lego.where(masked, number, number - self.masked) + 1
        if self.back:
            at = lego.where(masked, self.masked, self.end) - number
        return lego.index(self.table[*self.at, row, at], range=(0, self.table.dims()[-1]))

    def segments(self) -> Iterator[tuple[Operand, Operand, bool]]:
        """Visits from, to, and whether their tiles have a mask."""
        yield self.start, self.masked, True
        yield self.masked, self.end, False


def query_tiles(
    form: AttentionForm, rows: tuple[Operand, int], size: int, length: Operand, table: Sequence[Operand],
    place: tuple[Operand, Operand],
) -> VisitedTiles:  # fmt: skip
    """The tiles of queries that a block of keys visits, of each head; all where heads that share keys differ.

    `rows` are its first key and how many it has, `place` its batch and head; `table` is that of keys, if there is one.
    """
    if form.by_shared_head:
        return ProvedTiles((EVERYWHERE, NOWHERE), size, length, apart=False)
    if form.rules.listed:
        return ListedTiles(table[0], table_place(form, *place, rows[0] // rows[1]), apart=False)
    pairs = PairsOf(form.rules, *place, {})
    of_rows = spans(lambda i, j: form.reaches(i, j, pairs), *rows, of_keys=True)
    return ProvedTiles(of_rows, size, length, apart=False)


@dataclass(frozen=True, slots=True)
class TableShape:
    """The shape of a table: blocks of `rows` queries, and tiles of `visited` keys; or the other way `of_keys`."""

    rows: int
    visited: int
    of_keys: bool = False


def table_type(form: AttentionForm, shape: TableShape) -> Operand:
    """The type of a table: [batches, heads, blocks, 2, 1 + tiles], with one batch and head where all have one mask."""
    sizes = launch_sizes()
    lengths = (sizes.keys, sizes.queries) if shape.of_keys else (sizes.queries, sizes.keys)
    of_batch, of_head = form.rules.by
    tiles = lego.cdiv(lengths[1], shape.visited)
    dims = (
        sizes.batch if of_batch else 1,
        sizes.heads * form.group if of_head else 1,
        lego.cdiv(lengths[0], shape.rows),
    )
    return lego.Tensor(i32, Row(*dims, 2, tiles + 1))


def table_place(form: AttentionForm, batch: Operand, head: Operand, block: Operand) -> tuple[Operand, ...]:
    """The index of a block's rows in a table."""
    of_batch, of_head = form.rules.by
    return batch if of_batch else 0, head if of_head else 0, block


def build_table(form: AttentionForm, shape: TableShape) -> Kernel:
    """The kernel that makes a table from the arrays that the mask reads, for q and k, of which it takes the sizes."""
    sizes, of_table = launch_sizes(), table_type(form, shape)
    of = HeadTensors(form, sizes)
    dims = of_table.layout.dims()
    queries, keys = sizes.queries, sizes.keys
    tiles = lego.cdiv(queries if shape.of_keys else keys, shape.visited)

    def tiles_of_rule(*given: Operand) -> None:
        _, _, *reads, table = given
        block, head, batch = lego.block_id
        pairs = pairs_of(form, (batch, head), dict(zip(types, reads, strict=False)))
        kinds = lego.shared(i32, Row(TABLE_WARPS))
        counts = [lego.register(i32, 0) for _ in range(2)]
        last = lego.register(i32, 0)
        for start in lego.range(0, tiles, TABLE_WARPS):
            tile = start + lego.warp_id
            some, every = lego.register(i32, 0), lego.register(i32, 1)
            for row in lego.range(shape.rows):
                for across in lego.unroll(0, shape.visited, WARP):
                    pair = block * shape.rows + row, tile * shape.visited + across + lego.lane_id
                    i, j = pair[::-1] if shape.of_keys else pair
                    seen = form.reaches(i, j, pairs)
                    some.set(lego.where((i < queries) & (j < keys) & seen, 1, some.get()))
                    every.set(lego.where((j < keys) & ((i >= queries) | seen), every.get(), 0))
            any_, all_ = lego.warp_any(some.get() > 0), lego.warp_all(every.get() > 0)
            with lego.when(lego.lane_id < 1):
                kinds[lego.warp_id] = lego.where(any_, lego.where(all_, lego.i32(2), 1), 0)
            lego.barrier()
            for warp in lego.unroll(TABLE_WARPS):
                with lego.when(start + warp < tiles):
                    found = kinds[warp]
                    for kind, count in enumerate(counts):
                        with lego.when(found == kind + 1):
                            count.set(count + 1)
                            with lego.when(lego.thread_id[0] < 1):
                                table.halo("zero")[batch, head, block, kind, lego.index(count.get())] = lego.i32(
                                    start + warp
                                )
                            last.set(lego.i32(start + warp))
            lego.barrier()
        masked, whole = (count.get() for count in counts)
        with lego.when(lego.thread_id[0] < 1):
            place = (batch, head, block)
            table[*place, MASKED, 0] = lego.maximum(masked, 1)
            table[*place, WHOLE, 0] = lego.where(masked > 0, whole, lego.maximum(whole - 1, 0))
            with lego.when(masked < 1):  # the first visit has a mask
                table[*place, MASKED, 1] = last.get()

    known = read_types(form.rules)
    types = {name: known[name] for name in (() if form.rules.mask is None else form.rules.mask.names)}
    kernel = lego.kernel(grid=dims[2::-1], block=WARP * TABLE_WARPS, name="attention_tiles_of_rule")
    return kernel(
        with_parameters(tiles_of_rule, {"q": of.of_queries("q"), "k": of.of_keys("k"), **types, "tiles": of_table})
    )
