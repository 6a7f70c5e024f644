"""The number of roundings on the path to a value, from the traced program: it bounds the error of long sums.

Each value carries its longest chain of roundings, counted by the type that is rounded to. An addition adds one rounding
to those of its operands; a loop repeats what one iteration adds to its registers and tiles; a copy adds none. The last
operation is counted separately: its error is relative to the result, while earlier errors are relative to terms that
may cancel.

    total = 0.0                       roundings of total
    for k in lego.range(16384):
        total += x[k]                 16383 before the last one, all to f32
    y[0] = f16(total)                 16384 to f32, and the last one to f16
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any, Final

from lego_mlir.expr.index import as_expr
from lego_mlir.expr.ranges import Range
from lego_mlir.tracing.trace.data_ranges import SHUFFLES
from lego_mlir.tracing.trace.dtypes import DType, f32
from lego_mlir.tracing.trace.operators import OPERATORS
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    Buffer,
    Compose,
    Compute,
    Constant,
    Contract,
    Convert,
    For,
    FromIndex,
    FunctionCall,
    If,
    KernelTrace,
    Lane,
    Load,
    MatrixLoad,
    MlirOperation,
    Piece,
    Read,
    Return,
    Statement,
    Store,
    TileLoad,
    TileStore,
    Value,
    While,
    Write,
)  # fmt: skip

UNIT: Final = {
    "f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53, "f8e4m3fn": 2.0**-4, "f8e5m2": 2.0**-3,
}  # fmt: skip
"""Unit roundoff: the largest relative error of one rounding to nearest."""
ELEMENTARY: Final = 8
"""The roundings counted for an elementary function: CUDA's errors end at 4 ulps (CUDA C++ guide, "Math Functions")."""
APPROXIMATE: Final = {
    "truediv": 2, "fast truediv": 4, "fast sqrt": 2, "fast rsqrt": 4, "fast exp2": 4, "fast log2": 4, "fast log": 6,
    "fast exp": 212, "fast sin": 12, "fast cos": 12,
}  # fmt: skip
"""The same for those with a bound of their own: two roundings an ulp of docs/reference/kernels.md, "Approximate
functions"; of exp for |x| up to 88, of sin and cos for |x| up to 2 pi."""
LARGEST_SHARE: Final = 2.0**-4
"""The largest relative error accepted for any number of roundings; a sum in f16 may need an explicit tolerance."""
SPREAD: Final = 4.0
"""Rounding errors of either sign add up like a random walk: for n, 4 sqrt(n) exceeds 7 standard deviations."""
_EXACT: Final = frozenset(
    {"neg", "abs", "minimum", "maximum", "select", "sign", "copysign", "floor", "ceil", "round", "trunc"}
)
MOVES: Final = frozenset({*SHUFFLES, "vector.extract", "arith.bitcast", "vector.bitcast"})
"""MLIR operations whose result is one of their operands, in this thread or another."""

Counts = tuple[int, ...]
_TYPES: Final = tuple(UNIT)
_NONE: Final[Counts] = (0,) * len(_TYPES)


@dataclass(frozen=True, slots=True)
class Roundings:
    """The roundings on the longest chain, for each type of UNIT: all but the last, and the last."""

    before: Counts = _NONE
    last: Counts = _NONE

    @property
    def total(self) -> Counts:
        return tuple(a + b for a, b in zip(self.before, self.last, strict=True))

    @property
    def exact(self) -> bool:
        return not any(self.total)

    @property
    def share(self) -> float:
        """The relative error before the last rounding, where no terms cancel: n roundings of u each."""
        return min(LARGEST_SHARE, sum(n * u for n, u in zip(self.before, UNIT.values(), strict=True)))

    @property
    def walk(self) -> float:
        """The error in units of what a relative change of every input by 1 would change: see SPREAD."""
        return sum(SPREAD * sqrt(n) * u for n, u in zip(self.before, UNIT.values(), strict=True))

    @property
    def final(self) -> dict[str, int]:
        """The last roundings by the name of their type."""
        return dict(zip(_TYPES, self.last, strict=True))

    def count(self, dtype: str) -> int:
        return self.total[_TYPES.index(dtype)]

    def then(self, dtype: DType, times: int = 1) -> Roundings:
        """After an operation whose result is rounded to this type; `times` in a row."""
        if not dtype.is_float:
            return self
        row = _TYPES.index(dtype.name)
        chained = tuple(n + (times - 1) * (k == row) for k, n in enumerate(self.total))
        return Roundings(chained, tuple(int(k == row) for k in range(len(_TYPES))))


def joined(several: Iterable[Roundings]) -> Roundings:
    """The longer chain, type by type."""
    before, last = _NONE, _NONE
    for one in several:
        before = tuple(map(max, before, one.before))
        last = tuple(map(max, last, one.last))
    return Roundings(before, last)


def roundings(
    trace: KernelTrace, sizes: Mapping[str, int], memory: Mapping[str, Roundings] | None = None
) -> dict[str, Roundings]:
    """For each tensor of the signature, the roundings of what the kernel stores in it, for these sizes.

    `memory` has the roundings of the tensors before the kernel runs; none by default.
    """
    chains = _Chains(trace, sizes, memory=dict(memory or {}))
    chains.run(trace.body)
    return {p.name: chains.memory.get(p.name, Roundings()) for p in trace.parameters if isinstance(p, Buffer)}


@dataclass(slots=True)
class _Chains:
    """The roundings of each value, register and buffer at a point of the program."""

    trace: KernelTrace
    sizes: Mapping[str, int]
    values: dict[int, Roundings] = field(default_factory=dict)
    registers: dict[int, Roundings] = field(default_factory=dict)
    memory: dict[str, Roundings] = field(default_factory=dict)

    def run(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case For(body=inner):
                    self.repeat(inner, self.trip_count(statement))
                case While(body=inner):
                    self.repeat(inner, self.elements())
                case Atomic(access=access, result=old, value=given):
                    self.values[old.number] = self.memory.get(access.buffer.name, Roundings())
                    self.keep(access.buffer.name, self.updated(statement, self.of(given)))
                case MlirOperation(name="nvgpu.mma.sync" | "nvgpu.mma.sp.sync"):
                    self.values[statement.results[0].number] = self.product(statement)
                case MlirOperation(results=results, operands=operands, name=name):
                    for one in results:
                        chain = self.of(*operands)
                        self.values[one.number] = chain if name in MOVES else chain.then(one.dtype, ELEMENTARY)
                case If(then=then, otherwise=otherwise):
                    self.branch(then, otherwise)
                case Write(register=register, value=value):
                    self.registers[register.number] = self.of(value)
                case Store(value=value, access=access):
                    self.keep(access.buffer.name, self.of(value))
                case TileStore(value=value, buffer=buffer):
                    self.keep(buffer.name, self.of(value))
                case AsyncCopy(origin=origin, target=target):
                    self.keep(target.buffer.name, self.memory.get(origin.buffer.name, Roundings()))
                case FunctionCall():
                    self.call(statement)
                case _ if (result := getattr(statement, "result", None)) is not None:
                    self.values[result.number] = self.result(statement)
                case _:
                    pass

    def updated(self, atomic: Atomic, given: Roundings) -> Roundings:
        """An element after an atomic update: every thread of the launch may add to it."""
        if atomic.operation != "add" or not atomic.access.buffer.dtype.is_float:
            return given
        chain = joined((given, self.memory.get(atomic.access.buffer.name, Roundings())))
        return chain.then(atomic.access.buffer.dtype, self.threads())

    def product(self, product: MlirOperation) -> Roundings:
        """A tensor core's product of some depth, added to its last operand."""
        (result,), (a, b, c, *_) = product.results, product.operands
        depth = int(dict(product.attributes)["mmaShape"].strip("[]").split(",")[-1])
        return joined((self.of(a, b).then(result.dtype), self.of(c))).then(result.dtype, depth)

    def threads(self) -> int:
        """The threads of the launch for these sizes."""
        from lego_mlir.expr.evaluate import evaluate

        return prod(int(evaluate(n, self.sizes)) for n in (*self.trace.grid, *self.trace.block))

    def call(self, call: FunctionCall) -> None:
        """Follow the function's body with the roundings of the arguments."""
        for parameter, argument in zip(call.function.parameters, call.arguments, strict=True):
            if isinstance(parameter, Value):
                self.values[parameter.number] = self.of(argument)
        self.run(call.function.body)
        end = call.function.body[-1]
        assert isinstance(end, Return)
        for result, value in zip(call.results, end.values, strict=True):
            if isinstance(result, Value):
                self.values[result.number] = self.of(value)

    def of(self, *operands: Any) -> Roundings:
        """The roundings of several values together; a scalar parameter has none."""
        return joined(self.values.get(v.number, Roundings()) for v in operands if v is not None)

    def keep(self, buffer: str, stored: Roundings) -> None:
        self.memory[buffer] = joined((self.memory.get(buffer, Roundings()), stored))

    def result(self, statement: Any) -> Roundings:
        match statement:
            case Constant(result=result, number=number):
                exact = not result.dtype.is_float or _is_exact(number, result.dtype)
                return Roundings() if exact else Roundings().then(result.dtype)
            case Compute(result=result, operation=operation, operands=operands):
                return _computed(self.of(*operands), operation, result.dtype)
            case Convert(result=result, operand=operand):
                narrow = result.dtype.is_float and not _holds(result.dtype, operand.dtype)
                return self.of(operand).then(result.dtype) if narrow else self.of(operand)
            case FromIndex(result=result):
                return Roundings().then(result.dtype)
            case Lane(operand=operand) | Piece(operand=operand):
                return self.of(operand)
            case Compose(operands=operands):
                return self.of(*operands)
            case Load(access=access, other=other):
                return joined((self.memory.get(access.buffer.name, Roundings()), self.of(other)))
            case MatrixLoad(access=access):
                return self.memory.get(access.buffer.name, Roundings())
            case TileLoad(buffer=buffer):
                return self.memory.get(buffer.name, Roundings())
            case Contract(result=result, a=a, b=b, c=c):
                product = self.of(a, b).then(result.dtype)
                depth = a.width[1] if isinstance(a.width, tuple) else 1
                return joined((product, self.of(c))).then(result.dtype, depth)
            case Read(register=register):
                return self.registers.get(register.number, Roundings())
            case _:
                return Roundings()

    def branch(self, then: Sequence[Statement], otherwise: Sequence[Statement]) -> None:
        before = dict(self.registers)
        self.run(then)
        taken, self.registers = self.registers, before
        self.run(otherwise)
        for number, chain in taken.items():
            self.registers[number] = joined((chain, self.registers.get(number, Roundings())))

    def repeat(self, body: Sequence[Statement], count: int) -> None:
        """Two iterations are followed; each further one adds as much as the second."""
        states = []
        for _ in range(min(count, 2)):
            self.run(body)
            states.append((dict(self.registers), dict(self.memory)))
        if count > 2:
            (r1, m1), (r2, m2) = states
            self.registers = {key: _grown(r1.get(key), chain, count - 2) for key, chain in r2.items()}
            self.memory = {key: _grown(m1.get(key), chain, count - 2) for key, chain in m2.items()}

    def trip_count(self, loop: For) -> int:
        """The maximum trip count for these sizes; the number of elements where it depends on data."""
        from lego_mlir.expr.intervals import bounds

        values = {symbol: self.sizes[symbol.name] for symbol in self.trace.sizes}
        step = as_expr(loop.step).subs(values)
        ranges = {
            s: Range(_at(r.lo, values), _at(r.hi, values), r.step)
            for s, r in self.trace.ranges.items()
            if s != loop.symbol
        }
        span = bounds((as_expr(loop.hi) - as_expr(loop.lo)).subs(values), ranges).hi
        if span is None or not step.is_Integer:
            return self.elements()
        return max(0, -(-span // int(step)))

    def elements(self) -> int:
        from lego_mlir.expr.evaluate import evaluate

        sizes = [p.size for p in self.trace.parameters if isinstance(p, Buffer)]
        return max(int(evaluate(n, self.sizes)) for n in sizes)


def _at(end: Any, values: Mapping[Any, int]) -> Any:
    value = as_expr(end).subs(values)
    return int(value) if value.is_Integer else value


def _grown(first: Roundings | None, second: Roundings, count: int) -> Roundings:
    earlier = (first or Roundings()).before
    return Roundings(tuple(n + count * max(0, n - m) for n, m in zip(second.before, earlier, strict=True)), second.last)


def _computed(operands: Roundings, operation: str, dtype: DType) -> Roundings:
    operator = OPERATORS[operation]
    if operation in _EXACT or operator.gives_truth or not dtype.is_float:
        return operands
    count = APPROXIMATE.get(operation, ELEMENTARY if operator.in_f32 else 1)
    if not operator.in_f32:
        return operands.then(dtype, count)
    inner = operands.then(f32 if dtype.bits < f32.bits else dtype, count)
    return inner.then(dtype) if dtype.bits < f32.bits else inner


def _is_exact(number: float, dtype: DType) -> bool:
    import numpy

    with numpy.errstate(all="ignore"):
        return bool(numpy.asarray(number).astype(dtype.numpy).astype(numpy.float64) == number) or number != number


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether the wide float type represents every value of the narrow one."""
    halves = {"f8e4m3fn", "f8e5m2", "f16", "bf16"}
    held = {"f16": {"f8e4m3fn", "f8e5m2"}, "bf16": {"f8e4m3fn", "f8e5m2"}, "f32": halves, "f64": {*halves, "f32"}}
    return narrow == wide or narrow.name in held.get(wide.name, ())
