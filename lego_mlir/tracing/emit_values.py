"""Operations on data as MLIR: arithmetic, comparisons, conversions and constants, on scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lego_mlir.printers.builder import Builder
from lego_mlir.tracing import dtypes
from lego_mlir.tracing.dtypes import DType
from lego_mlir.tracing.operators import OPERATORS
from lego_mlir.tracing.trace import Value


class ValueEmitter:
    """Emits the operations of `operators.OPERATORS` at the current insertion point."""

    def __init__(self, build: Builder) -> None:
        self.build = build

    def constant(self, number: int | float, like: Value) -> Any:
        """A number in the type of `like`, repeated in a vector."""
        ir, kind = self.build.ir, self.build.type(like.dtype.mlir)
        attribute = ir.FloatAttr.get(kind, number) if like.dtype.is_float else ir.IntegerAttr.get(kind, int(number))
        if like.width is not None:
            attribute = ir.DenseElementsAttr.get_splat(self.build.type(like.mlir), attribute)
        return ir.Operation.create(
            "arith.constant", results=[self.build.type(like.mlir)], attributes={"value": attribute}
        ).results[0]

    def compute(self, name: str, operands: Sequence[Value], given: Sequence[Any], result: Value) -> Any:
        """One operation of the table."""
        operator, dtype = OPERATORS[name], operands[-1].dtype
        if operator.in_f32 and dtype.bits == 16:
            return self._in_f32(name, operands[0], given[0], result)
        what = operator.floats if dtype.is_float else operator.integers
        if operator.predicates:
            number = operator.predicates[0 if dtype.is_float else 1]
            return self.build.value(what, given, result.mlir, {"predicate": f"{number} : i64"})
        if what in ("negation", "absolute value"):
            negated = self.build.value("arith.subi", (self.constant(0, result), given[0]), result.mlir)
            if what == "negation":
                return negated
            return self.build.value("arith.maxsi", (given[0], negated), result.mlir)
        if what == "floor remainder":
            return self._floor_remainder(given[0], given[1], result)
        return self.build.value(what, given, result.mlir)

    def _in_f32(self, name: str, operand: Value, given: Any, result: Value) -> Any:
        wide = Value(result.number, dtypes.f32, result.width)
        extended = self.convert(given, operand, wide)
        computed = self.build.value(OPERATORS[name].floats, (extended,), wide.mlir)
        return self.convert(computed, wide, result)

    def _floor_remainder(self, a: Any, b: Any, result: Value) -> Any:
        """Python's remainder, with the sign of b. The hardware's has that of a; where they differ, b is added."""
        kind, truth = result.mlir, Value(result.number, dtypes.i1, result.width).mlir
        zero = self.constant(0, result)
        remainder = self.build.value("arith.remsi", (a, b), kind)
        signs = self.build.value("arith.xori", (remainder, b), kind)
        opposite = self.build.value("arith.cmpi", (signs, zero), truth, {"predicate": "2 : i64"})
        some = self.build.value("arith.cmpi", (remainder, zero), truth, {"predicate": "1 : i64"})
        wrong = self.build.value("arith.andi", (opposite, some), truth)
        moved = self.build.value("arith.addi", (remainder, b), kind)
        return self.build.value("arith.select", (wrong, moved, remainder), kind)

    def convert(self, given: Any, source: Value, result: Value) -> Any:
        """The same number in another element type; floats round to nearest even, and towards zero to integers."""
        a, b = source.dtype, result.dtype
        if b.family == "bool":
            name, number = ("arith.cmpf", 13) if a.is_float else ("arith.cmpi", 1)
            zero = self.constant(0, source)
            return self.build.value(name, (given, zero), result.mlir, {"predicate": f"{number} : i64"})
        if a.is_float and b.is_float and a.bits == b.bits:  # f16 and bf16: neither holds the other
            wide = Value(result.number, dtypes.f32, result.width)
            return self.convert(self.convert(given, source, wide), wide, result)
        return self.build.value(_conversion(a, b), (given,), result.mlir)

    def to_index(self, given: Any, source: Value) -> Any:
        """An integer as an index; a truth value is 0 or 1."""
        name = "arith.index_castui" if source.dtype.family == "bool" else "arith.index_cast"
        return self.build.value(name, (given,), "index")


def _conversion(a: DType, b: DType) -> str:
    if a.is_float and b.is_float:
        return "arith.extf" if b.bits > a.bits else "arith.truncf"
    if a.is_float:
        return "arith.fptosi"
    if b.is_float:
        return "arith.uitofp" if a.family == "bool" else "arith.sitofp"
    if a.family == "bool":
        return "arith.extui"
    return "arith.extsi" if b.bits > a.bits else "arith.trunci"
