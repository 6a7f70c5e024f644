"""From a kernel's trace to repairs of its shared tiles: every access of a tile becomes a `Use`, by logical index.

The trace has each access as an expression over thread ids, loop variables and sizes. They are evaluated for all
threads of a block and all values of the loop variables (a sample of values where there are too many), and taken back
to the tile's logical index by the layout's inverse; so a candidate layout can be put in the place of the real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from lego_mlir.analysis.banks import WARP, Array
from lego_mlir.analysis.repair import Repair, Use, repairs, wavefronts_of
from lego_mlir.expr.evaluate import evaluate

MAX_POINTS: Final = 64
"""Values of the loop variables for which an access is evaluated."""


def tile_repairs(kernel: Any, sizes: Mapping[str, int]) -> dict[str, list[Repair]]:
    """For each shared tile with bank conflicts, by name: the repairs that are better than its layout, best first."""
    trace = kernel.trace()
    found: dict[str, list[Repair]] = {}
    for tile in trace.shared:
        uses = [use_of(kernel, access, sizes) for _, access in trace.accesses() if access.buffer.name == tile.name]
        if not uses:
            continue
        total, ideal = wavefronts_of(tile.layout, uses, tile.dtype.bytes)
        if total == ideal:
            continue
        dims = [int(evaluate(n, sizes)) for n in tile.layout.dims()]
        better = [r for r in repairs(dims, uses, tile.dtype.bytes) if r.wavefronts < total]
        if better:
            found[tile.name] = better
    return found


def use_of(kernel: Any, access: Any, sizes: Mapping[str, int]) -> Use:
    """An access of a tile as the logical index of every lane of every warp."""
    lanes, active = lane_values(kernel, sizes)
    trace = kernel.trace()
    symbols = {s for e in (access.position, access.mask) for s in getattr(e, "free_symbols", ())}
    loops = {s: trace.ranges[s] for s in symbols if s in trace.ranges and s not in trace.ids}
    points = _loop_values({**{str(k): v for k, v in sizes.items()}, **_zero_ids(trace)}, loops)
    known: dict[Any, Any] = {**sizes, **_zero_blocks(trace)}
    for symbol, (what, axis) in trace.ids.items():
        if what == "thread_id":
            known[str(symbol)] = np.tile(lanes[axis], (points.rows, 1))
    for symbol, value in points.values.items():
        known[symbol] = np.repeat(value, lanes["x"].shape[0]).reshape(-1, 1)
    shape = (points.rows * lanes["x"].shape[0], WARP)
    position = np.broadcast_to(evaluate(access.position, known), shape).astype(np.int64)
    taking = np.tile(active, (points.rows, 1))
    if access.is_masked:
        taking = taking & np.broadcast_to(evaluate(access.mask, known), shape)
    inside = np.where(taking, position, 0)
    index = tuple(np.asarray(i) for i in access.buffer.layout.inv(inside))
    return Use(str(access.source), index, access.width, None if taking.all() else taking)


def lane_values(kernel: Any, sizes: Mapping[str, int]) -> tuple[dict[str, Array], Array]:
    """Each thread id of a block as (warps, 32), and which lanes exist."""
    extents = [n if isinstance(n, int) else int(evaluate(n, sizes)) for n in kernel.block]
    x, y, z = (*extents, 1, 1)[:3]
    warps = -(-x * y * z // WARP)
    linear = np.arange(warps * WARP, dtype=np.int64).reshape(warps, WARP)
    active = linear < x * y * z
    linear = np.where(active, linear, 0)
    return {"x": linear % x, "y": linear // x % y, "z": linear // (x * y)}, active


class _Points:
    """Values of loop variables, one row a point."""

    def __init__(self, rows: int, values: dict[str, Array]) -> None:
        self.rows, self.values = rows, values


def _loop_values(known: Mapping[str, Any], loops: Mapping[Any, Any]) -> _Points:
    """All values of the loop variables, or a sample: each bound evaluated with the hardware's ids at 0."""
    extents: dict[str, tuple[int, int, int]] = {}
    settled = dict(known)
    for symbol, range_ in loops.items():
        free = {
            str(s): 0 for e in (range_.lo, range_.hi) for s in getattr(e, "free_symbols", ()) if str(s) not in settled
        }
        lo, hi = int(evaluate(range_.lo, {**free, **settled})), int(evaluate(range_.hi, {**free, **settled}))
        extents[str(symbol)] = (lo, max(1, -(-(hi - lo) // range_.step)), range_.step)
    total = 1
    for _, count, _ in extents.values():
        total *= count
    at = np.arange(total) if total <= MAX_POINTS else np.random.default_rng(0).integers(0, total, MAX_POINTS)
    values: dict[str, Array] = {}
    for name, (lo, count, step) in extents.items():
        values[name] = lo + at % count * step
        at = at // count
    return _Points(min(total, MAX_POINTS), values)


def _zero_ids(trace: Any) -> dict[str, int]:
    return {str(symbol): 0 for symbol in trace.ids}


def _zero_blocks(trace: Any) -> dict[str, int]:
    return {str(symbol): 0 for symbol, (what, _) in trace.ids.items() if what != "thread_id"}
