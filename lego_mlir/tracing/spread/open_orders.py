"""Scans, sorts, gathers and accesses by tiles of indices, of tiles without a layout.

Each is one node of the graph, computed by the same word on spread values once layouts are chosen. An operation that
makes several tiles together, such as a scan of pairs, is a node whose value is a tuple; its parts are new labels of it,
so that all of them have one layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import sympy

from lego_mlir.aliases import Operand
from lego_mlir.engine.tile_graph import AlongTile, GatherTile, IndexedTile, PartOfTiles, ScatterTile
from lego_mlir.engine.tile_memory import TileMemory
from lego_mlir.errors import brief
from lego_mlir.expr.index import Index
from lego_mlir.f2.boxed import padded
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.tracing.spread import axis_exchange, filled, scans, sorts
from lego_mlir.tracing.spread import gather as gathers
from lego_mlir.tracing.spread.distributed import Spread, open_tile
from lego_mlir.tracing.spread.open_layouts import OpenLayouts, layouts_of, name_of
from lego_mlir.tracing.spread.open_tiles import OpenTile, aligned, replaceable
from lego_mlir.tracing.trace.dtypes import DType, i32
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words.scalar import Scalar

if TYPE_CHECKING:
    from lego_mlir.tracing.words.tensor import ElementAccess

MOST_BITS = 64


def scan(
    tiles: Spread | Sequence[Spread], axis: int, combine: Callable[..., object], reverse: bool
) -> OpenTile | tuple[OpenTile, ...]:
    """`lego.scan`."""
    given = _numbers("lego.scan", tiles)
    axis = filled.require_axis("lego.scan", given[0].shape, axis)
    several = not isinstance(tiles, Spread)

    def compute(values: Sequence[Spread]) -> Sequence[Spread]:
        found = scans.scan(tuple(values) if several else values[0], axis, combine, reverse)
        return found if isinstance(found, tuple) else (found,)

    made = _together("lego.scan", AlongTile("scan", axis, len(given)), given, [x.dtype for x in given], compute)
    return made if several else made[0]


def sort(tiles: Spread | Sequence[Spread], axis: int, descending: bool) -> OpenTile | tuple[OpenTile, ...]:
    """`lego.sort`."""
    given = _numbers("lego.sort", tiles)
    axis = filled.require_axis("lego.sort", given[0].shape, axis)
    several = not isinstance(tiles, Spread)

    def compute(values: Sequence[Spread]) -> Sequence[Spread]:
        found = sorts.sort(tuple(values) if several else values[0], axis, descending)
        return found if isinstance(found, tuple) else (found,)

    operation = AlongTile("sort", axis, len(given) + several)
    made = _together("lego.sort", operation, given, [x.dtype for x in given], compute)
    return made if several else made[0]


def argsort(x: Spread, axis: int, descending: bool) -> OpenTile:
    """`x.argsort`."""
    given = _numbers("argsort", x)
    axis = filled.require_axis("argsort", given[0].shape, axis)
    return _together(
        "argsort",
        AlongTile("sort", axis, 2),
        given,
        [i32],
        lambda values: (sorts.argsort(values[0], axis, descending),),
    )[0]


def topk(x: Spread, k: int, axis: int) -> tuple[OpenTile, OpenTile]:
    """`x.topk`."""
    given = _numbers("topk", x)
    operation = AlongTile("sort", axis, 2, k)
    values, places = _together("topk", operation, given, [x.dtype, i32], lambda values: sorts.topk(values[0], k, axis))
    return values, places


def flip(x: Spread, axis: int) -> OpenTile:
    """`x.flip`."""
    given = _numbers("flip", x)
    axis = filled.require_axis("flip", given[0].shape, axis)
    operation = AlongTile("flip", axis)
    return _together("flip", operation, given, [x.dtype], lambda values: (axis_exchange.flip(values[0], axis),))[0]


def gather(value: Spread, index: Spread, name: str) -> OpenTile:
    """`lego.gather` along the output of this name; shapes and types were checked."""
    layouts, axis = layouts_of(current("lego.gather")), int(name.removeprefix("dim"))
    tiles = [layouts.as_open(x) for x in (value, index)]
    return layouts.tile(
        lambda: GatherTile(axis),
        tiles,
        index.shape,
        lambda: Scalar(layouts.tracer.value(value.dtype)),
        lambda given, _: gathers.gather(given[0], given[1], axis),
        "lego.gather",
        value.dtype,
    )


def load_each(
    source: ElementAccess, index: Sequence[Operand], mask: Operand, load: Callable[[Sequence[Operand], Operand], Spread]
) -> OpenTile:
    """The elements at tiles of indices: `indexed_accesses.load_each`, which `load` is for chosen layouts."""
    layouts, tiles, filled_in = _operands((*index, mask))
    rank = len(index)

    def compute(given: Sequence[Spread]) -> Spread:
        *places, condition = filled_in(given)
        assert len(places) == rank
        return load(places, condition)

    return layouts.tile(
        lambda: IndexedTile(_contiguous(source, index, mask, tiles[0].shape)),
        tiles,
        tiles[0].shape,
        lambda: Scalar(layouts.tracer.value(source.dtype)),
        lambda given, _: compute(given),
        f"elements of {name_of(source)}",
        source.dtype,
    )


def _contiguous(
    memory: ElementAccess, index: Sequence[Operand], mask: Operand, shape: tuple[int, ...]
) -> TileMemory | None:
    """The memory whose last index counts along an axis that the others do not depend on.

    A mask that depends on the axis leaves single elements.
    """
    last, others = index[-1], [x for x in index[:-1] if isinstance(x, OpenTile)]
    axis = last.counted_axis() if isinstance(last, OpenTile) else None
    if axis is None or any(not _is_one_along(axis, x, shape) for x in others):
        return None
    is_masked = isinstance(mask, OpenTile) and not _is_one_along(axis, mask, shape)
    tracer, bits = current("a tile of indices"), memory.dtype.bits
    start = [Index(tracer.index(x.sample if isinstance(x, OpenTile) else x)) for x in index]
    ids = {symbol: sympy.Integer(0) for symbol, (kind, _) in tracer.ids.items() if kind == "thread_id"}
    place = memory.place(*start[:-1], Index(start[-1].expr.xreplace(ids)))
    widths = [] if is_masked else [w for w in (2, 4, 8, 16) if w * bits <= 8 * WIDEST_ACCESS and place.fits(w)]
    strides = tuple(int(k == axis) for k in range(len(shape)))
    masked = (axis,) if is_masked else ()
    return TileMemory(padded(shape), bits, strides, max(widths, default=1) * bits // 8, memory.buffer.space, masked)


def _is_one_along(axis: int, x: OpenTile, shape: tuple[int, ...]) -> bool:
    """Whether a tile has one element along an axis of the shape to which it grows."""
    return len(x.shape) == len(shape) and x.shape[axis] == 1


def store_each(
    target: ElementAccess,
    values: Sequence[Operand],
    index: Sequence[Operand],
    mask: Operand,
    store: Callable[[Sequence[Operand], Sequence[Operand], Operand], object],
) -> None:
    """Elements stored or updated at tiles of indices, by `store` for chosen layouts."""
    layouts, tiles, filled_in = _operands((*values, *index, mask))
    count = len(values)

    def compute(given: Sequence[Spread]) -> None:
        *operands, condition = filled_in(given)
        store(operands[:count], operands[count:], condition)

    layouts.tile(
        lambda: ScatterTile(_contiguous(target, index, mask, tiles[0].shape)),
        tiles,
        tiles[0].shape,
        lambda: None,
        lambda given, _: compute(given),
        f"elements into {name_of(target)}",
        target.dtype,
    )


def _operands(
    given: Sequence[Operand],
) -> tuple[OpenLayouts, list[OpenTile], Callable[[Sequence[Spread]], list[Operand]]]:
    """The tiles among operands in one shape, and the operands with tiles replaced."""
    tile = open_tile(*given)
    assert tile is not None
    return tile.layouts, *replaceable(tile.layouts, [x.get() if isinstance(x, Spread) else x for x in given])


def _numbers(called: str, tiles: Spread | Sequence[Spread]) -> list[OpenTile]:
    """The tiles in one shape. Raises TraceError for anything but numbers that compute."""
    tracer = current(called)
    given = [tiles] if isinstance(tiles, Spread) else list(tiles)
    for x in given:
        if not isinstance(x, Spread) or x.dtype.family in ("index", "bool") or x.dtype.is_f8:
            raise tracer.error(f"{called} of {brief(repr(x))}; convert it, for example with .to(lego.i32)")
    return aligned(layouts_of(tracer), given)


def _together(
    called: str,
    operation: AlongTile,
    given: Sequence[OpenTile],
    dtypes: Sequence[DType],
    compute: Callable[[Sequence[Spread]], Sequence[Spread]],
) -> tuple[OpenTile, ...]:
    """The results of an operation that makes several tiles of one layout."""
    layouts, shape = given[0].layouts, list(given[0].shape)
    if operation.size is not None:
        shape[operation.axis] = operation.size
    widest = max(dtypes, key=lambda dtype: dtype.bits)
    made = layouts.tile(
        lambda: operation,
        given,
        shape,
        lambda: Scalar(layouts.tracer.value(widest)),
        lambda values, _: tuple(compute(values)) if len(dtypes) > 1 else compute(values)[0],
        called,
        widest,
    )
    if len(dtypes) == 1:
        return (made,)
    made.node.bits = min(MOST_BITS, 1 << (sum(dtype.bits for dtype in dtypes) - 1).bit_length())
    return tuple(
        OpenTile(
            layouts,
            layouts.node(PartOfTiles(k), [made.node], made.shape, dtype, f"{called} {k}"),
            dtype,
            Scalar(layouts.tracer.value(dtype)),
        )
        for k, dtype in enumerate(dtypes)
    )
