"""Inference: size and structure of every expression, and whether a target can hold its value.

The nonzero region of an expression is computed on isl sets, so bands and blocks work like triangles. Table 2 of the
LGen paper covers the named special cases; `RULES` holds it as a fast path:

>>> from lego_mlir.structured import structures as st
>>> from lego_mlir.structured.syntax import Operand
>>> L, U, G = (Operand(n, s) for n, s in (("L", st.lower(4)), ("U", st.upper(4)), ("G", st.general(4, 4))))
>>> [letter(infer(e)) for e in (L @ L, L @ U, L.T, L + L.T, G @ G.T, 2 * L, U @ L)]
['L', 'G', 'U', 'S', 'S', 'L', 'G']
>>> band = Operand("B", st.banded(4, 4, 1, 0))
>>> infer(band @ band).nonzero == st.banded(4, 4, 2, 0).nonzero
True
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, assert_never

import numpy as np

from lego_mlir.structured import structures as st
from lego_mlir.structured.sets import Region
from lego_mlir.structured.structures import ONE, Structure
from lego_mlir.structured.syntax import (
    PARTS,
    Binary,
    Call,
    Expression,
    Name,
    Negated,
    Number,
    Position,
    Statement,
    Transpose,
    as_expression,
    fail,
)

# (operator, letters of the operands) -> letter of the result. Equations (9) to (11); S is from (12) and from A + A'.
RULES: Final[dict[tuple[str, ...], str]] = {
    ("+", "G", "G"): "G", ("+", "L", "L"): "L", ("+", "U", "U"): "U", ("+", "S", "S"): "S", ("+", "D", "D"): "D",
    ("+", "L", "D"): "L", ("+", "D", "L"): "L", ("+", "U", "D"): "U", ("+", "D", "U"): "U", ("+", "S", "D"): "S",
    ("+", "D", "S"): "S", ("+", "L", "U"): "G", ("+", "U", "L"): "G", ("+", "G", "L"): "G", ("+", "L", "G"): "G",
    ("+", "G", "U"): "G", ("+", "U", "G"): "G", ("+", "G", "S"): "G", ("+", "S", "G"): "G", ("+", "S", "L"): "G",
    ("*", "G", "G"): "G", ("*", "L", "L"): "L", ("*", "U", "U"): "U", ("*", "L", "U"): "G", ("*", "U", "L"): "G",
    ("*", "D", "D"): "D", ("*", "L", "D"): "L", ("*", "D", "L"): "L", ("*", "U", "D"): "U", ("*", "D", "U"): "U",
    ("*", "G", "L"): "G", ("*", "L", "G"): "G", ("*", "G", "U"): "G", ("*", "U", "G"): "G", ("*", "S", "S"): "G",
    ("*", "S", "L"): "G", ("*", "L", "S"): "G", ("*", "S", "U"): "G", ("*", "U", "S"): "G", ("*", "G", "S"): "G",
    ("*", "S", "G"): "G", ("*", "D", "G"): "G", ("*", "G", "D"): "G", ("*", "D", "S"): "G", ("*", "S", "D"): "G",
    ("'", "G"): "G", ("'", "L"): "U", ("'", "U"): "L", ("'", "S"): "S", ("'", "D"): "D",
}  # fmt: skip

_MAKE: Final[dict[str, Callable[[int], Structure]]] = {
    "G": lambda n: st.general(n, n),
    "L": st.lower,
    "U": st.upper,
    "D": st.diagonal,
    "S": lambda n: st.symmetric(n, "L"),
}


@lru_cache(maxsize=4096)
def letter(structure: Structure) -> str:
    """G, L, U, S, D, Z, or B for any other region; from the elements, not from the name."""
    kinds = structure.kinds != st.ZERO
    n, m = kinds.shape
    if not kinds.any():
        return "Z"
    if n == m and n > 1:
        if np.array_equal(kinds, np.eye(n, dtype=bool)):
            return "D"
        if np.array_equal(kinds, np.tri(n, dtype=bool)):
            return "L"
        if np.array_equal(kinds, np.tri(n, dtype=bool).T):
            return "U"
        if structure.symmetric and kinds.all():
            return "S"
    return "G" if kinds.all() else "B"


def shape(expression: Expression) -> tuple[int, int]:
    """Rows and columns. Raises LLError, with position and both shapes, where two operands do not match."""
    match expression:
        case Name(operand):
            return operand.shape
        case Number():
            return (1, 1)
        case Negated(argument):
            return shape(argument)
        case Transpose(argument):
            rows, columns = shape(argument)
            return columns, rows
        case Call(function, argument, position):
            sizes = shape(argument)
            if sizes[0] != sizes[1]:
                raise fail(position, f"{function} needs a square matrix, {argument} is {_by(sizes)}")
            return sizes
        case Binary(op, left, right, position):
            return _binary_shape(op, left, right, position)
        case _:
            assert_never(expression)


def _binary_shape(op: str, left: Expression, right: Expression, position: Position | None) -> tuple[int, int]:
    a, b = shape(left), shape(right)
    if op in ("+", "-"):
        if a != b:
            raise fail(position, f"{left} is {_by(a)} and {right} is {_by(b)}: {op} needs matrices of equal size")
        return a
    if op == "*":
        if (1, 1) in (a, b):
            return b if a == (1, 1) else a
        if a[1] != b[0]:
            raise fail(position, f"{left} is {_by(a)} and {right} is {_by(b)}: * needs {a[1]} rows on the right")
        return a[0], b[1]
    if a[0] != a[1] or a[1] != b[0]:
        raise fail(
            position,
            f"{left} is {_by(a)} and {right} is {_by(b)}: \\ needs a square matrix on the left and as many rows on the "
            "right",
        )
    return b


def _by(sizes: tuple[int, int]) -> str:
    return f"{sizes[0]} x {sizes[1]}"


def transposed(expression: Expression) -> Expression:
    """The transpose of the expression, with every `'` moved to the operands and dropped on symmetric ones."""
    match expression:
        case Name(operand):
            return expression if operand.structure.symmetric else Transpose(expression)
        case Call("symmetric"):
            return expression
        case Number():
            return expression
        case Negated(argument):
            return Negated(transposed(argument))
        case Transpose(argument):
            return _canonical(argument)
        case Binary("*", left, right, position) if (1, 1) not in (shape(left), shape(right)):
            return Binary("*", transposed(right), transposed(left), position)
        case Binary("*", left, right, position):
            return Binary("*", transposed(left), transposed(right), position)
        case Binary(("+" | "-") as op, left, right, position):
            return Binary(op, transposed(left), transposed(right), position)
    return Transpose(expression)


def _canonical(expression: Expression) -> Expression:
    """The expression with every `'` moved to an operand."""
    match expression:
        case Transpose(argument):
            return transposed(argument)
        case Negated(argument):
            return Negated(_canonical(argument))
        case Binary(op, left, right, position):
            return Binary(op, _canonical(left), _canonical(right), position)
    return expression


def _factors(expression: Expression) -> list[Expression]:
    match expression:
        case Binary("*", left, right) if (1, 1) not in (shape(left), shape(right)):
            return _factors(left) + _factors(right)
    return [expression]


def mirrored(expression: Expression) -> bool:
    """Whether the form implies a symmetric value: `M * M'`, `M * S * M'`, `M + M'`, sums and multiples of such."""
    rows, columns = shape(expression)
    if rows != columns:
        return False
    if rows == 1:
        return True
    match _canonical(expression):
        case Name(operand):
            return operand.structure.symmetric
        case Transpose(argument) | Negated(argument):
            return mirrored(argument)
        case Call("symmetric"):
            return True
        case Call("inv" | "tril" | "triu" | "unit_tril" | "unit_triu", argument):
            return letter(infer(argument)) == "D"
        case Binary(("+" | "-") as op, left, right):
            return (mirrored(left) and mirrored(right)) or (op == "+" and right == transposed(left))
        case Binary("*", left, right) as product:
            if shape(left) == (1, 1):
                return mirrored(right)
            if shape(right) == (1, 1):
                return mirrored(left)
            factors = _factors(product)
            half = len(factors) // 2
            pairs = zip(factors[:half], reversed(factors[-half:]), strict=True)
            middle = len(factors) % 2 == 0 or mirrored(factors[half])
            return (middle and all(transposed(a) == b for a, b in pairs)) or letter(_infer(product)) == "D"
    return False


def infer(expression: object) -> Structure:
    """The structure of an expression (or operand), which is also how a temporary for it is kept."""
    return _infer(as_expression(expression))


@lru_cache(maxsize=4096)
def _infer(expression: Expression) -> Structure:
    rows, columns = shape(expression)
    match expression:
        case Name(operand):
            return operand.structure
        case Number():
            return st.general(1, 1)
        case Negated(argument):
            return _made(rows, columns, infer(argument).nonzero, infer(argument).symmetric)
        case Transpose(argument):
            inner = infer(argument)
            return _made(rows, columns, inner.nonzero.along("{ [i, j] -> [j, i] }"), inner.symmetric)
        case Call(function, argument, position):
            return _call(function, infer(argument), argument, position)
        case Binary(op, left, right, position):
            a, b = infer(left), infer(right)
            if op == "*" and (1, 1) in (shape(left), shape(right)):
                kept = b if shape(left) == (1, 1) else a
                return _made(rows, columns, kept.nonzero, kept.symmetric)
            symmetric = (op != "\\" and mirrored(expression)) if op != "*" else _gram(expression)
            if op == "\\":
                return _made(rows, columns, _solved(triangle_kind(a, left, position), b), False)
            known = RULES.get(("+" if op == "-" else op, letter(a), letter(b)))
            if known is not None and rows == columns and a.rows == a.columns:
                return _MAKE["S" if symmetric and known == "G" else known](rows)
            region = (a.nonzero | b.nonzero) if op in ("+", "-") else _product(a, b)
            return _made(rows, columns, region, symmetric)
        case _:
            assert_never(expression)


def _gram(expression: Expression) -> bool:
    rows, columns = shape(expression)
    factors = _factors(_canonical(expression))
    half = len(factors) // 2
    if rows != columns or rows == 1:
        return rows == columns
    matching = all(transposed(a) == b for a, b in zip(factors[:half], reversed(factors[-half:]), strict=True))
    return matching and (len(factors) % 2 == 0 or mirrored(factors[half]))


def _made(rows: int, columns: int, region: Region, symmetric: bool) -> Structure:
    return st.from_region(f"Temporary({rows}, {columns})", rows, columns, region, symmetric)


def _product(a: Structure, b: Structure) -> Region:
    left = a.nonzero.along(f"{{ [i, k] -> [i, k, j] : 0 <= j < {b.columns} }}")
    right = b.nonzero.along(f"{{ [k, j] -> [i, k, j] : 0 <= i < {a.rows} }}")
    return (left & right).along("{ [i, k, j] -> [i, j] }")


def triangle_kind(structure: Structure, expression: Expression, position: Position | None) -> str:
    """`L`, `U` or `D` for a matrix that `\\` or `inv` can work with. Raises LLError for others."""
    kinds = structure.kinds != st.ZERO
    if not kinds.diagonal().all():
        at = int(np.argmin(kinds.diagonal()))
        raise fail(position, f"{expression} is {structure}: element ({at}, {at}) is zero, so it has no inverse")
    below, above = bool(np.tril(kinds, -1).any()), bool(np.triu(kinds, 1).any())
    if below and above:
        raise fail(
            position,
            f"{expression} is {structure}: \\ and inv need a triangular matrix; factor it first with chol, or with "
            "F = lu(..), whose factors are unit_tril(F) and triu(F)",
        )
    return "L" if below else "U" if above else "D"


def _solved(kind: str, right: Structure) -> Region:
    if kind == "D":
        return right.nonzero
    relation = "i <= x" if kind == "L" else "x <= i"
    spread = right.nonzero.along(f"{{ [i, j] -> [x, j] : 0 <= x < {right.rows} and {relation} }}")
    return spread.along("{ [x, j] -> [x, j] }")


def _call(function: str, inner: Structure, argument: Expression, position: Position | None) -> Structure:
    if function in PARTS:
        return st.part(function, inner)
    n = inner.rows
    i, j = np.nonzero(inner.kinds != st.ZERO)
    below, above = max(int((i - j).max(initial=0)), 0), max(int((j - i).max(initial=0)), 0)
    if function == "chol":
        if not mirrored(argument):
            raise fail(position, f"chol needs a symmetric matrix, {argument} is {inner}; declare it Symmetric")
        return st.lower(n) if below >= n - 1 else st.banded(n, n, below, 0)
    if function == "lu":
        return st.general(n, n) if max(below, above) >= n - 1 else st.banded(n, n, below, above)
    return {"L": st.lower, "U": st.upper, "D": st.diagonal}[triangle_kind(inner, argument, position)](n)


def check(statement: Statement) -> None:
    """Raises LLError if the target cannot hold the value: size, zeros, ones or symmetry differ."""
    target, value = statement.target, statement.value
    sizes = shape(value)
    if sizes != target.shape:
        raise fail(
            statement.position, f"{target.name} is {_by(target.shape)} and {value} is {_by(sizes)}: they must be equal"
        )
    want, have = target.structure, infer(value)
    lost = (have.kinds != st.ZERO) & (want.kinds == st.ZERO)
    where = np.argwhere(lost | ((want.kinds == ONE) & (have.kinds != ONE)))
    if len(where):
        i, j = where[0]
        fixed = "one" if want.kinds[i, j] == ONE else "zero"
        raise fail(
            statement.position,
            f"{target.name} is {want}, whose element ({i}, {j}) is {fixed}, but that of {value} may differ; "
            f"declare {target.name} as Matrix{target.shape}",
        )
    rows, columns = want.sources
    moved = (want.kinds == st.STORED) & ((rows != np.indices(rows.shape)[0]) | (columns != np.indices(rows.shape)[1]))
    same = all(np.array_equal(axis[moved], axis[rows[moved], columns[moved]]) for axis in have.sources)
    if not same and not (want.symmetric and mirrored(value)):
        i, j = np.argwhere(moved)[0]
        raise fail(
            statement.position,
            f"{target.name} is {want}, which stores ({i}, {j}) at ({rows[i, j]}, {columns[i, j]}), but {value} is not "
            f"known to be symmetric; write symmetric({value}) if it is, or declare {target.name} as "
            f"Matrix{target.shape}",
        )
