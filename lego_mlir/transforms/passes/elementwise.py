"""Build arithmetic on numbers or vectors alike: an operation's shape is that of the value it replaces.

Passes that expand one operation into several use it: `pattern = e.make("arith.bitcast", "i32", x)` is an i32 for an f32
and a vector<8xi32> for a vector<8xf32>.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Type, Value

EQ, NE, SLT, ULT, UGT = 0, 1, 2, 6, 8  # predicates of arith.cmpi
OEQ, OGT, OGE, OLT, UEQ, ONE = 1, 2, 3, 4, 8, 6  # predicates of arith.cmpf
_COMPARISONS: Final = ("arith.cmpi", "arith.cmpf")


class Elementwise:
    """Operations of one shape at the current insertion point."""

    def __init__(self, like: Type) -> None:
        self.ir = bindings.load().ir
        self.shape = list(self.ir.VectorType(like).shape) if isinstance(like, self.ir.VectorType) else None

    def type(self, element: str) -> Type:
        """The element type in this shape."""
        kind = self.ir.Type.parse(element)
        return kind if self.shape is None else self.ir.VectorType.get(self.shape, kind)

    def make(self, name: str, element: str, *operands: Value) -> Value:
        """The result of an operation, of this element type."""
        return self.ir.Operation.create(name, [self.type(element)], operands).results[0]

    def number(self, value: float, element: str) -> Value:
        """A constant, repeated in a vector."""
        kind = self.ir.Type.parse(element)
        is_integer = isinstance(kind, self.ir.IntegerType | self.ir.IndexType)
        attribute = self.ir.IntegerAttr.get(kind, int(value)) if is_integer else self.ir.FloatAttr.get(kind, value)
        if self.shape is not None:
            attribute = self.ir.DenseElementsAttr.get_splat(self.type(element), attribute)
        return self.ir.Operation.create(
            "arith.constant", [self.type(element)], attributes={"value": attribute}
        ).results[0]

    def compare(self, predicate: int, a: Value, b: Value) -> Value:
        """A comparison of integers or floats by its number in arith."""
        is_integer = isinstance(getattr(a.type, "element_type", a.type), self.ir.IntegerType | self.ir.IndexType)
        attributes = {"predicate": self.ir.Attribute.parse(f"{predicate} : i64")}
        return self.ir.Operation.create(
            _COMPARISONS[not is_integer], [self.type("i1")], [a, b], attributes=attributes
        ).results[0]

    def choose(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where the condition holds, `b` elsewhere."""
        return self.ir.Operation.create("arith.select", [a.type], [condition, a, b]).results[0]

    def by_elements(self, operands: Sequence[Value], make: Callable[..., Value], type_: Type) -> Value:
        """What `make` computes of numbers, for each element of vectors of this shape; `type_` is that of the whole."""
        if self.shape is None:
            return make(*operands)
        places = product(*map(range, self.shape))
        elements = [make(*(_element(operand, place) for operand in operands)) for place in places]
        return self.ir.Operation.create("vector.from_elements", [type_], elements).results[0]


def called(intrinsic: str, type_: Type, *operands: Value) -> Value:
    """The result of an intrinsic of LLVM."""
    parse = bindings.load().ir.Attribute.parse
    attributes = {
        "intrin": parse(f'"{intrinsic}"'),
        "op_bundle_sizes": parse("array<i32>"),
        "operandSegmentSizes": parse(f"array<i32: {len(operands)}, 0>"),
    }
    create = bindings.load().ir.Operation.create
    return create("llvm.call_intrinsic", [type_], list(operands), attributes=attributes).results[0]


def _element(vector: Value, place: tuple[int, ...]) -> Value:
    ir = bindings.load().ir
    position = {"static_position": ir.DenseI64ArrayAttr.get(list(place))}
    return ir.Operation.create("vector.extract", [vector.type.element_type], [vector], attributes=position).results[0]


def element_name(operation_type: Type) -> str:
    """The element type of a number or vector, as MLIR writes it."""
    return str(getattr(operation_type, "element_type", operation_type))


def replace(operation: Op, value: Value) -> None:
    """Use a value in place of an operation's only result."""
    operation.results[0].replace_all_uses_with(value)
    operation.erase()


def single_to_odd(e: Elementwise, given: Value) -> Value:
    """f64 as f32 rounded to odd, which rounding once more to a narrower type cannot spoil; see interp/rounding.py."""
    near = e.make("arith.truncf", "f32", given)
    back = e.make("arith.extf", "f64", near)
    exact = e.compare(UEQ, back, given)  # also of a NaN, which is kept
    beyond = e.compare(OGT, e.make("math.absf", "f64", back), e.make("math.absf", "f64", given))
    pattern = e.make("arith.bitcast", "i32", near)
    lower = e.make("arith.subi", "i32", pattern, e.number(1, "i32"))
    odd = e.make("arith.ori", "i32", e.choose(beyond, lower, pattern), e.number(1, "i32"))
    return e.choose(exact, near, e.make("arith.bitcast", "f32", odd))
