"""A prefix of an expression's text, in time proportional to its number of distinct nodes.

An expression with shared parts is small as a graph but its text may be huge: after thirty steps from x to x*(x + 1)
modulo a number, 2**30 names. Here each part is printed once, truncated to the requested length. Sums are ordered by
these prefixes and messages show them; a text that fits is identical to SymPy's own.

>>> import sympy
>>> from lego_mlir.expr.nodes import FloorMod
>>> x = sympy.Symbol("x", integer=True)
>>> for _ in range(100):
...     x = FloorMod(x * (x + 1), 1009)
>>> prefix(x, 40)
'(((((((((((((((((((((((((((((((((((((((('
"""

from __future__ import annotations

from typing import Any, Final

from sympy.printing.str import StrPrinter

from lego_mlir.aliases import Expr
from lego_mlir.expr.nodes import every_node

COMPARED: Final = 4000
"""Characters by which expressions are ordered; those that agree in all of them keep SymPy's order of arguments."""
SHOWN: Final = 20_000
"""Characters of a `repr`."""


class PrefixPrinter(StrPrinter):
    """SymPy's `str`, truncated; truncating each part to the same length does not change the prefix."""

    def __init__(self, columns: int) -> None:
        super().__init__({"order": None})
        self.columns = columns
        self._texts: dict[Any, str] = {}

    def text(self, expr: Expr) -> str:
        """The first characters of an expression's text."""
        for part in every_node(expr):  # operands first, so that recursion stays shallow
            self._print(part)
        return self._print(expr)

    def _print(self, expr: Expr, **options: Any) -> str:
        if options:
            return str(super()._print(expr, **options))[: self.columns]
        found = self._texts.get(expr)
        if found is None:
            found = self._texts[expr] = str(super()._print(expr))[: self.columns]
        return found


def prefix(expr: Expr, columns: int = COMPARED) -> str:
    """The first characters of `str(expr)`."""
    return PrefixPrinter(columns).text(expr)


def shown(expr: Expr) -> str:
    """The text of an expression for a `repr`, truncated if it is huge."""
    text = prefix(expr, SHOWN)
    return text if len(text) < SHOWN else f"{text} .."
