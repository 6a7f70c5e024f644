"""Sizes known only at run time: `lego.size`, and formulas of sizes that need no SymPy.

A kernel's file is read in every process that calls the kernel, and its code is found on disk by what the file says. So
a sum, product or quotient of sizes and positive ints is kept as it was written, and becomes a SymPy expression when
something asks for it:

>>> M = size("M", multiple_of=32)
>>> (M // 32 * 4).formula
('*', ('//', ('size', 'M', 1, None, 32), 32), 4)
>>> (M // 32 * 4).expr
4*(M // 32)

All of these grow with their sizes, so that none is a number in disguise, as `M - M` is. What else is made of sizes is
an `Index` as any other.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.errors import ExpressionError
from lego_mlir.expr.index import MOST_BITS, Condition, Index, as_expr, defers_to_elements, is_symbolic, sympy_nodes

SizeFormula: TypeAlias = tuple[Any, ...]
"""`("size", name, min, max, multiple_of)`, then the formula of a size that it does not exceed, if there is one; or an
operation and two operands, formulas or ints."""
_LONGEST: Final = 64
"""Operations of a formula; longer ones become expressions, which share their parts."""
_ALONE: Final = 5
"""The length of the formula of a size that is bounded by no other."""
_KEPT: Final[Any] = vars(Index)["expr"]
"""The field for the expression."""
_NEUTRAL: Final = {"+": 0, "-": 0, "*": 1, "//": 1}


@defers_to_elements
class SizeIndex(Index):
    """An `Index` that grows with its sizes; its expression is made on demand."""

    __slots__ = ("_length", "formula")
    formula: SizeFormula
    _length: int

    def __init__(self, formula: SizeFormula, length: int = 0) -> None:
        self._set(formula=formula, _length=length)

    def _arguments(self) -> tuple[object, ...]:
        return self.formula, self._length

    @property
    def expr(self) -> Expr:
        try:
            return _KEPT.__get__(self)
        except AttributeError:  # not asked for before
            made = _expression(self.formula)
            _KEPT.__set__(self, made)
            return made

    @property
    def is_number(self) -> bool:
        return False

    @property
    def least(self) -> int | None:
        """A bound of its values from below, if one follows from the formula."""
        return _least(self.formula)

    def same(self, other: IndexLike) -> bool:
        formulas_agree = isinstance(other, SizeIndex) and _factors(self.formula) == _factors(other.formula)
        return formulas_agree or super().same(other)

    def __add__(self, other: IndexLike) -> Index:
        found = self._with("+", other)
        return super().__add__(other) if found is None else found

    def __radd__(self, other: IndexLike) -> Index:
        found = self._with("+", other)
        return super().__radd__(other) if found is None else found

    def __sub__(self, other: IndexLike) -> Index:
        found = self._with("-", other)
        return super().__sub__(other) if found is None else found

    def __mul__(self, other: IndexLike) -> Index:
        found = self._with("*", other)
        return super().__mul__(other) if found is None else found

    def __rmul__(self, other: IndexLike) -> Index:
        found = self._with("*", other)
        return super().__rmul__(other) if found is None else found

    def __floordiv__(self, other: IndexLike) -> Index:
        found = self._with("//", other)
        return super().__floordiv__(other) if found is None else found

    def _with(self, operation: str, other: IndexLike) -> SizeIndex | None:
        """The operation on this formula and another, or an int; None if the result might not grow, or is long."""
        operand: SizeFormula | int
        if type(other) is int:
            if other == _NEUTRAL[operation]:
                return self
            grows, operand, length = operation in ("+", "-") or other > 0, other, self._length + 1
        elif type(other) is SizeIndex:
            grows, operand, length = operation in ("+", "*"), other.formula, self._length + other._length + 1
        else:
            return None
        return SizeIndex((operation, self.formula, operand), length) if grows and length <= _LONGEST else None


def names_in(formula: SizeFormula) -> Iterator[str]:
    """The names of the sizes of a formula, one for each use."""
    if formula[0] == "size":
        yield formula[1]
    for operand in formula[1:]:
        if isinstance(operand, tuple):
            yield from names_in(operand)


def _greatest(formula: SizeFormula) -> int | None:
    """The largest value of a size that is bounded by no other."""
    _, _, _, most, multiple_of = formula
    return None if most is None else most // multiple_of * multiple_of


def _least(formula: SizeFormula | int) -> int | None:
    """A bound from below."""
    if isinstance(formula, int):
        return formula
    if formula[0] == "size":
        return -(-formula[2] // formula[4]) * formula[4]
    operation, a, b = formula[0], _least(formula[1]), _least(formula[2])
    if a is None or b is None or (operation == "*" and min(a, b) < 0):
        return None
    return {"+": a + b, "-": a - b, "*": a * b, "//": a // max(b, 1)}[operation]


def _factors(formula: SizeFormula) -> tuple[int, list[str]]:
    """The number and the other factors of a product, in an order of their own."""
    number, others, left = 1, list[str](), [formula]
    while left:
        factor: Any = left.pop()
        if isinstance(factor, int):
            number *= factor
        elif factor[0] == "*":
            left += factor[1:]
        else:
            others.append(repr(factor))
    return number, sorted(others)


def _expression(formula: SizeFormula | int) -> Expr:
    """The SymPy expression of a formula."""
    if isinstance(formula, int):
        return as_expr(formula)
    if formula[0] == "size":
        return sympy_nodes().Size(*formula[1:5], *map(_expression, formula[5:]))
    operation, a, b = formula[0], _expression(formula[1]), _expression(formula[2])
    if operation == "//":
        return sympy_nodes().FloorDiv(a, b)
    return as_expr(a + b if operation == "+" else a - b if operation == "-" else a * b)


def size(
    name: str, min: int = 1, max: int | Index | None = None, multiple_of: int = 1, equals: Index | None = None
) -> Index:
    """A size known only at run time, with the facts known at compile time; a kernel argument in generated code.

    `max` may be an expression of other sizes, `size("M", max=N)`; `equals` gives a size that is computed from others,
    `size("K2", equals=2 * K)`, and has no other facts. Proofs use such a relation, and a launch checks it. Raises
    ExpressionError where no integer satisfies these facts.

    >>> M = size("M", min=32, multiple_of=32)
    >>> M // 32, M % 7
    (M // 32, M % 7)
    """
    below: Any = None
    if is_symbolic(min):
        raise ExpressionError(
            f"size {name}: min must be an int, got {min!r}; state the relation on the smaller size, "
            f"lego.size(.., max={name}), or in the kernel, lego.require({min!r} <= {name})"
        )
    if isinstance(max, SizeIndex) and max.formula[0] == "size" and len(max.formula) == _ALONE:
        below, max = max.formula, _greatest(max.formula)
    elif isinstance(max, Index) or is_symbolic(max):
        below, max = _of_sizes(name, "max", max)
        below = None if below.is_Integer else below
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ExpressionError(
            f"size: the name {name!r} must be an identifier and not a Python keyword; it names a kernel argument"
        )
    for fact, value in (("min", min), ("max", 0 if max is None else max), ("multiple_of", multiple_of)):
        if type(value) is int and value.bit_length() > MOST_BITS:
            raise ExpressionError(
                f"size {name}: {fact} has at most {MOST_BITS} bits, got an int of {value.bit_length()}"
            )
        if type(value) is not int:
            raise ExpressionError(f"size {name}: {fact} must be an int, got {value!r} of type {type(value).__name__}")
    if multiple_of < 1 or min < 0:
        raise ExpressionError(f"size {name}: {min=} must be >= 0 and {multiple_of=} >= 1")
    if max is not None and max // multiple_of * multiple_of < min:
        raise ExpressionError(f"size {name}: no multiple of {multiple_of} lies in [{min}, {max}]")
    if equals is None and (below is None or isinstance(below, tuple)):
        return SizeIndex(("size", name, min, max, multiple_of, *([] if below is None else [below])))
    from lego_mlir.expr import nodes

    if equals is None:
        return Index(nodes.Size(name, min, max, multiple_of, below))
    if (min, max, multiple_of, below) != (1, None, 1, None):
        raise ExpressionError(f"size {name}: {equals=} gives all facts; leave out min, max and multiple_of")
    same, most = _of_sizes(name, "equals", equals)
    from lego_mlir.expr.intervals import bounds

    least = bounds(same, {}).lo
    if least is None or least < 0:
        raise ExpressionError(f"size {name}: {equals=} may be negative; a size is at least 0")
    return Index(nodes.Size(name, least, most, equals=same))


def _of_sizes(name: str, fact: str, given: Any) -> tuple[Expr, int | None]:
    """An expression of sizes, and its largest value if known."""
    from lego_mlir.expr import nodes
    from lego_mlir.expr.intervals import bounds

    expr = as_expr(given)
    if isinstance(given, Condition) or not all(isinstance(s, nodes.Size) for s in expr.free_symbols):
        raise ExpressionError(f"size {name}: {fact} must be an int or an expression of other sizes, got {given!r}")
    return expr, bounds(expr, {}).hi
