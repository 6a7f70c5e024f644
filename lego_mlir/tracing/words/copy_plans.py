"""Plans of a tile's copy by the threads of a block or a warp role: the elements each of them copies at once.

Chunk t + threads * i is thread t's i-th. The widest chunks are taken that are proved contiguous and aligned in the
tensor and in the shared tile: 16, 8 or 4 bytes, as `cp.async` moves them. Where the threads do not divide the chunks,
the last copy of a thread is a branch that some threads do not take. Of rows that are gathered, the index of each is a
function of its number in the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError, LegoError, brief
from lego_mlir.expr.index import Condition, Index, as_expr
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.limits import WARP
from lego_mlir.layout import Row
from lego_mlir.tracing.trace.trace import TensorAccess
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.control import loop, when
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.staging import block_threads, thread_chunks, thread_number
from lego_mlir.tracing.words.tensor import View

BYTES: Final = (16, 8, 4)
"""Bytes that one copy of a thread moves, widest first (PTX ISA, "cp.async")."""
FEWEST: Final = 4
"""Copies of a thread from which they are a loop."""


def copies_of_threads(
    tracer: Tracer, source: View, first: Sequence[IndexLike], tile: Part
) -> list[tuple[TensorAccess, TensorAccess]]:
    """The copies of a thread, from where and to where, as wide as possible, which the threads share evenly.

    Raises LayoutError if there are none.
    """
    origin, threads = source.halo("zero"), block_threads()
    for width in (size // source.dtype.bytes for size in BYTES if size >= source.dtype.bytes):
        if copies := _planned(origin, first, tile, width, threads):
            return copies
        chunks = thread_chunks(tile.shape, width, threads, thread_number())
        if not chunks or not all(v.place(*i).fits(width) for v, i in _both(origin, first, tile, *chunks[0])):
            continue
        made = []
        for row, column in chunks:
            (_, here), (_, there) = _both(origin, first, tile, row, column)
            made.append((origin.place(*here).access(width), tile.view.place(*there).access(width)))
        return made
    raise _no_copies(tracer, source, tile)


def copy_by_rows(
    tracer: Tracer,
    source: View,
    first_of: Callable[[Index], Sequence[IndexLike]],
    tile: Part,
    copy: Callable[[TensorAccess, TensorAccess], None],
) -> None:
    """Call `copy` for the copies of a thread, where `first_of` gives the index of the first element of each row.

    The threads need not divide the chunks. Raises LayoutError if no copies are proved.
    """
    origin, threads, thread, (rows, columns) = source.halo("zero"), block_threads(), thread_number(), tile.shape

    def ends(number: Index, width: int) -> tuple[tuple[View, Sequence[IndexLike]], tuple[View, Sequence[IndexLike]]]:
        row, chunk = Row(rows, columns // width).inv(number)
        *outer, left = first_of(row)
        column = chunk * width
        return (origin, (*outer, left + column)), (tile.view, (tile.at[0] + row, tile.at[1] + column))

    for width in (size // source.dtype.bytes for size in BYTES if size >= source.dtype.bytes):
        if columns % width:
            continue
        chunks = rows * columns // width
        with (
            tracer.recorded(),
            _some(thread < chunks, chunks < threads),
        ):  # what the function loads is loaded again below
            fits = all(view.place(*index).fits(width) for view, index in ends(Index(as_expr(thread)), width))
        if not fits:
            continue
        for first in range(0, chunks, threads):
            with _some(thread + first < chunks, chunks - first < threads):
                (_, here), (_, there) = ends(Index(as_expr(thread + first)), width)
                copy(origin.place(*here).access(width), tile.view.place(*there).access(width))
        return
    raise _no_copies(tracer, source, tile)


def copy_evenly(
    tracer: Tracer,
    source: View,
    first: Sequence[IndexLike],
    tile: Part,
    copy: Callable[[TensorAccess, TensorAccess], None],
) -> None:
    """Call `copy` for the copies of a thread, by rows where the threads share no chunks evenly.

    Raises LayoutError as `copy_by_rows` does.
    """
    try:
        planned = copies_of_threads(tracer, source, first, tile)
    except LayoutError:
        copy_by_rows(tracer, source, _rows_from(first), tile, copy)
        return
    for read, written in planned:
        copy(read, written)


def _rows_from(first: Sequence[IndexLike]) -> Callable[[Index], Sequence[IndexLike]]:
    """The index of the first element of each row of the tile at an index."""
    *outer, start, left = first
    return lambda row: (*outer, start + row, left)


def _some(condition: Condition, needed: bool) -> AbstractContextManager[object]:
    """The threads for which a condition holds, where it is needed."""
    return when(condition) if needed else nullcontext()


def _no_copies(tracer: Tracer, source: View, tile: Part) -> LegoError:
    return tracer.error(
        f"lego.copy_async: no copies of 4, 8 or 16 bytes are proved from {source!r} into {tile.shape[0]} x "
        f"{tile.shape[1]} of {tile.view!r}; let both be contiguous along rows, with rows that are a multiple of 16 "
        "bytes",
        LayoutError,
    )


def in_turns(
    tracer: Tracer,
    source: View,
    first: Sequence[IndexLike],
    tile: Part,
    copy: Callable[[TensorAccess, TensorAccess], None],
) -> None:
    """Call `copy` for the copies of a thread, in a loop where the threads cover whole rows of the tile several times.

    Raises LayoutError as `copy_by_rows` does.
    """
    origin, threads, rows = source.halo("zero"), block_threads(), tile.shape[0]
    for width in (size // source.dtype.bytes for size in BYTES if size >= source.dtype.bytes):
        chunks = thread_chunks(tile.shape, width, threads, thread_number())
        if not chunks:
            continue
        step = rows // len(chunks)
        columns = {as_expr(column) for _, column in chunks}
        if len(chunks) < FEWEST or len(columns) > 1:
            break
        (row, column), fits = chunks[0], False
        with tracer.recorded() as turns:
            for start in loop(0, rows, step):
                places = [v.place(*i) for v, i in _both(origin, first, tile, start + row, column)]
                fits = all(place.fits(width) for place in places)
                if fits:
                    read, written = (place.access(width) for place in places)
                    copy(read, written)
        if fits:
            tracer.extend(turns)
            return
    copy_evenly(tracer, source, first, tile, copy)


def shared_part(tracer: Tracer, given: View | Part) -> Part:
    """The shared tile of a copy. Raises LayoutError for anything else."""
    view = given.view if isinstance(given, Part) else given
    if not isinstance(view, View) or view.buffer.space != "workgroup" or len(view.dims()) != 2:
        raise tracer.error(
            "lego.copy_async copies into a shared tile of two dimensions, lego.shared(dtype, layout), or a part of "
            f"one, got {brief(repr(given))}",
            LayoutError,
        )
    if isinstance(given, Part):
        return given
    rows, columns = view.dims()
    return Part(view, (0, 0), (rows, columns))


def _planned(
    origin: View, first: Sequence[IndexLike], tile: Part, width: int, threads: int
) -> list[tuple[TensorAccess, TensorAccess]]:
    """The copies of a thread, planned as the accesses of a tile of this layout: chunk t + threads * i is its i-th.

    Empty where the sizes or the threads are no powers of two, and where one side does not take whole chunks.
    """
    from lego_mlir.tracing.spread.accesses import accesses_of

    sizes = (*tile.shape, threads)
    if any(n & (n - 1) for n in sizes) or threads % WARP or tile.shape[1] % width:
        return []
    bits, chunk, lanes = (n.bit_length() - 1 for n in (tile.shape[0] * tile.shape[1], width, threads))
    if bits < chunk + lanes:
        return []
    flat = [1 << k for k in range(bits)]
    lane, warp = flat[chunk : chunk + 5], flat[chunk + 5 : chunk + lanes]
    columns = [*flat[:chunk], *flat[chunk + lanes :], *lane, *warp]
    ins = (("register", bits - lanes), ("lane", 5), ("warp", lanes - 5))
    outs = tuple((f"dim{axis}", tile.shape[axis].bit_length() - 1) for axis in (1, 0))
    layout = LinearLayout.of(ins, outs, columns)
    read = accesses_of("lego.copy_async", origin, layout, first)
    written = accesses_of("lego.copy_async", tile, layout, None, stored=True)
    if set(read) != set(written) or any(len(registers) != width for registers in read):
        return []
    return [(read[registers], written[registers]) for registers in read]


def _both(
    origin: View, first: Sequence[IndexLike], tile: Part, row: IndexLike, column: IndexLike
) -> tuple[tuple[View, Sequence[IndexLike]], tuple[View, Sequence[IndexLike]]]:
    """The views and indices of one element of the tile, in the tensor and in shared memory."""
    *outer, start, left = first
    return (origin, (*outer, start + row, left + column)), (tile.view, (tile.at[0] + row, tile.at[1] + column))
