"""The semantics of a program in NumPy on dense matrices: the reference for `run` and the tests.

>>> from lego_mlir.structured.language import parse
>>> program = parse("A = Matrix(2, 2); S = Symmetric(L, 2); A = 2*S;")
>>> import numpy as np
>>> arrays = {"A": np.zeros((2, 2)), "S": np.array([[1.0, np.nan], [3.0, 4.0]])}
>>> evaluate(program, arrays)["A"].tolist()
[[2.0, 6.0], [6.0, 8.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.structured import structures
from lego_mlir.structured.lower import Leaf
from lego_mlir.structured.syntax import (
    PARTS,
    Binary,
    Call,
    Expression,
    Name,
    Negated,
    Number,
    Operand,
    Program,
    Transpose,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


# (value, magnitude of the rounding errors to simulate) -> perturbed value.
Change = Callable[["Array", "Array"], "Array"]


def dense(operand: Operand, array: Array) -> Array:
    """The logical matrix held in an operand's array."""
    positions = Leaf(operand.name, operand.structure, operand.storage).positions
    values = np.asarray(array).reshape(-1)[np.maximum(positions, 0)].astype(np.float64)
    kinds = operand.structure.kinds
    return np.where(kinds == structures.STORED, values, np.where(kinds == structures.ONE, 1.0, 0.0))


def store(operand: Operand, array: Array, matrix: Array) -> None:
    """Write a logical matrix into an operand's array, touching stored elements only."""
    held = operand.storage.positions(operand.structure)
    array.reshape(-1)[held[held >= 0]] = matrix[held >= 0]


def evaluate(program: Program, arrays: Mapping[str, Array], change: Change | None = None) -> dict[str, Array]:
    """The logical matrices of all operands after the program, in double precision; `change` is applied throughout."""
    values = {operand.name: dense(operand, arrays[operand.name]) for operand in program.operands}
    for statement in program.statements:
        values[statement.target.name] = value(statement.value, values, change)
    return values


def value(expression: Expression, values: Mapping[str, Array], change: Change | None = None) -> Array:
    """One expression, given the matrices; `change` is applied at each use of an operand and to each result."""
    match expression:
        case Negated(argument):
            return -value(argument, values, change)
        case Transpose(argument):
            return value(argument, values, change).T
        case Call(function, argument) if function in PARTS:
            return _part(function, value(argument, values, change))
        case Name(operand):
            result = values[operand.name]
        case Number(number):
            result = np.array([[number]])
        case Call(function, argument):
            result = _call(function, value(argument, values, change), change)
        case Binary(op, left, right):
            result = _binary(op, value(left, values, change), value(right, values, change))
    return result if change is None else change(result, np.abs(result))


def _binary(op: str, a: Array, b: Array) -> Array:
    if op == "\\":
        return np.linalg.solve(a, b)
    if op == "*":
        return a * b if (1, 1) in (a.shape, b.shape) else a @ b
    return a + b if op == "+" else a - b


def _call(function: str, matrix: Array, change: Change | None) -> Array:
    """A factorisation or an inverse. Rounding in a factorisation acts like a perturbation of the matrix by |L| |U|."""
    if function == "inv":
        return np.linalg.inv(matrix)
    factorise = np.linalg.cholesky if function == "chol" else _lu
    factors = factorise(matrix)
    if change is None:
        return factors
    lower = factors if function == "chol" else _part("unit_tril", factors)
    upper = factors.T if function == "chol" else _part("triu", factors)
    return factorise(change(matrix, np.abs(lower) @ np.abs(upper)))


def _lu(matrix: Array) -> Array:
    factors = matrix.copy()
    for k in range(len(factors)):
        factors[k + 1 :, k] /= factors[k, k]
        factors[k + 1 :, k + 1 :] -= np.outer(factors[k + 1 :, k], factors[k, k + 1 :])
    return factors


def _part(function: str, matrix: Array) -> Array:
    if function == "symmetric":
        return np.tril(matrix) + np.tril(matrix, -1).T
    unit = function.startswith("unit_")
    triangle = np.tril(matrix, -unit) if function.endswith("tril") else np.triu(matrix, unit)
    return triangle + np.eye(len(matrix)) if unit else triangle


def sample(program: Program, dtype: DTypeLike = np.float64, seed: int = 0) -> dict[str, Array]:
    """Arrays for all operands: small random numbers, dominant diagonals for stable solves, NaN in unread elements."""
    random = np.random.default_rng(seed)
    arrays = {}
    for operand in program.operands:
        held = operand.storage.positions(operand.structure)
        array = np.full(operand.storage.shape(operand.structure), np.nan, dtype)
        numbers = random.uniform(-1.0, 1.0, held.shape)
        if operand.structure.rows == operand.structure.columns:
            n = operand.structure.rows
            numbers[np.arange(n), np.arange(n)] = random.uniform(1.0, 2.0, n) + n / 2
        array.reshape(-1)[held[held >= 0]] = numbers[held >= 0]
        arrays[operand.name] = array
    return arrays
