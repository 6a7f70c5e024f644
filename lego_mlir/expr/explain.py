"""A derivation as text: for each step the rule, the subexpression, the condition, its proof and the operation count.

>>> import sympy
>>> from lego_mlir.expr.nodes import FloorMod, Size
>>> from lego_mlir.expr.ranges import Range
>>> from lego_mlir.expr.simplify import simplify
>>> i, j = sympy.symbols("i j", integer=True)
>>> N = Size("N")
>>> print(explain(simplify(FloorMod(i * N + j, N), {j: Range(0, N)})))
 6  (N*i + j) % N
 4  remainder: (N*i + j) % N
      --> j % N
      since N != 0, by intervals
 0  small remainder: j % N
      --> j
      since 0 <= j and j < N, by intervals
 0  j
"""

from __future__ import annotations

from typing import Any

import sympy

from lego_mlir.aliases import Expr
from lego_mlir.errors import brief
from lego_mlir.expr.sharing import straight_line
from lego_mlir.expr.simplify import Derivation, Step

MOST_PARTS = 2000  # of an expression that is written whole before it is cut
WIDTH = 110  # a longer expression is written as assignments, or cut short within a step


def explain(derivation: Derivation) -> str:
    """The raw expression, the steps and the result; a leading number is the operation count at that point."""
    lines = _whole(derivation.before, derivation.raw)
    for step in derivation.steps:
        lines += _step(step)
    if derivation.expr == derivation.raw:
        lines.append(_numbered(derivation.after, "nothing cheaper was found"))
    else:
        lines += _whole(derivation.after, derivation.expr)
    return "\n".join(lines)


def _numbered(count: int, text: str) -> str:
    return f"{count:>2}  {text}"


def _whole(count: int, expr: Expr) -> list[str]:
    first, *rest = lines_of(expr)
    return [_numbered(count, first), *(f"    {line}" for line in rest)]


def lines_of(expr: Expr) -> list[str]:
    """An expression in one line, or as straight-line code if it is long: its shared parts are written once."""
    code = straight_line([expr])
    if not code.assignments:
        return [str(expr)]
    text = str(expr) if len(code.assignments) < 2 else ""
    if text and len(text) <= WIDTH:
        return [text]
    return [*(f"{name} = {value}" for name, value in code.assignments), str(code.results[0])]


def _step(step: Step) -> list[str]:
    if step.rule in ("like terms", "cheapest form"):
        return [_numbered(step.operations[1], f"{step.rule} of the whole")]
    lines = [_numbered(step.operations[1], f"{step.rule}: {_short(step.before)}"), f"      --> {_short(step.after)}"]
    if step.condition:
        lines.append(f"      since {' and '.join(map(_short, step.condition))}, by {step.proof}")
    return lines


def _short(expr: Expr) -> str:
    text = str(expr) if _is_small(expr) else shortened(expr, WIDTH)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 4]} ..."


def shortened(expr: object, columns: int) -> str:
    """An expression in at most this many columns, without writing all of one whose shared parts make it endless."""
    if not isinstance(expr, sympy.Basic) or _is_small(expr):
        return brief(expr, columns)
    return brief(f"{'; '.join(lines_of(expr)[:4])}; ..", columns)


def _is_small(expr: Expr) -> bool:
    """Whether an expression has few operations even where shared parts are counted each time."""
    sizes: dict[Any, int] = {}
    pending = [expr]
    while pending:
        missing = [argument for argument in pending[-1].args if argument not in sizes]
        if missing:
            pending += missing
            continue
        part = pending.pop()
        sizes[part] = 1 + sum(sizes[argument] for argument in part.args)
    return sizes[expr] < MOST_PARTS
