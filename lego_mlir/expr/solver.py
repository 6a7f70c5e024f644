"""The only module that imports Z3: is a condition true for all integers within the ranges?

Division is encoded by its definition: x // d and x % d are integers q and r with x == d*q + r and r between 0 and d
(exclusive, on d's side), which defines floor division for every sign of both operands and leaves d == 0 unconstrained.
Bit operations, tables and shifts by variables have no encoding in Z3's integers: each becomes an unknown integer within
its interval bounds. Proofs remain sound; the caller checks a counter-example by evaluation.

Proofs are limited by Z3's own step count, not by time: what is proved determines the emitted code, which must not
depend on a machine's speed or load. Nor on earlier queries: each query gets a fresh Z3 context, in which terms are
numbered from 0. That also isolates threads, and programs that use Z3 themselves.

>>> import sympy
>>> from lego_mlir.expr.nodes import FloorDiv, FloorMod, Eq, Ne
>>> x, d = sympy.symbols("x d", integer=True)
>>> solve(Eq(d * FloorDiv(x, d) + FloorMod(x, d), x), {}, 1000).proved
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol, Z3Expr
from lego_mlir.expr import nodes
from lego_mlir.expr.exclusive import exclusive
from lego_mlir.expr.nodes import (
    Eq,
    FloorDiv,
    FloorMod,
    ISqrt,
    Larger,
    Le,
    Lt,
    Ne,
    NodeType,
    Select,
    ShiftLeft,
    ShiftRight,
    Size,
    Smaller,
    Table,
)
from lego_mlir.expr.related import SizeRanges, involved

if TYPE_CHECKING:
    from lego_mlir.expr.ranges import Range, Ranges

ANSWERS_KEPT = 4096
STEPS_PER_MS = 5000  # of Z3's own count, `rlimit`; measured on our proofs: 2,000 to 7,000 per millisecond
SAFETY_NET_MS = 120_000  # wall-clock limit in case Z3 stops counting steps; a whole step budget takes a few seconds
OUT_OF_STEPS = ("canceled", "max. resource limit exceeded")  # Z3's reasons for an exhausted step budget


@dataclass(frozen=True, slots=True)
class Answer:
    """Z3's answer: proved, or values that may refute, or neither with the reason."""

    proved: bool
    values: dict[Any, int] | None = None
    reason: str = ""


@exclusive
def solve(condition: Cond, ranges: Ranges, timeout_ms: int, *, assume_defined: bool = True) -> Answer:
    """Search for values within the ranges that make the condition false, in about the steps of `timeout_ms`.

    `assume_defined` assumes that every divisor is nonzero and that no shift amount and no isqrt operand is negative:
    claims cover only values for which the expression is defined.
    """
    relevant = {symbol: ranges[symbol] for symbol in involved(condition, ranges) if symbol in ranges}
    return _solve(condition, frozenset(relevant.items()), timeout_ms, assume_defined)


@lru_cache(maxsize=ANSWERS_KEPT)
def _solve(condition: Cond, ranges: frozenset[tuple[Symbol, Range]], timeout_ms: int, assume_defined: bool) -> Answer:
    import z3

    context = z3.Context()
    encoder = Encoder(z3, SizeRanges(ranges), assume_defined, context)
    claim = encoder.truth(condition)
    solver = z3.Solver(ctx=context)
    solver.set("rlimit", timeout_ms * STEPS_PER_MS)
    solver.set("timeout", SAFETY_NET_MS)
    solver.set("ctrl_c", False)  # otherwise Z3 handles Ctrl-C itself, and the program continues with an unknown
    solver.add(*encoder.facts, z3.Not(claim))
    verdict = solver.check()
    if verdict == z3.unsat:
        return Answer(True)
    if verdict == z3.unknown:
        said = solver.reason_unknown()
        why = "out of steps" if said in OUT_OF_STEPS else said
        return Answer(False, reason=f"z3 gave up within {timeout_ms} ms ({why})")
    model = solver.model()
    values = {
        symbol: model.eval(variable, model_completion=True).as_long() for symbol, variable in encoder.symbols.items()
    }
    return Answer(False, values)


class Encoder:
    """Encodes expressions as Z3 terms, collecting the constraints that define the fresh variables.

    The terms belong to a `z3.Context`; None is Z3's default one.
    """

    def __init__(self, z3: Any, ranges: dict[Any, Any], assume_defined: bool, context: Any = None) -> None:
        self.z3 = z3
        self.context = context
        self.ranges = ranges
        self.assume_defined = assume_defined
        self.facts: list[Any] = []
        self.symbols: dict[Any, Any] = {}
        self._known: dict[Any, Any] = {}
        self._quotients: dict[tuple[Any, Any], tuple[Any, Any]] = {}

    def term(self, expr: Expr) -> Z3Expr:
        """The integer term of an expression."""
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self._new_term(expr)
        return known

    def _new_term(self, expr: Expr) -> Z3Expr:
        if expr.is_Integer:
            return self.z3.IntVal(int(expr), self.context)
        if expr.is_Symbol:
            return self._symbol(expr)
        if expr.is_Add:
            return self.z3.Sum([self.term(a) for a in expr.args])
        if expr.is_Mul:
            return self.z3.Product([self.term(a) for a in expr.args])
        if expr.is_Pow:
            return self.z3.Product([self.term(expr.base)] * int(expr.exp))
        encode = _ENCODE.get(type(expr))
        return self._unknown(expr) if encode is None else encode(self, *expr.args)

    def _symbol(self, symbol: Symbol) -> Z3Expr:
        variable = self.symbols[symbol] = self.z3.Int(f"{symbol.name}!{len(self.symbols)}", self.context)
        self._known[symbol] = variable
        if isinstance(symbol, Size):
            self.facts.append(variable >= symbol.min)
            if symbol.max is not None:
                self.facts.append(variable <= symbol.max)
            if symbol.multiple_of > 1:
                self.facts.append(variable == symbol.multiple_of * self._fresh("multiple"))
            if symbol.equals is not None:
                self.facts.append(variable == self.term(symbol.equals))
        if symbol in self.ranges:
            known = self.ranges[symbol]
            lo = self.term(known.lo)
            self.facts += [lo <= variable, variable < self.term(known.hi)]
            if known.step > 1:
                self.facts.append(variable == lo + known.step * self._fresh("step"))
        return variable

    def _fresh(self, name: str) -> Z3Expr:
        return self.z3.FreshInt(name, self.context)

    def division(self, x: Expr, d: Expr) -> tuple[Z3Expr, Z3Expr]:
        """Quotient and remainder, rounded towards minus infinity."""
        known = self._quotients.get((x, d))
        if known is None:
            n, divisor = self.term(x), self.term(d)
            quotient, remainder = self._fresh("q"), self._fresh("r")
            self.facts += [
                self.z3.Implies(divisor > 0, self.z3.And(remainder >= 0, remainder < divisor)),
                self.z3.Implies(divisor < 0, self.z3.And(divisor < remainder, remainder <= 0)),
                self.z3.Implies(divisor != 0, n == divisor * quotient + remainder),
            ]
            if self.assume_defined:
                self.facts.append(divisor != 0)
            known = self._quotients[x, d] = (quotient, remainder)
        return known

    def root(self, x: Expr) -> Z3Expr:
        n, root = self.term(x), self._fresh("root")
        inside = self.z3.And(root >= 0, root * root <= n, n < (root + 1) * (root + 1))
        self.facts.append(self.z3.Implies(n >= 0, inside))
        if self.assume_defined:
            self.facts.append(n >= 0)
        return root

    def _unknown(self, expr: Expr) -> Z3Expr:
        """A fresh integer within the interval bounds of the operation."""
        from lego_mlir.expr.intervals import bounds

        variable = self._fresh("opaque")
        known = bounds(expr, self.ranges)
        if known.lo is not None:
            self.facts.append(variable >= known.lo)
        if known.hi is not None:
            self.facts.append(variable <= known.hi)
        for argument in expr.args:  # a counter-example needs values for the symbols inside
            for symbol in getattr(argument, "free_symbols", ()):
                if not isinstance(expr, Table) or argument is not expr.args[0]:
                    self.term(symbol)
        return variable

    def truth(self, condition: Cond) -> Z3Expr:
        """The Boolean term of a condition."""
        if condition is sympy.true or condition is sympy.false or isinstance(condition, bool):
            return self.z3.BoolVal(bool(condition), self.context)
        if isinstance(condition, sympy.And):
            return self.z3.And([self.truth(a) for a in condition.args])
        if isinstance(condition, sympy.Or):
            return self.z3.Or([self.truth(a) for a in condition.args])
        if isinstance(condition, sympy.Not):
            return self.z3.Not(self.truth(condition.args[0]))
        left, right = map(self.term, condition.args)
        return _COMPARE[type(condition)](left, right)

    def choice(self, condition: Cond, a: Expr, b: Expr) -> Z3Expr:
        return self.z3.If(self.truth(condition), self.term(a), self.term(b))

    def shift(self, node: NodeType, x: Expr, n: Expr) -> Z3Expr:
        if not n.is_Integer:
            return self._unknown(node(x, n))
        power = sympy.Integer(1 << int(n))
        return self.term(x) * int(power) if node is ShiftLeft else self.division(x, power)[0]


_COMPARE: dict[Any, Callable[[Any, Any], Any]] = {
    Lt: lambda a, b: a < b,
    Le: lambda a, b: a <= b,
    Eq: lambda a, b: a == b,
    Ne: lambda a, b: a != b,
}

_ENCODE: dict[Any, Callable[..., Any]] = {
    FloorDiv: lambda e, x, d: e.division(x, d)[0],
    FloorMod: lambda e, x, d: e.division(x, d)[1],
    ISqrt: lambda e, x: e.root(x),
    Select: lambda e, c, a, b: e.choice(c, a, b),
    Smaller: lambda e, a, b: e.choice(nodes.Le(a, b), a, b),
    Larger: lambda e, a, b: e.choice(nodes.Le(a, b), b, a),
    ShiftLeft: lambda e, x, n: e.shift(ShiftLeft, x, n),
    ShiftRight: lambda e, x, n: e.shift(ShiftRight, x, n),
}
