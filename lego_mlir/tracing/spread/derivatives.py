"""Derivatives of functions in the kernel language, of data: a number, or a tile spread over threads.

    value, slope = lego.value_and_derivative(lambda s: cap * lego.tanh(s / cap), scores)

The function is traced once. Its statements are then visited in their order, and each that depends on the argument has
a derivative, by the rule of its operation times those of its operands:

    %1 = mul %0, c          %1' = c
    %2 = tanh %1            %2' = (1 - %2 %2) %1'

An element of the result depends on its own element of the argument alone: what exchanges data between threads, branches
or loads by the argument is refused. Comparisons have no derivative, and a choice has that of what it chooses; of equal
operands `minimum` and `maximum` take the first one. (Forward mode: Griewank and Walther, "Evaluating Derivatives".)
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Final

from lego_mlir.aliases import Operand
from lego_mlir.errors import brief
from lego_mlir.tracing.spread.distributed import Spread, each_element
from lego_mlir.tracing.trace.operators import OPERATORS
from lego_mlir.tracing.trace.trace import Compute, Convert, Statement, Value, operands_of, statements_in
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words import functions as f
from lego_mlir.tracing.words.scalar import Scalar, as_value, convert

Rule = Callable[..., Sequence[Operand]]
"""The derivatives of a result by its operands, of the result and these."""
CHOICES: Final[dict[str, Callable[..., tuple[Operand, int]]]] = {
    "select": lambda condition, a, b: (condition, 1),
    "minimum": lambda a, b: (a <= b, 0),
    "maximum": lambda a, b: (a >= b, 0),
}
"""By operation: whether the result is the first of two operands, and its place."""
LN_2: Final = math.log(2.0)
RULES: Final[dict[str, Rule]] = {
    "add": lambda y, a, b: (1.0, 1.0),
    "sub": lambda y, a, b: (1.0, -1.0),
    "mul": lambda y, a, b: (b, a),
    "truediv": lambda y, a, b: (1.0 / b, -(y / b)),
    "neg": lambda y, a: (-1.0,),
    "abs": lambda y, a: (f.sign(a),),
    "fma": lambda y, a, b, c: (b, a, 1.0),
    "exp": lambda y, a: (y,),
    "exp2": lambda y, a: (LN_2 * y,),
    "expm1": lambda y, a: (y + 1.0,),
    "log": lambda y, a: (1.0 / a,),
    "log2": lambda y, a: (1.0 / (LN_2 * a),),
    "log1p": lambda y, a: (1.0 / (1.0 + a),),
    "sqrt": lambda y, a: (0.5 / y,),
    "rsqrt": lambda y, a: (-0.5 * y / a,),
    "tanh": lambda y, a: (1.0 - y * y,),
    "sinh": lambda y, a: (f.cosh(a),),
    "cosh": lambda y, a: (f.sinh(a),),
    "sin": lambda y, a: (f.cos(a),),
    "cos": lambda y, a: (-f.sin(a),),
    "tan": lambda y, a: (1.0 + y * y,),
    "asin": lambda y, a: (f.rsqrt(1.0 - a * a),),
    "acos": lambda y, a: (-f.rsqrt(1.0 - a * a),),
    "atan": lambda y, a: (1.0 / (1.0 + a * a),),
    "atan2": lambda y, a, b: (b / (a * a + b * b), -(a / (a * a + b * b))),
    "erf": lambda y, a: (2.0 / math.sqrt(math.pi) * f.exp(-(a * a)),),
    "pow": lambda y, a, b: (b * f.power(a, b - 1.0), y * f.log(a)),
}
"""By operation; the approximate forms of `operators` have the rules of the exact ones."""
FLAT: Final = frozenset(("floor", "ceil", "round", "trunc", "sign"))
"""Operations that are constant between their steps."""


def value_and_derivative(function: Callable[[Operand], Operand], x: Operand) -> tuple[Operand, Operand]:
    """`function(x)`, and its derivative by x, element by element: two values like x.

    Raises TraceError for a function whose result depends on x by more than arithmetic on each element.
    """
    y, slope, _ = value_and_derivatives(function, x, tuple)
    return y, slope


def value_and_derivatives(
    function: Callable[[Operand], Operand], x: Operand, read: Callable[[], Sequence[tuple[str, Operand]]]
) -> tuple[Operand, Operand, list[Operand]]:
    """`function(x)`, its derivative by x, and by each of the values that `read()` names after the call.

    These are values that the function has read, such as elements of tensors: an element of the result depends on the
    one that stands at its place. A derivative that is one number everywhere is that number, but that by x is like x.
    Raises TraceError where the result depends on one of them by more than arithmetic on each element.
    """
    tracer = current("lego.value_and_derivative")
    x = x.get() if isinstance(x, Spread) else x
    if not isinstance(x, Scalar | Spread) or not x.dtype.is_float or getattr(x, "is_open", False):
        raise tracer.error(
            "lego.value_and_derivative: the argument is a float, or a tile of floats with a layout, got "
            f"{brief(repr(x))}"
        )
    with tracer.recorded() as statements:
        y = function(x)
    tracer.extend(statements)
    slopes = [_Slopes(tracer, value, what) for what, value in (("its argument", x), *read())]
    for each in slopes:
        for statement in statements:
            each.visit(statement)
    y = y.get() if isinstance(y, Spread) else y
    if getattr(getattr(y, "dtype", None), "is_float", False):
        more = [each.uniform(y) for each in slopes[1:]]
        if isinstance(y, Spread) and isinstance(x, Spread) and y.layout == x.layout:
            return y, slopes[0].like(y), more
        if isinstance(y, Scalar) and isinstance(x, Scalar):
            return y, slopes[0].of(y), more
    raise tracer.error(
        f"lego.value_and_derivative: the function gives a value like its argument, {brief(repr(x))}, got "
        f"{brief(repr(y))}"
    )


def _registers(x: Scalar | Spread) -> list[Scalar]:
    return [x] if isinstance(x, Scalar) else [v for v in x.registers if v is not None]


class _Slopes:
    """The derivatives of values by one of them, `x`; others are 0. Messages call it `what`."""

    def __init__(self, tracer: Tracer, x: Scalar | Spread, what: str) -> None:
        self.tracer, self.what = tracer, what
        self.known: dict[int, Operand] = {v.entry.number: 1.0 for v in _registers(x)}

    def of(self, value: Scalar) -> Scalar:
        """The derivative of a value, as data of its type and width."""
        return Scalar(as_value(self.known.get(value.entry.number, 0.0), value.dtype, value.width))

    def like(self, y: Scalar | Spread) -> Scalar | Spread:
        """The derivative of a value, placed as it is."""
        return self.of(y) if isinstance(y, Scalar) else each_element(y.layout, lambda r: self.of(y.registers[r]))

    def uniform(self, y: Scalar | Spread) -> Operand:
        """The derivative of a value, as a number where it is one everywhere."""
        found = {known if isinstance(known, float) else None
                 for known in (self.known.get(v.entry.number, 0.0) for v in _registers(y))}  # fmt: skip
        only = found.pop()
        return self.like(y) if found or only is None else only

    def visit(self, statement: Statement) -> None:
        """The derivative of what a statement gives, where it depends on the argument."""
        used = {v.number for s in statements_in((statement,)) for v in operands_of(s)} & self.known.keys()
        if not used:
            return
        match statement:
            case Compute(result, name, operands):
                self._compute(result, name.removeprefix("fast "), operands)
            case Convert(result, operand) if result.dtype.is_float:
                slope = self.known[operand.number]
                self.known[result.number] = convert(slope, result.dtype) if isinstance(slope, Scalar) else slope
            case _:
                raise self._refused(type(statement).__name__.lower())

    def _compute(self, result: Value, name: str, operands: Sequence[Value]) -> None:
        if name in FLAT or OPERATORS[name].gives_truth:
            return
        y, *given = map(Scalar, (result, *operands))
        if name in CHOICES:
            condition, first = CHOICES[name](*given)
            self.known[result.number] = f.where(condition, *map(self.of, given[first : first + 2]))
            return
        if name not in RULES:
            raise self._refused(name)
        rules = zip(operands, RULES[name](y, *given), strict=True)
        parts = [_product(self.known[v.number], by) for v, by in rules if v.number in self.known]
        self.known[result.number] = functools.reduce(operator.add, parts)

    def _refused(self, what: str) -> Exception:
        return self.tracer.error(
            f"lego.value_and_derivative: the function depends on {self.what} by {what}, which has no derivative here; "
            "compute each element by arithmetic, functions of floats and lego.where"
        )


def _product(a: Operand, b: Operand) -> Operand:
    """The product, without an instruction for a factor of 1."""
    ones = [isinstance(x, float) and x == 1.0 for x in (a, b)]
    return b if ones[0] else a if ones[1] else a * b
