"""The arrivals of a trace that come after stores into operands of the matrix unit: see `transforms.proxy_writes`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lego_mlir.tracing.trace.marks import WarpRole
from lego_mlir.tracing.trace.trace import (
    Barrier,
    For,
    FunctionCall,
    If,
    MlirOperation,
    Statement,
    Store,
    TileStore,
    While,
    statements_in,
)
from lego_mlir.transforms.proxy_writes import Arrival, Fence, Paths, Role, Rounds, Step, Write, after_writes

ARRIVAL_SYNC = "nvvm.bar.warp.sync"  # in front of each arrival


def fenced_arrivals(body: Iterable[Statement], operands: Collection[str]) -> set[object]:
    """The ids of the synchronisations in front of arrivals that need a fence; `operands` are names of shared tiles."""
    return after_writes(_steps(body, operands))


def _steps(body: Iterable[Statement], operands: Collection[str]) -> list[Step]:
    found: list[Step] = []
    for s in body:
        match s:
            case If(mark=WarpRole(first, end)):
                found.append(Role(first, end, _steps(s.then, operands)))
            case If(mark=None):
                found.append(Paths([_steps(side, operands) for side in (s.then, s.otherwise)]))
            case If(then=then):
                found += _steps(then, operands)
            case For(body=inside) | While(body=inside):
                found.append(Rounds(_steps(inside, operands)))
            case Store(access=access) if access.buffer.name in operands:
                found.append(Write())
            case TileStore(buffer=buffer) if buffer.name in operands:
                found.append(Write())
            case FunctionCall() if any(isinstance(i, Store | TileStore) for i in statements_in(s.function.body)):
                found.append(Write())
            case Barrier():
                found.append(Fence())
            case MlirOperation(name=name) if name == ARRIVAL_SYNC:
                found.append(Arrival(id(s)))
            case _:
                pass
    return found
