"""`lego.interleave`: the statements of independent computations, merged, so that different units work together.

    following, p = lego.interleave(lambda: lego.mma(q, keys.T, zeros), lambda: lego.exp2(s, fast=True))

A warp issues its instructions in order. A product followed by exponentials leaves the other units idle while the tensor
core works, and the tensor core idle afterwards. Merged, each product is followed by a share of the exponentials. The
functions are traced one after the other and must not depend on each other; the order of each is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    Barrier,
    Compute,
    Convert,
    For,
    FunctionCall,
    If,
    Load,
    MlirOperation,
    Read,
    Return,
    Statement,
    Store,
    TileStore,
    Value,
    While,
    Write,
)
from lego_mlir.tracing.trace.tracer import Tracer, current

_ORDERED: Final = (AsyncCopy, Atomic, Barrier, For, FunctionCall, If, Return, Store, TileStore, While)
"""Statements that have a place in the order of the program: those that write memory, or contain others."""
_FREE: Final = frozenset({"vector.extract"})
"""MLIR operations that become no instruction."""


def interleave(*computations: Callable[[], Any]) -> tuple[Any, ...]:
    """The results of the functions, whose statements are merged evenly.

    Raises TraceError for statements that write memory, branch, loop or synchronize, and for a function that uses a
    value or a register of another one.
    """
    tracer = current("lego.interleave")
    if len(computations) < 2 or not all(map(callable, computations)):
        raise tracer.error("lego.interleave takes at least two functions without parameters")
    found, parts = [], []
    for computation in computations:
        with tracer.recorded() as part:
            found.append(computation())
        parts.append(part)
    _require_independent(tracer, parts)
    tracer.extend(statement for _, statement in sorted(_placed(parts), key=lambda placed: placed[0]))
    return tuple(found)


def _placed(parts: Sequence[Sequence[Statement]]) -> Iterator[tuple[tuple[float, int, int], Statement]]:
    """Each statement with its share of the work of its part that comes before it, then by part and order."""
    for number, part in enumerate(parts):
        work = [_is_work(statement) for statement in part]
        total, done = max(1, sum(work)), 0
        for order, (statement, counts) in enumerate(zip(part, work, strict=True)):
            yield (done / total, number, order), statement
            done += counts


def _is_work(statement: Statement) -> bool:
    """Whether a statement becomes instructions that take a while: the products of a part, or its arithmetic."""
    if isinstance(statement, MlirOperation):
        return statement.name not in _FREE
    return isinstance(statement, Compute | Convert | Load)


def _require_independent(tracer: Tracer, parts: Sequence[Sequence[Statement]]) -> None:
    """Raise TraceError unless every merged order of the parts has the same results."""
    for number, part in enumerate(parts):
        for statement in part:
            if isinstance(statement, _ORDERED):
                raise tracer.error(
                    f"lego.interleave: function {number} has a statement {type(statement).__name__} "
                    f"({statement.source}), whose order matters; leave it outside"
                )
    made = [{v.number for s in part for v in _results(s)} for part in parts]
    written = [{s.register.number for s in part if isinstance(s, Write)} for part in parts]
    for number, part in enumerate(parts):
        others = set().union(*(m for k, m in enumerate(made) if k != number))
        changed = set().union(*(w for k, w in enumerate(written) if k != number))
        for statement in part:
            used = {value.number for value in _operands(statement)} & others
            register = isinstance(statement, Read | Write) and statement.register.number in changed
            if used or register:
                what = "a register that another one writes" if register else "a value of another one"
                raise tracer.error(
                    f"lego.interleave: function {number} uses {what} ({statement.source}); the functions are merged, "
                    "so each may only use what was there before"
                )


def _results(statement: Statement) -> Iterator[Value]:
    for name in ("result", "results"):
        held = getattr(statement, name, ())
        yield from (v for v in (held if isinstance(held, tuple) else (held,)) if isinstance(v, Value))


def _operands(statement: Statement) -> Iterator[Value]:
    for entry in fields(statement):
        if entry.name not in ("result", "results"):
            held = getattr(statement, entry.name)
            yield from (v for v in (held if isinstance(held, tuple) else (held,)) if isinstance(v, Value))
