"""Reductions of spread values along an axis: registers, then lanes, then warps.

    registers   elements of one thread that differ along the axis are combined pairwise
    lanes       `shuffle_xor` with the distances that differ along the axis; one instruction for integers of all lanes
    warps       one value of each warp in shared memory, and a barrier

`f2.fibers` finds the lanes that exchange. Shared memory joins the cosets that remain: the tile of partial results has
an axis of these cosets, and is converted to a layout in which a thread holds all of its own, by vectors and without
bank conflicts, as `f2.swizzle` plans it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lego_mlir.aliases import Operand
from lego_mlir.f2 import shape_ops
from lego_mlir.f2.banks import LANE_BITS
from lego_mlir.f2.boxed import linear, padded, registers_of
from lego_mlir.f2.fibers import FEWEST_STEPS, Combine, Fibers, Values, gathered_parts, pairwise
from lego_mlir.f2.swizzle import swizzle
from lego_mlir.tracing.spread.conversion import load_registers, store_registers
from lego_mlir.tracing.spread.distributed import Spread, open_tile
from lego_mlir.tracing.spread.filled import require_axis
from lego_mlir.tracing.spread.lane_exchange import lane_of
from lego_mlir.tracing.spread.scans import sum_of_scan
from lego_mlir.tracing.spread.scratch import scratch_in_turn
from lego_mlir.tracing.trace.dtypes import DType, i1, i32
from lego_mlir.tracing.trace.trace import MlirOperation
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words import functions, warps
from lego_mlir.tracing.words.reductions import require_uniform
from lego_mlir.tracing.words.scalar import Scalar, as_value, compute, convert, select

_NAMED: Final = {"sum": "add", "prod": "mul", "min": "minimum", "max": "maximum"}


def folded(called: str, x: Spread, axis: int | None, combine: Callable[..., object] | None = None) -> Operand:
    """The reduction of that name along an axis, or of all elements without one; see the methods of `Spread`."""
    tracer = current(f"a reduction, {called},")
    if axis is None:
        if padded(x.shape) != x.shape and len(x.shape) > 1:
            if called in ("argmin", "argmax"):
                return _first_place(called.removeprefix("arg"), x)
            return folded(called, folded(called, x, -1, combine), None, combine)
        x, axis = x if len(x.shape) == 1 else x.reshape(_count(x)), 0
    axis = require_axis(called, x.shape, axis)
    if x.dtype.family == "index":
        raise tracer.error(f"{called} of a tile of indices; convert it, for example with .to(lego.i32)")
    if called in ("any", "all"):
        if x.dtype.family != "bool":
            raise tracer.error(f"{called} of a tile of {x.dtype}; compare it first, such as (x > 0).{called}(axis)")
        found = folded("max" if called == "any" else "min", x.to(i32), axis)
        return found != 0
    if called in ("argmin", "argmax"):
        return _fold((x, x.index(axis).to(i32)), axis, _first_of(called == "argmax"))[-1]
    function = combine or (lambda a, b: compute(_NAMED[called], a, b))
    return _fold((x,), axis, lambda a, b: (function(a[0], b[0]),), warp_operation(called, x.dtype))[-1]


def _first_place(called: str, x: Spread) -> Operand:
    """The least number, in row-major order, of the elements that are the "min" or "max" of all; NaN is either."""
    best = folded(called, x, None)
    is_best = x == best
    if x.dtype.is_float:
        is_best = is_best | functions.isnan(x)
    place: Operand = 0
    for axis, n in enumerate(x.shape):
        place = x.index(axis).to(i32) + place * n
    return folded("min", functions.where(is_best, place, _count(x)), None)


def warp_operation(called: str, dtype: DType) -> str:
    """The reduction of `gpu.subgroup_reduce` that is one instruction on sm_80 and later; empty where there is none."""
    if dtype.bits != 32 or dtype.family != "int":
        return ""
    sign = "ui" if dtype.is_unsigned else "si"
    return {"sum": "add", "min": f"min{sign}", "max": f"max{sign}"}.get(called, "")


def _count(x: Spread) -> int:
    count = 1
    for n in x.shape:
        count *= n
    return count


def _first_of(greatest: bool) -> Combine:
    """The pair with the greater (or less) value; of equal ones, or two NaNs, the one with the lower index."""

    def combine(a: Values, b: Values) -> Values:
        (x, i), (y, j) = a, b
        better, same = (y > x) if greatest else (y < x), y == x
        if x.dtype.is_float:
            nan_x, nan_y = functions.isnan(x), functions.isnan(y)
            better, same = (better & ~nan_x) | (nan_y & ~nan_x), same | (nan_x & nan_y)
        chosen = better | (same & (j < i))
        return functions.where(chosen, y, x), functions.where(chosen, j, i)

    return combine


def _fold(tiles: Sequence[Spread], axis: int, combine: Combine, by_warp: str = "") -> Values:
    """Tiles of one layout reduced together along an axis; of those without a layout the last one's result.

    `by_warp` is the operation of `gpu.subgroup_reduce` for 32 bit integers.
    """
    if (tile := open_tile(tiles[0])) is not None:
        return (
            tile.reduced(tiles[1:], axis, lambda given: _fold(given, axis, combine, by_warp)[-1], by_warp, combine),
        )
    layout = tiles[0].layout
    if len(layout.outs) == 1:
        if by_warp == "add" and (known := sum_of_scan(tiles[0])) is not None:
            return (known,)
        grown = _fold([tile.expand_dims(1) for tile in tiles], 0, combine, by_warp)
        return tuple(tile.registers[0] for tile in grown)
    tracer, fibers, held = current("a reduction"), Fibers(layout, axis), [tile.registers for tile in tiles]
    values = fibers.in_registers(list(zip(*held, strict=True)), combine)
    steps = list(fibers.across("lane"))
    if by_warp and len(steps) >= FEWEST_STEPS and fibers.is_of_warp:
        copies = sum(1 << k for k in range(LANE_BITS) if (1 << k, 0) not in steps)
        values = {p: (_reduced_by_warp(tracer, by_warp, mine[0], copies),) for p, mine in values.items()}
    else:
        for lanes, register in steps:
            values = {
                p: combine(mine, tuple(warps.shuffle_xor(v, lanes) for v in values[p ^ register]))
                for p, mine in values.items()
            }
    result = shape_ops.reduced(layout, axis)
    kept = [values.get(p, (None,) * len(tiles)) for p in fibers.of_result()]
    found = [Spread(result, tile.dtype, [v[k] for v in kept]) for k, tile in enumerate(tiles)]
    if not fibers.missing:
        return tuple(found)
    require_uniform(tracer, "a reduction of a spread value over several warps")
    parts = _exchanged(tracer, found, fibers)
    joined = [None if values is None else pairwise(values, combine) for values in parts]
    return tuple(
        Spread(result, tile.dtype, [None if v is None else v[k] for v in joined]) for k, tile in enumerate(tiles)
    )


def _reduced_by_warp(tracer: Tracer, operation: str, value: Operand, copies: int) -> Scalar:
    """An integer reduced over the lanes of the warp; lanes with a bit of `copies` hold what other lanes hold."""
    if copies and operation == "add":
        value = select(Scalar(as_value((lane_of(tracer) & copies) < 1, i1)), value, convert(0, value.dtype))
    result = tracer.value(value.dtype)
    attributes = (("op", f"#gpu<all_reduce_op {operation}>"), ("uniform", "unit"))
    tracer.append(
        MlirOperation((result,), "gpu.subgroup_reduce", (tracer.use(value.entry),), attributes, tracer.here())
    )
    return Scalar(result)


def _exchanged(tracer: Tracer, results: Sequence[Spread], fibers: Fibers) -> list[list[Values] | None]:
    """For each register the partial results of its element, through shared memory; None outside of a box.

    A thread loads all parts of its elements: the number of the part is in the low registers.
    """
    layout, count = results[0].layout, 1 << fibers.missing
    partial = fibers.partial(linear(layout))
    wanted = gathered_parts(partial, linear(layout))
    plans = [swizzle(partial, wanted, x.dtype.bits) for x in results]
    tiles = [
        scratch_in_turn(tracer, x.dtype, plan.memory.in_sizes["offset"]) for x, plan in zip(results, plans, strict=True)
    ]
    for tile in tiles:
        tile.before_stores()
    for tile, plan, x in zip(tiles, plans, results, strict=True):
        store_registers(tile, plan, x.registers)
    tiles[0].before_loads()
    made = {r: [r * count + part for part in fibers.parts] for r in registers_of(layout)}
    loads = [register for each in made.values() for register in each]
    found = list(
        zip(*(load_registers(tile, plan, loads) for tile, plan in zip(tiles, plans, strict=True)), strict=True)
    )
    for tile in tiles:
        tile.after_loads()
    return [
        [found[k] for k in made[register]] if register in made else None
        for register in range(layout.in_sizes["register"])
    ]
