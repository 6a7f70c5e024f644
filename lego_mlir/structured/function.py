"""A function of vector code as statements in single assignment: the one form that `mlir_text` and `c_text` print.

Generators append operations, loops with carried values, branches and calls; constants are shared. Each operand
of the function is a one-dimensional buffer:

>>> f = Function("axpy", "f64", (("x", 4), ("y", 4)))
>>> f.store("y", f.index(2), f.add(f.load("x", f.index(2)), f.load("y", f.index(2))))
>>> for statement in f.body:
...     print(statement.kind, statement.result, statement.buffer, *statement.operands)
load %0 x %c2
load %1 y %c2
add %2  %0 %1
store  y %c2 %2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from lego_mlir.errors import UsageError

SSA = str
# Temporaries live on the stack; thread stacks are often 8 MiB, sometimes smaller.
STACK_BYTES: Final = 4 << 20
# More accesses than this cost more than a masked one that waits.
MOST_PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class VectorOperation:
    """`result = kind(operands)`; stores and calls have no result. Kinds, with their operands and `data`:

    - add, sub, mul, div (a, b), neg, sqrt (a), fma (a, b, c: a * b + c), broadcast (scalar), from_lanes (scalars)
    - shuffle (a, b; lanes of their concatenation), select (a, b; a mask: a in the set lanes)
    - lane (vector; its number), extract (vector; first lane and length), insert (part, vector; the same)
    - load (position), store (position, value)
    - masked_load (position, others; mask), masked_store (position, value; mask)
    - index (a, b; one of arith's operations), compare (a, b; arith's predicate), logic (a, b; andi, ori or xori)
    - look_up (position; a table's name), call (indices; the callee and its buffers)

    `width` is the number of elements of the vector that is made, taken apart or stored; `buffer` is what is accessed.
    """

    kind: str
    result: SSA
    operands: tuple[SSA, ...]
    width: int = 1
    buffer: str = ""
    data: Any = ()


@dataclass(slots=True)
class CarriedLoop:
    """A loop over [low, high). `carried` are its values at the start of an iteration, first `initial`, then the
    `results` of the one before; `values` are those after the last. Generators set `results`."""

    variable: SSA
    low: SSA
    high: SSA
    step: SSA
    initial: Sequence[SSA]
    width: int  # of the carried values
    carried: list[SSA]
    values: list[SSA]
    results: list[SSA] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)


@dataclass(slots=True)
class Conditional:
    """Statements that run if the condition holds."""

    condition: SSA
    body: list[Statement] = field(default_factory=list)


Statement = VectorOperation | CarriedLoop | Conditional


@dataclass(frozen=True, slots=True)
class SharedConstant:
    """A constant: an `index`, a `splat` of a number over `width` elements, `lanes`, a `mask`, `true` or a `table`."""

    kind: str
    value: Any = None
    width: int = 1


class Function:
    """A function under construction. `width` 1 means scalars, otherwise vectors of `width` elements."""

    def __init__(self, name: str, element: str, buffers: Sequence[tuple[str, int]]) -> None:
        self.name = name
        self.element = element
        self.buffers = dict(buffers)
        self.arguments = tuple(self.buffers)
        self.tables: dict[str, tuple[int, ...]] = {}
        self.constants: dict[SSA, SharedConstant] = {}
        self._numbered: dict[object, SSA] = {}  # floating-point constants by content
        self.body: list[Statement] = []
        self._block = self.body
        self._count = 0
        self.scratch: dict[str, int] = {}
        self.helpers: dict[object, Function] = {}  # called functions, by content
        self.indices: tuple[str, ...] = ()  # index arguments after the buffers
        self.scratch_as_arguments = False  # allocated by a wrapper, into which this is not inlined
        self.forwarded: frozenset[str] = frozenset()  # buffers accessed without masks, see `unmasked_parts`

    def allocate(self, name: str, size: int) -> str:
        """A scratch buffer on the stack, aligned for any vector."""
        self.buffers[name] = self.scratch[name] = max(size, 1)
        needed = sum(self.scratch.values()) * (4 if self.element == "f32" else 8)
        if needed > STACK_BYTES:
            raise UsageError(
                f"{self.name} needs {needed} bytes of temporaries, more than the stack limit of {STACK_BYTES} bytes; "
                "split the program, or use a library for large matrices"
            )
        return name

    def elements(self, width: int) -> int:
        """The number of elements of a value of this width."""
        return width

    def do(self, kind: str, *operands: SSA, width: int = 1, buffer: str = "", data: object = ()) -> None:
        """Append an operation without result."""
        self._block.append(VectorOperation(kind, "", operands, width, buffer, data))

    def op(self, kind: str, *operands: SSA, width: int = 1, buffer: str = "", data: object = ()) -> SSA:
        """Append an operation with one result."""
        name = f"%{self._count}"
        self._count += 1
        self._block.append(VectorOperation(kind, name, operands, width, buffer, data))
        return name

    # constants
    def _constant(self, name: SSA, constant: SharedConstant) -> SSA:
        self.constants.setdefault(name, constant)
        return name

    def _number(self, constant: SharedConstant) -> SSA:
        name = self._numbered.setdefault(repr(constant), f"%k{len(self._numbered)}")
        return self._constant(name, constant)

    def index(self, value: int) -> SSA:
        """An index constant."""
        return self._constant(f"%c{value}" if value >= 0 else f"%cm{-value}", SharedConstant("index", value))

    def constant(self, value: float, width: int = 1) -> SSA:
        """A floating-point constant, splatted if a vector."""
        return self._number(SharedConstant("splat", float(value), self.elements(width)))

    def lanes(self, values: Sequence[float]) -> SSA:
        """A constant vector."""
        return self._number(SharedConstant("lanes", tuple(map(float, values)), len(values)))

    def true(self) -> SSA:
        """The constant true."""
        return self._constant("%true", SharedConstant("true"))

    # arithmetic on scalars and vectors
    def add(self, a: SSA, b: SSA, width: int = 1) -> SSA:
        return self.op("add", a, b, width=self.elements(width))

    def sub(self, a: SSA, b: SSA, width: int = 1) -> SSA:
        return self.op("sub", a, b, width=self.elements(width))

    def mul(self, a: SSA, b: SSA, width: int = 1) -> SSA:
        return self.op("mul", a, b, width=self.elements(width))

    def div(self, a: SSA, b: SSA, width: int = 1) -> SSA:
        return self.op("div", a, b, width=self.elements(width))

    def neg(self, a: SSA, width: int = 1) -> SSA:
        return self.op("neg", a, width=self.elements(width))

    def sqrt(self, a: SSA, width: int = 1) -> SSA:
        return self.op("sqrt", a, width=self.elements(width))

    def fma(self, a: SSA, b: SSA, c: SSA, width: int = 1) -> SSA:
        """a * b + c."""
        if width == 1:
            return self.add(self.mul(a, b), c)
        return self.op("fma", a, b, c, width=width)

    def broadcast(self, scalar: SSA, width: int) -> SSA:
        return scalar if width == 1 else self.op("broadcast", scalar, width=width)

    def shuffle(self, a: SSA, b: SSA, lanes: Sequence[int], width: int) -> SSA:
        """Select lanes of the concatenation of `a` and `b`."""
        return self.op("shuffle", a, b, width=self.elements(width), data=tuple(lanes))

    def select(self, lanes: Sequence[bool], a: SSA, b: SSA) -> SSA:
        """`a` in the set lanes, `b` in the others."""
        if len(lanes) == 1:
            return a if lanes[0] else b
        return self.op("select", a, b, width=len(lanes), data=self._mask(lanes))

    def lane(self, vector: SSA, lane: int, width: int) -> SSA:
        return vector if width == 1 else self.op("lane", vector, width=width, data=lane)

    def from_lanes(self, lanes: Sequence[SSA]) -> SSA:
        return lanes[0] if len(lanes) == 1 else self.op("from_lanes", *lanes, width=len(lanes))

    def _mask(self, lanes: Sequence[bool]) -> tuple[bool, ...]:
        """The lanes, with their mask among the constants."""
        self._constant(mask_name(lanes), SharedConstant("mask", tuple(lanes), len(lanes)))
        return tuple(lanes)

    # memory
    def load(self, buffer: str, at: SSA) -> SSA:
        return self.op("load", at, buffer=buffer)

    def store(self, buffer: str, at: SSA, value: SSA) -> None:
        self.do("store", at, value, buffer=buffer)

    def load_vector(self, buffer: str, at: SSA, lanes: Sequence[bool], others: SSA | None = None) -> SSA:
        """Load the set lanes only; the others come from `others`, or are zero."""
        width = len(lanes)
        if width == 1:
            return self.load(buffer, at)
        if all(lanes):
            return self.op("load", at, width=width, buffer=buffer)
        rest = others or self.constant(0.0, width)
        if buffer in self.forwarded and (parts := unmasked_parts(lanes)):
            for first, length in parts:
                part = self.load_vector(buffer, self._behind(at, first), [True] * length)
                rest = self.op("insert", part, rest, width=width, data=(first, length))
            return rest
        return self.op("masked_load", at, rest, width=width, buffer=buffer, data=self._mask(lanes))

    def store_vector(self, buffer: str, at: SSA, value: SSA, lanes: Sequence[bool]) -> None:
        """Store the set lanes only."""
        width = len(lanes)
        if width == 1:
            self.store(buffer, at, value)
        elif all(lanes):
            self.do("store", at, value, width=width, buffer=buffer)
        elif buffer in self.forwarded and (parts := unmasked_parts(lanes)):
            for first, length in parts:
                part = self._extract(value, first, length, width)
                self.store_vector(buffer, self._behind(at, first), part, [True] * length)
        else:
            self.do("masked_store", at, value, width=width, buffer=buffer, data=self._mask(lanes))

    def _behind(self, at: SSA, lanes: int) -> SSA:
        """The position this many lanes after another."""
        if lanes == 0:
            return at
        known = self.constants.get(at)
        return self.index_op("addi", at, self.index(lanes)) if known is None else self.index(known.value + lanes)

    def _extract(self, value: SSA, first: int, length: int, width: int) -> SSA:
        if length == 1:
            return self.lane(value, first, width)
        return self.op("extract", value, width=width, data=(first, length))

    # indices and conditions
    def index_op(self, op: str, a: SSA, b: SSA) -> SSA:
        return self.op("index", a, b, data=op)

    def compare(self, predicate: str, a: SSA, b: SSA) -> SSA:
        return self.op("compare", a, b, data=predicate)

    def logic(self, op: str, a: SSA, b: SSA) -> SSA:
        return self.op("logic", a, b, data=op)

    def table(self, name: str, values: Sequence[int]) -> None:
        """Define a constant table of positions, read with `look_up`."""
        self.tables[name] = tuple(values)
        self._constant(f"%{name}", SharedConstant("table", name, len(values)))

    def look_up(self, name: str, at: SSA) -> SSA:
        # two numbers, because MLIR loads a word and then casts it
        self._count += 1
        return self.op("look_up", at, data=name)

    # control
    def call(self, helper: Function, buffers: Sequence[str], indices: Sequence[SSA]) -> None:
        """Call a function of `helpers`."""
        self.do("call", *indices, data=(helper.name, tuple(buffers)))

    @contextmanager
    def loop(
        self, low: SSA, high: SSA, step: SSA, carried: Sequence[SSA] = (), width: int = 1
    ) -> Iterator[CarriedLoop]:
        """A loop; its body sets `.results` to the carried values of the next iteration."""
        number = self._count
        self._count += 1
        arguments = [f"%a{number}_{at}" for at in range(len(carried))]
        values = [f"%r{number}#{at}" for at in range(len(carried))]
        loop = CarriedLoop(f"%i{number}", low, high, step, carried, self.elements(width), arguments, values)
        with self._inside(loop):
            yield loop

    @contextmanager
    def branch(self, condition: SSA) -> Iterator[None]:
        """Statements that run if the condition holds."""
        with self._inside(Conditional(condition)):
            yield

    @contextmanager
    def _inside(self, statement: CarriedLoop | Conditional) -> Iterator[None]:
        self._block.append(statement)
        outer, self._block = self._block, statement.body
        yield
        self._block = outer


def mask_name(lanes: Sequence[bool]) -> SSA:
    """The name of a constant mask."""
    return "%mask" + "".join("1" if lane else "0" for lane in lanes)


def unmasked_parts(lanes: Sequence[bool]) -> list[tuple[int, int]]:
    """The set lanes as (first lane, length), each length a power of two that divides its first lane; [] if more than
    `MOST_PARTS` are needed.

    A processor forwards a store to a later load of the same bytes if the load lies within the store, but not from a
    masked store, or from several stores to one load. Parts that loads and stores share are always forwarded.

    >>> unmasked_parts([True] * 5 + [False] * 3), unmasked_parts([False, True, True, True])
    ([(0, 4), (4, 1)], [(1, 1), (2, 2)])
    """
    parts, at = [], 0
    while at < len(lanes):
        length = 1
        if lanes[at]:
            while at % (2 * length) == 0 and at + 2 * length <= len(lanes) and all(lanes[at : at + 2 * length]):
                length *= 2
            parts.append((at, length))
        at += length
    return parts if len(parts) <= MOST_PARTS else []
