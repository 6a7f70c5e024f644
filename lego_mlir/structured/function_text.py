"""MLIR text of one function: fresh SSA names, shared constants, loops with carried values.

The generator emits text because a flat kernel has thousands of operations, and parsing them at once is several times
faster than building them individually. Each operand of the function is a one-dimensional memref:

>>> f = Function("axpy", "f64", (("x", 4), ("y", 4)))
>>> f.store("y", f.index(2), f.add(f.load("x", f.index(2)), f.load("y", f.index(2))))
>>> print(f.text())
func.func @axpy(%x: memref<4xf64>, %y: memref<4xf64>) {
  %c2 = arith.constant 2 : index
  %0 = memref.load %x[%c2] : memref<4xf64>
  %1 = memref.load %y[%c2] : memref<4xf64>
  %2 = arith.addf %0, %1 fastmath<contract> : f64
  memref.store %2, %y[%c2] : memref<4xf64>
  return
}
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from lego_mlir.errors import UsageError

SSA = str
# Temporaries live on the stack; thread stacks are often 8 MiB, sometimes smaller.
STACK_BYTES: Final = 4 << 20
# More accesses than this cost more than a masked one that waits.
MOST_PARTS: Final = 4


class Function:
    """A function under construction. `width` 1 means scalars, otherwise vectors of `width` elements."""

    def __init__(self, name: str, element: str, buffers: Sequence[tuple[str, int]]) -> None:
        self.name = name
        self.element = element
        self.buffers = dict(buffers)
        self.arguments = tuple(self.buffers)
        self.globals: dict[str, str] = {}
        self._head: dict[str, str] = {}
        self._constants: dict[str, str] = {}
        self._numbers: dict[SSA, int] = {}  # of the index constants
        self._body: list[str] = []
        self._indent = "  "
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

    def memref(self, buffer: str) -> str:
        return f"memref<{self.buffers[buffer]}x{self.element}>"

    def vector(self, width: int) -> str:
        return self.element if width == 1 else f"vector<{width}x{self.element}>"

    def do(self, line: str) -> None:
        """Append an operation without result."""
        self._body.append(self._indent + line)

    def op(self, operation: str) -> SSA:
        """Append an operation with one result."""
        name = f"%{self._count}"
        self._count += 1
        self._body.append(f"{self._indent}{name} = {operation}")
        return name

    def _constant(self, name: str, operation: str) -> SSA:
        self._head.setdefault(name, f"{name} = {operation}")
        return name

    def index(self, value: int) -> SSA:
        """An index constant, defined once at function entry."""
        name = f"%c{value}" if value >= 0 else f"%cm{-value}"
        self._numbers[name] = value
        return self._constant(name, f"arith.constant {value} : index")

    def constant(self, value: float, width: int = 1) -> SSA:
        """A floating-point constant, splatted if a vector."""
        literal = _literal(value, self.element)
        kind = self.vector(width)
        line = f"arith.constant {f'dense<{literal}>' if kind.startswith('vector') else literal} : {kind}"
        return self._constant(self._constants.setdefault(line, f"%k{len(self._constants)}"), line)

    def lanes(self, values: Sequence[float]) -> SSA:
        """A constant vector."""
        literals = ", ".join(_literal(value, self.element) for value in values)
        line = f"arith.constant dense<[{literals}]> : {self.vector(len(values))}"
        return self._constant(self._constants.setdefault(line, f"%k{len(self._constants)}"), line)

    def true(self) -> SSA:
        """The constant true."""
        return self._constant("%true", "arith.constant true")

    def mask(self, lanes: Sequence[bool]) -> SSA:
        """A constant mask."""
        name = "%mask" + "".join("1" if lane else "0" for lane in lanes)
        flags = ", ".join("true" if lane else "false" for lane in lanes)
        return self._constant(name, f"arith.constant dense<[{flags}]> : vector<{len(lanes)}xi1>")

    # arithmetic on scalars and vectors; `contract` lets LLVM fuse scalar multiply-adds, as vector.fma does
    def add(self, a: SSA, b: SSA, width: int = 1) -> SSA:
        return self.op(f"arith.addf {a}, {b} fastmath<contract> : {self.vector(width)}")

    def sub(self, a: SSA, b: SSA, width: int = 1) -> SSA:
        return self.op(f"arith.subf {a}, {b} fastmath<contract> : {self.vector(width)}")

    def mul(self, a: SSA, b: SSA, width: int = 1) -> SSA:
        return self.op(f"arith.mulf {a}, {b} fastmath<contract> : {self.vector(width)}")

    def div(self, a: SSA, b: SSA, width: int = 1) -> SSA:
        return self.op(f"arith.divf {a}, {b} : {self.vector(width)}")

    def neg(self, a: SSA, width: int = 1) -> SSA:
        return self.op(f"arith.negf {a} : {self.vector(width)}")

    def sqrt(self, a: SSA, width: int = 1) -> SSA:
        return self.op(f"math.sqrt {a} : {self.vector(width)}")

    def fma(self, a: SSA, b: SSA, c: SSA, width: int = 1) -> SSA:
        """a * b + c."""
        if width == 1:
            return self.add(self.mul(a, b), c)
        return self.op(f"vector.fma {a}, {b}, {c} : {self.vector(width)}")

    def broadcast(self, scalar: SSA, width: int) -> SSA:
        if width == 1:
            return scalar
        return self.op(f"vector.broadcast {scalar} : {self.element} to {self.vector(width)}")

    def shuffle(self, a: SSA, b: SSA, lanes: Sequence[int], width: int) -> SSA:
        """Select lanes of the concatenation of `a` and `b`."""
        kind = self.vector(width)
        return self.op(f"vector.shuffle {a}, {b} [{', '.join(map(str, lanes))}] : {kind}, {kind}")

    def select(self, lanes: Sequence[bool], a: SSA, b: SSA) -> SSA:
        """`a` in the set lanes, `b` in the others."""
        width = len(lanes)
        if width == 1:
            return a if lanes[0] else b
        return self.op(f"arith.select {self.mask(lanes)}, {a}, {b} : vector<{width}xi1>, {self.vector(width)}")

    def lane(self, vector: SSA, lane: int, width: int) -> SSA:
        if width == 1:
            return vector
        return self.op(f"vector.extract {vector}[{lane}] : {self.element} from {self.vector(width)}")

    def from_lanes(self, lanes: Sequence[SSA]) -> SSA:
        if len(lanes) == 1:
            return lanes[0]
        return self.op(f"vector.from_elements {', '.join(lanes)} : {self.vector(len(lanes))}")

    # memory
    def load(self, buffer: str, at: SSA) -> SSA:
        return self.op(f"memref.load %{buffer}[{at}] : {self.memref(buffer)}")

    def store(self, buffer: str, at: SSA, value: SSA) -> None:
        self.do(f"memref.store {value}, %{buffer}[{at}] : {self.memref(buffer)}")

    def load_vector(self, buffer: str, at: SSA, lanes: Sequence[bool], others: SSA | None = None) -> SSA:
        """Load the set lanes only; the others come from `others`, or are zero."""
        width = len(lanes)
        if width == 1:
            return self.load(buffer, at)
        if all(lanes):
            return self.op(f"vector.load %{buffer}[{at}] : {self.memref(buffer)}, {self.vector(width)}")
        rest = others or self.constant(0.0, width)
        if buffer in self.forwarded and (parts := unmasked_parts(lanes)):
            for first, length in parts:
                rest = self._insert(self.load_vector(buffer, self._behind(at, first), [True] * length), rest, first,
                                    length, width)  # fmt: skip
            return rest
        kind, mask = self.vector(width), self.mask(lanes)
        return self.op(
            f"vector.maskedload %{buffer}[{at}], {mask}, {rest} : {self.memref(buffer)}, vector<{width}xi1>, {kind} "
            f"into {kind}"
        )

    def store_vector(self, buffer: str, at: SSA, value: SSA, lanes: Sequence[bool]) -> None:
        """Store the set lanes only."""
        width = len(lanes)
        if width == 1:
            self.store(buffer, at, value)
        elif all(lanes):
            self.do(f"vector.store {value}, %{buffer}[{at}] : {self.memref(buffer)}, {self.vector(width)}")
        elif buffer in self.forwarded and (parts := unmasked_parts(lanes)):
            for first, length in parts:
                part = self._extract(value, first, length, width)
                self.store_vector(buffer, self._behind(at, first), part, [True] * length)
        else:
            self.do(
                f"vector.maskedstore %{buffer}[{at}], {self.mask(lanes)}, {value} : {self.memref(buffer)}, "
                f"vector<{width}xi1>, {self.vector(width)}"
            )

    def _behind(self, at: SSA, lanes: int) -> SSA:
        """The position this many lanes after another."""
        if lanes == 0:
            return at
        known = self._numbers.get(at)
        return self.index_op("addi", at, self.index(lanes)) if known is None else self.index(known + lanes)

    def _insert(self, part: SSA, whole: SSA, first: int, length: int, width: int) -> SSA:
        kind = self.vector(width)
        if length == 1:
            return self.op(f"vector.insert {part}, {whole} [{first}] : {self.element} into {kind}")
        return self.op(
            f"vector.insert_strided_slice {part}, {whole} {{offsets = [{first}], strides = [1]}} : "
            f"{self.vector(length)} into {kind}"
        )

    def _extract(self, value: SSA, first: int, length: int, width: int) -> SSA:
        if length == 1:
            return self.lane(value, first, width)
        return self.op(
            f"vector.extract_strided_slice {value} {{offsets = [{first}], sizes = [{length}], strides = [1]}} : "
            f"{self.vector(width)} to {self.vector(length)}"
        )

    # index arithmetic
    def index_op(self, op: str, a: SSA, b: SSA) -> SSA:
        return self.op(f"arith.{op} {a}, {b} : index")

    def table(self, name: str, values: Sequence[int]) -> None:
        """Define a constant table of positions, read with `look_up`."""
        numbers = ", ".join(map(str, values))
        self.globals[name] = (
            f'memref.global "private" constant @{name} : memref<{len(values)}xi32> = dense<[{numbers}]>'
        )
        self._constant(f"%{name}", f"memref.get_global @{name} : memref<{len(values)}xi32>")

    def look_up(self, name: str, at: SSA) -> SSA:
        kind = self.globals[name].split(" : ")[1].split(" = ")[0]
        word = self.op(f"memref.load %{name}[{at}] : {kind}")
        return self.op(f"arith.index_cast {word} : i32 to index")

    # control
    @contextmanager
    def loop(
        self, low: SSA, high: SSA, step: SSA, carried: Sequence[SSA] = (), kinds: Sequence[str] = ()
    ) -> Iterator[OpenLoop]:
        """`scf.for` over [low, high); the body sets `.results` to the carried values of the next iteration."""
        number = self._count
        self._count += 1
        variable = f"%i{number}"
        arguments = [f"%a{number}_{at}" for at in range(len(carried))]
        bound = ", ".join(f"{a} = {c}" for a, c in zip(arguments, carried, strict=True))
        head = f"scf.for {variable} = {low} to {high} step {step}"
        if carried:
            head = f"%r{number}:{len(carried)} = {head} iter_args({bound}) -> ({', '.join(kinds)})"
        self.do(head + " {")
        outer, self._indent = self._indent, self._indent + "  "
        state = OpenLoop(variable, arguments, [], [f"%r{number}#{at}" for at in range(len(carried))])
        yield state
        if carried:
            self.do(f"scf.yield {', '.join(state.results)} : {', '.join(kinds)}")
        self._indent = outer
        self.do("}")

    @contextmanager
    def branch(self, condition: SSA) -> Iterator[None]:
        """`scf.if` without results."""
        self.do(f"scf.if {condition} {{")
        outer, self._indent = self._indent, self._indent + "  "
        yield
        self._indent = outer
        self.do("}")

    def text(self, visibility: str = "") -> str:
        """The function, preceded by its position tables and helpers; "private " makes it local to the object file.

        With `scratch_as_arguments`, the computation is a separate function that takes the scratch as arguments: when
        LLVM sees that a buffer is on the stack, it promotes more values to registers than exist, and spills.
        """
        helpers = [helper.text("private ") for helper in self.helpers.values()]
        own = [f"  %{name} = memref.alloca() {{alignment = 64 : i64}} : {self.memref(name)}" for name in self.scratch]
        body = [*("  " + line for line in self._head.values()), *self._body, "  return", "}"]
        if not (self.scratch_as_arguments and own):
            signature = self._signature(self.name, self.arguments, visibility)
            return "\n".join([*helpers, *self.globals.values(), signature, *own, *body])
        everything = (*self.arguments, *self.scratch)
        kinds = ", ".join(map(self.memref, everything))
        call = f"  func.call @{self.name}_core({', '.join('%' + name for name in everything)}) : ({kinds}) -> ()"
        wrapper = [self._signature(self.name, self.arguments, visibility), *own, call, "  return", "}"]
        core = self._signature(f"{self.name}_core", everything, "private ")
        return "\n".join([*helpers, *self.globals.values(), *wrapper, core, *body])

    def _signature(self, name: str, arguments: Sequence[str], visibility: str = "") -> str:
        buffers = [f"%{argument}: {self.memref(argument)}" for argument in arguments]
        listed = ", ".join([*buffers, *(f"%{name}: index" for name in self.indices)])
        return f"func.func {visibility}@{name}({listed}) {{"


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


class OpenLoop:
    """A loop under construction: its variable, carried values, yielded values and results."""

    def __init__(self, variable: SSA, carried: list[SSA], results: list[SSA], values: list[SSA]) -> None:
        self.variable = variable
        self.carried = carried
        self.results = results
        self.values = values


def _literal(value: float, element: str) -> str:
    """A float as MLIR parses it: always with a decimal point, every bit kept; NaN and infinity as bit patterns.

    >>> _literal(1e300, "f64"), _literal(float("inf"), "f64"), _literal(float("nan"), "f32")
    ('1.0e+300', '0x7FF0000000000000', '0x7FC00000')
    """
    if not math.isfinite(value):
        return "0x" + struct.pack(">d" if element == "f64" else ">f", value).hex().upper()
    spelled = repr(float(value))
    mantissa, e, exponent = spelled.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + e + exponent
