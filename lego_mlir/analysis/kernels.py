"""From a kernel's trace to repairs of its shared tiles: every access of a tile becomes a `Use`, by logical index.

The trace has each access as an expression over thread ids, loop variables and sizes. They are evaluated for all
threads of a block and all rounds of the loops (a sample of rounds where there are too many), and taken back to the
tile's logical index by the layout's inverse; so a candidate layout can be put in the place of the real one. Branches
and masks say which lanes take part. A place that comes from data is not known here: such a tile gets no repair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import sympy

from lego_mlir.analysis.banks import WARP, Array
from lego_mlir.analysis.repair import Repair, Use, repairs, wavefronts_of
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.kernel.trace import For, If, Load, Store

MAX_POINTS: Final = 64
"""Rounds of the loops for which an access is evaluated."""


def tile_repairs(kernel: Any, sizes: Mapping[str, int]) -> dict[str, list[Repair]]:
    """For each shared tile with bank conflicts, by name: the repairs that are better than its layout, best first."""
    trace = kernel.trace()
    found: dict[str, list[Repair]] = {}
    accesses = list(guarded_accesses(trace.body))
    for tile in trace.shared:
        own = [(access, guards) for access, guards in accesses if access.buffer.name == tile.name]
        if not own or not all(_is_known(trace, access.position, sizes) for access, _ in own):
            continue
        uses = [use_of(kernel, access, sizes, guards) for access, guards in own]
        total, ideal = wavefronts_of(tile.layout, uses, tile.dtype.bytes)
        if total == ideal:
            continue
        dims = [int(evaluate(n, sizes)) for n in tile.layout.dims()]
        better = [r for r in repairs(dims, uses, tile.dtype.bytes) if r.wavefronts < total]
        if better:
            found[tile.name] = better
    return found


def guarded_accesses(body: tuple[Any, ...], guards: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Every access in program order, with the conditions of the branches around it."""
    for statement in body:
        match statement:
            case Load(access=access) | Store(access=access):
                yield access, guards
            case For(body=inner):
                yield from guarded_accesses(inner, guards)
            case If(condition=condition, then=then, otherwise=otherwise):
                yield from guarded_accesses(then, (*guards, condition))
                yield from guarded_accesses(otherwise, (*guards, sympy.Not(condition)))


def use_of(kernel: Any, access: Any, sizes: Mapping[str, int], guards: tuple[Any, ...] = ()) -> Use:
    """An access of a tile as the logical index of every lane of every warp; `guards` are the branches around it.

    A condition on data may hold for any lane, so it keeps none from taking part, except outside the tile.
    """
    lanes, active = lane_values(kernel, sizes)
    trace = kernel.trace()
    conditions = [c for guard in (access.mask, *guards) for c in sympy.And.make_args(guard)]
    conditions = [c for c in conditions if _is_known(trace, c, sizes)]
    known: dict[str, Any] = {**sizes}
    for symbol, (what, axis) in trace.ids.items():
        known[str(symbol)] = lanes[axis] if what == "thread_id" else 0
    loops = _loops_of((access.position, *conditions), trace)
    rounds = _rounds(loops, known)
    repeat = len(next(iter(rounds.values()))) if rounds else 1
    known = {name: np.tile(v, (repeat, 1)) if isinstance(v, np.ndarray) else v for name, v in known.items()}
    taking = np.tile(active, (repeat, 1))
    for loop in loops:
        first, end, step = (evaluate(e, known) for e in (loop.lo, loop.hi, loop.step))
        value = first + step * np.repeat(rounds[str(loop.symbol)], lanes["x"].shape[0]).reshape(-1, 1)
        known[str(loop.symbol)] = value
        taking = taking & (value < end)
    for condition in conditions:
        taking = taking & np.broadcast_to(evaluate(condition, known), taking.shape)
    position = np.broadcast_to(evaluate(access.position, known), taking.shape).astype(np.int64)
    taking = taking & (position >= 0) & (position < int(evaluate(access.buffer.size, sizes)))
    inside = np.where(taking, position, 0)
    index = tuple(np.asarray(i) for i in access.buffer.layout.inv(inside))
    return Use(str(access.source), index, access.width, None if taking.all() else taking)


def _is_known(trace: Any, expr: Any, sizes: Mapping[str, int]) -> bool:
    """Whether ids, sizes and loop variables alone make up an expression; else it depends on data."""
    names = {str(symbol) for symbol in (*trace.ids, *sizes)}
    names |= {str(loop.symbol) for loop in trace.statements() if isinstance(loop, For)}
    return all(str(symbol) in names for symbol in getattr(expr, "free_symbols", ()))


def _loops_of(exprs: tuple[Any, ...], trace: Any) -> list[For]:
    """The loops whose variables occur, or occur in the bounds of such a loop, the outermost first."""
    needed = {s for e in exprs for s in getattr(e, "free_symbols", ())}
    found = []
    for loop in reversed([s for s in trace.statements() if isinstance(s, For)]):
        if loop.symbol in needed:
            found.append(loop)
            needed |= {s for e in (loop.lo, loop.hi, loop.step) for s in getattr(e, "free_symbols", ())}
    return found[::-1]


def _rounds(loops: list[For], known: Mapping[str, Any]) -> dict[str, Array]:
    """For each loop the number of the round at each point: all combinations, or a sample of them."""
    counts: dict[str, int] = {}
    settled = dict(known)
    for loop in loops:
        first, end, step = (evaluate(e, settled) for e in (loop.lo, loop.hi, loop.step))
        settled[str(loop.symbol)] = first
        counts[str(loop.symbol)] = max(1, int(np.max(-(-(end - first) // step))))
    total = int(np.prod(list(counts.values()), dtype=object))
    at = np.arange(total) if total <= MAX_POINTS else np.random.default_rng(0).integers(0, total, MAX_POINTS)
    rounds: dict[str, Array] = {}
    for name, count in counts.items():
        rounds[name] = at % count
        at = at // count
    return rounds


def lane_values(kernel: Any, sizes: Mapping[str, int]) -> tuple[dict[str, Array], Array]:
    """Each thread id of a block as (warps, 32), and which lanes exist."""
    extents = [n if isinstance(n, int) else int(evaluate(n, sizes)) for n in kernel.block]
    x, y, z = (*extents, 1, 1)[:3]
    warps = -(-x * y * z // WARP)
    linear = np.arange(warps * WARP, dtype=np.int64).reshape(warps, WARP)
    active = linear < x * y * z
    linear = np.where(active, linear, 0)
    return {"x": linear % x, "y": linear // x % y, "z": linear // (x * y)}, active
