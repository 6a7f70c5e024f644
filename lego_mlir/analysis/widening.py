"""The widest vector access of a lane that is proved valid for every value of the sizes.

A vector of a kernel runs along the last dimension of its tensor and must be valid for all sizes, so the addresses of
one run are not enough: groups of w elements along the last dimension must be proved contiguous and aligned. A size may
have to be declared a multiple of w.

>>> from lego_mlir import Col, Row, size
>>> M, K = size("M"), size("K")
>>> granted(Row(K, M), 4)
Widening(elements=4, sizes=('M',), along=None)
>>> granted(Row(K, 64), 4)
Widening(elements=4, sizes=(), along=None)
>>> granted(Col(64, 64), 4)
Widening(elements=4, sizes=(), along=0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy

from lego_mlir.aliases import Expr, IndexLike, Symbol
from lego_mlir.analysis.kernel_repairs import guarded_accesses
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.nodes import FloorDiv, Size
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.contiguity import aligned, contiguous
from lego_mlir.tracing.trace.trace import ToIndex

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Widening:
    """`elements` at once, if the `sizes` are declared multiples of it; `along` is a dimension other than the last."""

    elements: int
    sizes: tuple[str, ...] = ()
    along: int | None = None


def of_line(kernel: Kernel, file: str, line: int, buffer: str, widest_bytes: int) -> Widening | None:
    """The widest vectors of the accesses of a buffer at a line; None if not wider than now or dependent on data."""
    trace = kernel.trace()
    data = {s.symbol for s in trace.statements() if isinstance(s, ToIndex)}
    found = []
    for access, guards in guarded_accesses(trace.body):
        if (access.source.file, access.source.line, access.buffer.name) != (file, line, buffer):
            continue
        if any(data & set(getattr(e, "free_symbols", ())) for e in (access.position, access.mask, *guards)):
            return None
        wide = widest_bytes // access.buffer.dtype.bytes
        granted_here = None
        while granted_here is None and wide > access.width:
            granted_here, wide = granted(access.layout, wide), wide // 2
        if granted_here is None:
            return None
        found.append(granted_here)
    return min(found, key=lambda widening: widening.elements, default=None)


def granted(layout: Layout, elements: int) -> Widening | None:
    """How groups of `elements` along a dimension are contiguous and aligned in memory; None if not proved."""
    dims = layout.dims()
    last = len(dims) - 1
    sizes = sorted({s for n in (*dims, layout.physical_size()) for s in as_expr(n).free_symbols}, key=str)
    sizes = [s for s in sizes if isinstance(s, Size)]
    for axis in (last, *range(last)):
        needed: list[Any] = list(sizes)
        if not _is_contiguous(layout, axis, elements, needed):
            continue
        for size in sizes:
            fewer = [s for s in needed if s != size]
            if _is_contiguous(layout, axis, elements, fewer):
                needed = fewer
        return Widening(elements, tuple(str(s) for s in needed), None if axis == last else axis)
    return None


def _is_contiguous(layout: Layout, axis: int, elements: int, multiples: Sequence[Symbol]) -> bool:
    """Whether it is proved along this dimension, with each of these sizes a multiple of `elements`."""
    better = {s: Size(str(s), s.min, s.max, math.lcm(s.multiple_of, elements)) for s in multiples}
    symbols = [index_symbol(f"index{i}") for i in range(len(layout.dims()))]
    group, inside = index_symbol("group"), index_symbol("inside")
    extent = as_expr(layout.dims()[axis])
    ranges: dict[Any, Range] = {s.expr: Range(0, as_expr(n)) for s, n in zip(symbols, layout.dims(), strict=True)}
    del ranges[symbols[axis].expr]
    ranges |= {group.expr: Range(0, FloorDiv(extent, elements)), inside.expr: Range(0, elements)}
    ranges = {s: Range(r.lo, _with(r.hi, better)) for s, r in ranges.items()}

    def place(at: IndexLike) -> Expr:
        return _with(as_expr(layout.apply(*[at if i == axis else s for i, s in enumerate(symbols)])), better)

    first = place(group * elements)
    claims = [
        aligned(_with(extent, better), elements),
        aligned(first, elements),
        contiguous(first, place(group * elements + inside), inside.expr),
    ]
    return all(isinstance(prove(claim, ranges), Proved) for claim in claims)


def _with(expr: Expr, sizes: Mapping[Symbol, Symbol]) -> Expr:
    return sympy.sympify(expr).xreplace(dict(sizes))
