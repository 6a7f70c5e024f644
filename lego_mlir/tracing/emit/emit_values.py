"""Operations on data as MLIR: arithmetic, comparisons, conversions and constants, on scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lego_mlir.printers.builder import Builder
from lego_mlir.tracing.emit.emit_functions import EXPANSIONS, number
from lego_mlir.tracing.trace import dtypes
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.operators import OPERATORS, Operator
from lego_mlir.tracing.trace.trace import Value


class ValueEmitter:
    """Emits the operations of `operators.OPERATORS` at the current insertion point."""

    def __init__(self, build: Builder) -> None:
        self.build = build

    def constant(self, value: int | float, like: Value) -> Any:
        """A number in the type of `like`, repeated in a vector."""
        return number(self.build, value, like)

    def compute(self, name: str, operands: Sequence[Value], given: Sequence[Any], result: Value) -> Any:
        """One operation of the table."""
        operator, dtype = OPERATORS[name], operands[-1].dtype
        if operator.in_f32 and dtype.bits == 16:
            return self._in_f32(name, operands, given, result)
        what = operator.on(dtype)
        if operator.predicates:
            return self.build.value(what, given, result.mlir, {"predicate": f"{operator.predicate(dtype)} : i64"})
        if what in EXPANSIONS:
            return EXPANSIONS[what](self.build, given, operands[-1])
        return self.build.value(what, given, result.mlir, _flags(operator))

    def _in_f32(self, name: str, operands: Sequence[Value], given: Sequence[Any], result: Value) -> Any:
        wide = replace(result, dtype=dtypes.f32)
        extended = [self.convert(g, operand, wide) for g, operand in zip(given, operands, strict=True)]
        computed = self.build.value(OPERATORS[name].floats, extended, wide.mlir, _flags(OPERATORS[name]))
        return self.convert(computed, wide, result)

    def convert(self, given: Any, source: Value, result: Value) -> Any:
        """The same number in another element type; floats round to nearest even, and towards zero to integers."""
        a, b = source.dtype, result.dtype
        if _needs_f32(a, b):
            wide = replace(result, dtype=dtypes.f32)
            return self.convert(self.convert(given, source, wide), wide, result)
        if b.family == "bool":
            name, predicate = ("arith.cmpf", 13) if a.is_float else ("arith.cmpi", 1)
            zero = self.constant(0, source)
            return self.build.value(name, (given, zero), result.mlir, {"predicate": f"{predicate} : i64"})
        if a.mlir == b.mlir:  # integers of the same bits
            return given
        return self.build.value(_conversion(a, b), (given,), result.mlir)

    def to_index(self, given: Any, source: Value) -> Any:
        """An integer as an index; a truth value is 0 or 1."""
        name = "arith.index_castui" if source.dtype.is_unsigned else "arith.index_cast"
        return self.build.value(name, (given,), "index")

    def from_memory(self, given: Any, result: Value) -> Any:
        """A value as loaded: the byte of a truth value is compared with 0."""
        if result.dtype.family != "bool":
            return given
        byte = Value(result.number, dtypes.u8, result.width)
        return self.convert(given, byte, result)

    def to_memory(self, given: Any, value: Value) -> Any:
        """A value as it is stored: a truth value as the byte 0 or 1."""
        if value.dtype.family != "bool":
            return given
        return self.convert(given, value, Value(value.number, dtypes.u8, value.width))


def _flags(operator: Operator) -> dict[str, str]:
    return {"fastmath": "#arith.fastmath<afn>"} if operator.fast else {}


def _needs_f32(a: DType, b: DType) -> bool:
    """Whether a conversion goes through f32, which rounds nothing that the result does not round.

    Of f16 and bf16 neither holds the other. An integer that f32 rounds is beyond every f8, where it saturates.
    """
    if a.is_float and b.is_float:
        return a.bits == b.bits
    return (a.is_f8 or b.is_f8) and a.is_float != b.is_float


def _conversion(a: DType, b: DType) -> str:
    if a.is_float and b.is_float:
        return "arith.extf" if b.bits > a.bits else "arith.truncf"
    if a.is_float:
        return "arith.fptoui" if b.is_unsigned else "arith.fptosi"
    if b.is_float:
        return "arith.uitofp" if a.is_unsigned else "arith.sitofp"
    if b.bits < a.bits:
        return "arith.trunci"
    return "arith.extui" if a.is_unsigned else "arith.extsi"
