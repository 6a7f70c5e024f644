"""Integers that a block computes before its roles: which tiles hold numbers that no thread changes any more.

    plan[lane] = share               by some threads, before the barrier of the block
    lego.barrier()
    count = lego.index(plan[0])      every thread reads one number: a function of the tile's name and the index

A number that differs between threads, or that these proofs do not follow, is unknown in each role.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy

from lego_mlir.aliases import Symbol
from lego_mlir.proofs.rings.ring_statements import symbol_of
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Barrier,
    FunctionCall,
    Load,
    MatrixLoad,
    MlirOperation,
    Statement,
    TileLoad,
    TileStore,
    ToIndex,
    Write,
    accesses_in,
    accesses_of,
    statements_in,
)
from lego_mlir.tracing.words.clustered_blocks import CAST


def settled_tiles(body: Sequence[Statement], roles: int) -> frozenset[str]:
    """The shared tiles whose last write is followed by a barrier of the whole block before the roles, from `roles` on.

    A tile that is read between its last write and the barrier is not among them, nor one that a copy writes, which a
    barrier does not wait for.
    """
    barriers = [n for n, s in enumerate(body[:roles]) if isinstance(s, Barrier) and s.role is None]
    if not barriers or any(_is_of_cluster(s) for s in statements_in(tuple(body))):
        return frozenset()
    last = barriers[-1]
    before, after = (set(_touched(part)) for part in (body[:last], body[last:]))
    written = {name for name, writes in before | after if writes}
    changed = {name for name, writes in after if writes}
    early = {name for name, writes in before if not writes}
    copied = {s.target.buffer.name for s in statements_in(tuple(body)) if isinstance(s, AsyncCopy)}
    return frozenset(written - changed - early - copied)


def _is_of_cluster(s: Statement) -> bool:
    """Whether another block may write tiles of this one."""
    return isinstance(s, MlirOperation) and s.name == CAST


def _touched(body: Sequence[Statement]) -> Iterator[tuple[str, bool]]:
    """The shared tiles that statements access, in functions that they call too, and whether they write."""
    for s in statements_in(tuple(body)):
        writes = not isinstance(s, Load | MatrixLoad | TileLoad)
        buffers = [s.buffer] if isinstance(s, TileLoad | TileStore) else [access.buffer for access in accesses_of(s)]
        if isinstance(s, FunctionCall):
            buffers, writes = [access.buffer for access in accesses_in(s.function)], True
        yield from ((buffer.name, writes) for buffer in buffers if buffer.space == "workgroup")


def unknown_after(s: Statement) -> frozenset[Symbol]:
    """The registers and symbols that a loop, a branch or a call leaves, all of them unknown."""
    found = {symbol_of(t.register) for t in statements_in((s,)) if isinstance(t, Write)}
    found |= {t.symbol for t in statements_in((s,)) if isinstance(t, ToIndex)}
    if isinstance(s, FunctionCall):
        found |= {result for result in s.results if isinstance(result, sympy.Symbol)}
    return frozenset(found)
