"""Operation counts of expressions under a cost model, with shared subexpressions counted once or at every use.

The model of the paper's comparison counts a division or a remainder as four operations and anything else as one.
Targets with other weights are rows of `MODELS`, not branches.

>>> import sympy
>>> from lego_mlir.expr.nodes import FloorDiv, FloorMod
>>> i, j, n = sympy.symbols("i j n", integer=True)
>>> operations(FloorDiv(i, n) * n + FloorMod(i, n) + j)
11
>>> operations(FloorDiv(i, n) + 1, FloorDiv(i, n) + 2, shared=True)
6
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sympy

from lego_mlir.aliases import Expr
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Table
from lego_mlir.expr.sharing import Sharing, operands


@dataclass(frozen=True, slots=True)
class CostModel:
    """The weight of each kind of operation.

    `divide` counts floor divisions and remainders by anything, `divide_by_power_of_two` those by a constant power of
    two (a shift or a mask where the printer may use one), `other` everything else.
    """

    name: str
    divide: int = 4
    divide_by_power_of_two: int = 4
    load: int = 1
    other: int = 1

    def division(self, divisor: Expr) -> int:
        """Cost of one division or remainder by this divisor."""
        if divisor.is_Integer and int(divisor) > 0 and int(divisor) & (int(divisor) - 1) == 0:
            return self.divide_by_power_of_two
        return self.divide

    def own(self, expr: Expr) -> int:
        """Cost of a node itself, without its operands."""
        if expr.is_Atom or expr in (True, False):
            return 0
        if expr.is_Add:
            negations = [a for a in expr.args if a.is_Mul and a.args[0] is sympy.S.NegativeOne]
            first = len(negations) == len(expr.args)
            folded = sum(len(a.args) > 2 for a in negations)  # a - b*c multiplies once and subtracts once
            return (len(expr.args) - 1 + first - folded) * self.other
        if expr.is_Mul:
            return (len(expr.args) - 1) * self.other
        if expr.is_Pow:
            return (int(expr.exp) - 1) * self.other
        if isinstance(expr, (FloorDiv, FloorMod)):
            return self.division(expr.args[1])
        if isinstance(expr, Table):
            return self.load
        if isinstance(expr, (sympy.And, sympy.Or)):
            return (len(expr.args) - 1) * self.other
        return self.other


OPERATIONS = CostModel("operations")
MODELS = {
    model.name: model
    for model in (
        OPERATIONS,
        CostModel("cuda", divide=20, divide_by_power_of_two=1, load=8),  # no integer divider: about 20 instructions
        CostModel("triton", divide=20, divide_by_power_of_two=1, load=8),
        CostModel("mlir", divide=20, divide_by_power_of_two=1, load=8),
    )
}


def operations(
    *exprs: Expr, shared: bool = False, model: CostModel = OPERATIONS, counted: dict[Expr, int] | None = None
) -> int:
    """Total operation count; with `shared`, repeated subexpressions, parts of sums included, count once.

    `counted` caches counts without sharing, for later calls under the same model.
    """
    if not shared:
        known: dict[Any, int] = {} if counted is None else counted
        return sum(_tree(e, model, known) for e in exprs)
    code = Sharing(exprs)
    additions = sum(_additions(terms) for terms in code.sums.values()) + len(code.parts)
    products = sum(max(0, sum(factors.values()) - 1) for factors in code.products.values()) + len(code.factors)
    return (additions + products) * model.other + sum(map(model.own, code.others))


def _additions(terms: dict[Expr, int]) -> int:
    return len(terms) - 1 + all(sign < 0 for sign in terms.values())


def quick_operations(expr: Expr, model: CostModel = OPERATIONS) -> int:
    """Operation count of one expression, with equal subexpressions (but not parts of sums) counted once."""
    seen: set[Any] = set()
    stack = [expr]
    total = 0
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            total += model.own(node)
            stack.extend(_computed_from(node))
    return total


def _computed_from(expr: Expr) -> Iterable[Expr]:
    """The operands of a node; a term -b of a sum is the operand b of a subtraction."""
    return [a.args[1] if _is_negation(a) else a for a in expr.args] if expr.is_Add else operands(expr)


def _is_negation(expr: Expr) -> bool:
    return expr.is_Mul and len(expr.args) == 2 and expr.args[0] is sympy.S.NegativeOne


def _tree(expr: Expr, model: CostModel, counted: dict[Expr, int]) -> int:
    known = counted.get(expr)
    if known is None:
        below = sum(_tree(a, model, counted) for a in _computed_from(expr))
        known = counted[expr] = model.own(expr) + below
    return known
