"""Copies of the same rows into a ring, step after step: from when on its stages hold the rows outside of the tensor.

    for k in lego.range(steps):
        use = before + k
        lego.copy_async(a, ring.part((use % 4 * 64, 0), (64, 64)), at=(row, k * 64), barrier=full[use])

A step copies other columns of the same rows into the next stage. The first four fill all stages: what is outside of the
tensor arrives as zeros, and later steps need to copy only what is inside (`tile_units`).
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.expr.nodes import FloorMod
from lego_mlir.tracing.trace.marks import TileCopy
from lego_mlir.tracing.trace.trace import (
    Atomic,
    For,
    If,
    KernelTrace,
    Statement,
    Store,
    TileStore,
    ToIndex,
    accesses_of,
    statements_in,
)


def kept_steps(trace: KernelTrace) -> Mapping[int, Expr]:
    """The steps since the loop began, less the stages (`TileCopy.since`), by the identities of the copies' branches."""
    found = {}
    for loop in (s for s in trace.statements() if isinstance(s, For) and s.step == 1):
        inside = tuple(statements_in(loop.body))
        made = {s.symbol for s in inside if isinstance(s, For | ToIndex)} | {loop.symbol}
        for branch in loop.body:
            if isinstance(branch, If) and isinstance(mark := branch.mark, TileCopy):
                stages = _stages(mark, loop, made)
                if stages is not None and _fills_alone(mark, inside):
                    found[id(branch)] = loop.symbol - loop.lo - stages
    return found


def _stages(copy: TileCopy, loop: For, made: set[Symbol]) -> int | None:
    """The stages that the steps of a loop walk through, where all copy the same rows; None for other copies.

    `made` are the symbols of the loop: its variable, and what is found inside.
    """
    row, (top, left) = sympy.sympify(copy.at[-2]), map(sympy.sympify, copy.into)
    turns = [part for part in top.atoms(FloorMod) if loop.symbol in part.free_symbols]
    if copy.stores or len(turns) != 1 or (row.free_symbols | left.free_symbols) & made:
        return None
    (turn,), slot = turns, sympy.Dummy(integer=True)
    use, stages = turn.args
    rest = sympy.expand(top.xreplace({turn: slot}))
    once = not (sympy.expand(use - loop.symbol).free_symbols & made) and stages.is_Integer
    apart = rest.coeff(slot).is_Integer and rest.coeff(slot) >= copy.shape[0]
    beyond = sympy.expand(rest - rest.coeff(slot) * slot).free_symbols
    return int(stages) if once and apart and not beyond & (made | {slot}) else None


def _fills_alone(copy: TileCopy, inside: tuple[Statement, ...]) -> bool:
    """Whether no other statement of a loop writes to the tile of a copy."""
    copies = [s for s in inside if isinstance(s, If) and isinstance(s.mark, TileCopy) and s.mark.tile is copy.tile]
    writes = (a for s in inside if isinstance(s, Store | TileStore | Atomic) for a in accesses_of(s))
    return len(copies) == 1 and not any(a.buffer is copy.tile for a in writes)
