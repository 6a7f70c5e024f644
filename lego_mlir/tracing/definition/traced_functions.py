"""Functions that kernels call, each traced once for a combination of kinds of its arguments: see `device_functions`."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import TraceError
from lego_mlir.expr.index import Condition, Index, as_expr, is_symbolic
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.ranges import Range
from lego_mlir.tracing.trace import dtypes
from lego_mlir.tracing.trace.trace import (
    Contract,
    FunctionCall,
    FunctionTrace,
    Return,
    Statement,
    TileLoad,
    TileStore,
    Value,
    statements_in,
)
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import View

if TYPE_CHECKING:
    from lego_mlir.aliases import Operand, Symbol
    from lego_mlir.tracing.definition.device_functions import DeviceFunction

_TILES: Final = (TileLoad, TileStore, Contract)
_LARGEST: Final = 2**63


@dataclass(frozen=True, slots=True)
class Calling:
    """A call of a function that is not inlined."""

    tracer: Tracer
    function: DeviceFunction

    def call(self, given: Sequence[Operand], named: dict[str, Operand]) -> Operand:
        try:
            bound = inspect.signature(self.function.function).bind(*given, **named)
        except TypeError as error:
            raise self.tracer.error(f"{self.function.name}: {error}") from error
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            bound.arguments[name] = self._passable(value)
        key = (self.function, *((name, self._kind(value)) for name, value in bound.arguments.items()))
        traced = self.tracer.functions.get(key)
        if traced is None:
            traced = self.tracer.functions[key] = self._trace(bound.arguments)
        here = self.tracer.here()
        passed = [value for value in bound.arguments.values() if isinstance(value, Scalar) or is_symbolic(value)]
        arguments = tuple(
            self.tracer.use(v.entry) if isinstance(v, Scalar) else self.tracer.simplified(self.tracer.index(v))
            for v in passed
        )
        results = tuple(self._result(one) for one in traced.results)
        self.tracer.append(FunctionCall(traced.function, arguments, results, here))
        return traced.restore(results)

    def _passable(self, value: Operand) -> Operand:
        """A register as its value, a condition as an i1."""
        if isinstance(value, Scalar):
            return Scalar(value.entry)
        return Scalar(self.tracer.condition_value(value, dtypes.i1)) if isinstance(value, Condition) else value

    def _kind(self, value: Operand) -> Hashable:
        if isinstance(value, Scalar):
            return value.dtype, value.width
        if is_symbolic(value):
            return self._range(value)
        if isinstance(value, View):
            return value.buffer, value.layout
        try:
            hash(value)
        except TypeError as error:
            raise self.tracer.error(
                f"{self.function.name} is called, and {value!r} cannot be passed: arguments are data, indices, tensors "
                "and hashable Python values; pass its elements, or leave out inline=False"
            ) from error
        return type(value), value

    def _range(self, value: Operand) -> Range:
        """The range of an index: of a symbol as it is, which may end at a size, else by intervals."""
        expr = as_expr(value)
        if expr in self.tracer.ranges:
            return self.tracer.ranges[expr]
        known = bounds(expr, self.tracer.known(expr.free_symbols))
        low = -_LARGEST if known.lo is None else int(known.lo)
        high = _LARGEST - 1 if known.hi is None else int(known.hi)
        return Range(low, high + 1, known.multiple_of if low % max(1, known.multiple_of) == 0 else 1)

    def _trace(self, given: Mapping[str, Operand]) -> TracedFunction:
        """Trace the function with a parameter for each argument that is passed."""
        tracer, name, arguments = self.tracer, self.function.name, dict(given)
        formals: list[Value | Symbol] = []
        with tracer.function(name) as body:
            for argument, value in given.items():
                if isinstance(value, Scalar):
                    formal = tracer.value(value.dtype, value.width)
                    tracer.data.names[formal.number] = argument
                    formals.append(formal)
                    arguments[argument] = Scalar(formal)
                elif is_symbolic(value):
                    symbol = tracer.parameter_symbol(f"{name}.{argument}", self._range(value))
                    formals.append(symbol)
                    arguments[argument] = Index(symbol)
            returned = self.function.function(**arguments)
            ends, kinds = self._ends(returned)
            tracer.append(Return(ends, self.function.source))
        found = tracer.contracted(body)
        _refuse_tiles(name, found)
        ranges = tuple(self._range(end) if not isinstance(end, Value) else end for end in ends)
        function = FunctionTrace(tracer.function_name(name), tuple(formals), found, self.function.source)
        return TracedFunction(function, ranges, kinds)

    def _ends(self, returned: Operand) -> tuple[tuple[Operand, ...], Operand]:
        """The values and expressions to return, and the shape of the result: the places of these, or a Python value."""
        ends: list[Operand] = []

        def place(value: Operand) -> Operand:
            if isinstance(value, (Scalar, Condition)):
                passed = self._passable(value)
                ends.append(self.tracer.use(passed.entry))
            elif is_symbolic(value):
                ends.append(self.tracer.simplified(self.tracer.index(value)))
            elif isinstance(value, (tuple, list)):
                return type(value)(place(part) for part in value)
            elif isinstance(value, View):
                raise self.tracer.error(f"{self.function.name} is called and returns a tensor; return its elements")
            else:
                return value
            return _Place(len(ends) - 1)

        shape = place(returned)
        return tuple(ends), shape

    def _result(self, end: Value | Range) -> Operand:
        """A value or symbol of the kernel for a result of this kind."""
        if isinstance(end, Value):
            return self.tracer.value(end.dtype, end.width)
        return self.tracer.parameter_symbol(f"{self.function.name}()", end)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a result among those that a call returns."""

    number: int


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A function traced for some kinds of arguments; `results` has a value of the type, or the range of an index."""

    function: FunctionTrace
    results: tuple[Value | Range, ...]
    shape: Operand

    def restore(self, results: Sequence[Operand]) -> Operand:
        """What the function returned, with the results of a call."""

        def fill(part: Operand) -> Operand:
            if isinstance(part, _Place):
                found = results[part.number]
                return Scalar(found) if isinstance(found, Value) else Index(found)
            return type(part)(map(fill, part)) if isinstance(part, (tuple, list)) else part

        return fill(self.shape)


def _refuse_tiles(name: str, body: tuple[Statement, ...]) -> None:
    for statement in statements_in(body):
        if isinstance(statement, _TILES):
            raise TraceError(
                f"{statement.source}: {name} is called, and lego.mma and tiles of a warp must be in the kernel, where "
                "a transform script finds them; leave out inline=False"
            )
