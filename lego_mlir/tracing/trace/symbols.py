"""The index expressions of a traced program, and the run-time tables that they read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lego_mlir.aliases import Expr
from lego_mlir.expr.nodes import tables_of
from lego_mlir.tracing.trace.marks import MatrixStores, TileCopy
from lego_mlir.tracing.trace.trace import (
    Assume,
    AsyncCopy,
    Atomic,
    Barrier,
    For,
    FromCondition,
    FromIndex,
    FunctionCall,
    If,
    Load,
    MatrixLoad,
    Return,
    Statement,
    Store,
    TileLoad,
    TileStore,
    Value,
    While,
    accesses_of,
)


def expressions(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """Every index expression and condition that emission will print, or one in the same symbols, in program order."""
    for statement in body:
        match statement:
            case Load() | Store() | Atomic() | MatrixLoad() | AsyncCopy():
                for access in accesses_of(statement):
                    yield access.mask
                    yield access.stated
                    if access.block is not None:
                        yield access.block
            case TileLoad(at=at) | TileStore(at=at):
                yield from at
            case FromIndex(expr=expr):
                yield expr
            case Barrier(number=number) if number is not None:
                yield number
            case FromCondition(condition=condition) | Assume(condition=condition):
                yield condition
            case For(lo=lo, hi=hi, step=step, body=inner):
                yield from (lo, hi, step)
                yield from expressions(inner)
            case While(body=inner):
                yield from expressions(inner)
            case If(condition=condition, then=then, otherwise=otherwise, mark=mark):
                yield condition
                if isinstance(mark, TileCopy):
                    yield from (*mark.at, mark.position, mark.warp)
                    yield from () if mark.blocks is None else (mark.blocks,)
                if isinstance(mark, MatrixStores):
                    yield from (position for position, _ in mark.each)
                yield from expressions(then)
                yield from expressions(otherwise)
            case FunctionCall(function=function, arguments=arguments):
                yield from (a for a in arguments if not isinstance(a, Value))
                yield from expressions(function.body)
            case Return(values=values):
                yield from (v for v in values if not isinstance(v, Value))
            case _:
                pass


def symbols(body: tuple[Statement, ...]) -> set[Expr]:
    """The symbols of all these expressions."""
    return {symbol for expr in expressions(body) for symbol in expr.free_symbols}


def runtime_tables(body: tuple[Statement, ...]) -> dict[str, Expr]:
    """The `Table` nodes without entries, by name: the caller passes these."""
    found: dict[str, Any] = {}
    for table in tables_of(*expressions(body)):
        if not table.entries:
            found.setdefault(table.name, table)
    return found
