"""Data used as an index: its range, its expression, and its text as the user wrote it.

Only its element type bounds a loaded value, but results computed from it can have tighter bounds: `x[i] & 63` is in
0 .. 63 and `x[i] % n` is below n for any x. The intervals model machine integers: the result of an operation that may
overflow has its type's range. An operation that cannot overflow is integer arithmetic, with an index expression.

>>> from lego_mlir.tracing.trace.dtypes import i32
>>> from lego_mlir.tracing.trace.spec_line import Source
>>> x, mask, masked = Value(0, i32), Value(1, i32), Value(2, i32)
>>> here = Source("spec.py", 1)
>>> data = DataRanges()
>>> data.define(Constant(mask, 63, here))
>>> data.define(Compute(masked, "and", (x, mask), here))
>>> data.range(masked), data.range(x), data.text(masked)
((0, 63), (-2147483648, 2147483647), '%0 & 63')
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sympy

from lego_mlir.aliases import Expr
from lego_mlir.errors import brief
from lego_mlir.expr import nodes
from lego_mlir.expr.intervals import Bounds, bounds
from lego_mlir.expr.nodes import Larger, Le, Lt, Ne, Smaller
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import (
    Atomic,
    Compose,
    Compute,
    Constant,
    Convert,
    FromCondition,
    FromIndex,
    Lane,
    Load,
    MlirOperation,
    Statement,
    Value,
)
from lego_mlir.transforms.index_operations import OPERATIONS

Span = tuple[int, int]  # both ends inclusive
SHUFFLE_AMONG: Final = "nvvm.shfl.sync"  # with members
SHUFFLES: Final = {"gpu.shuffle": 0, SHUFFLE_AMONG: 1}  # which operand is the value of another thread
COLUMNS: Final = 60  # of the text of a value

INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|",
    "xor": "^", "lshift": "<<", "rshift": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


class DataRanges:
    """The statements that define a kernel's values, and the ranges that follow."""

    def __init__(self, index_bounds: Callable[[Any], Bounds] = lambda expr: Bounds(None, None)) -> None:
        self.index_bounds = index_bounds
        self._definitions: dict[int, Statement] = {}
        self._spans: dict[int, Span] = {}
        self.names: dict[int, str] = {}  # of scalar parameters
        self.symbols: dict[Any, Value] = {}  # symbols of index expressions that represent data
        self.claimed: dict[Any, Range] = {}  # symbols whose range is claimed

    def define(self, statement: Any) -> None:
        """Record a statement that defines a value."""
        result = getattr(statement, "result", None)
        if isinstance(statement, MlirOperation) and statement.name in SHUFFLES:
            result = statement.results[0]
        if result is not None:
            self._definitions[result.number] = statement

    def range(self, value: Value) -> Span:
        """The least and the greatest possible integer of a value."""
        pending = [value]
        while pending:
            current = pending[-1]
            missing = [o for o in self._operands(current) if o.number not in self._spans]
            if missing:
                pending += missing
            else:
                self._spans.setdefault(current.number, self._span(current))
                pending.pop()
        return self._spans[value.number]

    def range_of(self, value: Value) -> Range:
        """The range of a value; its ends are expressions of sizes where a tensor's elements are declared so."""
        declared = self.declared(value)
        if declared is not None:
            return Range(*declared)
        low, high = self.range(value)
        return Range(low, high + 1)

    def input_of(self, value: Value) -> str | None:
        """The name of the argument that a value is, or is an element of; None for a computed or exchanged value."""
        match self._definitions.get(value.number):
            case Load(access=access) if access.buffer.space == "global":
                return access.buffer.name
            case _:
                return self.names.get(value.number)

    def converted_from(self, value: Value) -> Expr | None:
        """The index that a value was made from, which it equals where its type holds it; None for any other value."""
        match self._definitions.get(value.number):
            case FromIndex(expr=expr) if value.dtype.family == "int":
                return expr
        return None

    def declared(self, value: Value) -> tuple[Any, Any] | None:
        """The declared range of the tensor that a value is an element of."""
        match self._definitions.get(value.number):
            case Load(access=access, other=other) if value.dtype.family == "int" and access.buffer.values is not None:
                lo, hi = access.buffer.values
                if other is None:
                    return lo, hi
                least, most = self.range(other)
                inside = isinstance(prove(sympy.And(Le(lo, least), Lt(most, hi)), {}), Proved)
                return (lo, hi) if inside else None
            case Convert(operand=operand) if operand.dtype.family == "int" and value.dtype.family == "int":
                self.range(value)
                return self.declared(operand) if self._exact_span(value) is not None else None
            case Lane(operand=operand) | Compose(operands=(operand,)):
                return self.declared(operand)
            case _:
                return None

    def _declared_span(self, load: Load) -> Span | None:
        """The least and the greatest value of the declared range of a loaded integer, as far as they are known."""
        declared = None if load.result.dtype.is_float else self.declared(load.result)
        if declared is None:
            return None
        whole, (lo, hi) = load.result.dtype.span, (bounds(end, {}) for end in declared)
        return (
            whole[0] if lo.lo is None else max(whole[0], lo.lo),
            whole[1] if hi.hi is None else min(whole[1], hi.hi - 1),
        )

    def _operands(self, value: Value) -> tuple[Value, ...]:
        """The values that a value's range follows from."""
        match self._definitions.get(value.number):
            case Compute(operation="select", operands=(_, *operands)):
                found = tuple(operands)
            case Compute(operands=operands) | Compose(operands=operands):
                found = operands
            case Convert(operand=operand) | Lane(operand=operand):
                found = (operand,)
            case MlirOperation(name=name, operands=operands):
                found = (operands[SHUFFLES[name]],)
            case _:
                found = ()
        return () if any(o.dtype.is_float for o in found) else found

    def _span(self, value: Value) -> Span:
        exact = self._exact_span(value)
        return value.dtype.span if exact is None else exact

    def _exact_span(self, value: Value) -> Span | None:
        """The range of an operation in exact integer arithmetic; None where it may overflow."""
        whole = value.dtype.span
        spans = [self._spans[o.number] for o in self._operands(value)]
        exact: Span | None = None
        match self._definitions.get(value.number):
            case Constant(number=number):
                exact = (int(number), int(number))
            case Load() as load:
                exact = self._declared_span(load)
            case FromIndex(expr=expr):
                exact = self._index_span(expr)
            case Compute(operation=operation) if spans and operation in _COUNTS:
                exact = (0, value.dtype.bits)
            case Compute(operation=operation) if spans and operation in _operations(value.dtype):
                exact = _EXACT[operation](*spans)
                if operation in _SHIFTS and not 0 <= spans[1][0] <= spans[1][1] < value.dtype.bits:
                    exact = None  # a shift by the type's bits or more is undefined
            case Convert() | Lane() | MlirOperation() if spans:
                exact = spans[0]
            case Compose() if spans:
                exact = _hull(*spans)
        return exact if exact is not None and whole[0] <= exact[0] and exact[1] <= whole[1] else None

    def _index_span(self, expr: Expr) -> Span | None:
        """The range of an index, where both ends are known; of a clamped one also where only the other end is."""
        known = self.index_bounds(expr)
        lo, hi = known.lo, known.hi
        if isinstance(expr, Larger | Smaller):
            ends = [self.index_bounds(side) for side in expr.args]
            if isinstance(expr, Larger) and hi is None and all(end.hi is not None for end in ends):
                hi = max(end.hi for end in ends if end.hi is not None)
            if isinstance(expr, Smaller) and lo is None and all(end.lo is not None for end in ends):
                lo = min(end.lo for end in ends if end.lo is not None)
        return None if lo is None or hi is None else (lo, hi)

    def expression(self, value: Value, leaf: Callable[[Value], Any], depth: int = 8) -> Any:
        """An integer value as an index expression; `leaf` gives the symbol of a value that has none."""
        self.range(value)
        exact = depth > 0 and value.dtype.family == "int" and self._exact_span(value) is not None
        match self._definitions.get(value.number):
            case Constant(number=number):
                return sympy.Integer(int(number))
            case FromIndex(expr=expr) if exact:
                return expr
            case Convert(operand=operand) if exact and operand.dtype.family == "int":
                return self.expression(operand, leaf, depth - 1)
            case Compute(operation=operation, operands=operands) if exact and operation in _WRITTEN:
                return nodes.OF_OPERATORS[operation](*(self.expression(o, leaf, depth - 1) for o in operands))
            case _:
                return leaf(value)

    def condition(self, value: Value, leaf: Callable[[Value], Any], depth: int = 8) -> Any:
        """An i1 as an index condition over the symbols that `leaf` gives."""
        match self._definitions.get(value.number):
            case FromCondition(condition=condition):
                return condition
            case Compute(operation=operation, operands=operands) if depth > 0 and operation in ("and", "or"):
                parts = [self.condition(o, leaf, depth - 1) for o in operands]
                return sympy.And(*parts) if operation == "and" else sympy.Or(*parts)
            case Compute(operation="xor", operands=(a, b)) if depth > 0:
                one, other = (self.condition(o, leaf, depth - 1) for o in (a, b))
                return sympy.Or(sympy.And(one, sympy.Not(other)), sympy.And(other, sympy.Not(one)))
            case Constant(number=number):
                return sympy.true if number else sympy.false
            case Compute(operation=operation, operands=(a, b)) if operation in _COMPARED and a.dtype.family == "int":
                return nodes.OF_OPERATORS[operation](*(self.expression(o, leaf, depth - 1) for o in (a, b)))
            case _:
                return Ne(leaf(value), 0)

    def text(self, value: Value) -> str:
        """The value as the user wrote it, shortened to COLUMNS."""
        return brief(self._text(value, 6), COLUMNS)

    def _text(self, value: Value, depth: int) -> str:
        if depth == 0:
            return ".."
        match self._definitions.get(value.number):
            case Constant(number=number):
                return str(number)
            case Load(access=access) | Atomic(access=access):
                return f"{access.buffer.name}[{', '.join(map(str, access.index))}]"
            case FromIndex(expr=expr):
                return str(expr)
            case Compute(operation=operation, operands=(a, b)) if operation in INFIX:
                return f"{self._part(a, depth)} {INFIX[operation]} {self._part(b, depth)}"
            case Compute(operation=operation, operands=operands):
                return f"{operation}({', '.join(self._text(o, depth - 1) for o in operands)})"
            case Convert(operand=operand):
                return self._text(operand, depth)
            case Lane(operand=operand, lane=lane):
                return f"{self._part(operand, depth)}[{lane}]"
            case Compose(operands=(operand,)):
                return self._text(operand, depth)
            case _:
                return self.names.get(value.number, str(value))

    def _part(self, value: Value, depth: int) -> str:
        text = self._text(value, depth - 1)
        return f"({text})" if " " in text and not text.endswith((")", "]")) else text


def _hull(*spans: Span) -> Span:
    return min(low for low, _ in spans), max(high for _, high in spans)


def _by_known(divided: Callable[[Span, Span], Span | None]) -> Callable[[Span, Span], Span | None]:
    """A division whose divisor is known not to be 0, for which data have some value."""
    return lambda a, b: divided(a, b) if b[0] > 0 else None


def _absolute(a: Span) -> Span:
    return (0 if a[0] <= 0 <= a[1] else min(map(abs, a))), max(map(abs, a))


_COMPARED: Final = ("eq", "ne", "lt", "le", "gt", "ge")
_SHIFTS: Final = ("lshift", "rshift")
_COUNTS: Final = ("popcount", "clz", "ctz")  # of an integer's bits
_ON_BITS: Final = (
    "and",
    "or",
    "xor",
    "select",
)  # the operations that an i1 shares with wider integers: as a number, true is -1


def _operations(dtype: DType) -> Container[str]:
    return _ON_BITS if dtype.family == "bool" else _EXACT


_DIVISIONS: Final = {"floordiv": "floordivs", "mod": "mod", "div_trunc": "divs", "rem_trunc": "rems"}
_KINDS: Final = {
    "add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "lshift": "shl", "rshift": "shrs",
    "minimum": "mins", "maximum": "maxs",
}  # fmt: skip
"""The operations of integers by their row of `index_operations`; the type's bits decide what fits."""
_EXACT: dict[str, Callable[..., Span | None]] = {
    **{name: OPERATIONS[kind].bounds for name, kind in _KINDS.items()},
    **{name: _by_known(OPERATIONS[kind].bounds) for name, kind in _DIVISIONS.items()},
    "neg": lambda a: (-a[1], -a[0]),
    "abs": _absolute,
    "sign": lambda a: ((a[0] > 0) - (a[0] < 0), (a[1] > 0) - (a[1] < 0)),
    "select": _hull,
}
_WRITTEN: Final = _EXACT.keys() & nodes.OF_OPERATORS.keys() - {"select"}
"""The operations that are operations of expressions where their results are exact."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """The assumption that no two elements of a tensor are equal, of those from `among[0]` to below `among[1]`."""

    source: Source
    among: tuple[Expr, Expr] | None = None

    def subs(self, sizes: Mapping[str, Any]) -> Distinct:
        """The same with values, or expressions of other sizes, for the sizes in the range."""
        if self.among is None:
            return self
        lo, end = (e.subs({s: sizes[str(s)] for s in e.free_symbols}, simultaneous=True) for e in self.among)
        return Distinct(self.source, (lo, end))

    def __str__(self) -> str:
        return "" if self.among is None else f" from {self.among[0]} to below {self.among[1]}"
