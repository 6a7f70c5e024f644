"""The linear algebra language LL as values: operands, expressions and statements, with Python's operators on them.

The parser in `language.py` builds these from text; Python code can build them directly (the embedding):

>>> from lego_mlir.structured import structures as st
>>> L, U = Operand("L", st.lower(4)), Operand("U", st.upper(4))
>>> S, A = Operand("S", st.symmetric(4, "L")), Operand("A", st.general(4, 4))
>>> print(assign(A, L @ U + S))
A = L * U + S
>>> print(assign(A, 2 * solve(L, A.T) - S))
A = 2.0 * (L \\ A') - S
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from lego_mlir.errors import LegoError
from lego_mlir.structured.storage import FULL, Storage, as_storage
from lego_mlir.structured.structures import Structure

MOST_OPERATIONS: Final = 100
"""Operations, parentheses and nested structures in one statement: passes recurse once a level."""


class LLError(LegoError, ValueError):
    """An LL program that does not parse, or whose sizes, structures or names are inconsistent."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the program text; line and column count from 1."""

    line: int
    column: int
    source: str = field(default="", compare=False, repr=False)

    def point(self, message: str) -> str:
        """The message prefixed with line and column, followed by the source line and a caret."""
        lines = self.source.splitlines()
        shown = f"\n  {lines[self.line - 1]}\n  {' ' * (self.column - 1)}^" if self.line <= len(lines) else ""
        return f"line {self.line}, column {self.column}: {message}{shown}"


def fail(position: Position | None, message: str) -> LLError:
    """The error to raise at this position (None: the program was built in Python)."""
    return LLError(message if position is None else position.point(message))


class Arithmetic:
    """Python's operators, which build expressions. `*` scales, `@` multiplies matrices."""

    __slots__ = ()

    def __add__(self, other: object) -> Binary:
        return Binary("+", as_expression(self), as_expression(other))

    def __sub__(self, other: object) -> Binary:
        return Binary("-", as_expression(self), as_expression(other))

    def __matmul__(self, other: object) -> Binary:
        return Binary("*", as_expression(self), as_expression(other))

    def __mul__(self, other: object) -> Binary:
        return Binary("*", as_expression(self), as_expression(other))

    def __rmul__(self, other: object) -> Binary:
        return Binary("*", as_expression(other), as_expression(self))

    def __neg__(self) -> Negated:
        return Negated(as_expression(self))

    @property
    def T(self) -> Transpose:
        """The matrix transposed."""
        return Transpose(as_expression(self))


@dataclass(frozen=True)
class Operand(Arithmetic):
    """A declared matrix, vector or scalar: its name, structure and storage."""

    name: str
    structure: Structure
    storage: Storage = FULL

    @property
    def shape(self) -> tuple[int, int]:
        return self.structure.rows, self.structure.columns

    def stored(self, storage: object) -> Operand:
        """The operand with another storage: a name from `storage.NAMED`, or a LEGO layout."""
        return replace(self, storage=as_storage(storage))


@dataclass(frozen=True, slots=True)
class Name(Arithmetic):
    """A use of an operand."""

    operand: Operand
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.operand.name


@dataclass(frozen=True, slots=True)
class Number(Arithmetic):
    """A literal; a 1 x 1 matrix."""

    value: float
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Negated(Arithmetic):
    """`-E`."""

    argument: Expression
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"-{_inner(self.argument, 3)}"


@dataclass(frozen=True, slots=True)
class Transpose(Arithmetic):
    """`E'`."""

    argument: Expression
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{_inner(self.argument, 4)}'"


@dataclass(frozen=True, slots=True)
class Binary(Arithmetic):
    """`A + B`, `A - B`, `A * B` (a product, or a scaling where one side is 1 x 1) or `A \\ B` (a solve)."""

    op: str
    left: Expression
    right: Expression
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        level = _LEVEL[self.op]
        return f"{_inner(self.left, level)} {self.op} {_inner(self.right, level + 1)}"


@dataclass(frozen=True, slots=True)
class Call(Arithmetic):
    """`chol(S)`: the lower Cholesky factor; `lu(A)`: both factors in one matrix; `inv(L)`: the inverse of a triangle;
    and the `PARTS` of a matrix."""

    function: str
    argument: Expression
    position: Position | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.function}({self.argument})"


Expression = Name | Number | Negated | Transpose | Binary | Call
# Parts of a matrix: free if the matrix is in memory. The other functions compute.
PARTS: Final = ("tril", "triu", "unit_tril", "unit_triu", "symmetric")
FUNCTIONS: Final = ("chol", "lu", "inv", *PARTS)
_LEVEL: Final = {"+": 1, "-": 1, "*": 2, "\\": 2}


def _inner(expression: Expression, level: int) -> str:
    match expression:
        case Binary(op) if _LEVEL[op] < level or (op == "\\" and level == 2):
            return f"({expression})"
        case Negated() if level > 3:
            return f"({expression})"
        case Binary() if level > 2:
            return f"({expression})"
    return str(expression)


def as_expression(value: object) -> Expression:
    """Coerce an operand, a number or an expression to an expression. Raises LLError for anything else."""
    match value:
        case Operand():
            return Name(value)
        case bool():
            raise LLError(f"an LL expression takes numbers and operands, got {value!r}")
        case int() | float():
            return Number(float(value))
        case Name() | Number() | Negated() | Transpose() | Binary() | Call():
            return value
    raise LLError(f"an LL expression takes numbers and operands, got {value!r}")


def solve(triangle: object, right: object) -> Binary:
    """`triangle \\ right`: the X with `triangle @ X = right`."""
    return Binary("\\", as_expression(triangle), as_expression(right))


def chol(matrix: object) -> Call:
    """The lower triangular L with `L @ L.T = matrix`."""
    return Call("chol", as_expression(matrix))


def lu(matrix: object) -> Call:
    """LU without pivoting: L below the diagonal (its unit diagonal is implicit), U on and above it."""
    return Call("lu", as_expression(matrix))


def inv(triangle: object) -> Call:
    """The inverse of a triangular or diagonal matrix."""
    return Call("inv", as_expression(triangle))


def tril(matrix: object) -> Call:
    """The lower triangle of a matrix."""
    return Call("tril", as_expression(matrix))


def triu(matrix: object) -> Call:
    """The upper triangle of a matrix: U of `lu`'s result."""
    return Call("triu", as_expression(matrix))


def unit_tril(matrix: object) -> Call:
    """The strict lower triangle with a unit diagonal: L of `lu`'s result."""
    return Call("unit_tril", as_expression(matrix))


def unit_triu(matrix: object) -> Call:
    """The strict upper triangle with a unit diagonal."""
    return Call("unit_triu", as_expression(matrix))


def symmetric(matrix: object) -> Call:
    """Assert that a value is symmetric: the symmetric matrix with the lower half of this one. The claim is not checked;
    the upper half of a value that is not symmetric is ignored."""
    return Call("symmetric", as_expression(matrix))


@dataclass(frozen=True, slots=True)
class Statement:
    """`target = value`."""

    target: Operand
    value: Expression
    position: Position | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        level: list[Expression] = [self.value]
        for _ in range(MOST_OPERATIONS + 1):
            level = list({id(part): part for expression in level for part in _parts(expression)}.values())
        if level:
            raise fail(
                self.position,
                f"a value of more than {MOST_OPERATIONS} nested operations; assign parts of it to operands",
            )

    def __str__(self) -> str:
        return f"{self.target.name} = {self.value}"


def assign(target: Operand, value: object) -> Statement:
    """The statement `target = value`."""
    return Statement(target, as_expression(value))


@dataclass(frozen=True)
class Program:
    """Statements in order, and their operands in argument order."""

    operands: tuple[Operand, ...]
    statements: tuple[Statement, ...]

    def __post_init__(self) -> None:
        for operand in self.operands:
            if not (operand.name.isidentifier() and operand.name.isascii()):
                raise LLError(
                    f"an operand name consists of ASCII letters, digits and underscores, got {operand.name!r} for "
                    f"{operand.structure}; pass name="
                )

    def __str__(self) -> str:
        return "; ".join(map(str, self.statements))

    @property
    def written(self) -> tuple[str, ...]:
        """The names of the assigned operands."""
        return tuple(dict.fromkeys(statement.target.name for statement in self.statements))


def _parts(expression: Expression) -> tuple[Expression, ...]:
    """What an operation applies to, from left to right."""
    match expression:
        case Name() | Number():
            return ()
        case Negated(argument) | Transpose(argument) | Call(_, argument):
            return (argument,)
        case Binary(_, left, right):
            return left, right
        case _:
            assert_never(expression)


def operands_of(expression: Expression) -> Iterable[Operand]:
    """The operands an expression uses, from left to right, with repetitions."""
    if isinstance(expression, Name):
        yield expression.operand
    for part in _parts(expression):
        yield from operands_of(part)


def program(*statements: Statement) -> Program:
    """A program of these statements; operands are ordered target first, then by first use."""
    found: dict[str, Operand] = {}
    for statement in statements:
        for operand in (statement.target, *operands_of(statement.value)):
            if found.setdefault(operand.name, operand) != operand:
                raise LLError(f"two different operands are named {operand.name!r}; use distinct names")
    return Program(tuple(found.values()), tuple(statements))
