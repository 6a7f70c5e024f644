"""Integers of data in programs with rings: exact values where they fit their types, names where they may wrap around.

    i32: n[0] * 4            the function `as i32` of n(0) * 4, as n(0) may be 2**30: not four times the index of n[0]
    i32: n[0] // 128 + 1     itself, as it fits
    i32: used + n[0]         itself: a register that counts uses does not reach 2**31, as so many rounds never end

Two agents that compute a number alike have the same name for it, whether or not it wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.facts import Bounds
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import OF_OPERATORS, Larger
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.related import involved
from lego_mlir.proofs.rings.ring_statements import as_integer, is_integer, is_whole
from lego_mlir.proofs.rings.values import symbol_named, without_functions
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.trace import Compute, Constant, Convert, FromCondition, FromIndex, Register, Value

_FOLLOWED: Final = (
    *("add", "sub", "mul", "floordiv", "mod", "minimum", "maximum", "select"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
)
_MEANINGS: Final[Mapping[str, Callable[..., Any]]] = {
    **{name: OF_OPERATORS[name] for name in _FOLLOWED},
    "and": sympy.And,
    "or": sympy.Or,
}
_OF_CONDITIONS: Final = ("and", "or")


class DataIntegers(dict[int, Expr]):
    """What is known of the integers and conditions of a group of warps, by the numbers of their values.

    `ranges` are those of the symbols of the kernel. A register holds data if it was set to data that no register adds
    to; any other one counts.
    """

    def __init__(self, ranges: Mapping[Symbol, Range]) -> None:
        super().__init__()
        self.ranges = ranges
        self._spans: dict[Expr, Range] = {}
        self._held: dict[Symbol, Register] = {}
        self._of_data: set[Register] = set()
        self._indices: set[Symbol] = set()

    def compute(self, s: Constant | FromIndex | FromCondition | Convert | Compute) -> None:
        """Keep the value of an integer, or of a condition, that is computed from known ones."""
        result = s.result
        match s:
            case Constant(_, number) if isinstance(number, int) and is_integer(result.dtype):
                self[result.number] = sympy.Integer(number)
            case FromIndex(_, expr):
                self[result.number] = self._in_type(as_expr(expr), result.dtype)
            case Convert(_, operand) if operand.number in self and is_integer(result.dtype):
                self[result.number] = self._in_type(as_integer(self[operand.number]), result.dtype)
            case FromCondition(_, condition):
                self[result.number] = condition
            case Compute(_, operation, operands) if operation in _MEANINGS and all(map(is_whole, operands)):
                known = [self[o.number] for o in operands if o.number in self]
                if len(known) == len(operands) and (operation not in _OF_CONDITIONS or result.dtype.name == "i1"):
                    self[result.number] = self._in_type(_MEANINGS[operation](*known), result.dtype)
            case Compute(_, "popcount", (bits,)) if bits.number in self:
                self[result.number] = sympy.Function("count of bits", integer=True)(self[bits.number])
            case _:
                pass

    def load(self, result: Value, value: Expr, span: tuple[Any, Any] | None = None) -> None:
        """Keep an element as a function of its index; `span` is the range that its tensor declares, `hi` exclusive."""
        self[result.number] = value
        self._spans[value] = Range(*span) if span else _range_of(result.dtype)

    def read(self, result: Value, register: Register) -> Symbol:
        """The symbol of what a register holds."""
        held = self[result.number] = symbol_named(f"value{result.number}")
        self._held[held] = register
        self._spans[held] = _range_of(register.dtype)
        return held

    def write(self, register: Register, value: Value) -> None:
        """Take notice of data that a register holds from here on."""
        if value.number in self and self._is_data(self[value.number]):
            self._of_data.add(register)

    def index(self, symbol: Symbol, operand: Value) -> Expr:
        """A known number as an index, which is data if the number is: not less than the program claims of that."""
        value, claimed = as_integer(self[operand.number]), self.ranges[symbol].lo
        if not self._is_data(self[operand.number]):
            return value
        self._indices.add(symbol)
        least = self._bounds(value).lo
        if claimed is None or not (claimed := as_expr(claimed)).is_Integer:
            return value
        return value if least is not None and least >= claimed else Larger(value, claimed)

    def _is_data(self, value: Expr | Cond) -> bool:
        return bool(self._data_in(value)) and not self._counters_in(value)

    def _data_in(self, value: Expr | Cond) -> set[Expr]:
        found = set(value.atoms(sympy.core.function.AppliedUndef))
        return found | {s for s in value.free_symbols if s in self._indices or self._held.get(s) in self._of_data}

    def _counters_in(self, value: Expr | Cond) -> set[Symbol]:
        return {s for s in value.free_symbols if s in self._held and self._held[s] not in self._of_data}

    def _in_type(self, value: Expr | Cond, dtype: DType) -> Expr | Cond:
        """A value as its type has it: itself, or a function of it where that may not fit."""
        if not isinstance(value, sympy.Expr) or dtype.name == "index" or not is_integer(dtype):
            return value
        if not self._data_in(value) or self._fits(value, dtype):
            return value
        wrapped = sympy.Function(f"as {dtype.name}", integer=True)(value)
        self._spans[wrapped] = _range_of(dtype)
        return wrapped

    def _fits(self, value: Expr, dtype: DType) -> bool:
        """Whether a value is within its type, less the registers in it that count."""
        value = sympy.expand(value)
        counters, terms = self._counters_in(value), value.as_coefficients_dict()
        counted = sum(s * terms[s] for s in counters if abs(terms[s]) == 1)
        rest = sympy.expand(value - counted)
        value = value if self._counters_in(rest) else rest
        found, (least, greatest) = self._bounds(value), dtype.span
        return found.lo is not None and found.hi is not None and least <= found.lo and found.hi <= greatest

    def _bounds(self, value: Expr) -> Bounds:
        """The least and greatest value, by the ranges of the kernel's symbols and of the data."""
        spans: dict[Any, Range] = {}
        for data in self._data_in(value):
            span = self._spans.get(data)
            if span is not None:
                spans[without_functions(data)] = span
        value = without_functions(value)
        known = {s: self.ranges[s] for s in involved(value, self.ranges) if s in self.ranges}
        return bounds(value, {**known, **spans})


def _range_of(dtype: DType) -> Range:
    least, greatest = dtype.span
    return Range(least, greatest + 1)
