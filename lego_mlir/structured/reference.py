"""What a program means, in NumPy on dense matrices: the reference of `run` and of the tests.

>>> from lego_mlir.structured.language import parse
>>> program = parse("A = Matrix(2, 2); S = Symmetric(L, 2); A = 2*S;")
>>> import numpy as np
>>> arrays = {"A": np.zeros((2, 2)), "S": np.array([[1.0, np.nan], [3.0, 4.0]])}
>>> evaluate(program, arrays)["A"].tolist()
[[2.0, 6.0], [6.0, 8.0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

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
    Transposed,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def dense(operand: Operand, array: NDArray[Any]) -> NDArray[Any]:
    """The logical matrix that an operand's array stands for."""
    positions = Leaf(operand.name, operand.structure, operand.storage).positions
    values = np.asarray(array).reshape(-1)[np.maximum(positions, 0)].astype(np.float64)
    kinds = operand.structure.kinds
    return np.where(kinds == structures.STORED, values, np.where(kinds == structures.ONE, 1.0, 0.0))


def store(operand: Operand, array: NDArray[Any], matrix: NDArray[Any]) -> None:
    """Write a logical matrix into an operand's array, touching stored elements only."""
    held = operand.storage.positions(operand.structure)
    array.reshape(-1)[held[held >= 0]] = matrix[held >= 0]


def evaluate(program: Program, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The logical matrices of all operands after the program, in double precision."""
    values = {operand.name: dense(operand, arrays[operand.name]) for operand in program.operands}
    for statement in program.statements:
        values[statement.target.name] = value(statement.value, values)
    return values


def value(expression: Expression, values: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """One expression, given the matrices."""
    match expression:
        case Name(operand):
            return values[operand.name]
        case Number(number):
            return np.array([[number]])
        case Negated(argument):
            return -value(argument, values)
        case Transposed(argument):
            return value(argument, values).T
        case Call(function, argument):
            return _call(function, value(argument, values))
        case Binary(op, left, right):
            a, b = value(left, values), value(right, values)
            if op == "\\":
                return np.linalg.solve(a, b)
            if op == "*":
                return a * b if (1, 1) in (a.shape, b.shape) else a @ b
            return a + b if op == "+" else a - b


def _call(function: str, matrix: NDArray[Any]) -> NDArray[Any]:
    if function == "chol":
        return np.linalg.cholesky(matrix)
    if function == "inv":
        return np.linalg.inv(matrix)
    if function in PARTS:
        return _part(function, matrix)
    factors = matrix.copy()
    for k in range(len(factors)):
        factors[k + 1 :, k] /= factors[k, k]
        factors[k + 1 :, k + 1 :] -= np.outer(factors[k + 1 :, k], factors[k, k + 1 :])
    return factors


def _part(function: str, matrix: NDArray[Any]) -> NDArray[Any]:
    if function == "symmetric":
        return np.tril(matrix) + np.tril(matrix, -1).T
    unit = function.startswith("unit_")
    triangle = np.tril(matrix, -unit) if function.endswith("tril") else np.triu(matrix, unit)
    return triangle + np.eye(len(matrix)) if unit else triangle


def sample(program: Program, dtype: Any = np.float64, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Arrays for every operand: small random numbers, diagonals that keep solves tame, NaN wherever nothing is read."""
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
