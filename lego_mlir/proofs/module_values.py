"""The index arithmetic of MLIR operations as index expressions.

An operation is read where its result is that of integer arithmetic: a quotient that truncates is `//` where neither
operand is negative, a narrow integer is a number where the result fits, and zero extension keeps a number that is not
negative. Otherwise its result is unread, None.

    %i = arith.divui %t, %c8 : index                        t // 8
    %j = affine.apply affine_map<()[s0] -> (s0 mod 8)>()[%t]    t % 8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from lego_mlir.aliases import Attribute, Cond, Expr, IndexLike, Op, Symbol
from lego_mlir.expr.index import Index, as_condition, as_expr
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import Larger, Le, Select, Smaller
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.printers.affine import affine_function
from lego_mlir.transforms.index_operations import (
    COMPARISONS,
    KIND_OF,
    OPERATIONS,
    SIGNED_CASTS,
    ZERO_EXTENSIONS,
    predicate_of,
)


def arithmetic_of(op: Op, operands: Sequence[Expr | None], ranges: Mapping[Symbol, Range]) -> Expr | None:
    """The value of an operation with one integer result; None if it is not read."""
    if any(value is None for value in operands):
        return None
    values = [Index(value) for value in operands]
    if op.name == "affine.apply":
        map_ = map_of(op.attributes["map"])
        return as_expr(affine_function(map_.results[0], map_.n_dims, Index)(values))
    if op.name in ("affine.min", "affine.max"):
        map_ = map_of(op.attributes["map"])
        parts = [as_expr(affine_function(part, map_.n_dims, Index)(values)) for part in map_.results]
        found = parts[0]
        for part in parts[1:]:
            found = (Smaller if op.name == "affine.min" else Larger)(found, part)
        return found
    found = _binary(op.name, values, ranges)
    return found if found is not None and _fits(op, found, ranges) else None


def _binary(name: str, values: Sequence[Index], ranges: Mapping[Symbol, Range]) -> Expr | None:
    if name in KIND_OF:
        row = OPERATIONS[KIND_OF[name]]
        return as_expr(row.meaning(*values)) if not row.natural or not_negative(values, ranges) else None
    kept = name in SIGNED_CASTS or name == "arith.trunci" or (name in ZERO_EXTENSIONS and not_negative(values, ranges))
    return as_expr(values[0]) if kept else None


def not_negative(values: Sequence[IndexLike], ranges: Mapping[Symbol, Range]) -> bool:
    """Whether all values are proved to be 0 or more."""
    return all(_is_natural(as_expr(value), ranges) for value in values)


def _is_natural(value: Expr, ranges: Mapping[Symbol, Range]) -> bool:
    known = _known(value, ranges)
    low = bounds(value, known).lo
    return (low is not None and low >= 0) or isinstance(prove(Le(0, value), known), Proved)


def _fits(op: Op, value: Expr, ranges: Mapping[Symbol, Range]) -> bool:
    """Whether a value fits the type of the result; an index is taken to be wide enough."""
    type_ = str(op.results[0].type)
    if not type_.startswith("i") or type_ == "index":
        return type_ == "index"
    half = 1 << int(type_[1:]) - 1
    found = bounds(value, _known(value, ranges))
    return found.lo is not None and found.hi is not None and -half <= found.lo and found.hi < half


def _known(expr: Expr, ranges: Mapping[Symbol, Range]) -> dict[Symbol, Range]:
    return {s: ranges[s] for s in expr.free_symbols if s in ranges}


def comparison_of(op: Op, operands: Sequence[Expr | None], ranges: Mapping[Symbol, Range]) -> Cond | None:
    """The condition of `arith.cmpi` or `index.cmp`; None if it is not read."""
    one, other = operands
    if one is None or other is None:
        return None
    predicate = predicate_of(op)
    if predicate.startswith("u") and not not_negative((one, other), ranges):
        return None
    return as_condition(COMPARISONS[predicate](Index(one), Index(other)))


def select_of(condition: Cond | None, one: Expr | None, other: Expr | None) -> Expr | None:
    """The value of `arith.select`."""
    if condition is None or one is None or other is None:
        return None
    return sympy.sympify(Select(condition, one, other))


def map_of(attribute: Attribute) -> Attribute:
    """The affine map in an attribute."""
    return attribute.value if hasattr(attribute, "value") else attribute
