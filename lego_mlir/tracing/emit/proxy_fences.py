"""Fences of a trace for its writes to operands of the matrix unit: at arrivals (`transforms.proxy_writes`), and waits.

A wait for copies of threads has a fence after it: they are complete there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lego_mlir.tracing.trace.marks import ThreadCopies, TileCopy, WarpRole
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Barrier,
    For,
    FunctionCall,
    If,
    KernelTrace,
    MlirOperation,
    Statement,
    Store,
    TensorAccess,
    TileStore,
    While,
    statements_in,
)
from lego_mlir.tracing.words.barrier_rings import WAIT
from lego_mlir.transforms.proxy_writes import Arrival, Fence, Paths, ProxyWrite, Repeated, Role, Step, after_writes

ARRIVAL_SYNC = "nvvm.bar.warp.sync"  # in front of each arrival


def fenced_arrivals(body: Iterable[Statement], operands: Collection[str]) -> set[object]:
    """The ids of the synchronisations in front of arrivals that need a fence; `operands` are names of shared tiles."""
    return after_writes(_steps(body, operands))


def fenced_waits(trace: KernelTrace, operands: Collection[str]) -> frozenset[int]:
    """The ids of the waits for what single threads have copied into operands: the unit sees it after a fence here."""
    rings = {
        s.mark.ring.number
        for s in trace.statements()
        if isinstance(s, If) and isinstance(s.mark, ThreadCopies)
        if any(isinstance(copy, AsyncCopy) and copy.target.buffer.name in operands for copy in s.then)
    }
    waits = (s for s in trace.statements() if isinstance(s, MlirOperation) and s.name == WAIT)
    return frozenset(id(s) for s in waits if s.operands[0].number in rings)


def _steps(body: Iterable[Statement], operands: Collection[str]) -> list[Step]:
    found: list[Step] = []
    for s in body:
        match s:
            case If(mark=WarpRole(first, end)):
                found.append(Role(first, end, _steps(s.then, operands)))
            case If(mark=ThreadCopies()):
                pass  # complete on a ring, and are fenced after its waits
            case If(mark=TileCopy(ring=ring)) if ring is not None:
                pass
            case If(mark=None):
                found.append(Paths([_steps(side, operands) for side in (s.then, s.otherwise)]))
            case If(then=then):
                found += _steps(then, operands)
            case For(body=inside) | While(body=inside):
                found.append(Repeated(_steps(inside, operands)))
            case Store(access=access) if access.buffer.name in operands:
                found.append(ProxyWrite())
            case TileStore(buffer=buffer) | AsyncCopy(target=TensorAccess(buffer=buffer)) if buffer.name in operands:
                found.append(ProxyWrite())
            case FunctionCall() if _stores(s):
                found.append(ProxyWrite())
            case Barrier():
                found.append(Fence())
            case MlirOperation(name=name) if name == ARRIVAL_SYNC:
                found.append(Arrival(id(s)))
            case _:
                pass
    return found


def _stores(call: FunctionCall) -> bool:
    """Whether a function, or one that it calls, stores or copies elements."""
    inside = statements_in(call.function.body)
    return any(
        _stores(s) if isinstance(s, FunctionCall) else isinstance(s, Store | TileStore | AsyncCopy) for s in inside
    )
