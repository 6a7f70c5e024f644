"""One set of symbol ranges and everything computed under it.

Reading, bounding and simplifying share their tables while the ranges of the symbols are the same, as they are for all
expressions of a kernel. The most recently used contexts are kept; different ranges get a new context.

Contexts are per thread, so that the form one thread finds does not depend on what another thread has derived.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import sympy

from lego_mlir.aliases import Cond, IndexLike, Symbol
from lego_mlir.errors import ExpressionError
from lego_mlir.expr.exclusive import LOCK
from lego_mlir.expr.facts import Facts
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Size
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.related import SizeRanges
from lego_mlir.expr.terms import Terms

if TYPE_CHECKING:
    from lego_mlir.expr.cost import CostModel
    from lego_mlir.expr.prover import Prover
    from lego_mlir.expr.ranges import Ranges
    from lego_mlir.expr.rewrite import Rewriter
    from lego_mlir.expr.verdict import Verdict

KEPT = 16  # contexts kept, the least recently used dropped first


class _Kept(threading.local):
    """The contexts of one thread, the least recently used first."""

    def __init__(self) -> None:
        self.contexts: OrderedDict[Any, Context] = OrderedDict()


_kept = _Kept()


class PlainRanges(dict[Any, Range]):
    """Ranges whose keys are SymPy symbols and whose ends are SymPy expressions, converted once for many queries.

    Raises ExpressionError for a key that is not a symbol and for a value that is not a range.
    """

    def __init__(self, ranges: Ranges) -> None:
        super().__init__(_entry(s, r) for s, r in ranges.items())
        self._key: frozenset[Any] | None = None

    def __setitem__(self, symbol: IndexLike, over: Range) -> None:
        super().__setitem__(_symbol(symbol), _plain(symbol, over))
        self._key = None

    @property
    def key(self) -> frozenset[tuple[Symbol, Range]]:
        """A hashable key, the same for equal ranges; its hash is cached."""
        if self._key is None:
            self._key = frozenset(self.items())
        return self._key


class Context:
    """The memo tables of one set of ranges."""

    def __init__(self, ranges: PlainRanges, expand: bool = True) -> None:
        self.plain, self.ranges = ranges, SizeRanges(ranges)
        self.terms = Terms(self.ranges, expand)
        self.facts = Facts(self.terms)
        self.derivations: dict[Any, Any] = {}
        self.verdicts: dict[tuple[Cond, int], Verdict] = {}
        self.refuted: set[tuple[Cond, int]] = set()
        """Claims of `prove.holds` that are refuted, whose counter-examples nobody asked for."""
        self._counts: dict[CostModel, tuple[dict[Any, int], dict[Any, tuple[int, int]]]] = {}

    def counts_under(self, model: CostModel) -> tuple[dict[Any, int], dict[Any, tuple[int, int]]]:
        """What is known under a cost model: operation counts of expressions, and their costs as forms."""
        return self._counts.setdefault(model, ({}, {}))

    @cached_property
    def thorough_facts(self) -> Facts:
        """Facts by more analyses, for claims that would otherwise need Z3."""
        from lego_mlir.expr.thorough import ThoroughFacts

        return ThoroughFacts(self.terms)

    @cached_property
    def prover(self) -> Prover:
        from lego_mlir.expr.prover import Prover

        return Prover(self)

    @cached_property
    def rewriter(self) -> Rewriter:
        from lego_mlir.expr.rewrite import Rewriter

        return Rewriter(self)

    @cached_property
    def unexpanded(self) -> Context:
        """The same ranges, with products of sums left as they are."""
        return Context(self.plain, expand=False)

    @property
    def key(self) -> frozenset[tuple[Symbol, Range]]:
        """What the context depends on."""
        return self.plain.key

    @property
    def again(self) -> Callable[[], Context]:
        """Gives the context of these ranges when it is called, and keeps no table until then."""
        return partial(_context_again, self.plain, self.terms.expanded)


def context_of(ranges: Ranges) -> Context:
    """The context of these ranges; their keys and ends may be SymPy expressions, Index or ints.

    Raises ExpressionError for a key that is not a symbol, a value that is not a range, and ranges that form a cycle.
    """
    plain = ranges if isinstance(ranges, PlainRanges) else PlainRanges(ranges)
    key = plain.key
    found = _kept.contexts.pop(key, None)
    if found is None:
        _require_no_cycle(plain)
        found = Context(plain)
    _kept.contexts[key] = found
    while len(_kept.contexts) > KEPT:
        _kept.contexts.popitem(last=False)
    return found


def _context_again(ranges: PlainRanges, expanded: bool) -> Context:
    return context_of(ranges) if expanded else context_of(ranges).unexpanded


@contextmanager
def working_in(ranges: Ranges) -> Iterator[Context]:
    """The context of these ranges, held by one thread at a time.

    An exception, KeyboardInterrupt included, leaves the tables half filled, so the context is dropped.
    """
    with LOCK:
        context = context_of(ranges)
        try:
            yield context
        except BaseException:
            for key in [key for key, kept in _kept.contexts.items() if kept is context]:
                del _kept.contexts[key]
            raise


def _entry(key: IndexLike, r: Range | range) -> tuple[Symbol, Range]:
    if isinstance(key, sympy.Symbol) and isinstance(r, Range) and _is_plain(r.lo) and _is_plain(r.hi):
        return key, _known_plain(key, r)
    return _symbol(key), _plain(key, r)


def _is_plain(end: IndexLike) -> bool:
    return isinstance(end, (int, sympy.Expr))


@lru_cache(4096)
def _known_plain(symbol: Symbol, r: Range) -> Range:
    """A tracer asks for the ranges of the same symbols with each of its expressions."""
    return _plain(symbol, r)


def _symbol(key: IndexLike) -> Symbol:
    symbol = None if isinstance(key, str) else as_expr(key)
    if symbol is None or not symbol.is_Symbol:
        raise ExpressionError(f"ranges: the keys must be symbols (lego.symbols), got {key!r}")
    return symbol


def _plain(key: IndexLike, r: Range | range) -> Range:
    if isinstance(r, range):
        r = Range(r.start, r.stop, r.step)
    if not isinstance(r, Range):
        raise ExpressionError(f"ranges: {key} needs a range such as lego.Range(0, 32), got {r!r}")
    r = Range(as_expr(r.lo), as_expr(r.hi), int(r.step))
    symbol = as_expr(key)
    return _narrowed(symbol, r) if isinstance(symbol, Size) and r.lo.is_Integer and r.hi.is_Integer else r


def _narrowed(size: Size, r: Range) -> Range:
    """The part of a range that satisfies the facts of a size."""
    low = max(int(r.lo), size.min)
    high = int(r.hi) if size.max is None else min(int(r.hi), size.max + 1)
    step = math.lcm(r.step, size.multiple_of)
    first = next((v for v in range(low, min(high, low + step)) if v in r and size.takes(v)), high)
    return Range(as_expr(first), as_expr(max(high, first)), step)


def _require_no_cycle(ranges: Ranges) -> None:
    """Reject a range whose ends depend on the symbol itself, directly or through other symbols' ranges."""
    ends = {s: [e for e in r.lo.free_symbols | r.hi.free_symbols if e in ranges] for s, r in ranges.items()}
    needed = {s for found in ends.values() for s in found}
    finished: set[Any] = set()
    for start in sorted(needed, key=str):
        path = [start]
        while path:
            symbol = path[-1]
            following = next((s for s in sorted(ends[symbol], key=str) if s not in finished), None)
            if following is None:
                finished.add(path.pop())
            elif following in path:
                cycle = [*path[path.index(following) :], following]
                raise ExpressionError(
                    f"ranges: the ends of {cycle[0]}'s range depend on {cycle[0]} itself"
                    + (f", by way of {', '.join(map(str, cycle[1:-1]))}" if len(cycle) > 2 else "")
                    + "; let a range end at ints, sizes and symbols whose own ranges do not need it"
                )
            else:
                path.append(following)


def forget_contexts() -> None:
    """Drop every context of this thread."""
    _kept.contexts.clear()
