"""Repairs for the shared tiles of a kernel, derived from its trace.

The trace has the position of each access as an expression over thread ids, loop variables and sizes. It is evaluated
for all threads of a block and all loop iterations (a sample if there are too many) and mapped back to the tile's
logical index by the layout's inverse: the resulting `TileAccess` can be evaluated under any candidate layout. Branches
and masks give the active lanes. A position that depends on data has no such expression; the recorded requests of a run
replace it, and the repairs then hold for the data of that run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sympy

from lego_mlir.aliases import Cond, Expr
from lego_mlir.analysis.recorded_requests import RecordedRequests
from lego_mlir.analysis.repair import Repair, TileAccess, repairs, wavefronts_of
from lego_mlir.errors import ExpressionError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    Buffer,
    For,
    FunctionCall,
    If,
    KernelTrace,
    Load,
    MatrixLoad,
    Statement,
    Store,
    TensorAccess,
    TileLoad,
    TileStore,
    ToIndex,
    While,
    accesses_of,
)

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

MAX_POINTS: Final = 64
"""Loop iterations for which an access is evaluated."""


@dataclass(frozen=True, slots=True)
class TileRepairs:
    """Better layouts for a tile, best first; `note` gives their basis, or the reason why there are none.

    `uses` are the accesses that they were tried on.
    """

    source: Source
    repairs: tuple[Repair, ...]
    note: str = ""
    uses: tuple[TileAccess, ...] = field(default=(), repr=False, compare=False)


def tile_repairs(
    kernel: Kernel, sizes: Mapping[str, int], recorded: RecordedRequests | None = None
) -> dict[str, TileRepairs]:
    """For each shared tile with bank conflicts, by name: the repairs that are better than its layout.

    `recorded` holds the requests of a run, for accesses whose position depends on data.
    """
    found: dict[str, TileRepairs] = {}
    for tile in kernel.trace().shared:
        repaired = _tile(kernel, tile, sizes, recorded)
        if repaired is not None:
            found[tile.name] = repaired
    return found


def _tile(
    kernel: Kernel, tile: Buffer, sizes: Mapping[str, int], recorded: RecordedRequests | None
) -> TileRepairs | None:
    """The repairs of one tile; None without conflicts in trace and run. Tiles accessed whole are not analysed."""
    for statement in kernel.trace().statements():
        matrices = isinstance(statement, MatrixLoad) and statement.access.buffer.name == tile.name
        if matrices or (isinstance(statement, (TileLoad, TileStore)) and statement.buffer.name == tile.name):
            why = f"no remedy tried: line {statement.source.line} accesses whole tiles of it, which need a fixed order"
            return TileRepairs(tile.source, (), why)
    accesses = [(a, guards) for a, guards in guarded_accesses(kernel.trace().body) if a.buffer.name == tile.name]
    uses, reason = _derived(kernel, accesses, sizes)
    conflicts = _conflicts(tile, uses)
    if not conflicts and recorded is not None:
        size = int(evaluate(tile.size, sizes))
        seen = recorded.uses(tile.name, tile.layout.inv, size, tile.dtype.bytes)
        if _conflicts(tile, seen):
            since = f", since {reason}" if reason else ""
            return _tried(tile, seen, sizes, f"on this run's data{since}")
    if reason and not conflicts:
        return TileRepairs(tile.source, (), f"no remedy tried: {reason}") if recorded is None else None
    return _tried(tile, uses, sizes) if conflicts else None


def _tried(tile: Buffer, uses: list[TileAccess], sizes: Mapping[str, int], note: str = "") -> TileRepairs:
    dims = [int(evaluate(n, sizes)) for n in tile.layout.dims()]
    total, _ = wavefronts_of(tile.layout, uses, tile.dtype.bytes)
    better = tuple(r for r in repairs(dims, uses, tile.dtype.bytes) if r.wavefronts < total)
    if not better:
        note = "no remedy: no swizzle and no padding of its rows has fewer conflicts"
        if len(dims) < 2:
            note = "no remedy tried: a tile of one dimension has no rows to pad or swizzle; give it rows and columns"
    return TileRepairs(tile.source, better, note, tuple(uses))


def _conflicts(tile: Buffer, uses: list[TileAccess]) -> bool:
    total, ideal = wavefronts_of(tile.layout, uses, tile.dtype.bytes)
    return total > ideal


def _derived(
    kernel: Kernel, accesses: list[tuple[TensorAccess, tuple[Cond, ...]]], sizes: Mapping[str, int]
) -> tuple[list[TileAccess], str]:
    """The accesses of a tile derived from the trace; or none, and the reason why one cannot be derived."""
    uses = []
    for access, guards in accesses:
        unknown = unknown_data(kernel.trace(), access.position, sizes)
        if unknown is not None:
            return [], f"the position at line {access.source.line} depends on {unknown}"
        try:
            uses.append(tile_access(kernel, access, sizes, guards))
        except (ZeroDivisionError, ExpressionError) as error:
            return [], f"the position at line {access.source.line} is not defined for every thread ({error})"
    return uses, ""


def guarded_accesses(
    body: Sequence[Statement], guards: tuple[Cond, ...] = ()
) -> Iterator[tuple[TensorAccess, tuple[Cond, ...]]]:
    """Every access in program order, with the conditions of its enclosing branches."""
    for statement in body:
        match statement:
            case Load() | Store() | Atomic() | MatrixLoad() | AsyncCopy():
                yield from ((access, guards) for access in accesses_of(statement))
            case For(body=inner) | While(body=inner):
                yield from guarded_accesses(inner, guards)
            case If(condition=condition, then=then, otherwise=otherwise):
                yield from guarded_accesses(then, (*guards, condition))
                yield from guarded_accesses(otherwise, (*guards, sympy.Not(condition)))
            case FunctionCall(function=function):
                yield from guarded_accesses(function.body)


def tile_access(
    kernel: Kernel, access: TensorAccess, sizes: Mapping[str, int], guards: tuple[Cond, ...] = ()
) -> TileAccess:
    """An access of a tile as the logical index of every lane; `guards` are the conditions of its enclosing branches.

    A condition on data may hold for any lane, so it excludes none, except those outside the tile.
    """
    lanes, active = lane_values(kernel, sizes)
    trace = kernel.trace()
    conditions = [c for guard in (access.mask, *guards) for c in sympy.And.make_args(guard)]
    conditions = [c for c in conditions if unknown_data(trace, c, sizes) is None]
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
    some = None if taking.all() else taking
    return TileAccess(str(access.source), index, access.width, some, access.source.line)


def unknown_data(trace: KernelTrace, expr: Expr, sizes: Mapping[str, int]) -> str | None:
    """The data on which an expression depends, directly or through loop bounds; None if only ids and sizes."""
    loops = {str(s.symbol): s for s in trace.statements() if isinstance(s, For)}
    known = {str(symbol) for symbol in (*trace.ids, *sizes)}
    open_: list[Any] = [expr]
    seen: set[str] = set()
    while open_:
        for name in sorted({str(s) for s in getattr(open_.pop(), "free_symbols", ())} - known - seen):
            seen.add(name)
            if name not in loops:
                lines = [s.source.line for s in trace.statements() if isinstance(s, ToIndex) and str(s.symbol) == name]
                return f"data, read at line {lines[0]}" if lines else f"{name}"
            open_ += [loops[name].lo, loops[name].hi, loops[name].step]
    return None


def _loops_of(exprs: tuple[Expr, ...], trace: KernelTrace) -> list[For]:
    """The loops whose variables occur in the expressions or in the bounds of such loops, outermost first."""
    needed = {s for e in exprs for s in getattr(e, "free_symbols", ())}
    found = []
    for loop in reversed([s for s in trace.statements() if isinstance(s, For)]):
        if loop.symbol in needed:
            found.append(loop)
            needed |= {s for e in (loop.lo, loop.hi, loop.step) for s in getattr(e, "free_symbols", ())}
    return found[::-1]


def _rounds(loops: list[For], known: Mapping[str, int | Array]) -> dict[str, Array]:
    """For each loop the iteration number at each point: all combinations, or a sample of them."""
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


def lane_values(kernel: Kernel, sizes: Mapping[str, int]) -> tuple[dict[str, Array], Array]:
    """Each thread id of a block as (warps, 32), and the active lanes."""
    extents = [n if isinstance(n, int) else int(evaluate(n, sizes)) for n in kernel.block]
    x, y, z = (*extents, 1, 1)[:3]
    warps = -(-x * y * z // WARP)
    linear = np.arange(warps * WARP, dtype=np.int64).reshape(warps, WARP)
    active = linear < x * y * z
    linear = np.where(active, linear, 0)
    return {"x": linear % x, "y": linear // x % y, "z": linear // (x * y)}, active
