"""Contiguity hints for Triton, emitted only where proved.

Triton analyses sums and products of `tl.arange` and vectorises contiguous accesses, but not through an exclusive or, a
shift or a table, although a swizzle that moves groups of eight keeps each group contiguous. `contiguous_run` finds the
longest such segment: the largest c with e(c*u + v) == e(c*u) + v for the offsets e and all v below c.

>>> from lego_mlir.expr.index import index_symbol
>>> from lego_mlir.expr.ranges import Range
>>> r, s = index_symbol("r"), index_symbol("s")
>>> swizzled = r * 64 + ((s // 8) ^ (r % 8)) * 8 + s % 8
>>> contiguous_run(swizzled.expr, s.expr, 64, {r.expr: Range(0, 32), s.expr: Range(0, 64)})
ContiguousRun(length=8, multiple_of=8)
>>> contiguous_run((r * 64 + s).expr, s.expr, 64, {r.expr: Range(0, 32), s.expr: Range(0, 64)}) is None
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import INTEGER_NODES, every_node
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify

LONGEST: Final = 16  # elements of one byte in the widest access, 16 bytes


@dataclass(frozen=True, slots=True)
class ContiguousRun:
    """Offsets form contiguous segments of `length`, each starting at a multiple of `multiple_of`."""

    length: int
    multiple_of: int


def contiguous_run(expr: Expr, axis: Symbol, count: int, ranges: Mapping[Symbol, Range]) -> ContiguousRun | None:
    """The longest contiguous segment along an axis; None if there is none, or Triton finds it unaided."""
    hidden = any(axis in node.free_symbols for node in every_node(expr) if isinstance(node, INTEGER_NODES))
    if not hidden:
        return None
    length = min(LONGEST, count & -count)
    while length > 1:
        group, within = index_symbol("lego_group").expr, index_symbol("lego_within").expr
        split = {**ranges, group: Range(0, count // length), within: Range(0, length)}
        first = simplify(expr.xreplace({axis: length * group}), split).expr
        moved = simplify(expr.xreplace({axis: length * group + within}) - first - within, split).expr
        if moved == 0:
            divisor = bounds(first, split).multiple_of or length
            return ContiguousRun(length, min(length, divisor & -divisor))
        length //= 2
    return None
