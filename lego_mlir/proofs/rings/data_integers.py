"""Integers in programs with rings: exact values where they fit their types, names where they may wrap around.

    i32: n[0] * 4            the function `as i32` of n(0) * 4, as n(0) may be 2**30: not four times the index of n[0]
    i32: n[0] // 128 + 1     itself, as it fits
    i32: used + rounds       itself, if `rounds` has a range, and `used` is a register that counts: see `use_registers`
    i32: state * 5           the function `as i32` of it, whatever the register is set to

Two agents that compute a number alike have the same name for it, whether or not it wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.facts import Bounds
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import OF_OPERATORS, Larger
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.related import involved
from lego_mlir.proofs.rings.agents import Let
from lego_mlir.proofs.rings.ring_statements import as_integer, is_integer, is_whole, line_of, symbol_of
from lego_mlir.proofs.rings.use_registers import MOST_COUNTED, MOST_SLOW, registers_of_uses, slow_registers
from lego_mlir.proofs.rings.values import symbol_named, without_functions
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.trace import (
    Compute,
    Constant,
    Convert,
    FromCondition,
    FromIndex,
    Read,
    Statement,
    Value,
)

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
_OF_SAME: Final = ("minimum", "maximum", "select", "mod")
"""Operations whose result fits where their operands do."""


class DataIntegers(dict[int, Expr]):
    """What is known of the integers and conditions of a group of warps, by the numbers of their values.

    `ranges` are those of the symbols of the kernel, and `body` is what the group runs.
    """

    def __init__(self, ranges: Mapping[Symbol, Range], body: Sequence[Statement]) -> None:
        super().__init__()
        self.ranges = ranges
        self._slow, self._of_uses = slow_registers(body), registers_of_uses(body)
        self._spans: dict[Expr, Range] = {}
        self._held: set[Symbol] = set()
        self._counting: set[Symbol] = set()  # of these the ones that count uses, or slowly

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
                    value = _MEANINGS[operation](*known)
                    self[result.number] = value if operation in _OF_SAME else self._in_type(value, result.dtype)
            case Compute(_, "popcount", (bits,)) if bits.number in self:
                name, number = f"count of bits of {bits.dtype.name}", self[bits.number]
                self.load(result, sympy.Function(name, integer=True)(number), (0, 65))
            case _:
                pass

    def load(self, result: Value, value: Expr, span: tuple[Any, Any] | None = None) -> None:
        """Keep an element as a function of its index; `span` is the range that its tensor declares, `hi` exclusive."""
        self[result.number] = value
        self._spans[value] = Range(*span) if span else _range_of(result.dtype)

    def read(self, s: Read) -> Let:
        """The symbol of what a register holds, which has to count if the register becomes a use."""
        held = self[s.result.number] = symbol_named(f"value{s.result.number}")
        self._held.add(held)
        counts = s.register in self._of_uses and s.register not in self._slow
        most = MOST_SLOW if s.register in self._slow else MOST_COUNTED if counts else None
        self._spans[held] = _range_of(s.register.dtype) if most is None else Range(-most, most + 1)
        if most is not None:
            self._counting.add(held)
        return Let(held, symbol_of(s.register), line_of(s) if counts else "")

    def index(self, symbol: Symbol, operand: Value) -> Expr:
        """A known number as an index; of data not less than the program claims of it."""
        value, claimed = as_integer(self[operand.number]), as_expr(self.ranges[symbol].lo)
        if not claimed.is_Integer or not self._data_in(value) or self._counting & value.free_symbols:
            return value
        least = self._bounds(value).lo
        return value if least is not None and least >= claimed else Larger(value, claimed)

    def _in_type(self, value: Expr | Cond, dtype: DType) -> Expr | Cond:
        """A value as its type has it: itself, or a function of it where that may not fit."""
        if not isinstance(value, sympy.Expr) or dtype.name == "index" or not is_integer(dtype):
            return value
        found, (least, greatest) = self._bounds(value), dtype.span
        if found.lo is not None and found.hi is not None and least <= found.lo and found.hi <= greatest:
            return value
        wrapped = sympy.Function(f"as {dtype.name}", integer=True)(value)
        self._spans[wrapped] = _range_of(dtype)
        return wrapped

    def _data_in(self, value: Expr | Cond) -> set[Expr]:
        return set(value.atoms(sympy.core.function.AppliedUndef)) | (self._held & value.free_symbols)

    def _bounds(self, value: Expr) -> Bounds:
        """The least and greatest value, by the ranges of the kernel's symbols and of the data."""
        spans: dict[Any, Range] = {
            without_functions(d): self._spans[d] for d in self._data_in(value) if d in self._spans
        }
        value = sympy.expand(without_functions(value))
        known = {s: self.ranges[s] for s in involved(value, self.ranges) if s in self.ranges}
        return bounds(value, {**known, **spans})


def _range_of(dtype: DType) -> Range:
    least, greatest = dtype.span
    return Range(least, greatest + 1)
