"""Exact evaluation of an expression for given values of its symbols, ints or whole arrays.

This is the reference that every simplification is tested against, so it is written as directly as possible. Arrays are
computed in int64 where the operands' magnitudes allow it and in Python integers elsewhere, so nothing ever wraps
around.

>>> import numpy, sympy
>>> from lego_mlir.expr.nodes import FloorDiv, FloorMod
>>> i = sympy.Symbol("i", integer=True)
>>> evaluate(FloorDiv(i, 4) * 10 + FloorMod(i, 4), {"i": numpy.array([0, 7, -1])})
array([ 0, 13, -7])
>>> evaluate(i**5, {i: 10**9})
1000000000000000000000000000000000000000000000
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy
import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.errors import BudgetError, ExpressionError
from lego_mlir.expr import nodes
from lego_mlir.expr.budgets import within_recursion_limit
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.integer_operations import WORD, IntegerOperation
from lego_mlir.expr.nodes import Size, Table

if TYPE_CHECKING:
    from lego_mlir.expr.ranges import Ranges

Number: TypeAlias = Any
"""A Python int, or an array of int64 or of Python ints; bools are truth values."""
Compute: TypeAlias = "Callable[[list[Number]], Number]"
NUMBERS = (int, sympy.Integer)
SAFE = 1 << 62  # int64 results stay below this
MOST_BITS = 1 << 16  # of a number on the way to a result


def evaluate(
    expr: Expr | Cond, values: Mapping[Symbol | str, Number], tables: Mapping[str, Sequence[int]] | None = None
) -> Number:
    """The value of an integer expression or condition. `values` are keyed by symbol or by name, `tables` by name.

    A value keyed by name applies to the symbol of that name, unless several symbols of the expression share it.

    Raises ExpressionError for a symbol or a run-time table without a value and for a value that is not an integer,
    BudgetError for a number of more than MOST_BITS bits, ZeroDivisionError for a zero divisor, ValueError for the root
    of a negative number and for a shift by a negative amount.
    """
    if not isinstance(expr, sympy.logic.boolalg.Boolean):
        with within_recursion_limit("evaluated"):
            expr = as_expr(expr) if not isinstance(expr, bool) else expr
    return _Evaluator(_Values(values), dict(tables or {})).value(expr)


def admissible(values: Mapping[Symbol, Number], ranges: Ranges) -> bool:
    """Whether every value lies in its range and every size satisfies its facts."""
    for symbol, value in values.items():
        if isinstance(symbol, Size):
            if not symbol.takes(value) or not _related(symbol, value, values):
                return False
        elif symbol in ranges:
            known = ranges[symbol]
            lo, hi = (int(e) if isinstance(e, NUMBERS) else evaluate(e, values) for e in (known.lo, known.hi))
            if not lo <= value < hi or (value - lo) % known.step:
                return False
    return True


def _related(size: Size, value: Number, values: Mapping[Symbol, Number]) -> bool:
    """Whether a size has its relation to the values of others; false where one of these is missing."""
    for end in (size.below, size.equals):
        if end is not None:
            if any(symbol not in values for symbol in end.free_symbols):
                return False
            limit = evaluate(end, values)
            if value > limit or (end is size.equals and value != limit):
                return False
    return True


def _operand(value: Number) -> Number:
    """An int, or an array of int64 or of Python ints that holds each number exactly."""
    if not isinstance(value, numpy.ndarray):
        try:
            return operator.index(value)
        except TypeError:
            raise ExpressionError(f"evaluate: {value!r} of type {type(value).__name__} is not an integer") from None
    if value.ndim == 0:
        return _operand(value.item())
    if value.dtype.kind in "bi":
        return value.astype(numpy.int64)
    if value.dtype.kind == "u":
        return _narrow(value.astype(object))
    if value.dtype != object:
        raise ExpressionError(f"evaluate: an array of {value.dtype} does not hold integers")
    return _narrow(numpy.frompyfunc(_operand, 1, 1)(value))


class _Values:
    """The values of symbols, looked up by the symbol itself, or by its name where that is unambiguous."""

    def __init__(self, given: Mapping[Symbol | str, Number]) -> None:
        self.known = {key: _operand(value) for key, value in given.items()}
        self.meant: dict[Any, Any] = {}  # the symbol that each key was resolved to

    @cached_property
    def by_name(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for key in self.known:
            found.setdefault(str(key), []).append(key)
        return found

    def of(self, symbol: Symbol) -> Number:
        keys = [symbol] if symbol in self.known else self.by_name.get(symbol.name, [])
        if not keys:
            raise ExpressionError(f"evaluate: no value for {symbol}; given: {', '.join(sorted(self.by_name))}")
        if len(keys) > 1 or self.meant.setdefault(keys[0], symbol) != symbol:
            raise ExpressionError(
                f"evaluate: two symbols are named {symbol.name}; key the values by the symbols themselves, or rename "
                "one of them"
            )
        return self.known[keys[0]]


def _magnitude(value: Number) -> int:
    if isinstance(value, numpy.ndarray):
        return max(abs(int(value.max())), abs(int(value.min()))) if value.size else 0
    return abs(int(value))


def _wide(value: Number) -> Number:
    return value.astype(object) if isinstance(value, numpy.ndarray) else int(value)


def _narrow(value: Number) -> Number:
    """An array of Python ints converted back to int64 where it fits."""
    if isinstance(value, numpy.ndarray) and value.dtype == object and _magnitude(value) < SAFE:
        return value.astype(numpy.int64)
    return value


class _Evaluator:
    """One evaluation, each distinct node computed once, operands first."""

    def __init__(self, values: _Values, tables: dict[str, Sequence[int]]) -> None:
        self.values = values
        self.tables = tables
        self.done: dict[Any, Any] = {}

    def value(self, expr: Expr) -> Number:
        stack = [expr]
        while stack:
            node = stack[-1]
            missing = [operand for operand in _operands(node) if operand not in self.done]
            if missing:
                stack += missing
                continue
            stack.pop()
            if node not in self.done:
                self.done[node] = self._compute(node)
        return self.done[expr]

    def _compute(self, expr: Expr) -> Number:
        if isinstance(expr, bool) or expr is sympy.true or expr is sympy.false:
            return bool(expr)
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            return self.values.of(expr)
        if isinstance(expr, Table):
            return self._look_up(expr)
        operands = [self.done[a] for a in expr.args]
        if isinstance(expr, nodes.COMPARISONS):
            holds = type(expr).holds(*operands)
            return holds.astype(bool) if isinstance(holds, numpy.ndarray) else bool(holds)
        operation = getattr(expr, "operation", None)
        if operation is not None:
            return _computed(operation, operands)
        compute = _COMPUTE.get(type(expr))
        if compute is None:
            raise ExpressionError(f"evaluate: no value for the node {type(expr).__name__} in {expr}")
        return compute(operands)

    def _look_up(self, expr: Table) -> Number:
        entries = expr.entries or self.tables.get(expr.name)
        if entries is None:
            raise ExpressionError(f"evaluate: no entries for the run-time table {expr.name}")
        index = self.done[expr.index]
        if isinstance(index, numpy.ndarray):
            if index.size and (int(index.min()) < 0 or int(index.max()) >= len(entries)):
                raise ExpressionError(f"evaluate: an index into {expr.name} is outside its {len(entries)} entries")
            return _narrow(numpy.array(list(map(int, entries)), dtype=object))[index.astype(numpy.int64)]
        if not 0 <= index < len(entries):
            raise ExpressionError(f"evaluate: {expr.name}[{index}] is outside the table's {len(entries)} entries")
        return int(entries[index])


def _operands(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, bool) or expr.is_Atom:
        return ()
    return (expr.index,) if isinstance(expr, Table) else expr.args


def _computed(operation: IntegerOperation, operands: list[Number]) -> Number:
    """An operation on ints or arrays; in int64 only while its operands and the bound on its result have WORD bits."""
    undefined = operation.undefined
    if undefined is not None and numpy.any(undefined.where(*operands)):
        raise undefined.error(f"evaluate: {undefined.reason}")
    magnitudes = [_magnitude(operand) for operand in operands]
    bits = operation.bits_of(*magnitudes)
    if operation.bits is not None:
        _require_bits(bits)
    if not _any_array(*operands):
        return operation.compute(*operands)
    if max(bits, *(magnitude.bit_length() for magnitude in magnitudes)) <= WORD:
        return operation.of_arrays(*operands)
    return _narrow(operation.by_element(*map(_wide, operands)))


def _require_bits(bits: int) -> None:
    if bits > MOST_BITS:
        raise BudgetError(f"evaluate: a number of {bits} bits exceeds the limit of {MOST_BITS} bits")


def _ring(compute: Callable[[Number, Number], Number], bits: Callable[[int, int], int]) -> Compute:
    """A sum, a product or a power, whose result has at most `bits` of the operands' magnitudes."""

    def pair(a: Number, b: Number) -> Number:
        most = bits(_magnitude(a), _magnitude(b))
        if compute is operator.pow:
            _require_bits(most)
        return compute(a, b) if most <= WORD or not _any_array(a, b) else _narrow(compute(_wide(a), _wide(b)))

    return lambda operands: functools.reduce(pair, operands)


_COMPUTE: dict[Any, Callable[[list[Any]], Any]] = {
    sympy.Add: _ring(operator.add, lambda a, b: max(a.bit_length(), b.bit_length()) + 1),
    sympy.Mul: _ring(operator.mul, lambda a, b: a.bit_length() + b.bit_length()),
    sympy.Pow: _ring(operator.pow, lambda a, b: a.bit_length() * b),
    sympy.And: lambda operands: functools.reduce(operator.and_, operands),
    sympy.Or: lambda operands: functools.reduce(operator.or_, operands),
    sympy.Not: lambda operands: numpy.logical_not(operands[0]) if _any_array(*operands) else not operands[0],
}


def _any_array(*values: Number) -> bool:
    return any(isinstance(v, numpy.ndarray) for v in values)
