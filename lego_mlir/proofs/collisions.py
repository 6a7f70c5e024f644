"""Two accesses compared element by element, where their digits have few values.

Each side is evaluated for all values of its digits, as arrays: the element, and the thread that accesses it. An element
that one side touches with thread s, and the other with another thread t, is a collision. Sorting finds them without
looking at pairs, so that a block of 1024 threads takes a millisecond. What both sides have in common, such as a digit
that is known to be equal, is part of the element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Cond, Expr, IntArray, Symbol
from lego_mlir.errors import ExpressionError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.ranges import Range

MOST_POINTS: Final = 1 << 20
"""Values of one side's digits that are tried."""


@dataclass(frozen=True, slots=True)
class Side:
    """One access: numbers that identify the element, conditions under which it happens, numbers that identify who."""

    index: tuple[Expr, ...]
    conditions: tuple[Cond, ...]
    who: tuple[Expr, ...]


def apart(one: Side, other: Side, ranges: Mapping[Symbol, Range]) -> int | None:
    """How many points show that the two sides meet for one `who` only; None if they do not, or are too many."""
    try:
        first, second = (_points(side, ranges) for side in (one, other))
    except (ZeroDivisionError, ValueError, ExpressionError):
        return None
    if first is None or second is None:
        return None
    half = len(first[0])
    number, threads = (_numbered(np.concatenate([first[k], second[k]])) for k in (0, 1))
    count = int(number.max(initial=-1)) + 1
    low, high = (np.full((2, count), fill, np.int64) for fill in (np.iinfo(np.int64).max, -1))
    for side, part in enumerate((slice(None, half), slice(half, None))):
        np.minimum.at(low[side], number[part], threads[part])
        np.maximum.at(high[side], number[part], threads[part])
    met = (high[0] >= 0) & (high[1] >= 0)
    same = (low[0] == high[0]) & (low[1] == high[1]) & (low[0] == low[1])
    return None if np.any(met & ~same) else len(number)


def _numbered(rows: IntArray) -> IntArray:
    """A number for each row, equal for equal rows."""
    if not len(rows):
        return np.zeros(0, np.int64)
    low = rows.min(axis=0)
    extents = [int(n) for n in rows.max(axis=0) - low + 1]
    if math.prod(extents) < 1 << 62:
        flat = np.zeros(len(rows), np.int64)
        for column, extent in zip((rows - low).T, extents, strict=True):
            flat = flat * extent + column
        return np.unique(flat, return_inverse=True)[1].reshape(-1)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _points(side: Side, ranges: Mapping[Symbol, Range]) -> tuple[IntArray, IntArray] | None:
    """The element and who accesses it, a row for each point."""
    values = grid(sorted({s for e in (*side.index, *side.who) for s in e.free_symbols}, key=str), ranges)
    if values is None:
        return None
    count = len(next(iter(values.values()))) if values else 1
    kept = np.ones(count, bool)
    for condition in side.conditions:
        if condition.free_symbols <= values.keys():
            kept &= np.broadcast_to(np.asarray(evaluate(condition, values)), (count,)).astype(bool)
    return _rows(side.index, values, count)[kept], _rows(side.who, values, count)[kept]


def _rows(exprs: Sequence[Expr], values: dict[Symbol, Any], count: int) -> IntArray:
    columns = [np.broadcast_to(np.asarray(evaluate(e, values), np.int64), (count,)) for e in exprs]
    return np.stack(columns, axis=1) if columns else np.zeros((count, 1), np.int64)


def grid(
    symbols: Sequence[Symbol], ranges: Mapping[Symbol, Range], most: int = MOST_POINTS
) -> dict[Symbol, Any] | None:
    """All combinations of the symbols' values, as flat arrays; None if there are too many, or some are unbounded."""
    spans = []
    for symbol in symbols:
        known = ranges.get(symbol)
        if known is None:
            return None
        lo, hi = as_expr(known.lo), as_expr(known.hi)
        if not (lo.is_Integer and hi.is_Integer) or int(hi) - int(lo) > most:
            return None
        spans.append(range(int(lo), int(hi), known.step))
    if math.prod(map(len, spans)) > most:
        return None
    axes = np.meshgrid(*(np.arange(s.start, s.stop, s.step) for s in spans), indexing="ij")
    return {symbol: axis.reshape(-1) for symbol, axis in zip(symbols, axes, strict=True)}
