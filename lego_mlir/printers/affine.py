"""The affine part of an index expression and its non-affine operands; and MLIR's affine expressions as functions.

MLIR's affine expressions have sums, products with a constant, and floor division and remainder by a positive
constant; their `floordiv` and `mod` round as ours do. Anything else, such as a product of two symbols or an exclusive
or, becomes an operand of the map, to be computed before it:

>>> import sympy
>>> from lego_mlir.expr.nodes import BitXor, FloorDiv
>>> i, j, n = sympy.symbols("i j n", integer=True)
>>> split = affine_map(32 * i + FloorDiv(j, 4) + BitXor(i, j))
>>> split.operands
(i, j, i ^ j)
>>> affine_map(i * n) is None, affine_map(BitXor(i, j)) is None
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Expr, IndexLike
from lego_mlir.expr import nodes
from lego_mlir.printers.mlir_names import fitting


@dataclass(frozen=True, slots=True)
class AffineMap:
    """An affine expression over operands, each of which is a symbol or a non-affine expression."""

    expr: Any
    operands: tuple[Any, ...]

    def build(self, ir: Any) -> Any:
        """The `ir.AffineMap` with one dimension per operand."""
        dims = {operand: ir.AffineExpr.get_dim(k) for k, operand in enumerate(self.operands)}
        return ir.AffineMap.get(len(self.operands), 0, [_build(ir, self.expr, dims)])


def affine_map(expr: Expr) -> AffineMap | None:
    """The affine map and operands of an expression, or None if its outermost operation is not affine."""
    if not _is_affine_operation(expr):
        return None
    operands: dict[Any, None] = {}
    _collect(expr, operands)
    return AffineMap(expr, tuple(sorted(operands, key=lambda o: (not o.is_Symbol, str(o)))))


def _is_affine_operation(expr: Expr) -> bool:
    if expr.is_Add:
        return True
    if expr.is_Mul:
        return len(expr.args) == 2 and expr.args[0].is_Integer
    if isinstance(expr, (nodes.FloorDiv, nodes.FloorMod)):
        return bool(expr.args[1].is_Integer and int(expr.args[1]) > 0)
    return False


def _collect(expr: Expr, operands: dict[Expr, None]) -> None:
    if expr.is_Integer:
        return
    if not _is_affine_operation(expr):
        operands[expr] = None
        return
    for argument in expr.args:
        _collect(argument, operands)


def _build(ir: Any, expr: Expr, dims: dict[Any, Any]) -> Any:
    if expr.is_Integer:
        return ir.AffineExpr.get_constant(fitting(int(expr), "index"))
    if expr in dims:
        return dims[expr]
    parts = [_build(ir, argument, dims) for argument in expr.args]
    if isinstance(expr, nodes.FloorDiv):
        return ir.AffineExpr.get_floor_div(*parts)
    if isinstance(expr, nodes.FloorMod):
        return ir.AffineExpr.get_mod(*parts)
    combine = ir.AffineExpr.get_add if expr.is_Add else ir.AffineExpr.get_mul
    whole, *rest = parts if expr.is_Add else reversed(parts)  # affine products have their constant last
    for part in rest:
        whole = combine(whole, part)
    return whole


def affine_function(
    node: Attribute, dims: int, constant: Callable[[int], IndexLike] = int
) -> Callable[[Sequence[IndexLike]], IndexLike]:
    """An affine expression of MLIR as a function of its operands, dimensions before symbols.

    Operands are ints, arrays, or index expressions; `constant` makes one of them from a number.
    """
    ir = bindings.load().ir
    node = node.maybe_downcast() if hasattr(node, "maybe_downcast") else node
    if isinstance(node, ir.AffineDimExpr):
        at = node.position
        return lambda x: x[at]
    if isinstance(node, ir.AffineSymbolExpr):
        at = dims + node.position
        return lambda x: x[at]
    if isinstance(node, ir.AffineConstantExpr):
        number = constant(node.value)
        return lambda x: number
    left, right = affine_function(node.lhs, dims, constant), affine_function(node.rhs, dims, constant)
    if isinstance(node, ir.AffineAddExpr):
        return lambda x: left(x) + right(x)
    if isinstance(node, ir.AffineMulExpr):
        return lambda x: left(x) * right(x)
    if isinstance(node, ir.AffineModExpr):
        return lambda x: left(x) % right(x)
    if isinstance(node, ir.AffineFloorDivExpr):
        return lambda x: left(x) // right(x)
    return lambda x: -(-left(x) // right(x))
