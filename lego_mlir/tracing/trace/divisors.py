"""Divisions of a kernel's index arithmetic: the divisor must not be 0 where the division is computed.

A proof about an expression holds where the expression is defined: `(t // (t - 3)) % 64` is in 0 .. 63 unless t is 3.
Each divisor is therefore a separate claim, made at the line of the division, under the conditions of its branches.
Positive constants, and sums and products of positive sizes, need no prover.

>>> from lego_mlir.expr.index import as_expr, symbols
>>> from lego_mlir.expr.sizes import size
>>> t, M, N = *symbols("t"), size("M"), size("N", min=0)
>>> open_divisors(as_expr((t // (t - 3)) % 64 + t // (8 * M + 8))), open_divisors(as_expr(t % N))
((t - 3,), (N,))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.expr.index import is_symbolic
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Lt, Size, every_node
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Verdict
from lego_mlir.tracing.trace.spec_line import Source

EXPRESSIONS_KEPT: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Division:
    """The claim that a divisor is not 0 at a line of the spec, with its verdict."""

    divisor: Any
    verdict: Verdict
    source: Source

    def __str__(self) -> str:
        return f"{self.source}: the divisor {self.divisor} is not 0"


@lru_cache(maxsize=EXPRESSIONS_KEPT)
def open_divisors(expr: Expr) -> tuple[Expr, ...]:
    """The divisors in an expression or a condition that are not visibly positive, each once."""
    divisors = (node.args[1] for node in every_node(expr) if isinstance(node, (FloorDiv, FloorMod)))
    return tuple(dict.fromkeys(divisor for divisor in divisors if not _is_positive(divisor)))


def _is_positive(expr: Expr) -> bool:
    if expr.is_Integer:
        return bool(expr > 0)
    if isinstance(expr, Size):
        return bool(expr.min > 0)
    return bool(expr.is_Add or expr.is_Mul) and all(map(_is_positive, expr.args))


def some_value(symbols: set[Symbol], ranges: Mapping[Symbol, Range]) -> list[Expr]:
    """The fact that the ranges of these symbols are not empty."""
    spans = [ranges[s] for s in sorted(symbols, key=str) if s in ranges]
    return [Lt(span.lo, span.hi) for span in spans if is_symbolic(span.lo) or is_symbolic(span.hi)]


def remedy(divisor: Expr) -> str:
    """The remedy for a divisor that may be 0."""
    if isinstance(divisor, Size):
        return f"declare lego.size({divisor.name!r}, min=1)"
    return (
        "guard it with `with lego.when(..):`, since lego.where computes both sides, or divide by "
        f"lego.maximum({divisor}, 1)"
    )
