"""`lego.stage` and `lego.store_tile`: the threads of a block copy a tile of global memory into shared memory, or back.

    for k in lego.range(tiles):
        lego.stage(a, (by, k), a_shared)       # a: M x K, in tiles of a_shared's shape
    lego.store_tile(c_shared, c, (by, bx))     # c: M x N, in tiles of c_shared's shape
    lego.store_tile(c_shared, c, (by, bx), by=lambda x, place: x + place.by_column(bias))

The copy runs along the axis in which the shared tile is contiguous, with the widest access that is proved for both
sides. Where a tile reaches past the end of the matrix, zeros are filled in, or elements are not stored. Thread t copies
the chunks t, t + threads, ...; a layout maps the number of a chunk to its index. Where the threads do not divide the
chunks, the last one is in a branch that some threads do not take.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import sympy

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, as_expr, cdiv, maximum
from lego_mlir.expr.nodes import Lt
from lego_mlir.expr.ranges import Range
from lego_mlir.layout import Row
from lego_mlir.layout.base import Layout
from lego_mlir.tracing.trace.marks import Rectangle, StagedTile, StoredTile
from lego_mlir.tracing.trace.shared_lines import RUN, lines_of
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.control import when
from lego_mlir.tracing.words.element_functions import ElementFunction, VectorPlace, elements, programs
from lego_mlir.tracing.words.tensor import View
from lego_mlir.tracing.words.warps import linear_thread, threads

FEWEST: Final = 6
"""Chunks of a thread from which on one proof for all of them takes less than a proof for each."""


def stage(source: View, at: Sequence[Any], target: View, tiles: Sequence[int] = (1, 1)) -> None:
    """Copy tile `at` of `source`, in tiles of the shape of `target`, with all threads of the block.

    The tiles cover each axis, and number at least `tiles`; elements past the end are zeros. A barrier must follow
    before the tile is read. Raises LayoutError for a target that is not a shared tile with contiguous segments.
    """
    tracer = current("lego.stage")
    lines = lines_of(target.layout)
    if target.buffer.space != "workgroup" or lines is None or len(source.dims()) != 2:
        raise tracer.error(
            f"lego.stage copies a matrix into a shared tile with contiguous segments of {RUN} elements of a row or "
            f"of a column, got {source!r} into {target!r}",
            LayoutError,
        )
    tracer.require_common("lego.stage", at)
    first = tuple(tracer.simplified(tracer.index(i) * n) for i, n in zip(at, target.dims(), strict=True))
    whole = Rectangle(target.buffer, target.layout, (sympy.Integer(0), sympy.Integer(0)), target.dims())
    with tracer.word(StagedTile(source.buffer, source.layout, first, whole)):
        _chunks(tracer, source, at, target, tiles, lines.transposed)


def store_tile(
    source: View | Sequence[View], target: View, at: Sequence[IndexLike], by: ElementFunction | None = None
) -> None:
    """Store a shared tile as tile `at` of `target`, in tiles of its shape, with all threads of the block.

    With `by`, store a function of the elements of one or more tiles of one shape: `by(x, .., place)` gets a vector of
    each tile, contiguous along a row, and its `VectorPlace` in the target, from which it loads what else it needs;
    the result is converted to the target's type. It may not store. A barrier must precede, after what fills the tiles.
    Elements past the end of the target are not stored. Schedules may make it a tile copy (`copied_out`). Raises
    LayoutError where it is not a shared tile of two dimensions, without `by` of the target's type.
    """
    tracer, tiles = current("lego.store_tile"), [source] if isinstance(source, View) else list(source)
    shape = tiles[0].dims() if tiles else ()
    fitting = all(t.buffer.space == "workgroup" and t.dims() == shape for t in tiles)
    if not fitting or len(shape) != 2 or len(target.dims()) != 2:
        raise tracer.error(
            f"lego.store_tile stores shared tiles of two dimensions and one shape into a matrix, got {tiles} into "
            f"{target!r}",
            LayoutError,
        )
    if by is None and (len(tiles) > 1 or tiles[0].dtype != target.dtype):
        raise tracer.error(
            f"lego.store_tile without by= stores one tile of the matrix's type, got {tiles} into {target!r}; convert "
            "elements before they are stored into the tile, or give the function of them as by=",
            LayoutError,
        )
    tracer.require_common("lego.store_tile", at)
    tiled = target.tile_by([cdiv(n, t) for n, t in zip(target.dims(), shape, strict=True)], shape)
    widest = max(tiles, key=lambda t: t.dtype.bytes)
    first = [i * n for i, n in zip(at, shape, strict=True)]
    width, shares = _shares(tracer, tiled, at, widest)
    with stored_tile(tiles, target, first, by):
        for place, taken in shares:
            with taken:
                if by is None:
                    tiled.store(tiles[0].load(*place, width=width), *at, *place)
                    continue
                with when(tiled.layout.mask(*at, *place)):
                    values = (tile.load(*place, width=width) for tile in tiles)
                    found = by(*values, VectorPlace(first[0] + place[0], first[1] + place[1], width))
                    tiled.store(elements(found, target.dtype, width), *at, *place)


def stored_tile(
    tiles: Sequence[View], target: View, first: Sequence[IndexLike], by: ElementFunction | None = None
) -> AbstractContextManager[None]:
    """Around the statements of a block's threads that store all of shared tiles at the element `first` of a tensor.

    The statements are its meaning; a schedule may make them a tile copy.
    """
    tracer = current("a stored tile")
    at, origin = tuple(tracer.simplified(tracer.index(i)) for i in first), (sympy.Integer(0), sympy.Integer(0))
    whole = tuple(Rectangle(tile.buffer, tile.layout, origin, tile.dims()) for tile in tiles)
    found = None if by is None else programs(tracer, by, [tile.dtype for tile in tiles], target)
    return tracer.word(StoredTile(target.buffer, target.layout, (at[0], at[1]), whole, found))


def _chunks(
    tracer: Tracer, source: View, at: Sequence[IndexLike], target: View, tiles: Sequence[int], transposed: bool
) -> None:
    if transposed:
        source, target, at, tiles = source.T, target.T, tuple(reversed(at)), tuple(reversed(tiles))
    shape = target.dims()
    covering = [cdiv(n, t) for n, t in zip(source.dims(), shape, strict=True)]
    tiled = source.tile_by(
        [
            n if isinstance(least, int) and least == 1 else maximum(n, least)
            for n, least in zip(covering, tiles, strict=True)
        ],
        shape,
    )
    width, shares = _shares(tracer, tiled, at, target)
    for place, taken in shares:
        with taken:
            target.store(tiled.load(*at, *place, width=width), *place)


def _shares(
    tracer: Tracer, tiled: View, at: Sequence[IndexLike], tile: View
) -> tuple[int, list[tuple[tuple[IndexLike, IndexLike], AbstractContextManager[object]]]]:
    """The width of the accesses, and a thread's places in a shared tile, each with the branch of those that have it.

    It is the widest at which the threads share the tile evenly, or else the widest.
    """
    (rows, columns), threads, thread = tile.dims(), block_threads(), thread_number()
    for width in _widths(tile):
        places = thread_chunks((rows, columns), width, threads, thread)
        if places and (width == 1 or _possible(tiled, at, tile, places[0], width)):
            grant_width(tiled, at, (rows, columns), width)
            grant_width(tile, (), (rows, columns), width)
            return width, [(place, nullcontext()) for place in places]
    for width in (w for w in _widths(tile) if columns % w == 0):
        chunks, count = Row(rows, columns // width), rows * columns // width
        numbers = [thread + first for first in range(0, count, threads)]
        *before, last = (_chunk(chunks, number, width) for number in numbers)
        with tracer.supposed(Lt(as_expr(numbers[-1]), count)):
            fits = width == 1 or _possible(tiled, at, tile, last, width)
        if fits:
            break
    return width, [*((place, nullcontext()) for place in before), (last, when(numbers[-1] < count))]


def _chunk(chunks: Layout, number: IndexLike, width: int) -> tuple[IndexLike, IndexLike]:
    """The row and column at which the chunk of this number begins."""
    row, chunk = chunks.inv(number)
    return row, chunk * width


def thread_chunks(shape: Sequence[int], width: int, threads: int, thread: Any) -> list[tuple[Any, Any]]:
    """The first index of each of a thread's chunks of `width` elements: its i-th is chunk thread + threads * i.

    Empty where the threads do not divide the chunks. Where the threads cover whole rows, the column is constant:

    >>> thread_chunks((8, 16), 4, 8, 5)
    [(1, 4), (3, 4), (5, 4), (7, 4)]
    """
    rows, columns = shape
    if columns % width or rows * columns // width % threads:
        return []
    chunks = Row(rows, columns // width)
    turns = rows * columns // width // threads
    step, rest = divmod(threads, columns // width)
    if rest:
        return [_chunk(chunks, thread + threads * turn, width) for turn in range(turns)]
    row, chunk = Row(step, columns // width).inv(thread)
    return [(row + step * turn, chunk * width) for turn in range(turns)]


def grant_width(view: View, at: Sequence[IndexLike], shape: Sequence[int], width: int) -> None:
    """Prove once that all threads' chunks of a tile can be accessed at this width, and not again for each access.

    The chunk's number is taken as one value of 0 .. chunks - 1. Without such a proof each access is proved by itself.
    """
    tracer, threads, thread = current("the chunks of a tile"), block_threads(), as_expr(thread_number())
    places = thread_chunks(shape, width, threads, thread_number())
    elsewhere = (*map(as_expr, at), *tracer.path)  # where the thread is not the chunk's number
    if width == 1 or len(places) < FEWEST or not thread.is_Symbol or any(thread in e.free_symbols for e in elsewhere):
        return
    row, chunk = Row(shape[0], shape[1] // width).inv(Index(thread))
    numbers = {thread: Range(0, len(places) * threads)}
    if view.place(*at, row, chunk * width).fits_for(width, numbers):
        indices = (tuple(map(tracer.index, (*at, *place))) for place in places)
        tracer.granted |= {(id(view.layout), width, index): view.layout for index in indices}


def _widths(target: View) -> tuple[int, ...]:
    widest = 16 // target.dtype.bytes
    return tuple(widest >> halvings for halvings in range(widest.bit_length()))


def _possible(tiled: View, at: Sequence[Any], target: View, place: tuple[Any, Any], width: int) -> bool:
    return all(view.place(*index).fits(width) for view, index in ((tiled, (*at, *place)), (target, place)))


def block_threads() -> int:
    """The number of threads of a block, or of the role, an int."""
    return int(threads(current("the threads of a block")))


def thread_number() -> Any:
    """The number of the thread in its block, x fastest, or among the threads of the role."""
    return linear_thread(current("the number of a thread"))
