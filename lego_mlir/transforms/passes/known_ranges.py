"""The range of an index value, from constants and the declared ranges of a kernel's sizes.

%n = affine.apply (d0 + 31) floordiv 32 (%K),  %K: index {lego.range = array<i64: 96, 4096>}    ->    (3, 128)
"""

from __future__ import annotations

from lego_mlir import bindings
from lego_mlir.aliases import AffineExpr, Value
from lego_mlir.transforms.index_operations import AFFINE, I64, KIND_OF, Interval, bounds, within
from lego_mlir.transforms.kernel_facts import RANGE_ATTRIBUTE
from lego_mlir.transforms.passes.operations import producer


def range_of(value: Value) -> Interval:
    """Bounds of a value, both inclusive; those of i64 where nothing is known."""
    source = producer(value)
    if source is None:
        return _declared(value)
    ir, operands = bindings.load().ir, list(source.operands)
    if source.name in ("arith.constant", "index.constant"):
        number = int(ir.IntegerAttr(source.attributes["value"]).value)
        return number, number
    if source.name == "affine.apply":
        affine = ir.AffineMapAttr(source.attributes["map"]).value
        return _affine(affine.results[0], operands, affine.n_dims)
    if source.name in KIND_OF:
        return _combined(KIND_OF[source.name], *map(range_of, operands))
    return I64


def _combined(kind: str, a: Interval, b: Interval) -> Interval:
    """Bounds of an operation's result, which wraps around where they leave 64 bits."""
    found = bounds(kind, a, b)
    return I64 if found is None or not within(found, I64) else found


def _declared(argument: Value) -> Interval:
    """The range of a size among the kernel's arguments."""
    ir, function = bindings.load().ir, argument.owner.owner.operation
    if function.name != "gpu.func" or "arg_attrs" not in function.attributes:
        return I64
    described = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
    if argument.arg_number >= len(described) or RANGE_ATTRIBUTE not in described[argument.arg_number]:
        return I64
    low, high = ir.DenseI64ArrayAttr(described[argument.arg_number][RANGE_ATTRIBUTE])
    return int(low), int(high)


def _affine(expr: AffineExpr, operands: list[Value], dims: int) -> Interval:
    ir = bindings.load().ir
    match expr:
        case ir.AffineConstantExpr():
            return expr.value, expr.value
        case ir.AffineDimExpr():
            return range_of(operands[expr.position])
        case ir.AffineSymbolExpr():
            return range_of(operands[dims + expr.position])
    return _combined(AFFINE[type(expr).__name__], *(_affine(side, operands, dims) for side in (expr.lhs, expr.rhs)))
