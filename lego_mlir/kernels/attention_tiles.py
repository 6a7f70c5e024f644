"""Tiles of attention: which parts of the result a block computes, and the rings of tiles that its roles share.

One role of warps copies tiles of queries, keys and values into shared memory, groups of warps compute. With several
parts a block, the queries of the next part are copied during this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, Strided, f2, f32, gallery, i32
from lego_mlir.aliases import Operand
from lego_mlir.expr.index import Index
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, WARP
from lego_mlir.kernels.attention_forms import AXES, CHUNK, FITTED, ROWS, WARPS, AttentionForm, AttentionTile, HeadSizes
from lego_mlir.kernels.visiting import in_turns
from lego_mlir.schedule import by_length
from lego_mlir.tracing.trace.tracer import current

if TYPE_CHECKING:
    from lego_mlir.f2.linear import LinearLayout
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.trace.dtypes import DType

Place = tuple["Operand", ...]
"""Which head: its batch and its number there, or its number alone."""

BYTES: Final = 16
"""Of a vector, of which strides are multiples."""
LINE: Final = 128
"""Bytes of a row that is swizzled as a whole."""
COPIED: Final = 2
"""Tiles of values that are copied before their transposes are stored."""
MEMORY: Final = LARGEST_SHARED_BYTES - 3 * 1024
"""Bytes of shared memory of a block for tiles: all without those of barriers."""


def launch_sizes() -> HeadSizes:
    """Sizes of the launch: B, H, M and N."""
    names = (("B", 2**16 - 1), ("H", 2**12 - 1), ("M", 2**20), ("N", 2**20))
    return HeadSizes(*(lego.size(name, min=1, max=most) for name, most in names))


class HeadTensors:
    """The tensors of attention over batches, and which head of them a number is.

    `q` and others like it are [B, H group, M, D], `k` and others [B, H, N, D], each with strides of its own, so that
    [B, M, H, D] and parts of a packed [B, M, 3, H, D] are read where they are; features are adjacent.
    """

    def __init__(self, form: AttentionForm, sizes: HeadSizes) -> None:
        self.form, self.sizes = form, sizes
        self.of_rows = lego.Tensor(f32, Row(sizes.batch, sizes.heads * form.group, sizes.queries))
        self.of_sums = lego.Tensor(f32, Row(sizes.batch, sizes.heads * form.group, sizes.queries, form.features))

    def of_queries(self, name: str, features: int | None = None) -> Operand:
        """The type of an array of queries, or of results with their `features`."""
        heads, rows = self.sizes.heads * self.form.group, self.sizes.queries
        dtype = self.form.stored if name == "o" else self.form.dtype
        return strided(dtype, name, (self.sizes.batch, heads, rows, features or self.form.features))

    def of_keys(self, name: str, features: int | None = None) -> Operand:
        """The type of an array of keys, or of values with their `features`."""
        heads, rows = self.sizes.heads, self.sizes.keys
        return strided(self.form.dtype, name, (self.sizes.batch, heads, rows, features or self.form.features))

    def query_place(self, head: Operand) -> Place:
        """The batch and the head there of a head of queries, counted over all batches."""
        return _place(head, self.sizes.heads * self.form.group)

    def key_place(self, head: Operand) -> Place:
        """The same for a head of keys."""
        return _place(head, self.sizes.heads)


def _place(head: Operand, heads: Operand) -> Place:
    return head // heads, head % heads


def strided(dtype: DType, name: str, dims: Sequence[Operand], most: int = 2**40) -> Operand:
    """The type of an array whose strides are sizes of the launch, up to `most`; the last axis is contiguous.

    Strides are multiples of 16 bytes. That of an axis of one element, which no access uses, is a number.
    """
    chunk = BYTES // dtype.bytes
    strides = [
        chunk if isinstance(n, int) and n == 1 else lego.size(f"{name}_{axis}", max=most, multiple_of=chunk)
        for axis, n in zip(AXES[-len(dims) : -1], dims[:-1], strict=True)
    ]
    return lego.Tensor(dtype, Strided(dims, [*strides, 1], claim=True))


def head_and_tile(tiles: Operand) -> tuple[Operand, Operand]:
    """The head of a block, and which of its `tiles`: a grid of two dimensions would limit heads to 65,535."""
    return lego.block_id[0] // tiles, lego.block_id[0] % tiles


def by_rows_of(features: int) -> LinearLayout:
    """64 rows of a power of two of features for 4 warps, 16 bytes a lane: lines of 128 bytes where they are as long."""
    lanes = min(features, 64) // CHUNK
    return f2.Blocked((1, CHUNK), (WARP // lanes, lanes), (WARPS, 1), (1, 0)).layout((ROWS, features))


def staged(rows: int, features: int, stages: int = 1, size: int = 2) -> Layout:
    """Row-major tiles of `rows` x `features` of `size` bytes, in blocks of columns whose rows are swizzled as a whole.

    A block has 128 bytes of columns, or the part of it that divides a row.
    """
    chunk = BYTES // size
    width = math.gcd(features, LINE // size)
    blocks = RegP([stages, rows, features // width, width], [1, 3, 2, 4])
    swizzled = gallery.xor_swizzle(
        stages * rows * features // width, width, chunk, LINE // size // width, width // chunk
    )
    return OrderBy(swizzled).OrderBy(blocks).GroupBy([stages * rows, features])


@dataclass(frozen=True, slots=True)
class PartOrder:
    """Which parts of the result a block computes: `count` for each of `heads`, one a block or several.

    The long parts of a `causal` head come first. With `together`, those of that many heads do, then the parts before
    them. Blocks take several parts in turns of alternating direction (`visiting.in_turns`), then in an order in which
    sections of heads alternate too (`schedule.by_length`).
    """

    count: Operand
    heads: Operand
    causal: bool
    together: Operand | None
    blocks: int | None

    @property
    def grid(self) -> tuple[Operand, ...]:
        """The blocks of the launch."""
        return (self.count * self.heads if self.blocks is None else self.blocks,)

    def numbered(self) -> Iterator[tuple[Operand, Operand, Operand]]:
        """The number of each part in its block, its head and its place."""
        if self.blocks is None:
            yield 0, *self._part(lego.block_id[0])
            return
        for turn, number in in_turns(self.count * self.heads, self.blocks):
            yield turn, *self._part(number)

    def _part(self, number: Operand) -> tuple[Operand, Operand]:
        """The head and the place of part `number`."""
        if self.together is None:
            place = number % self.count
            return number // self.count, self.count - 1 - place if self.causal else place
        if self.blocks is not None:
            head, place = by_length(self.heads, self.count, together=self.together).inv(number)
            return head, held(place, self.count)
        section = self.count * self.together
        first, rest = number // section * self.together, number % section
        width = lego.maximum(lego.minimum(self.together, self.heads - first), 1)
        return first + rest % width, lego.maximum(self.count - 1 - rest // width, 0)


def held(index: Operand, end: Operand) -> Operand:
    """An index from 0 to `end` - 1 as a number in a register, whose range is known without its expression."""
    number = lego.maximum(lego.minimum(lego.i32(index), lego.i32(end - 1)), 0)
    return Index(current("an order of parts").index(number))


def heads_in_cache(form: AttentionForm, keys: Operand) -> Operand:
    """The heads whose keys and values take half of the L2 cache, at least one."""
    return lego.maximum(FITTED["cached_bytes"] // (2 * form.dtype.bytes * form.features * keys), 1)


class VisitedTiles(Protocol):
    """The tiles that a block visits, in runs of numbered visits."""

    @property
    def begin(self) -> Operand:
        """The number of the first visit."""

    @property
    def end(self) -> Operand:
        """The end of the visits' numbers."""

    def visited(self, number: Operand, mask: bool | None = None) -> Operand:
        """The tile of a visit, of a run of tiles with a mask or without, or of any."""

    def segments(self) -> Iterator[tuple[Operand, Operand, bool]]:
        """Visits from, to, and whether their tiles have a mask; without the first one, where that is apart."""


class RingUses:
    """How often a role has used the rings for the parts before this one."""

    def __init__(self, order: PartOrder) -> None:
        self.count = None if order.blocks is None else lego.register(i32, 0)

    @property
    def before(self) -> Operand:
        """Uses by earlier parts, an index."""
        return 0 if self.count is None else Index(current("a ring").index(self.count.get()))

    def add(self, span: VisitedTiles) -> None:
        """The uses of a part."""
        if self.count is not None:
            self.count.set(self.count + lego.i32(span.end - span.begin))


@dataclass(frozen=True, slots=True)
class KeyTiles:
    """The tiles of keys that a block visits for the queries from `first` on."""

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

    def visited(self, number: Operand, mask: bool | None = None) -> Operand:
        """The tile of a visit: they are numbered by themselves."""
        return number

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
        self.features = form.features, form.width
        shapes = [(tile.keys, n) for n in self.features]
        if form.narrow:
            shapes[1] = form.width, tile.keys
        self.rings = [lego.shared(form.dtype, staged(*s, tile.stages, form.dtype.bytes)) for s in shapes]
        self.full = [lego.barriers(tile.stages, arrivals=WARPS) for _ in range(2)]
        self.empty = [lego.barriers(tile.stages, arrivals=tile.warps) for _ in range(2)]
        self.turns = ProductTurns(tile)
        self.copied = CopiedValues(form, tile) if form.narrow else None

    def part(self, ring: int, t: Operand) -> Operand:
        """The tile of use t of the keys' ring, 0, or the values', 1."""
        n, d, stage = self.tile.keys, self.features[ring], t % self.tile.stages
        if ring and self.copied is not None:
            return self.rings[ring].part((stage * d, 0), (d, n)).T
        return self.rings[ring].part((stage * n, 0), (n, d))

    def fill(self, k: Operand, v: Operand, head: Place, span: VisitedTiles, used: RingUses, first: Operand = 0) -> None:
        """Copy all tiles of a part, each as soon as its stage is empty; key 0 is row `first`."""
        before = used.before

        def copy(number: Operand) -> None:
            assert self.copied is not None
            at = (*head, first + span.visited(number) * self.tile.keys, 0)
            self.copied.copy(v, before + number - span.begin, at)

        if self.copied is not None:
            copy(span.begin)
        for number in lego.range(span.begin, span.end):
            t, j = before + number - span.begin, span.visited(number)
            if self.copied is not None:
                with lego.when(number + 1 < span.end):
                    copy(number + 1)
            for ring, source in enumerate((k, v)):
                self.empty[ring][t - self.tile.stages].wait()
                full = self.full[ring][t]
                if ring and self.copied is not None:
                    self.copied.transpose(self.part(ring, t).T, t)
                else:
                    lego.copy_async(source, self.part(ring, t), at=(*head, first + j * self.tile.keys, 0), barrier=full)
                full.arrive()
        used.add(span)

    def take(self, ring: int, t: Operand) -> Operand:
        """The tile of use t, once it is there."""
        self.full[ring][t].wait()
        return self.part(ring, t)


class CopiedValues:
    """Tiles of values of 8 bits as they are copied, whose transposes go to the ring: products take operands along rows.

    A thread loads words of 4 features of 4 keys, and stores words of 4 keys of 4 features, in the order `in_words`.
    Lanes are placed so that neither access has conflicts in banks where rows have 128 bytes.
    """

    def __init__(self, form: AttentionForm, tile: AttentionTile) -> None:
        self.form, self.tile = form, tile
        self.tiles = lego.shared(form.dtype, staged(tile.keys, form.features, COPIED, form.dtype.bytes), "copied")
        self.full, self.empty = (lego.barriers(COPIED, arrivals=WARPS) for _ in range(2))
        self.shape = (64, min(form.features, LINE))  # keys and features of a step
        last, rest = ((0, 64), [(16, 0), (32, 0)]) if form.features >= LINE else ((32, 0), [(16, 0)])
        self.layout = f2.LinearLayout(
            {
                "register": [(1, 0), (8, 0), (0, 1), (0, 2), *rest],
                "lane": [(0, 4), (16, 8), (32, 16), (2, 0), (4, 0)],
                "warp": [(0, 32), last],
            },
            dict(zip(("dim0", "dim1"), self.shape, strict=True)),
        )

    def _part(self, t: Operand, at: tuple[int, int], shape: tuple[int, int]) -> Operand:
        return self.tiles.part((t % COPIED * self.tile.keys + at[0], at[1]), shape)

    def copy(self, v: Operand, t: Operand, at: Place) -> None:
        """Copy the tile of use t."""
        self.empty[t - COPIED].wait()
        whole = self._part(t, (0, 0), (self.tile.keys, self.form.features))
        lego.copy_async(v, whole, at=at, barrier=self.full[t])
        self.full[t].arrive()

    def transpose(self, target: Operand, t: Operand) -> None:
        """Store the transpose of tile t."""
        self.full[t].wait()
        keys, features = self.shape
        for key in range(0, self.tile.keys, keys):
            for feature in range(0, self.form.features, features):
                x = lego.load(self._part(t, (key, feature), self.shape), self.layout)
                at = (target.at[0] + feature, target.at[1] + key)
                in_words(x.T).store(target.view.part(at, (features, keys)))
        self.empty[t].arrive()


def in_words(x: Operand) -> Operand:
    """Columns in the order in which 4 that a lane has of a result are the neighbours that it has of an operand.

    Lane q has the columns 2 q, 2 q + 1, 2 q + 8 and 2 q + 9 of 16; as an operand of 8 bits the places from 4 q on.
    """
    rows, columns = x.shape
    return x.reshape(rows, columns // 16, 2, 4, 2).transpose((0, 1, 3, 2, 4)).reshape(rows, columns)


class ProductTurns:
    """Turns of groups at the unit of products: group g multiplies tile t in turn t groups + g.

    Without them the groups run in step, and wait for products, and then for exponentials, at the same time. The
    interpreter of MLIR always runs the groups of a role in step, and reports a deadlock; the emulator of PTX does not.
    """

    def __init__(self, tile: AttentionTile) -> None:
        self.groups = tile.groups
        self.ended = lego.barriers(tile.groups, arrivals=WARPS) if tile.turns else None

    def begin(self, t: Operand) -> None:
        """Wait until the group before has its products of tile t, or of tile t - 1."""
        if self.ended is not None:
            self.ended[t * self.groups + lego.group_id - 1].wait()

    def end(self, t: Operand) -> None:
        """Let the next group multiply, when the products of this one are complete: an arrival waits for them."""
        if self.ended is not None:
            self.ended[t * self.groups + lego.group_id].arrive()


class QueryTiles:
    """Tiles of queries, 64 rows for each group, which one role fills and the others replace by the result.

    Where a block computes several parts and memory suffices, the tiles of the next part are copied during this one.
    """

    def __init__(self, form: AttentionForm, tile: AttentionTile, order: PartOrder) -> None:
        self.features, self.groups, size = form.features, tile.groups, form.dtype.bytes
        of_rings = (form.features + form.width) * tile.keys * tile.stages
        taken = size * (of_rings + form.features * tile.rows)  # bytes, with one tile for each group
        if form.narrow:
            taken += form.features * (COPIED * tile.keys + form.stored.bytes * tile.rows)
        several = order.blocks is not None and taken + size * form.features * tile.rows <= MEMORY
        self.delay = 1 if several else 0  # parts
        self.count = tile.groups * (1 + self.delay)
        self.tiles = lego.shared(form.dtype, staged(ROWS, form.features, self.count, size))
        self.results = lego.shared(form.stored, staged(ROWS, form.features, tile.groups)) if form.narrow else None
        self.full, self.empty = (lego.barriers(self.count, arrivals=WARPS) for _ in range(2))
        self.repeated = order.blocks is not None

    def _part(self, use: Operand) -> Operand:
        return self.tiles.part((use % self.count * ROWS, 0), (ROWS, self.features))

    def fill(self, q: Operand, head: Place, first: Operand, number: Operand) -> None:
        """Copy the queries of a part for all groups, as soon as their last results are out."""
        for group in range(self.groups):
            use = number * self.groups + group
            self.empty[use - self.count].wait()
            lego.copy_async(q, self._part(use), at=(*head, first + group * ROWS, 0), barrier=self.full[use])
            self.full[use].arrive()

    def result(self, number: Operand) -> Operand:
        """The tile of this group's result: that of its queries, unless these are narrower."""
        if self.results is None:
            return self.part(number)
        lego.wait_copies()
        lego.barrier()  # the rows of the part before have been read
        return self.results.part((lego.group_id * ROWS, 0), (ROWS, self.features))

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
