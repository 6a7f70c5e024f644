"""One set of ranges and everything that has been computed under it.

Reading, bounding and simplifying share their tables as long as the ranges of the symbols are the same, as they are for
all expressions of a kernel. A few contexts are kept; a kernel with other ranges gets a new one.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import ExpressionError
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.intervals import Facts
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.terms import Terms

if TYPE_CHECKING:
    from lego_mlir.expr.prove import Prover
    from lego_mlir.expr.ranges import Ranges
    from lego_mlir.expr.rewrite import Rewriter

KEPT = 16  # contexts kept, the least recently used dropped first

_contexts: OrderedDict[Any, Context] = OrderedDict()


class Context:
    """The tables of one set of ranges."""

    def __init__(self, ranges: Ranges, expand: bool = True) -> None:
        self.ranges = ranges
        self.terms = Terms(ranges, expand)
        self.facts = Facts(self.terms)
        self.derivations: dict[Any, Any] = {}

    @cached_property
    def prover(self) -> Prover:
        from lego_mlir.expr.prove import Prover

        return Prover(self)

    @cached_property
    def rewriter(self) -> Rewriter:
        from lego_mlir.expr.rewrite import Rewriter

        return Rewriter(self)

    @cached_property
    def unexpanded(self) -> Context:
        """The same ranges, with products of sums left as they are."""
        return Context(self.ranges, expand=False)


def context_of(ranges: Ranges) -> Context:
    """The context of these ranges; their keys and ends may be SymPy expressions, Index or ints.

    Raises ExpressionError for a key that is no symbol and for a value that is no range.
    """
    plain = {_symbol(s): _plain(s, r) for s, r in ranges.items()}
    key = frozenset(plain.items())
    found = _contexts.pop(key, None)
    if found is None:
        found = Context(plain)
    _contexts[key] = found
    while len(_contexts) > KEPT:
        _contexts.popitem(last=False)
    return found


def _symbol(key: Any) -> Any:
    symbol = None if isinstance(key, str) else as_expr(key)
    if symbol is None or not symbol.is_Symbol:
        raise ExpressionError(f"ranges: a range belongs to a symbol (lego.symbols), got the key {key!r}")
    return symbol


def _plain(key: Any, r: Any) -> Range:
    if isinstance(r, range):
        r = Range(r.start, r.stop, r.step)
    if not isinstance(r, Range):
        raise ExpressionError(f"ranges: {key} needs a range such as lego.Range(0, 32), got {r!r}")
    return Range(as_expr(r.lo), as_expr(r.hi), int(r.step))


def forget() -> None:
    """Drop every context, as a benchmark of cold tables must."""
    _contexts.clear()
