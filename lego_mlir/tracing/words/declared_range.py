"""The range that a declaration states of a tensor's elements, `range=(0, M)`; see `claimed`.

An end is a number or an expression of sizes. That a range is not empty follows from the ends as they are written for
most, without SymPy, and is proved otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import TraceError
from lego_mlir.expr.index import as_expr, is_symbolic
from lego_mlir.expr.sizes import SizeIndex

if TYPE_CHECKING:
    from lego_mlir.tracing.trace.dtypes import DType

Values = tuple[Any, Any]
"""The least value and the end of a range, which is not part of it: numbers, or expressions of sizes."""


def require_range(owner: str, dtype: DType, given: Sequence[Any]) -> Values:
    """The ends of the range of a tensor's elements. Raises TraceError for one that is not a pair, or is empty."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TraceError(f"{owner}: a range is a pair (lo, hi) of the least value and the end, got {given!r}")
    lo, hi = given
    for end in given:
        known = isinstance(end, (int, float)) if dtype.is_float else (type(end) is int or _of_sizes(end))
        if not known or isinstance(end, bool):
            needed = "numbers" if dtype.is_float else "ints or expressions of sizes"
            raise TraceError(f"{owner}: the ends of the range of {dtype} are {needed}, got {given!r}")
    if not lo < hi if dtype.is_float else _is_empty(lo, hi):
        raise TraceError(f"{owner}: the range {given!r} is empty; its first end is the least value")
    return (float(lo), float(hi)) if dtype.is_float else (lo, hi)


def as_exprs(ends: Values | None) -> Values | None:
    """The ends as SymPy expressions; those of floats are numbers."""
    return ends if ends is None or isinstance(ends[0], float) else (as_expr(ends[0]), as_expr(ends[1]))


def _is_empty(lo: IndexLike, hi: IndexLike) -> bool:
    if type(lo) is int and type(hi) is int:
        return hi <= lo
    if type(lo) is int and isinstance(hi, SizeIndex) and hi.least is not None and hi.least > lo:
        return False
    from lego_mlir.expr.nodes import Le
    from lego_mlir.expr.prove import prove
    from lego_mlir.expr.verdict import Proved

    return isinstance(prove(Le(as_expr(hi), as_expr(lo)), {}), Proved)


def _of_sizes(end: IndexLike) -> bool:
    if isinstance(end, SizeIndex) or not is_symbolic(end):
        return isinstance(end, SizeIndex)
    from lego_mlir.expr.nodes import Size

    return all(isinstance(symbol, Size) for symbol in as_expr(end).free_symbols)
