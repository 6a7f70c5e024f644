"""Index computations of a kernel evaluated for every thread, tile and step at once.

An index of a kernel depends on few things: the thread, the tile's position, a loop's variable. Each is an axis here,
and a value is a sum of NumPy arrays, each along the axes that it depends on. Sums stay apart, so that 256 threads x
8192 tiles x 256 steps take no product of sizes; other operations combine their operands' axes:

>>> threads = Axis("thread", range(256))
>>> value = AxisSum.along(threads).scaled(8) + AxisSum.along(Axis("step", range(4))).scaled(64)
>>> [(axes, array.shape) for axes, array in sorted(value.parts.items())]
[(('step',), (4,)), (('thread',), (256,))]

`IndexValues` evaluates a value of a module so. What it cannot evaluate it refuses by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import numpy as np

from lego_mlir import bindings
from lego_mlir.aliases import AffineExpr, Attribute, Op, Value
from lego_mlir.transforms.modules import ModuleError

Array = np.ndarray[Any, Any]
Names = tuple[str, ...]
MOST: Final = 1 << 26
"""Elements of an array that is made; a kernel that needs more is refused."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What an index may depend on, and its values."""

    name: str
    values: range


class AxisSum:
    """A sum of arrays, by the names of their axes in sorted order; the constant has none."""

    __slots__ = ("parts",)

    def __init__(self, parts: Mapping[Names, Array]) -> None:
        self.parts = dict(parts)

    @classmethod
    def constant(cls, value: int) -> AxisSum:
        return cls({(): np.asarray(value, np.int64)})

    @classmethod
    def along(cls, axis: Axis) -> AxisSum:
        return cls({(axis.name,): np.arange(axis.values.start, axis.values.stop, axis.values.step, dtype=np.int64)})

    @property
    def axes(self) -> frozenset[str]:
        """Everything that the value depends on."""
        return frozenset(name for names in self.parts for name in names)

    @property
    def fixed(self) -> int | None:
        """The value of a constant, None for others."""
        return int(self.over(())) if not self.axes else None

    def __add__(self, other: AxisSum) -> AxisSum:
        parts = dict(self.parts)
        for names, array in other.parts.items():
            parts[names] = parts[names] + array if names in parts else array
        return AxisSum(parts)

    def scaled(self, factor: int) -> AxisSum:
        return AxisSum({names: array * factor for names, array in self.parts.items()})

    def over(self, names: Sequence[str]) -> Array:
        """The value as one array over these axes, in this order; an axis that it does not depend on has size 1."""
        return reduce(np.add, (_placed(own, array, names) for own, array in self.parts.items()))

    def part(self, name: str) -> Array:
        """The summand along one axis."""
        return self.parts.get((name,), np.zeros(1, np.int64))

    @property
    def largest(self) -> int:
        """A bound of the value: the sum of the largest summands."""
        return int(sum(array.max() for array in self.parts.values()))

    def among(self, *names: str) -> AxisSum:
        """The constant and the summands along these axes only, 0 where there are none."""
        found = {own: array for own, array in self.parts.items() if set(own) <= set(names)}
        return AxisSum(found) if found else AxisSum.constant(0)


def _placed(own: Names, array: Array, names: Sequence[str]) -> Array:
    """An array whose axes are among `names`, with size 1 along the others."""
    order = sorted(own, key=list(names).index)
    moved = np.transpose(array, [own.index(name) for name in order])
    sizes = iter(moved.shape)
    return moved.reshape([next(sizes) if name in own else 1 for name in names])


def combined(function: Callable[..., Array], *values: AxisSum) -> AxisSum:
    """A function of whole values, over all their axes together."""
    names = tuple(sorted(frozenset().union(*(value.axes for value in values))))
    arrays = [value.over(names) for value in values]
    if np.prod(np.broadcast_shapes(*(a.shape for a in arrays)), dtype=np.int64) > MOST:
        raise ModuleError(f"an index depends on {', '.join(names)} together, more than {MOST} combinations")
    return AxisSum({names: np.asarray(function(*arrays))})


def _divided(a: Array, b: Array) -> Array:
    """The quotient rounded to zero."""
    return np.where(a >= 0, a // b, -(-a // b))


def _unsigned(bits: int, a: Array) -> Array:
    """The number that the low bits represent without a sign."""
    return a.astype(np.int64) & (1 << bits) - 1


def _signed(bits: int, a: Array) -> Array:
    """The number that the low bits represent with a sign."""
    half = 1 << bits - 1
    return (a + half & (1 << bits) - 1) - half


# Of the operations on indices, what NumPy computes; `arith` and `index` name them differently.
_OPERATIONS: Final[dict[str, Callable[..., Array]]] = {
    "arith.divui": np.floor_divide, "index.divu": np.floor_divide, "arith.remui": np.mod, "index.remu": np.mod,
    "arith.floordivsi": np.floor_divide, "index.floordivs": np.floor_divide, "arith.divsi": _divided,
    "index.divs": _divided, "arith.remsi": np.fmod, "index.rems": np.fmod,
    "arith.minsi": np.minimum, "arith.minui": np.minimum, "index.mins": np.minimum, "index.minu": np.minimum,
    "arith.maxsi": np.maximum, "arith.maxui": np.maximum, "index.maxs": np.maximum, "index.maxu": np.maximum,
    "arith.andi": np.bitwise_and, "index.and": np.bitwise_and, "arith.ori": np.bitwise_or, "index.or": np.bitwise_or,
    "arith.xori": np.bitwise_xor, "index.xor": np.bitwise_xor, "arith.shli": np.left_shift,
    "index.shl": np.left_shift, "arith.shrui": np.right_shift, "index.shru": np.right_shift,
    "arith.shrsi": np.right_shift, "index.shrs": np.right_shift, "arith.select": np.where,
}  # fmt: skip
SUMS: Final = ("arith.addi", "index.add")
DIFFERENCES: Final = ("arith.subi", "index.sub")
PRODUCTS: Final = ("arith.muli", "index.mul")
CONSTANTS: Final = ("arith.constant", "index.constant")
CASTS: Final = ("arith.index_cast", "index.casts", "index.castu", "arith.index_castui")
COMPARISONS: Final = ("arith.cmpi", "index.cmp")
_BY_NAME: Final[dict[str, Callable[..., Array]]] = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater,
    "sge": np.greater_equal, "ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal,
}  # fmt: skip
_BY_NUMBER: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


class IndexValues:
    """The values of index computations; `axes` gives those of arguments, ids and loop variables."""

    def __init__(self, axes: Mapping[Value, AxisSum]) -> None:
        self.ir = bindings.load().ir
        self.known: dict[Value, AxisSum] = dict(axes)

    def of(self, value: Value) -> AxisSum:
        """The value over its axes. Raises ModuleError for an operation that is not one on indices."""
        if value not in self.known:
            operation = getattr(value.owner, "operation", None)
            if operation is None:
                raise ModuleError(f"{value} is an argument of a region that is not a known loop")
            self.known[value] = self._computed(operation)
        return self.known[value]

    def _computed(self, operation: Op) -> AxisSum:
        name, operands = operation.name, list(operation.operands)
        if name == "affine.apply":
            return self._affine(operation)
        if name in CONSTANTS:
            return AxisSum.constant(_integer(operation.attributes["value"]))
        if name in CASTS:
            return self.of(operands[0])
        if name in ("arith.extui", "arith.trunci"):
            narrow = operands[0] if name == "arith.extui" else operation.results[0]
            bits = self.ir.IntegerType(narrow.type).width
            return combined(partial(_unsigned if name == "arith.extui" else _signed, bits), self.of(operands[0]))
        if name in SUMS:
            return self.of(operands[0]) + self.of(operands[1])
        if name in DIFFERENCES:
            return self.of(operands[0]) + self.of(operands[1]).scaled(-1)
        if name in PRODUCTS:
            return _product(*map(self.of, operands))
        if name in COMPARISONS:
            return combined(_BY_NAME[predicate_of(operation)], *map(self.of, operands))
        if name in _OPERATIONS:
            return combined(_OPERATIONS[name], *map(self.of, operands))
        raise ModuleError(f"{operation.location}: {name} is not a computation on indices")

    def _affine(self, operation: Op) -> AxisSum:
        ir, operands = self.ir, list(operation.operands)
        affine = ir.AffineMapAttr(operation.attributes["map"]).value

        def made(expr: AffineExpr) -> AxisSum:
            match expr:
                case ir.AffineConstantExpr():
                    return AxisSum.constant(expr.value)
                case ir.AffineDimExpr():
                    return self.of(operands[expr.position])
                case ir.AffineSymbolExpr():
                    return self.of(operands[affine.n_dims + expr.position])
                case ir.AffineAddExpr():
                    return made(expr.lhs) + made(expr.rhs)
                case ir.AffineMulExpr():
                    return _product(made(expr.lhs), made(expr.rhs))
                case ir.AffineModExpr():
                    return combined(np.mod, made(expr.lhs), made(expr.rhs))
                case ir.AffineFloorDivExpr():
                    return combined(np.floor_divide, made(expr.lhs), made(expr.rhs))
            return combined(lambda a, b: -(-a // b), made(expr.lhs), made(expr.rhs))

        return made(affine.results[0])


def _product(a: AxisSum, b: AxisSum) -> AxisSum:
    for one, other in ((a, b), (b, a)):
        if one.fixed is not None:
            return other.scaled(one.fixed)
    return combined(np.multiply, a, b)


def _integer(attribute: Attribute) -> int:
    ir = bindings.load().ir
    return int(ir.BoolAttr(attribute).value if isinstance(attribute, ir.BoolAttr) else ir.IntegerAttr(attribute).value)


def predicate_of(operation: Op) -> str:
    """The predicate of a comparison of integers."""
    if operation.name == "arith.cmpi":
        return _BY_NUMBER[bindings.load().ir.IntegerAttr(operation.attributes["predicate"]).value]
    return str(operation.attributes["pred"]).split("cmp_predicate ")[1].rstrip(">")
