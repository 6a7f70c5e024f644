"""Relations between sizes: one size is at most another, or is computed from others.

A relation is a fact of the smaller size, `lego.size("M", max=N)`, or of the computed one, `lego.size("K2", equals=2 *
K)`. A proof reads M as a symbol in 1 .. N, and K2 as 2*K. At the launch every relation is checked against the values.

>>> from lego_mlir.expr.sizes import size
>>> from lego_mlir.expr.prove import prove
>>> N = size("N")
>>> M = size("M", max=N)
>>> prove(M - 1 < N, {}), refusal([M.expr, N.expr], {"M": 8, "N": 5})
(Proved(by='intervals'), 'M = 8 must be at most N = 5')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Divisor, Size, replaced
from lego_mlir.expr.ranges import Range


class SizeRanges(dict[Any, Range]):
    """Ranges of symbols, and those of the sizes that are bounded by others."""

    def __contains__(self, symbol: object) -> bool:
        return super().__contains__(symbol) or _below(symbol) is not None

    def __missing__(self, symbol: Symbol) -> Range:
        found = _below(symbol)
        if found is None:
            raise KeyError(symbol)
        return found

    def get(self, symbol: Symbol, default: Any = None) -> Any:
        """The range of a symbol."""
        given = super().get(symbol)
        return given or _below(symbol) or default


def _below(symbol: object) -> Range | None:
    if not isinstance(symbol, Size) or symbol.below is None:
        return None
    return Range(as_expr(symbol.least), symbol.below + 1, symbol.multiple_of)


def involved(claim: Cond, ranges: Mapping[Any, Range]) -> set[Symbol]:
    """The symbols of a claim, and those that the ends of their ranges depend on."""
    found: set[Any] = set()
    stack = list(claim.free_symbols)
    while stack:
        symbol = stack.pop()
        if symbol not in found:
            found.add(symbol)
            if symbol in ranges:
                stack.extend(ranges[symbol].lo.free_symbols | ranges[symbol].hi.free_symbols)
            if isinstance(symbol, Size) and symbol.equals is not None:
                stack.extend(symbol.equals.free_symbols)
    return found


def with_related(sizes: Iterable[Size]) -> list[Size]:
    """The sizes, each followed by those that its relation mentions."""
    found: dict[Size, None] = {}
    pending = list(sizes)
    while pending:
        size = pending.pop(0)
        if size not in found:
            found[size] = None
            pending = sorted(_with_it(size), key=str) + pending
    return list(found)


def _mentioned(size: Size) -> set[Size]:
    return {symbol for end in (size.below, size.equals) if end is not None for symbol in end.free_symbols}


def _with_it(size: Size) -> set[Size]:
    """The sizes that a launch needs with this one: those its relation mentions, and the reciprocal of a divisor."""
    return _mentioned(size) | ({size.reciprocal} if isinstance(size, Divisor) else set())


def relations(sizes: Iterable[Size]) -> list[tuple[str, str, Expr]]:
    """The relations of some sizes: the name of the size, "max" or "equals", and the expression."""
    found = []
    for size in sizes:
        found += [(size.name, "max", size.below)] if size.below is not None else []
        found += [(size.name, "equals", size.equals)] if size.equals is not None else []
    return found


def refusal(sizes: Iterable[Size], values: Mapping[str, int]) -> str:
    """The first relation that these values do not satisfy, as a message; empty where they satisfy all."""
    from lego_mlir.expr.evaluate import evaluate

    for name, kind, expr in relations(sizes):
        if all(n in values for n in (name, *(s.name for s in expr.free_symbols))):
            failed = unmet(name, values[name], kind, str(expr), int(evaluate(expr, values)))
            if failed:
                return failed
    return ""


def unmet(name: str, value: int, kind: str, text: str, limit: int) -> str:
    """The message for a size whose value does not satisfy its relation; empty if it does."""
    if value == limit or (kind == "max" and value < limit):
        return ""
    return f"{name} = {value} must be {'at most' if kind == 'max' else 'equal to'} {text} = {limit}"


def settled(size: Size, value: int, values: Mapping[str, int]) -> int:
    """The value nearest to `value` that a size may have with these values of others."""
    from lego_mlir.expr.evaluate import evaluate

    if size.equals is not None:
        return int(evaluate(size.equals, values))
    if size.below is not None:
        limit = int(evaluate(size.below, values))
        return max(size.least, min(value, limit // size.multiple_of * size.multiple_of))
    return value


def in_order(sizes: Iterable[Size]) -> list[Size]:
    """The sizes, each after those that its relation mentions."""
    found: dict[Size, None] = {}

    def visit(size: Size) -> None:
        for other in sorted(_mentioned(size), key=str):
            visit(other)
        found[size] = None

    for size in sizes:
        visit(size)
    return list(found)


def at(size: Size, rule: Mapping[Symbol, Expr]) -> Size:
    """A size whose relation is stated for replaced sizes."""
    changed = {name: None if e is None else replaced(e, rule) for name, e in _ends(size).items()}
    if changed == _ends(size):
        return size
    below, equals = changed["below"], changed["equals"]
    most = size.max
    if below is not None and below.is_Integer:
        most, below = int(below) if most is None else min(most, int(below)), None
    return type(size)(size.name, size.min, most, size.multiple_of, below, equals)


def _ends(size: Size) -> dict[str, Expr | None]:
    return {"below": size.below, "equals": size.equals}
