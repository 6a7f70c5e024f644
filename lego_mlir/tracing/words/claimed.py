"""Ranges of data that the author of a kernel states: of a tensor's elements, and of one value as an index.

`lego.Tensor(i32, Row(N), range=(0, M))` holds row numbers of a matrix of M rows, and `lego.index(v, range=(lo, hi))`
claims a range where it is used. Proofs assume both. The elements of a tensor are checked where a run has them: input
that is drawn is in range, and arrays that are passed to a checked call are compared. A claim about one value is an
`llvm.intr.assume` in the module: the interpreter checks it for every thread, with its line, and on a GPU it takes no
instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import TraceError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Eq, FloorMod, Le, Lt
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.tracing.trace.trace import Assume, Atomic, KernelTrace, Store, ToIndex
from lego_mlir.tracing.trace.tracer import current

if TYPE_CHECKING:
    from lego_mlir.tracing.words.scalar import Scalar


def assume(value: Scalar, aligned: int, range: Sequence[IndexLike] | None = None) -> Index:
    """An integer of the kernel's data as an index that is a multiple of `aligned`, and in `range` if one is given.

    Proofs rely on it, so that vectors may begin at an offset that was loaded: `x.load(lego.assume(first[i], aligned=8),
    width=8)`. The interpreter checks it for every thread. Raises TraceError for anything but one integer, and for a
    range that does not begin at a multiple.
    """
    tracer = current("lego.assume")
    if type(aligned) is not int or aligned < 1:
        raise tracer.error(f"lego.assume: aligned={aligned!r} is a positive int, of which the value is a multiple")
    if not hasattr(value, "dtype") or value.width is not None or value.dtype.family != "int":
        raise tracer.error(f"lego.assume takes one integer of the kernel's data, got {value!r}")
    if range is None:
        known = tracer.data.range_of(tracer.use(value.entry))
        range = (-(-as_expr(known.lo) // aligned) * aligned, known.hi)
    elif len(range) == 2 and not isinstance(tracer.prove(Eq(FloorMod(as_expr(range[0]), aligned), 0)), Proved):
        raise tracer.error(
            f"lego.assume: the range {range!r} begins at {range[0]!r}, which is not proved to be a multiple of "
            f"{aligned}; begin it at one"
        )
    return claim(value, range, aligned)  # which refuses a range that is no pair


def claim(given: Scalar, within: Sequence[IndexLike], step: int = 1) -> Index:
    """An integer of the kernel's data as an index of a claimed range, in steps; its ends are indices of this place."""
    tracer = current("lego.index(.., range=..)")
    if not isinstance(within, (tuple, list)) or len(within) != 2:
        raise tracer.error(f"lego.index: a range is a pair (lo, hi) of the least value and the end, got {within!r}")
    if not hasattr(given, "dtype") or given.width is not None or given.dtype.family != "int":
        raise tracer.error(f"lego.index with a range takes one integer of the kernel's data, got {given!r}")
    lo, hi = (tracer.simplified(tracer.index(end)) for end in within)
    value = tracer.use(given.entry)
    symbol = sympy.Symbol(f"v{value.number}c{len(tracer.data.claimed)}", integer=True)
    tracer.define_data(symbol, value, Range(lo, hi, step))
    tracer.data.claimed[symbol] = Range(lo, hi, step)
    source = tracer.here()
    tracer.append(ToIndex(symbol, value, source))
    holds = sympy.And(Le(lo, symbol), Lt(symbol, hi))
    text = f"{lo} <= {tracer.data.text(value)} < {hi}"
    if step > 1:
        holds, text = sympy.And(holds, Eq(FloorMod(symbol, step), 0)), f"{text}, a multiple of {step}"
    tracer.append(Assume(holds, text, source))
    return Index(symbol)


def refuse_updates(trace: KernelTrace) -> None:
    """Raise TraceError for a store to a tensor whose integers have a range: later loads would rely on it."""
    for statement, access in trace.accesses():
        buffer = access.buffer
        if isinstance(statement, (Store, Atomic)) and buffer.values is not None and not buffer.dtype.is_float:
            raise TraceError(
                f"{access.source}: {buffer.name} is declared with range={buffer.values}, which loads rely on, so the "
                "kernel cannot store to it; leave out the range, and claim it where it is read, lego.index(v, range=..)"
            )
