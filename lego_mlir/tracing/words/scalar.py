"""The data a kernel computes with: loaded values, constants, and the results of Python's operators on them.

A kernel has two kinds of numbers. An *index* (`lego.thread_id[0]`, a loop's variable, a size) is a symbolic
integer with a proved range. *Data* is a `Scalar`: a number, or a short vector of them, of one element type, whose
value is known only when the kernel runs. A Python number takes the type of the other operand; operands of different
types are an error, because where to round is the author's decision: `x.to(f32) * y`. An integer `Scalar` may be used as
an index; its range is that of its type and of the operations on it.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import NoReturn, cast

from lego_mlir.aliases import Expr, IndexLike, Operand
from lego_mlir.errors import SymbolicBranchError
from lego_mlir.expr.index import (
    Condition,
    Index,
    PerElement,
    as_condition,
    as_expr,
    defers_to_elements,
    is_array,
    is_symbolic,
)
from lego_mlir.expr.nodes import Ne, Select
from lego_mlir.tracing.trace import dtypes
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.operators import OPERATORS, WITH_FAST, fast_form
from lego_mlir.tracing.trace.trace import (
    Compose,
    Compute,
    Constant,
    Convert,
    FromIndex,
    Lane,
    MlirOperation,
    Value,
    Width,
)
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.trace.uncompared import Uncompared
from lego_mlir.tracing.words.array_functions import of_arrays
from lego_mlir.tracing.words.claimed import claim


def _operator(name: str) -> Callable[[Scalar, Operand], Operand]:
    return lambda self, other: _binary(name, self, other)


def _reflected(name: str) -> Callable[[Scalar, Operand], Operand]:
    return lambda self, other: _binary(name, other, self)


@defers_to_elements
class Scalar:
    """Data of one element type inside a kernel: a number, or a vector where `width` is not None."""

    __slots__ = ("entry",)
    __array_ufunc__ = None

    def __init__(self, value: Value) -> None:
        self.entry = value

    @property
    def dtype(self) -> DType:
        return self.entry.dtype

    @property
    def width(self) -> Operand:  # a Width; arithmetic is on vectors and numbers
        return self.entry.width

    def __repr__(self) -> str:
        return f"<{self.entry.kind} {self.entry}>"

    def to(self, dtype: DType) -> Operand:
        """This value in another element type; `to(lego.index)` makes an index of an integer."""
        return convert(self, dtype)

    def __getitem__(self, lane: int) -> Scalar:
        """One element of a vector."""
        tracer = current("a vector's element")
        if self.width is None or not isinstance(lane, int) or not 0 <= lane < self.width:
            raise tracer.error(f"{self!r} has no element {lane!r}; a vector takes an int below its width")
        result = tracer.value(self.dtype)
        tracer.append(Lane(result, tracer.use(self.entry), lane, tracer.here()))
        return Scalar(result)

    def __iter__(self) -> Operand:
        return (self[lane] for lane in range(len(self)))

    def __len__(self) -> int:
        if self.width is None:
            raise current("a vector's elements").error(f"{self!r} is one number, not a vector")
        return self.width

    def _sympy_(self) -> Operand:
        """Data in an index expression: a symbol; an i1 becomes a condition on one."""
        tracer = current("data used as an index")
        if self.width is not None or self.dtype.is_float:
            raise tracer.error(f"{self!r} cannot be used as an index; an index is one integer, such as x.to(lego.i32)")
        if self.dtype is dtypes.u64 and tracer.data.range(self.entry)[1] > dtypes.i64.span[1]:
            raise tracer.error(
                f"{self!r} may exceed {dtypes.i64.span[1]}, the greatest index; "
                "use x % n or x & mask, or x.to(lego.i64)"
            )
        symbol = tracer.data_symbol(self.entry)
        return Ne(symbol, 0) if self.dtype.family == "bool" else symbol

    def __bool__(self) -> NoReturn:
        raise current("the truth of data").error(
            "the truth of a kernel's data is known only when it runs, so `if`, `while`, `and`, `or`, `not`, min() and "
            "max() cannot be used on it; use `with lego.when(condition):`, lego.where, &, |, ~, lego.minimum and "
            "lego.maximum"
        )

    def __hash__(self) -> NoReturn:
        raise current("data in a set or dict").error(
            f"{self!r} is known only when the kernel runs, so it cannot be in a set or a key of a dict; compare with "
            "==, and combine with |",
            SymbolicBranchError,
        )

    def __index__(self) -> NoReturn:
        raise current("data as a Python int").error(
            "a kernel's data is not known while tracing and cannot become a Python int; lego.range takes it as a bound"
        )

    def __float__(self) -> NoReturn:
        raise current("data as a Python float").error(
            "a kernel's data is not known while tracing and cannot become a Python float, so the functions of math and "
            "numpy cannot take it; convert it with .to(lego.f32), and use lego.sqrt, lego.exp and the like"
        )

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("truediv"), _reflected("truediv")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _operator("mod"), _reflected("mod")
    __lshift__, __rlshift__ = _operator("lshift"), _reflected("lshift")
    __rshift__, __rrshift__ = _operator("rshift"), _reflected("rshift")
    __and__ = __rand__ = _operator("and")
    __or__ = __ror__ = _operator("or")
    __xor__ = __rxor__ = _operator("xor")
    __lt__, __le__, __gt__, __ge__ = map(_operator, ("lt", "le", "gt", "ge"))

    def __pow__(self, other: Operand) -> Operand:
        return power(self, other)

    def __rpow__(self, other: Operand) -> Operand:
        return power(other, self)

    def __floor__(self) -> Scalar:
        return compute("floor", self)

    def __ceil__(self) -> Scalar:
        return compute("ceil", self)

    def __trunc__(self) -> Scalar:
        return compute("trunc", self)

    def __round__(self, digits: int | None = None) -> Scalar:
        if digits is not None:
            raise current("round").error(
                f"round(x, {digits}) of data: round(x) has no digits; scale x before and after"
            )
        return compute("round", self)

    def __neg__(self) -> Scalar:
        return compute("neg", self)

    def __pos__(self) -> Scalar:
        return self

    def __abs__(self) -> Scalar:
        return compute("abs", self)

    def __invert__(self) -> Scalar:
        return compute("xor", self, self.dtype.span[1] if self.dtype.is_unsigned else -1)

    def __eq__(self, other: object) -> Operand:
        return _binary("eq", self, other)

    def __ne__(self, other: object) -> Operand:
        return _binary("ne", self, other)


_PYTHON = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "xor")},
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "and": operator.and_,
    "or": operator.or_,
}


def _binary(name: str, a: Operand, b: Operand) -> Operand:
    """Data with data or a number gives data; integer data with an index (a condition) gives an index (a condition)."""
    other = a if isinstance(b, Scalar) else b
    data = b if isinstance(b, Scalar) else a
    if isinstance(other, Condition) and data.dtype.family == "bool":
        return _PYTHON[name](*(Condition(as_condition(x)) for x in (a, b)))
    if is_symbolic(other):
        if name not in _PYTHON or data.dtype.is_float:
            raise current("data").error(
                f"the index {other!r} cannot be combined with {data!r}; convert the index, for example "
                f"lego.{data.dtype}(i)"
            )
        return _PYTHON[name](Index(as_expr(a)), Index(as_expr(b)))
    return compute(name, a, b)


def compute(name: str, *operands: Operand, fast: bool | None = None) -> Scalar:
    """An operation on data. Python numbers take the element type and width of the data operands.

    `fast` asks for the approximate form; None for that of the kernel.
    """
    for operand in operands:
        if isinstance(operand, PerElement):
            return cast(Scalar, operand.map(functools.partial(compute, name, fast=fast), *operands))
    if any(map(is_array, operands)):
        return cast(Scalar, of_arrays(name, *operands))
    tracer = current(name)
    data = [o for o in operands if isinstance(o, Scalar)]
    kinds = {d.dtype for d in data}
    if not data:
        remedy = "; convert the index, for example lego.f32(i)" if any(isinstance(o, Index) for o in operands) else ""
        raise tracer.error(f"{name} takes data of a kernel, got {', '.join(map(repr, operands))}{remedy}")
    if len(kinds) != 1:
        shown = ", ".join(str(d.dtype) for d in data)
        raise tracer.error(f"{name} of different element types ({shown}); convert one, for example with .to(lego.f32)")
    (dtype,) = kinds
    if not OPERATORS[name].on(dtype):
        raise tracer.error(f"{name} is not defined for {dtype}{_remedy(name, dtype)}")
    name = _chosen(name, dtype, fast)
    widths = {d.width for d in data} - {None}
    if len(widths) > 1:
        raise tracer.error(f"{name} of vectors of different widths: {sorted(w for w in widths if w)}")
    width = next(iter(widths), None)
    values = tuple(as_value(o, dtype, width) for o in operands)
    result = tracer.value(dtypes.i1 if OPERATORS[name].gives_truth else dtype, width)
    if tracer.rounds_each:
        tracer.kept.add(result.number)
    tracer.append(Compute(result, name, values, tracer.here()))
    return Scalar(result)


def _chosen(name: str, dtype: DType, fast: bool | None) -> str:
    """The exact or the approximate form of an operation; f64 has the exact one."""
    tracer = current(name)
    if fast is not None and not isinstance(fast, bool):
        raise tracer.error(f"{name}: fast={fast!r} is True, False, or None for what the kernel says")
    if fast and dtype.bits > dtypes.f32.bits:
        raise tracer.error(
            f"{name}(.., fast=True) of {dtype}: the approximate instructions are of f32; leave fast out, or convert "
            "with .to(lego.f32)"
        )
    wanted = tracer.fast and dtype.bits <= dtypes.f32.bits if fast is None else fast
    return fast_form(name) if wanted and name in WITH_FAST else name


def power(x: Operand, y: Operand) -> Operand:
    """x to the power y; a square is a product, which rounds once."""
    for operand in (x, y):
        if isinstance(operand, PerElement):
            return operand.map(power, x, y)
    if isinstance(x, Scalar) and x.dtype.is_float and isinstance(y, Real) and y == 2:
        return compute("mul", x, x)
    return _binary("pow", x, y)


_HINTS = {
    "truediv": "; integers divide with //",
    "floordiv": "; floats divide with /",
    "mod": "; a float remainder is x - y*lego.floor(x/y)",
    "pow": "; convert to a float, for example with .to(lego.f32), or multiply",
}


def _remedy(name: str, dtype: DType) -> str:
    """What to write instead of an operation that an element type does not have."""
    if dtype.is_f8:
        return ", whose numbers are only stored and converted; compute in another type: x.to(lego.f32)"
    if dtype.family == "bool" and OPERATORS[name].integers:
        return ", a truth value; use & | ^ ~, or convert it: x.to(lego.i32)"
    if name in _HINTS:
        return _HINTS[name]
    return "; convert it, for example with .to(lego.f32)" if not dtype.is_float else "; convert it to an integer type"


def select(condition: Operand, a: Operand, b: Operand) -> Scalar:
    """`a` where the condition holds, `b` elsewhere; one of them or the condition is data."""
    tracer = current("where")
    data = [x for x in (a, b) if isinstance(x, Scalar)]
    if not data:
        example = "f32" if any(isinstance(x, float) for x in (a, b)) else "i32"
        raise tracer.error(
            f"where of {a!r} and {b!r}: give one of them an element type, for example lego.{example}({a!r})"
        )
    dtype = data[0].dtype
    if any(d.dtype != dtype for d in data):
        raise tracer.error(f"where of different element types ({data[0].dtype}, {data[1].dtype}); convert one with .to")
    width = next((d.width for d in data if d.width is not None), None)
    if width is None and isinstance(condition, Scalar):
        width = condition.width
    chosen = as_value(condition, dtypes.i1, condition.width if isinstance(condition, Scalar) else None)
    result = tracer.value(dtype, width)
    values = (chosen, as_value(a, dtype, width), as_value(b, dtype, width))
    tracer.append(Compute(result, "select", values, tracer.here()))
    return Scalar(result)


def as_value(given: Operand, dtype: DType, width: Width = None) -> Value:
    """The traced value of data, a Python number, a choice of ints or (for i1) a condition, as this type and width."""
    tracer = current("a value")
    if isinstance(given, Scalar):
        if given.dtype != dtype:
            raise tracer.error(f"a value of type {dtype} is needed here, got {given!r}; convert it with .to({dtype})")
        if given.width == width:
            return tracer.use(given.entry)
        if given.width is not None:
            raise tracer.error(f"{given!r} cannot be combined with a value of width {width or 1}")
        scalar = tracer.use(given.entry)
    elif isinstance(given, Condition):
        if dtype.family != "bool":
            raise tracer.error(
                f"the condition {given!r} is not of type {dtype}; choose with lego.where(condition, a, b)"
            )
        scalar = tracer.condition_value(given, dtype)
    elif is_symbolic(given):
        span = _span_of_choices(as_expr(given)) if dtype.is_float or dtype.family == "int" else None
        if span is None:
            raise tracer.error(f"the index {given!r} is not data; convert it, for example lego.{dtype}({given!r})")
        for number in span:
            _number(cast(Real, number), dtype)
        scalar = tracer.use(cast(Scalar, convert(given, dtype)).entry)
    elif isinstance(given, Real) or _is_truth(given):
        constant = given if isinstance(given, Real) else cast(Real, bool(given))
        scalar = tracer.value(dtype)
        tracer.append(Constant(scalar, _number(constant, dtype), tracer.here()))
    elif isinstance(given, Value):
        raise tracer.error(
            f"{given!r} is an entry of the trace: leave out .entry, or write .value for the value of a register"
        )
    else:
        raise tracer.error(f"{given!r} of type {type(given).__name__} cannot be a value of type {dtype} in a kernel")
    if width is None:
        return scalar
    spread = tracer.value(dtype, width)
    tracer.append(Compose(spread, (scalar,), tracer.here()))
    return spread


def _is_truth(given: Operand) -> bool:
    """Whether this is NumPy's True or False, which is no number."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(given, numpy.bool_)


def convert(given: Operand, dtype: DType, within: Sequence[IndexLike] | None = None) -> Operand:
    """`dtype(given)`: a number, an index or data as data of this element type; as an index for `lego.index`.

    `within` is the claimed range of an index.
    """
    if is_array(given):
        return given.astype(dtype.numpy)
    tracer = current(f"lego.{dtype}(..)")
    if isinstance(given, PerElement):
        if within is None and given.dtype.family == "index" and dtype.is_float:
            return given.to(dtype)
        return given.map(lambda value: convert(value, dtype, within), given)
    if within is not None:
        if dtype.family != "index":
            raise tracer.error(f"lego.{dtype}(.., range=..): only lego.index claims a range, of data used as an index")
        return claim(given, within)
    if dtype.is_packed or isinstance(given, Uncompared):
        return _packed(tracer, given, dtype)
    if dtype.family == "index":
        return Index(tracer.index(given))
    if isinstance(given, Scalar):
        if given.dtype == dtype:
            return given
        result = tracer.value(dtype, given.width)
        tracer.append(Convert(result, tracer.use(given.entry), tracer.here()))
        return Scalar(result)
    if isinstance(given, Condition):
        truth = Scalar(tracer.condition_value(given, dtypes.i1))
        return truth if dtype.family == "bool" else convert(truth, dtype)
    if is_symbolic(given):
        integer = dtype if dtype.family == "int" else dtypes.i64
        result = tracer.value(integer)
        tracer.append(FromIndex(result, tracer.simplified(tracer.index(given)), tracer.here()))
        return convert(Scalar(result), dtype)
    return Scalar(as_value(given, dtype))


def _packed(tracer: Tracer, given: Operand, dtype: DType) -> Operand:
    """A conversion from or to a packed type."""
    from lego_mlir.tracing.words.packed_values import PackedNumbers, decoded, encoded

    if isinstance(given, PackedNumbers):
        return given if given.dtype == dtype else decoded(given, dtype)
    if isinstance(given, Uncompared):
        raise tracer.error(f"{given!r} cannot be a value of type {dtype} in a kernel")
    return encoded(given, dtype)


def reinterpreted(given: Scalar, dtype: DType, width: int | None) -> Scalar:
    """The bits of data as `width` numbers of another type, which have as many bits."""
    tracer = current("lego.bitcast")
    value = tracer.use(given.entry)
    if value.width is None and width is None:
        if given.dtype.mlir == dtype.mlir:
            return cast(Scalar, convert(given, dtype))
        result = tracer.value(dtype)
        tracer.append(MlirOperation((result,), "arith.bitcast", (value,), (), tracer.here()))
        return Scalar(result)
    if value.width is None:
        value = tracer.value(given.dtype, 1)
        tracer.append(Compose(value, (given.entry,), tracer.here()))
    result = tracer.value(dtype, width or 1)
    tracer.append(MlirOperation((result,), "vector.bitcast", (value,), (), tracer.here()))
    return Scalar(result) if width is not None else Scalar(result)[0]


def vector(*elements: Operand) -> Operand:
    """A vector of data or packed numbers of one type: `lego.vector(a, b, c, d)`; its width is a power of two."""
    tracer = current("lego.vector")
    if elements and all(isinstance(e, Uncompared) for e in elements):
        from lego_mlir.tracing.words.packed_values import joined_numbers

        return joined_numbers(elements)
    data = [e for e in elements if isinstance(e, Scalar)]
    if not data or len(elements) & (len(elements) - 1):
        raise tracer.error(f"lego.vector takes 2, 4, 8 or 16 elements, at least one of them data, got {len(elements)}")
    dtype = data[0].dtype
    result = tracer.value(dtype, len(elements))
    tracer.append(Compose(result, tuple(as_value(e, dtype) for e in elements), tracer.here()))
    return Scalar(result)


def _span_of_choices(expr: Expr) -> tuple[int, int] | None:
    """The least and greatest int that `where(c, 1, 0)`, or a sum of such, may be; None for other indices."""
    if expr.is_Integer:
        return int(expr), int(expr)
    if not isinstance(expr, Select) and not (expr.is_Add or expr.is_Mul):
        return None
    parts = [_span_of_choices(part) for part in (expr.args[1:] if isinstance(expr, Select) else expr.args)]
    spans = [part for part in parts if part is not None]
    if len(spans) < len(parts):
        return None
    if isinstance(expr, Select):
        return min(low for low, _ in spans), max(high for _, high in spans)
    combine = operator.add if expr.is_Add else operator.mul
    found = spans[0]
    for span in spans[1:]:
        ends = [combine(x, y) for x in found for y in span]
        found = min(ends), max(ends)
    return found


def _number(given: Real, dtype: DType) -> int | float:
    """A Python number as a value of the element type. Raises TraceError where it does not fit."""
    if dtype.is_float:
        return _float(float(given), dtype)
    if not float(given).is_integer():
        raise current("a constant").error(
            f"{given} is not a value of {dtype}; write it as an int, or convert the data to a float"
        )
    number = int(given) if isinstance(given, Integral) else int(float(given))
    low, high = dtype.span
    if not low <= number <= high:
        raise current("a constant").error(f"{number} does not fit {dtype}, which holds {low}..{high}")
    return number


def _float(given: float, dtype: DType) -> float:
    """A float that is finite in its type, or inf itself. Raises TraceError for one that would round to infinity."""
    import numpy

    with numpy.errstate(over="ignore"):
        stored = float(numpy.asarray(given).astype(dtype.numpy))
    if math.isfinite(given) and not math.isfinite(stored):
        raise current("a constant").error(
            f"{given} is beyond {dtype}, where it would be {stored}; compute in a wider type, such as x.to(lego.f64), "
            f"or write {dtype}(float('inf')) for infinity"
        )
    return given
