"""Ids and rounds split into the digits that indices use, so that indices become sums of digits.

A thread index in `tile[t // 8, 4 * (t % 8)]` is the number 8*a + b with b in 0 .. 7: the index is (a, 4*b), without a
division. Each `x // d` and `x % d` of an index cuts x at d, and each `(a*x + ..) // d` cuts it at d // a. Cuts of one
symbol must divide each other; others are left as they are. A divisor may be a size: in `(b // n, b % n)` the
block b is n*q + r.

>>> import sympy
>>> from lego_mlir.expr.nodes import FloorDiv, FloorMod
>>> from lego_mlir.expr.ranges import Range
>>> t = sympy.Symbol("t", integer=True)
>>> split = Digits({t: Range(0, 64)})
>>> split.of([FloorDiv(t, 8), 4 * FloorMod(t, 8)])
[t.1, 4*t.0]
>>> split.value[t], split.ranges[sympy.Symbol("t.1", integer=True)]
(t.0 + 8*t.1, Range(0, 8))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.context import PlainRanges, working_in
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Lt, Size
from lego_mlir.expr.piecewise import is_condition
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify

PASSES: Final = 6
"""Cuts of digits into digits; each pass finds those that the previous one made visible."""


class Digits:
    """The digits of the symbols of a kernel. `value` gives each symbol in its digits, `limits` what else holds."""

    def __init__(self, ranges: dict[Symbol, Range]) -> None:
        self.ranges = PlainRanges(ranges)
        self.value: dict[Symbol, Expr] = {}
        self.limits: list[Cond] = []
        self._simple: dict[Expr, Expr] = {}
        self._kept: set[tuple[Symbol, Expr]] = set()

    def of(self, exprs: Sequence[Expr]) -> list[Expr]:
        """The expressions over digits, simplified; their symbols are cut as they need."""
        found = [self.simple(e) for e in exprs]
        for _ in range(PASSES):
            cuts = self._cuts(found)
            if not cuts:
                break
            made = {symbol: self._cut(symbol, at) for symbol, at in cuts.items()}
            self.value = {symbol: value.xreplace(made) for symbol, value in self.value.items()}
            self.value |= {symbol: value for symbol, value in made.items() if symbol not in self.value}
            self.limits = [limit.xreplace(made) for limit in self.limits]
            gone = made.keys()
            self._simple = {e: value for e, value in self._simple.items() if not value.free_symbols & gone}
            found = [self.simple(e.xreplace(made)) if e.free_symbols & gone else e for e in found]
        return found

    def simple(self, expr: Expr) -> Expr:
        """An expression, or a condition, over the digits that are known."""
        known = self._simple.get(expr)
        if known is None:
            written = expr.xreplace(self.value)
            known = written if not written.args else self._rewritten(written)
            self._simple[expr] = known
        return known

    def _rewritten(self, expr: Expr) -> Expr:
        with working_in(self.ranges) as context:
            if is_condition(expr):
                return context.terms.write_condition(
                    context.rewriter.condition(context.terms.read_condition(expr)).result
                )
            return context.terms.write(context.rewriter.sum(context.terms.read(expr)).result)

    def with_primes(self) -> PlainRanges:
        """The ranges of all symbols, and of a symbol with a prime for each, for a second access."""
        prime = {s: primed(s) for s in self.ranges}
        found = PlainRanges(self.ranges)
        for symbol, known in self.ranges.items():
            found[prime[symbol]] = Range(known.lo.xreplace(prime), known.hi.xreplace(prime), known.step)
        return found

    # ---- cuts

    def _cuts(self, exprs: Sequence[Expr]) -> dict[Symbol, Expr]:
        """For each symbol the smallest place at which to cut it next."""
        found: dict[Symbol, list[Expr]] = {}
        for expr in exprs:
            for x, d in _divisions(expr):
                for symbol, at in self._places(x, d):
                    if (symbol, at) not in self._kept:
                        found.setdefault(symbol, []).append(at)
        chosen = {}
        for symbol, places in found.items():
            numbers = [at for at in places if at.is_Integer]
            at = min(numbers, key=int) if numbers else places[0]
            self._kept.add((symbol, at))
            if self._fits(symbol, at):
                chosen[symbol] = at
        return chosen

    def _places(self, x: Expr, d: Expr) -> Iterator[tuple[Symbol, Expr]]:
        """The cuts of the symbols of `x // d` or `x % d`."""
        if not d.is_Integer:
            if x.is_Symbol and all(isinstance(s, Size) for s in d.free_symbols):
                yield x, d
            return
        parts = [term.as_coeff_Mul() for term in sympy.Add.make_args(sympy.expand(x))]
        within = sorted(((abs(c), e) for c, e in parts if e != 1 and c % d != 0), key=lambda part: int(part[0]))
        if any(d % c != 0 for c, _ in within) or not self._apart(within):
            return  # a number straddles d whatever the others do
        for factor, symbol in parts:
            if symbol.is_Symbol and not isinstance(symbol, Size):
                at = d // sympy.gcd(d, factor)
                if at > 1:
                    yield symbol, at

    def _apart(self, terms: Sequence[tuple[Expr, Expr]]) -> bool:
        """Whether each stride is at least the reach of the one before, as in a number of mixed radix."""
        for (stride, symbol), (above, _) in pairwise(terms):
            known = self.ranges.get(symbol)
            hi = None if known is None else as_expr(known.hi)
            if hi is None or not hi.is_Integer or stride * hi > above:
                return False
        return True

    def _fits(self, symbol: Symbol, at: Expr) -> bool:
        known = self.ranges.get(symbol)
        if known is None or known.step != 1 or as_expr(known.lo) != 0:
            return False
        hi = as_expr(known.hi)
        return not (hi.is_Integer and at.is_Integer and int(hi) <= int(at))

    def _cut(self, symbol: Symbol, at: Expr) -> Expr:
        """A symbol as `low + at * high`."""
        hi = as_expr(self.ranges[symbol].hi)
        low, high = (sympy.Symbol(f"{symbol}.{k}", integer=True) for k in (0, 1))
        above = simplify(FloorDiv(hi + at - 1, at), {}).expr
        self.ranges[low], self.ranges[high] = Range(0, at), Range(0, above)
        value = low + at * high
        if sympy.expand(above * at - hi) != 0:
            self.limits.append(Lt(value, hi))
        return value


def primed(symbol: Symbol) -> Symbol:
    """The symbol of a second access: x' for x."""
    return sympy.Symbol(f"{symbol} '", integer=True)  # no name that a user gives has this form


def is_primed(symbol: Symbol) -> bool:
    """Whether a symbol belongs to the second access."""
    return str(symbol).endswith(" '")


def _divisions(expr: Expr) -> Iterator[tuple[Expr, Expr]]:
    stack: list[Any] = [expr]
    seen = set()
    while stack:
        node = stack.pop()
        if node in seen or not hasattr(node, "args"):
            continue
        seen.add(node)
        if isinstance(node, (FloorDiv, FloorMod)):
            yield node.args
        stack.extend(a for a in node.args if isinstance(a, sympy.Basic))
