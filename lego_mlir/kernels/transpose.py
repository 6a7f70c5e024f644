"""Six transposes of a matrix that differ in the layout of the shared tile and in the width of an access.

| variant | the tile in shared memory | effect |
|---|---|---|
| `naive` | none | one side of the copy is uncoalesced: adjacent threads are a row apart |
| `shared` | `Row(R, C)` | both sides are coalesced, but a column of the tile is in one bank: 32-way conflicts |
| `padded` | `gallery.padded(R, C)` | one padding element per row shifts each row by a bank; costs R elements |
| `swizzled` | `gallery.xor_swizzle(R, C)` | the same without extra memory: columns of row i are xored with i |
| `vectorised` | `xor_swizzle(C, R, vec=w, per_phase=w)` | vectors of w elements, 16 bytes, which remain contiguous |
| `realigned` | `gallery.padded(R + .., C)` | the vectors of memory that contain a row's elements: for odd sizes |
| | `Row(2, C/2, R + ..)` | of 2-byte elements and known sizes, words of two rows, and whole sectors of the result |

In the vectorised variant a tile is a grid of micro-tiles of w x w elements. A thread loads a micro-tile as w vectors,
transposes it in registers and stores w vectors into a shared tile in the result's orientation, C x R. Adjacent threads
store w rows apart, where the swizzle phase differs, so 8 of them cover all 32 banks; reads are along rows. If no vector
divides the sizes, `vectorised` builds `realigned` for elements narrower than a word, and otherwise `padded` in large
tiles. Large matrices of 2-byte elements are realigned as well if no vector of 16 bytes divides their sizes.

The tile order is a layout as well, `Col` for a large matrix: concurrent blocks go down a column of tiles, and complete
whole rows of the result. A result that fits in the cache does not need this, and `Row` makes the reads contiguous.
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import lego_mlir as lego
from lego_mlir import GenP, Kernel, Row, gallery
from lego_mlir.aliases import IndexLike, Json, Traced
from lego_mlir.errors import UsageError
from lego_mlir.hardware.devices import reference
from lego_mlir.hardware.memory import LINE_BYTES, WIDEST_ACCESS
from lego_mlir.kernels.realigned import Realigned, sector_of
from lego_mlir.kernels.visiting import is_multiple_of, visit
from lego_mlir.kernels.word_pairs import BYTES, SECTOR, WordPairs, in_words, require_even
from lego_mlir.layout.canonical import SizeLike
from lego_mlir.schedule.named import tile_order
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.words.staging import thread_chunks
from lego_mlir.tracing.words.tensor import View


def _sides(fitted: Json) -> tuple[int, int]:
    """The tile of a row of constants."""
    rows, columns = fitted["tile"]
    return rows, columns


SIDE: Final = 32
"""The tile's side for scalar accesses: a warp covers one row."""
THREADS: Final = 256
MICRO_TILES: Final = 16
"""Micro-tiles along a side of the vectorised tile: one for each thread, and 256 bytes on both sides of the copy."""
FITTED: Final = reference("transposes")
BLOCKS: Final[int] = FITTED["blocks"]
"""With fewer tiles than this, smaller tiles are faster."""
WORD: Final = 4
"""Bytes that a lane transfers at once: single elements of this size fill a warp's accesses."""
SINGLE: Final = [(_sides(one), one["threads"]) for one in FITTED["single"]]
"""Tiles and threads of single words: the first that makes BLOCKS tiles, or the last."""
REALIGNED: Final = [(_sides(one), one["threads"], one["width"]) for one in FITTED["realigned"]]
"""Tiles, threads and widths of `realigned`, likewise."""
MOST: Final = 1 << 31
"""Rows and columns of `realigned` are fewer, so that its vectors are proved to be inside of memory."""
PAIRED: Final = {_sides(one): one["threads"] for one in FITTED["paired"]}
"""Tiles and threads of words of two rows: for results of more than PAIRED_BYTES, of as many blocks of the second as
PAIRED_BLOCKS, and smaller ones."""
PAIRED_BLOCKS: Final[int] = FITTED["paired_blocks"]
PAIRED_BYTES: Final[int] = FITTED["paired_bytes"]
"""The largest result of words of two rows that is better written with contiguous reads."""
ENOUGH_BLOCKS: Final[int] = FITTED["enough_blocks"]
"""Blocks of 128 x 64 from which words of two rows beat wider vectors that write parts of sectors."""
CACHED_BYTES: Final[int] = FITTED["cached_bytes"]
"""The largest result that fits in the L2 cache together with its source."""


@dataclass(frozen=True, slots=True)
class TransposeVariant:
    """`stage(R, C, w)` is the layout of the shared tile for a tile of R x C elements; None: no shared tile."""

    stage: Callable[[int, int, int], Any] | None
    vectorised: bool = False
    realigned: bool = False


def micro_tiles(rows: int, columns: int, w: int) -> GenP:
    """The layout of a shared tile that `store_micro_tile` writes and that is read along its rows."""
    return gallery.xor_swizzle(rows, columns, vec=w, per_phase=w)


def store_micro_tile(stage: View, lines: Sequence[Traced], row: IndexLike, column: IndexLike) -> None:
    """Store w vectors of w elements transposed: `row`, `column` is the place of their first element in `stage`."""
    for k in range(len(lines)):
        stage.store(lines[0] if len(lines) == 1 else lego.vector(*(line[k] for line in lines)), row + k, column)


VARIANTS: Final = {
    "naive": TransposeVariant(None),
    "shared": TransposeVariant(lambda r, c, w: Row(r, c)),
    "padded": TransposeVariant(lambda r, c, w: gallery.padded(r, c)),
    "swizzled": TransposeVariant(lambda r, c, w: gallery.xor_swizzle(r, c)),
    "vectorised": TransposeVariant(lambda r, c, w: micro_tiles(c, r, w), vectorised=True),
    "realigned": TransposeVariant(None, realigned=True),
}


def build(
    variant: str,
    M: SizeLike,
    N: SizeLike,
    dtype: DType,
    *,
    tile: tuple[int, int] | None = None,
    threads: int | None = None,
    width: int | None = None,
    order: Any = None,
) -> Kernel:
    """The kernel that writes the N x M transpose of an M x N matrix; the sizes may be symbolic.

    A block of `threads` moves a `tile` of rows x columns of the source. `order` is a layout of the grid of tiles or
    a name in `schedule.ORDERS`; with symbolic sizes, row or column. The vectorised variant accesses `width` elements at
    once: by default the widest that divides both sizes, up to 16 bytes, or 8 for a small matrix. The realigned variant
    takes sizes that `width` does not divide; without it, words of two rows if elements have 2 bytes. Raises UsageError
    for an unknown variant or order, an impossible width, and threads that do not divide a tile evenly; LayoutError for
    a layout of another grid.
    """
    if variant not in VARIANTS:
        raise UsageError(f"transpose has no variant {variant!r}; there are {', '.join(VARIANTS)}")
    narrow = _narrow_width(M, N, dtype)
    if variant == "vectorised" and (tile, threads, width) == (None, None, None) and _width(M, N, dtype) <= narrow:
        variant, tile, threads, width = _narrow(M, N, dtype)
    chosen = VARIANTS[variant]
    paired = chosen.realigned and width is None and in_words(M, N, dtype)
    if paired:
        (rows, columns), threads, w = *_paired(M, N, tile, threads), 2
    else:
        (rows, columns), threads, w = _shares(chosen, M, N, dtype, tile, threads, width)
    plan = _Plan(dtype, (rows, columns), threads, w, chosen)
    early = 0 if not chosen.realigned or (not paired and is_multiple_of(M, sector_of(dtype))) else sector_of(dtype) - 1
    grid = (lego.cdiv(M + early, rows), lego.cdiv(N, columns))
    cached = PAIRED_BYTES if paired else CACHED_BYTES
    layout = tile_order("transpose", _order(M, N, dtype, cached) if order is None else order, grid)

    @lego.kernel(grid=layout.physical_size(), block=threads)
    def transpose(src: lego.Tensor(dtype, Row(M, N)), dst: lego.Tensor(dtype, Row(N, M))):  # type: ignore[no-untyped-def]
        if paired:
            pairs = WordPairs(src, dst, plan.tile, threads)
            tile_of_words = pairs.stage()
            visit(layout, lego.block_id.x, lambda at: pairs.move(at, tile_of_words))
            return
        if chosen.realigned:
            moved = Realigned(src, dst, plan.tile, threads, w)
            realigned = moved.stage()
            lego.require((M < MOST) & (N < MOST))
            visit(layout, lego.block_id.x, lambda at: moved.move(at, realigned))
            return
        stage = plan.stage()
        source, result = src.tile_by(grid, plan.tile), dst.tile_by(grid[::-1], plan.tile[::-1])
        visit(layout, lego.block_id.x, lambda at: plan.body(source, result, stage, at))

    @transpose.reference
    def transposed(src: Any) -> Any:
        return src.T

    return transpose


def _shares(
    chosen: TransposeVariant,
    M: SizeLike,
    N: SizeLike,
    dtype: DType,
    tile: tuple[int, int] | None,
    threads: int | None,
    width: int | None,
) -> tuple[tuple[int, int], int, int]:
    """The tile, its threads and the width of an access: as given, or chosen for the matrix."""
    if chosen.realigned:
        return _realigned(M, N, dtype, tile, threads, width)
    w = 1 if not chosen.vectorised else _width(M, N, dtype) if width is None else width
    most = WIDEST_ACCESS // dtype.bytes
    if w not in (1, 2, 4, 8, 16) or w > most:
        raise UsageError(f"transpose: {width=} must be a power of two of at most 16 bytes, {most} elements of {dtype}")
    rows, columns = tile or (_tile(M, N, dtype, w) if chosen.vectorised else (SIDE, SIDE))
    if threads is None:
        threads = min(THREADS, rows * columns // w**2)
    if min(threads, rows, columns) < 1 or rows % w or columns % w or rows * columns // w**2 % threads:
        raise UsageError(
            f"transpose: {threads=} must divide the {rows // w} x {columns // w} parts of {w} x {w} of the tile "
            f"{rows} x {columns} evenly"
        )
    return (rows, columns), threads, w


def _narrow_width(M: SizeLike, N: SizeLike, dtype: DType) -> int:
    """The widest vectors that others, or words of two rows, are faster than: those that write parts of sectors."""
    if not (isinstance(M, int) and isinstance(N, int) and in_words(M, N, dtype)):
        return 1
    if _blocks(M, N, (128, 64)) < ENOUGH_BLOCKS or M % SECTOR == N % SECTOR == 0:
        return 2
    return 8 if M * N * dtype.bytes <= PAIRED_BYTES else 4


def _narrow(M: SizeLike, N: SizeLike, dtype: DType) -> tuple[str, tuple[int, int] | None, int | None, int | None]:
    """The variant, tile, threads and width for sizes that no vector divides; None where the variant chooses."""
    if dtype.bytes < WORD:
        return "realigned", None, None, None
    tile, threads = next((given for given in SINGLE if _blocks(M, N, given[0]) >= BLOCKS), SINGLE[-1])
    return "padded", tile, threads, 1


def _realigned(
    M: SizeLike, N: SizeLike, dtype: DType, tile: tuple[int, int] | None, threads: int | None, width: int | None
) -> tuple[tuple[int, int], int, int]:
    """The tile, threads and width of the realigned variant."""
    given = tile or next((t for t, *_ in REALIGNED if _blocks(M, N, t) >= BLOCKS), REALIGNED[-1][0])
    usual = next(((t, w) for shape, t, w in REALIGNED if shape == given), (THREADS, 2))
    threads, w = usual[0] if threads is None else threads, usual[1] if width is None else width
    most = WIDEST_ACCESS // dtype.bytes
    if w not in (2, 4, 8, 16) or w > most:
        raise UsageError(
            f"transpose: {width=} of the realigned variant must be a power of two from 2 to 16 bytes, {most} elements "
            f"of {dtype}"
        )
    for side, other in (given, given[::-1]):
        lanes = side // w
        if side % w or threads < 1 or threads % max(lanes, 1) or threads // lanes % w or other % (threads // lanes):
            raise UsageError(
                f"transpose: {threads=} must divide the tile {given[0]} x {given[1]} evenly into vectors of {w} along "
                f"both sides, {w} or a multiple of {w} rows at a time"
            )
        sector, step = sector_of(dtype), threads // lanes
        if side % sector or (sector % step and step % sector):
            raise UsageError(
                f"transpose: the sides of the tile {given[0]} x {given[1]} must be multiples of {sector} elements, a "
                f"sector, and {threads=} a power of two"
            )
    return given, threads, w


def _paired(M: SizeLike, N: SizeLike, tile: tuple[int, int] | None, threads: int | None) -> tuple[tuple[int, int], int]:
    """The tile and threads of words of two rows."""
    large, usual, small = PAIRED
    if tile is None:
        written = int(M) * int(N) * BYTES  # sizes are known
        tile = large if written > PAIRED_BYTES else usual if _blocks(M, N, usual) >= PAIRED_BLOCKS else small
    threads = PAIRED.get(tile, THREADS) if threads is None else threads
    require_even(tile, threads)
    return tile, threads


def _order(M: SizeLike, N: SizeLike, dtype: DType, cached: int = CACHED_BYTES) -> str:
    small = isinstance(M, int) and isinstance(N, int) and M * N * dtype.bytes <= cached
    return "row" if small else "column"


@dataclass(frozen=True, slots=True)
class _Plan:
    """The parameters of the kernel's function while it is traced; an access has `w` elements."""

    dtype: DType
    tile: tuple[int, int]
    threads: int
    w: int
    variant: TransposeVariant

    def stage(self) -> Any:
        """The shared tile, or None."""
        make = self.variant.stage
        return None if make is None else lego.shared(self.dtype, make(*self.tile, self.w))

    def body(self, source: View, result: View, stage: View | None, at: tuple[IndexLike, ...]) -> None:
        """Move tile `at` of the source to its place in the result."""
        if stage is None:
            for i, j in self.chunks(self.tile):
                result[*at[::-1], j, i] = source[*at, i, j]
        elif self.variant.vectorised:
            self.vectors(source, result, stage, at)
        else:
            for i, j in self.chunks(self.tile):
                stage[i, j] = source[*at, i, j]
            lego.barrier()
            for j, i in self.chunks(self.tile[::-1]):
                result[*at[::-1], j, i] = stage[i, j]

    def vectors(self, source: View, result: View, stage: View, at: tuple[IndexLike, ...]) -> None:
        """Load all micro-tiles of a thread before the first is transposed; `stage` has the result's orientation.

        Only the first barrier is needed for correctness. With one before each store a block's threads write the same
        rows of the result at the same time, which is up to 1.5 % faster.
        """
        (rows, columns), w = self.tile, self.w
        places = [(i * w, j) for i, j in self.chunks((rows // w, columns), w)]
        loaded = [[source.load(*at, i + k, j, width=w) for k in range(w)] for i, j in places]
        for (i, j), lines in zip(places, loaded, strict=True):
            store_micro_tile(stage, lines, j, i)
        for j, i in self.chunks((columns, rows), w):
            lego.barrier()  # the first for correctness, the others for pace
            result.store(stage.load(j, i, width=w), *at[::-1], j, i)

    def chunks(self, shape: tuple[int, int], width: int = 1) -> list[tuple[Any, Any]]:
        """The first index of each of a thread's contiguous groups of `width` elements."""
        return thread_chunks(shape, width, self.threads, lego.thread_id.x)


def _width(M: SizeLike, N: SizeLike, dtype: DType) -> int:
    """The widest access that divides both sizes, up to 16 bytes; 8 bytes if there would be too few blocks.

    A large micro-tile takes a thread long, which is not hidden with few threads.
    """
    line = LINE_BYTES // dtype.bytes
    w = WIDEST_ACCESS // dtype.bytes // (1 if _blocks(M, N, (line, line)) >= BLOCKS else 2)
    while w > 1 and not all(is_multiple_of(size, w) for size in (M, N)):
        w //= 2
    return w


def _tile(M: SizeLike, N: SizeLike, dtype: DType, w: int) -> tuple[int, int]:
    """The vectorised tile: its sides are at least a cache line if w allows, and longer for larger matrices.

    Narrower vectors need a side of a warp's threads, up to a line, to avoid bank conflicts.
    """
    line = LINE_BYTES // dtype.bytes
    side = max(MICRO_TILES * w, min(32 * w, line))
    small = min(side, max(side // 2, line))
    tiles = [(side, side), (small, side), (small, small)]
    return next((tile for tile in tiles if _blocks(M, N, tile) >= BLOCKS), tiles[-1])


def _blocks(M: SizeLike, N: SizeLike, tile: tuple[int, int]) -> int:
    """The number of tiles of a matrix; BLOCKS for symbolic sizes."""
    return lego.cdiv(M, tile[0]) * lego.cdiv(N, tile[1]) if isinstance(M, int) and isinstance(N, int) else BLOCKS
