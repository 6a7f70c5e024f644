"""Tiles that threads store into: does each step of a staged loop store all of them?

A ring has a stage for each step, and what a step does not store is not of the step before, as in one tile, but of as
many steps before as the ring has stages:

    with lego.when(row // 64 == k % 2):           half of the tile in each step, the other half is of the step before
        ta.store(x, row, column)

Positions and conditions are evaluated for all threads of a block. What depends on more, such as the step, a size or
data, counts on both sides of its branch or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np
import sympy

from lego_mlir.aliases import Array, Cond, Expr, Symbol
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.layout.named_maps import position_formula
from lego_mlir.tracing.trace.marks import StagedTile
from lego_mlir.tracing.trace.trace import AsyncCopy, Buffer, For, If, KernelTrace, Statement, Store, TensorAccess

MOST_STAGES = 64
"""Values of other symbols for which places are compared."""
MOST_TURNS = 4096
"""Of a loop that stores; with more, what it stores does not count."""
Values = Mapping[Symbol, Array]


def missing(trace: KernelTrace, body: Iterable[Statement], tile: Buffer) -> tuple[int, ...] | None:
    """The index of an element of the tile that a body is not shown to store, None if it stores all."""
    shape, threads = tuple(int(n) for n in tile.layout.dims()), _threads(trace)
    if threads is None:
        return (0,) * len(shape)
    stored = _Fills(tile).of(body, threads, np.ones(prod(map(int, trace.block)), bool))
    index = np.indices(shape).reshape(len(shape), -1)
    symbols = sympy.symbols([f"i{n}" for n in range(len(shape))], integer=True)
    wanted = evaluate(position_formula(tile.layout, symbols), dict(zip(symbols, index, strict=True)))
    left = np.flatnonzero(~stored[wanted])
    return None if not len(left) else tuple(int(i) for i in index[:, left[0]])


def are_apart(trace: KernelTrace, accesses: Sequence[TensorAccess]) -> bool:
    """Whether these accesses of a tile are shown to be of different elements, in all threads of a block together.

    Symbols of few values, such as the stage, have the same value in all of them.
    """
    threads = _threads(trace)
    if threads is None:
        return False
    known = set(threads)
    others = sorted({s for a in accesses for s in a.stated.free_symbols} - known, key=str)
    ranges = [trace.ranges[s] for s in others]
    if not all(as_expr(r.lo).is_Integer and as_expr(r.hi).is_Integer for r in ranges):
        return False
    turns = [range(int(r.lo), int(r.hi)) for r in ranges]
    if prod(map(len, turns)) > MOST_STAGES:
        return False
    size = prod(map(int, trace.block))
    for values in product(*turns):
        here = {**threads, **dict(zip(others, map(np.asarray, values), strict=True))}
        places = [np.broadcast_to(evaluate(a.stated, here), (size,))[:, None] + np.arange(a.width) for a in accesses]
        found = np.concatenate([place.ravel() for place in places])
        if len(np.unique(found)) < len(found):
            return False
    return True


def _threads(trace: KernelTrace) -> dict[Symbol, Array] | None:
    """The ids of all threads of a block; None for one of a size that is not a number."""
    if not all(as_expr(n).is_Integer for n in trace.block):
        return None
    extents = [int(n) for n in trace.block]
    places = np.indices(extents[::-1]).reshape(len(extents), -1)[::-1]  # x is the fastest
    axes = dict(zip("xyz", places, strict=False))
    return {s: axes[axis] for s, (kind, axis) in trace.ids.items() if kind == "thread_id" and axis in axes}


class _Fills:
    """Which positions of a tile's memory statements store, in all threads and whatever the other symbols are."""

    def __init__(self, tile: Buffer) -> None:
        self.tile = tile

    def of(self, body: Iterable[Statement], values: Values, active: Array) -> Array:
        found = np.zeros(int(self.tile.size), bool)
        for s in body:
            found |= self._one(s, values, active)
        return found

    def _one(self, s: Statement, values: Values, active: Array) -> Array:
        match s:
            case Store(access=access) | AsyncCopy(target=access) if access.buffer == self.tile:
                return self._stored(access, values, active)
            case If(mark=StagedTile(tile=tile)) if tile.buffer == self.tile:
                return np.ones(int(self.tile.size), bool)
            case If(condition=condition, then=then, otherwise=otherwise):
                holds = _known(condition, values)
                if holds is None:
                    return self.of(then, values, active) & self.of(otherwise, values, active)
                return self.of(then, values, active & holds) | self.of(otherwise, values, active & ~holds)
            case For():
                return self._repeated(s, values, active)
        return np.zeros(int(self.tile.size), bool)

    def _stored(self, access: TensorAccess, values: Values, active: Array) -> Array:
        found, place, holds = (
            np.zeros(int(self.tile.size), bool),
            *(_known(e, values) for e in (access.stated, access.mask)),
        )
        if place is not None and holds is not None:
            first = np.broadcast_to(place, active.shape)[active & holds]
            found[first[:, None] + np.arange(access.width)] = True
        return found

    def _repeated(self, loop: For, values: Values, active: Array) -> Array:
        found = np.zeros(int(self.tile.size), bool)
        low, high, step = (_known(as_expr(e), values) for e in (loop.lo, loop.hi, loop.step))
        if low is None or high is None or step is None:
            return found
        at = np.broadcast_to(low, active.shape)
        for _ in range(MOST_TURNS):
            here = active & np.where(step > 0, at < high, at > high)
            if not here.any():
                return found
            found |= self.of(loop.body, {**values, loop.symbol: at}, here)
            at = at + step
        return np.zeros_like(found)


def _known(expr: Expr | Cond, values: Values) -> Array | None:
    """The values of an expression of known symbols in all threads, None for another."""
    expr = sympy.sympify(expr)
    return np.asarray(evaluate(expr, values)) if expr.free_symbols <= values.keys() else None
