"""Statements as the reader of ring programs asks about them: names of rings and places, integers, rows of accesses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Select
from lego_mlir.proofs.footprints import own_index
from lego_mlir.proofs.rings.agents import (
    ARRIVE,
    FromRoundBefore,
    Let,
    ProgramPart,
    RingBranch,
    RingLoop,
    RingWord,
    StageAccess,
    Unfollowed,
)
from lego_mlir.proofs.rings.values import symbol_named
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.trace import (
    FunctionCall,
    MlirOperation,
    Register,
    Statement,
    TensorAccess,
    TileLoad,
    TileStore,
    Value,
    accesses_of,
    statements_in,
)
from lego_mlir.tracing.words import barrier_rings

ALL_BLOCKS: Final = -1
"""The block of an arrival in every block of the cluster."""
_INTEGERS: Final = ("i32", "i64", "index")


def ring_name(number: int) -> str:
    """The name of the ring that a value of this number is."""
    return f"ring {number}"


def line_of(statement: Statement) -> str:
    """The file's name and the line of a statement."""
    return str(getattr(statement, "source", "")).rpartition("/")[2]


def has_ring_words(body: Sequence[Statement]) -> bool:
    """Whether statements wait or arrive."""
    words = (barrier_rings.WAIT, barrier_rings.ARRIVE)
    return any(isinstance(s, MlirOperation) and s.name in words for s in statements_in(tuple(body)))


def touches(buffers: Collection[str], body: Sequence[Statement]) -> bool:
    """Whether statements access a stage, themselves or in a function that they call."""
    return any(
        any(a.buffer.name in buffers for a in accesses_of(s))
        or (isinstance(s, TileLoad | TileStore) and s.buffer.name in buffers)
        or (isinstance(s, FunctionCall) and touches(buffers, s.function.body))
        for s in statements_in(tuple(body))
    )


def is_flat(access: TensorAccess, row: Expr) -> bool:
    """Whether all elements of a vector are in its first row."""
    if access.width == 1:
        return True
    if access.axis is None:
        return False
    index = [as_expr(i) for i in access.index]
    index[access.axis] += access.width - 1
    return bool(sympy.expand(as_expr(own_index(access.layout, tuple(index))[0]) - row) == 0)


def symbol_of(register: Register) -> Symbol:
    """The symbol of what a register holds."""
    return symbol_named(f"register{register.number}")


def is_integer(dtype: DType) -> bool:
    """Whether elements are integers that are followed."""
    return dtype.name in _INTEGERS


def as_integer(value: Expr | Cond) -> Expr:
    """A condition as 1 or 0."""
    return value if isinstance(value, sympy.Expr) else Select(value, sympy.Integer(1), sympy.Integer(0))


def is_whole(value: Value) -> bool:
    """Whether a value is one integer or one condition."""
    return value.width is None and (is_integer(value.dtype) or value.dtype.name == "i1")


def gathered(parts: Sequence[ProgramPart], blocks: int) -> Iterator[ProgramPart]:
    """Arrivals in all blocks of a cluster, one after the other, as one; each access once between words."""
    seen: set[StageAccess | FromRoundBefore] = set()
    arrivals: list[RingWord] = []
    for part in parts:
        if isinstance(part, StageAccess | FromRoundBefore):
            if part not in seen:
                seen.add(part)
                yield part
            continue
        if isinstance(part, RingWord | RingLoop | RingBranch):
            seen.clear()
        if blocks > 1 and isinstance(part, RingWord) and part.kind == ARRIVE:
            arrivals.append(part)
            if {word.block for word in arrivals} == set(range(blocks)):
                if len({(word.ring, word.use) for word in arrivals}) > 1:
                    yield _in_some_blocks(part)
                yield RingWord(ARRIVE, part.ring, part.use, part.place, ALL_BLOCKS)
                arrivals.clear()
            continue
        if arrivals and not isinstance(part, Let):
            yield _in_some_blocks(arrivals[0])
        yield part
    if arrivals:
        yield _in_some_blocks(arrivals[0])


def _in_some_blocks(word: RingWord) -> Unfollowed:
    return Unfollowed(f"{word.place}: arrivals at some blocks of a cluster")
