"""From expressions to steps: sums of products of leaves, triangular solves and factorisations, in order.

A `Leaf` is an operand of the program or a temporary with its inferred structure. Each step writes one leaf:

>>> from lego_mlir.structured.language import parse
>>> for step in lower(parse('''
...     A = Matrix(4, 4); S = Symmetric(L, 4); x = Vector(4); L0 = LowerTriangular(4); L1 = LowerTriangular(4);
...     A = (L0 + L1)*S + x*x';
... ''')).steps:
...     print(step)
t0 = L0 + L1
A = t0 * S + x * x'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, isinf
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.structured import infer, structures
from lego_mlir.structured.storage import Full, Storage
from lego_mlir.structured.structures import Structure
from lego_mlir.structured.syntax import (
    PARTS,
    Binary,
    Call,
    Expression,
    Name,
    Negated,
    Number,
    Operand,
    Position,
    Program,
    Statement,
    Transpose,
    fail,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Leaf:
    """A matrix in memory. A `temporary` one lives for one call."""

    name: str
    structure: Structure
    storage: Storage
    temporary: bool = False

    def __str__(self) -> str:
        return self.name

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """The buffer position of each logical element, -1 where it is not stored."""
        held = self.storage.positions(self.structure)
        rows, columns = self.structure.sources
        found = held[np.maximum(rows, 0), np.maximum(columns, 0)]
        return np.where(self.structure.kinds == structures.STORED, found, -1)

    @property
    def size(self) -> int:
        """The number of elements in the buffer."""
        return int(np.prod(self.storage.shape(self.structure)))


@dataclass(frozen=True)
class Factor:
    """A leaf, optionally transposed."""

    leaf: Leaf
    transposed: bool = False

    def __str__(self) -> str:
        return self.leaf.name + ("'" if self.transposed else "")

    @property
    def T(self) -> Factor:
        return Factor(self.leaf, not self.transposed and not self.leaf.structure.symmetric)


@dataclass(frozen=True)
class Within:
    """The storage of a part of a matrix: positions within the whole matrix."""

    whole: Factor

    def shape(self, structure: Structure) -> tuple[int, ...]:
        return self.whole.leaf.storage.shape(self.whole.leaf.structure)

    def positions(self, structure: Structure) -> NDArray[np.int64]:
        found = self.whole.leaf.positions
        return np.where(structure.stored, found.T if self.whole.transposed else found, -1)


@dataclass(frozen=True)
class Term:
    """number * scalars * one or two factors."""

    number: float
    scalars: tuple[Leaf, ...]
    factors: tuple[Factor, ...]

    def __str__(self) -> str:
        head = ["-" if self.number == -1 else str(self.number)] if self.number != 1 else []
        return " * ".join([*head, *map(str, self.scalars), *map(str, self.factors)])

    @property
    def scale(self) -> tuple[float, tuple[Leaf, ...]]:
        return self.number, self.scalars

    @property
    def T(self) -> Term:
        return Term(self.number, self.scalars, tuple(factor.T for factor in reversed(self.factors)))


@dataclass(frozen=True)
class Update:
    """target = sum of terms, for the elements that the target stores."""

    target: Leaf
    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.target} = {' + '.join(map(str, self.terms))}"


@dataclass(frozen=True)
class Solve:
    """target = triangle \\ target, in place; `kind` is L, U or D, after transposition of the factor."""

    target: Leaf
    triangle: Factor
    kind: str

    def __str__(self) -> str:
        return f"{self.target} = {self.triangle} \\ {self.target}"


@dataclass(frozen=True)
class Factorise:
    """target = function(target), in place: chol of the lower half, or lu of the whole matrix."""

    target: Leaf
    function: str

    def __str__(self) -> str:
        return f"{self.target} = {self.function}({self.target})"


Step = Update | Solve | Factorise


@dataclass(frozen=True)
class Lowered:
    """The operands of a program as leaves, its temporaries, and its steps."""

    program: Program
    operands: tuple[Leaf, ...]
    steps: tuple[Step, ...]

    @property
    def temporaries(self) -> tuple[Leaf, ...]:
        return tuple(dict.fromkeys(step.target for step in self.steps if step.target.temporary))


class _Lowering:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.count = 0
        self.known: dict[Expression, Leaf] = {}

    def temporary(self, structure: Structure) -> Leaf:
        leaf = Leaf(f"t{self.count}", structure, Full(), True)
        self.count += 1
        return leaf

    def statement(self, statement: Statement) -> None:
        infer.check(statement)
        self.known.clear()
        target = _leaf(statement.target)
        match statement.value:
            case Binary("\\", left, right, position) if not _uses(left, target):
                self.solve_into(target, left, right, position)
            case Call("symmetric", argument) if _stores_half(target):
                half = argument if target.structure.stored[-1, 0] else Transpose(argument)
                self.update(target, self.terms(half))
            case Call(function, argument, position) as call if function not in PARTS and _fills(
                target, infer.infer(call)
            ):
                self.call_into(target, function, argument, position)
            case value:
                self.update(target, self.terms(value))

    def update(self, target: Leaf, terms: tuple[Term, ...]) -> None:
        """target = terms, through a temporary if an element would be read after being overwritten."""
        alone = Term(1.0, (), (Factor(target),))
        if terms == (alone,):
            return
        if any(_hazard(term, target) for term in terms):
            through = self.temporary(target.structure)
            self.steps.append(Update(through, terms))
            terms = (Term(1.0, (), (Factor(through),)),)
        self.steps.append(Update(target, terms))

    def solve_into(self, target: Leaf, left: Expression, right: Expression, position: Position | None) -> None:
        kind = infer.triangle_kind(infer.infer(left), left, position)
        triangle = self.factor(left)
        self.update(target, self.terms(right))
        self.steps.append(Solve(target, triangle, kind))

    def call_into(self, target: Leaf, function: str, argument: Expression, position: Position | None) -> None:
        if function != "inv":
            self.update(target, self.terms(argument))
            self.steps.append(Factorise(target, function))
            return
        kind = infer.triangle_kind(infer.infer(argument), argument, position)
        triangle = self.factor(argument)
        held = self.temporary(target.structure) if triangle.leaf.name == target.name else target
        one = Leaf("one", structures.identity(target.structure.rows), Full())
        self.steps.append(Update(held, (Term(1.0, (), (Factor(one),)),)))
        self.steps.append(Solve(held, triangle, kind))
        if held != target:
            self.steps.append(Update(target, (Term(1.0, (), (Factor(held),)),)))

    def terms(self, expression: Expression) -> tuple[Term, ...]:
        match expression:
            case Name(operand):
                return (Term(1.0, (), (Factor(_leaf(operand)),)),)
            case Number(value):
                return (Term(value, (), (Factor(_ONE),)),)
            case Negated(argument):
                return tuple(_scaled(term, -1.0, ()) for term in self.terms(argument))
            case Transpose(argument):
                return tuple(term.T for term in self.terms(argument))
            case Binary("+", left, right):
                return self.terms(left) + self.terms(right)
            case Binary("-", left, right):
                return self.terms(left) + tuple(_scaled(term, -1.0, ()) for term in self.terms(right))
            case Binary("*", left, right, position):
                return self.product(left, right, position)
            case Call(function) if function in PARTS:
                return (Term(1.0, (), (self.factor(expression),)),)
        return (Term(1.0, (), (Factor(self.named(expression)),)),)

    def product(self, left: Expression, right: Expression, position: Position | None) -> tuple[Term, ...]:
        scalar, other = (left, right) if infer.shape(left) == (1, 1) else (right, left)
        if infer.shape(scalar) == (1, 1):
            match scalar:
                case Number(value):
                    return tuple(_scaled(term, value, (), position) for term in self.terms(other))
                case Negated(Number(value)):
                    return tuple(_scaled(term, -value, (), position) for term in self.terms(other))
            number, factor = self.one_factor(scalar)
            kind = int(factor.leaf.structure.kinds[0, 0])
            if kind != structures.STORED:  # a 1 x 1 Zero or Identity needs no load
                return () if kind == structures.ZERO else tuple(_scaled(t, *number) for t in self.terms(other))
            return tuple(_scaled(term, number[0], (*number[1], factor.leaf)) for term in self.terms(other))
        (a, a_scalars), first = self.one_factor(left)
        (b, b_scalars), second = self.one_factor(right)
        return (Term(a * b, a_scalars + b_scalars, (first, second)),)

    def one_factor(self, expression: Expression) -> tuple[tuple[float, tuple[Leaf, ...]], Factor]:
        """The expression as a scale and one factor; sums and products go to a temporary."""
        match expression:
            case Negated(argument):
                (number, scalars), factor = self.one_factor(argument)
                return (-number, scalars), factor
            case Transpose(argument):
                scale, factor = self.one_factor(argument)
                return scale, factor.T
            case Name(operand):
                return (1.0, ()), Factor(_leaf(operand))
            case Call(function, argument) if function in PARTS and _in_memory(argument):
                whole = self.factor(argument)
                return (1.0, ()), Factor(Leaf(whole.leaf.name, _part(function, whole), Within(whole)))
        return (1.0, ()), Factor(self.named(expression))

    def factor(self, expression: Expression) -> Factor:
        """The expression as one unscaled factor."""
        (number, scalars), factor = self.one_factor(expression)
        return factor if (number, scalars) == (1.0, ()) else Factor(self.named(expression))

    def named(self, expression: Expression) -> Leaf:
        """A temporary holding the expression; equal expressions in a statement share one."""
        if expression not in self.known:
            leaf = self.temporary(infer.infer(expression))
            match expression:
                case Binary("\\", left, right, position):
                    self.solve_into(leaf, left, right, position)
                case Call(function, argument) if function in PARTS:
                    self.steps.append(Update(leaf, self.terms(argument)))
                case Call(function, argument, position):
                    self.call_into(leaf, function, argument, position)
                case _:
                    self.steps.append(Update(leaf, self.terms(expression)))
            self.known[expression] = leaf
        return self.known[expression]


_ONE = Leaf("one", structures.identity(1), Full())


# Names reserved for generated values and buffers: constants, masks, loop variables, temporaries, copies, tables.
_GENERATED: Final = re.compile(
    r"(c|cm|k|i|r|t|copy|mask)\d+|a\d+_\d+|true|one|row|column|\w+_full|positions_\w+|\w+_(from|to)"
)


def buffer_name(name: str) -> str:
    """The buffer name of an operand in generated code: its name, suffixed if it collides with a generated name.

    >>> buffer_name("A"), buffer_name("t0")
    ('A', 't0.operand')
    """
    return f"{name}.operand" if _GENERATED.fullmatch(name) else name


def _leaf(operand: Operand) -> Leaf:
    return Leaf(buffer_name(operand.name), operand.structure, operand.storage)


def _fills(target: Leaf, value: Structure) -> bool:
    """Whether every nonzero of the target is nonzero in the value: an in-place factorisation clears nothing else."""
    return bool(((target.structure.kinds != structures.ZERO) <= (value.kinds != structures.ZERO)).all())


def _scaled(term: Term, number: float, scalars: tuple[Leaf, ...], position: Position | None = None) -> Term:
    """The term times a constant and scalars. Raises LLError where two finite constants fold to infinity."""
    folded = term.number * number
    if isinf(folded) and isfinite(term.number) and isfinite(number):
        raise fail(
            position,
            f"the constants {number} and {term.number} are folded at compile time, and their product overflows a "
            "double; split the scaling over two statements",
        )
    return Term(folded, scalars + term.scalars, term.factors)


def _uses(expression: Expression, leaf: Leaf) -> bool:
    match expression:
        case Name(operand):
            return buffer_name(operand.name) == leaf.name
        case Number():
            return False
        case Negated(argument) | Transpose(argument) | Call(_, argument):
            return _uses(argument, leaf)
        case Binary(_, left, right):
            return _uses(left, leaf) or _uses(right, leaf)


def _in_memory(expression: Expression) -> bool:
    """Whether the full result is in a buffer, so that parts of it can be read."""
    match expression:
        case Name() | Call():
            return True
        case Transpose(argument):
            return _in_memory(argument)
        case Binary(op):
            return op == "\\"
    return False


def _part(function: str, whole: Factor) -> Structure:
    """The structure of a part of a matrix in memory; transposing keeps implicit ones."""
    structure = whole.leaf.structure
    if whole.transposed:
        transposed = tuple((tag, str(r.along("{ [i, j] -> [j, i] }"))) for tag, r in structure.regions.items())
        structure = Structure(f"{structure.name}'", structure.columns, structure.rows, transposed, ())
    return structures.part(function, structure)


def _stores_half(target: Leaf) -> bool:
    """Whether the target has symmetric structure and stores one half."""
    n, structure = target.structure.rows, target.structure
    off = structure.stored & ~np.eye(n, dtype=bool) if structure.symmetric else structure.stored
    return n > 1 and structure.symmetric and bool(off[-1, 0] != off[0, -1])


def _hazard(term: Term, target: Leaf) -> bool:
    """Whether computing the term elementwise into the target would read overwritten elements."""
    if target.name in {leaf.name for leaf in term.scalars}:
        return True
    if len(term.factors) == 2:
        return any(factor.leaf.name == target.name for factor in term.factors)
    factor = term.factors[0]
    if isinstance(factor.leaf.storage, Within):
        return _moves(factor, target)
    return factor.leaf.name == target.name and factor.transposed


def _moves(factor: Factor, target: Leaf) -> bool:
    """Whether a part of the target is read at other positions than it is written to."""
    if factor.leaf.name != target.name:
        return False
    read = factor.leaf.positions.T if factor.transposed else factor.leaf.positions
    return bool(((read >= 0) & (read != target.positions)).any())


def lower(program: Program) -> Lowered:
    """The steps of a program. Raises LLError where sizes or structures are inconsistent."""
    lowering = _Lowering()
    for statement in program.statements:
        lowering.statement(statement)
    return Lowered(program, tuple(map(_leaf, program.operands)), tuple(lowering.steps))
