"""Functions of vector code as MLIR text: arith, vector, memref and scf.

Text, because a flat kernel has thousands of operations, and parsing them at once is several times faster than building
them individually:

>>> from lego_mlir.structured.function import Function
>>> f = Function("axpy", "f64", (("x", 4), ("y", 4)))
>>> f.store("y", f.index(2), f.add(f.load("x", f.index(2)), f.load("y", f.index(2))))
>>> print(text(f))
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
from typing import Final

from lego_mlir.errors import PrintError
from lego_mlir.structured.function import (
    CarriedLoop,
    Conditional,
    Function,
    SharedConstant,
    Statement,
    VectorOperation,
    mask_name,
)

# `contract` lets LLVM fuse scalar multiply-adds, as vector.fma does
_ARITHMETIC: Final = {
    "add": "arith.addf {0}, {1} fastmath<contract>", "sub": "arith.subf {0}, {1} fastmath<contract>",
    "mul": "arith.mulf {0}, {1} fastmath<contract>", "div": "arith.divf {0}, {1}", "neg": "arith.negf {0}",
    "sqrt": "math.sqrt {0}", "fma": "vector.fma {0}, {1}, {2}",
}  # fmt: skip


def text(function: Function, visibility: str = "") -> str:
    """The function, preceded by its position tables and helpers; "private " makes it local to the object file.

    With `scratch_as_arguments`, the computation is a separate function that takes the scratch as arguments: when
    LLVM sees that a buffer is on the stack, it promotes more values to registers than exist, and spills.
    """
    f, printer = function, _Printer(function)
    helpers = [text(helper, "private ") for helper in f.helpers.values()]
    tables = [
        f'memref.global "private" constant @{name} : memref<{len(values)}xi32> = dense<[{", ".join(map(str, values))}]>'
        for name, values in f.tables.items()
    ]
    own = [f"  %{name} = memref.alloca() {{alignment = 64 : i64}} : {printer.memref(name)}" for name in f.scratch]
    constants = [f"  {name} = {printer.constant(constant)}" for name, constant in f.constants.items()]
    body = [*constants, *printer.block(f.body, "  "), "  return", "}"]
    if not (f.scratch_as_arguments and own):
        return "\n".join([*helpers, *tables, printer.signature(f.name, f.arguments, visibility), *own, *body])
    everything = (*f.arguments, *f.scratch)
    call = printer.call(f"{f.name}_core", everything, ())
    wrapper = [printer.signature(f.name, f.arguments, visibility), *own, f"  {call}", "  return", "}"]
    core = printer.signature(f"{f.name}_core", everything, "private ")
    return "\n".join([*helpers, *tables, *wrapper, core, *body])


class _Printer:
    def __init__(self, function: Function) -> None:
        self.f = function

    def memref(self, buffer: str) -> str:
        return f"memref<{self.f.buffers[buffer]}x{self.f.element}>"

    def vector(self, width: int) -> str:
        return self.f.element if width == 1 else f"vector<{width}x{self.f.element}>"

    def signature(self, name: str, arguments: Sequence[str], visibility: str) -> str:
        buffers = [f"%{argument}: {self.memref(argument)}" for argument in arguments]
        listed = ", ".join([*buffers, *(f"%{name}: index" for name in self.f.indices)])
        return f"func.func {visibility}@{name}({listed}) {{"

    def call(self, name: str, buffers: Sequence[str], indices: Sequence[str]) -> str:
        kinds = ", ".join([*map(self.memref, buffers), *["index"] * len(indices)])
        return f"func.call @{name}({', '.join([*(f'%{b}' for b in buffers), *indices])}) : ({kinds}) -> ()"

    def constant(self, constant: SharedConstant) -> str:
        value, width, element = constant.value, constant.width, self.f.element
        match constant.kind:
            case "index":
                return f"arith.constant {value} : index"
            case "splat":
                literal = _literal(value, element)
                return f"arith.constant {literal if width == 1 else f'dense<{literal}>'} : {self.vector(width)}"
            case "lanes":
                literals = ", ".join(_literal(one, element) for one in value)
                return f"arith.constant dense<[{literals}]> : {self.vector(width)}"
            case "mask":
                flags = ", ".join("true" if lane else "false" for lane in value)
                return f"arith.constant dense<[{flags}]> : vector<{width}xi1>"
            case "true":
                return "arith.constant true"
            case "table":
                return f"memref.get_global @{value} : memref<{width}xi32>"
        raise PrintError(f"mlir: no form for a constant {constant.kind}")

    def block(self, statements: Sequence[Statement], indent: str) -> Iterator[str]:
        for statement in statements:
            match statement:
                case CarriedLoop():
                    yield from self.loop(statement, indent)
                case Conditional(condition, body):
                    yield f"{indent}scf.if {condition} {{"
                    yield from self.block(body, indent + "  ")
                    yield indent + "}"
                case VectorOperation("look_up", result, (at,), data=table):
                    word, kind = f"%{int(result[1:]) - 1}", f"memref<{len(self.f.tables[table])}xi32>"
                    yield f"{indent}{word} = memref.load %{table}[{at}] : {kind}"
                    yield f"{indent}{result} = arith.index_cast {word} : i32 to index"
                case VectorOperation(_, result):
                    yield f"{indent}{f'{result} = ' if result else ''}{self.operation(statement)}"

    def loop(self, loop: CarriedLoop, indent: str) -> Iterator[str]:
        head = f"scf.for {loop.variable} = {loop.low} to {loop.high} step {loop.step}"
        kinds = ", ".join([self.vector(loop.width)] * len(loop.carried))
        if loop.carried:
            bound = ", ".join(f"{a} = {c}" for a, c in zip(loop.carried, loop.initial, strict=True))
            name = loop.values[0].partition("#")[0]
            head = f"{name}:{len(loop.carried)} = {head} iter_args({bound}) -> ({kinds})"
        yield f"{indent}{head} {{"
        yield from self.block(loop.body, indent + "  ")
        if loop.carried:
            yield f"{indent}  scf.yield {', '.join(loop.results)} : {kinds}"
        yield indent + "}"

    def operation(self, op: VectorOperation) -> str:
        operands, width, data = op.operands, op.width, op.data
        kind = self.vector(width)
        if op.kind in _ARITHMETIC:
            return f"{_ARITHMETIC[op.kind].format(*operands)} : {kind}"
        first = operands[0] if operands else ""
        match op.kind:
            case "broadcast":
                return f"vector.broadcast {first} : {self.f.element} to {kind}"
            case "shuffle":
                return f"vector.shuffle {first}, {operands[1]} [{', '.join(map(str, data))}] : {kind}, {kind}"
            case "select":
                return f"arith.select {mask_name(data)}, {first}, {operands[1]} : vector<{width}xi1>, {kind}"
            case "lane":
                return f"vector.extract {first}[{data}] : {self.f.element} from {kind}"
            case "from_lanes":
                return f"vector.from_elements {', '.join(operands)} : {kind}"
            case "insert" if data[1] == 1:
                return f"vector.insert {first}, {operands[1]} [{data[0]}] : {self.f.element} into {kind}"
            case "insert":
                where = f"{{offsets = [{data[0]}], strides = [1]}} : {self.vector(data[1])} into {kind}"
                return f"vector.insert_strided_slice {first}, {operands[1]} {where}"
            case "extract":
                where = (
                    f"{{offsets = [{data[0]}], sizes = [{data[1]}], strides = [1]}} : {kind} to {self.vector(data[1])}"
                )
                return f"vector.extract_strided_slice {first} {where}"
            case "index":
                return f"arith.{data} {first}, {operands[1]} : index"
            case "compare":
                return f"arith.cmpi {data}, {first}, {operands[1]} : index"
            case "logic":
                return f"arith.{data} {first}, {operands[1]} : i1"
            case "call":
                return self.call(data[0], data[1], operands)
        return self.access(op, kind)

    def access(self, op: VectorOperation, kind: str) -> str:
        """A load or store."""
        dialect = "memref" if op.width == 1 else "vector"
        place = f"%{op.buffer}[{op.operands[0]}]"
        memory = self.memref(op.buffer) if op.width == 1 else f"{self.memref(op.buffer)}, {kind}"
        masked = f"{self.memref(op.buffer)}, vector<{op.width}xi1>, {kind}"
        match op.kind, op.operands[1:]:
            case "load", _:
                return f"{dialect}.load {place} : {memory}"
            case "store", (value,):
                return f"{dialect}.store {value}, {place} : {memory}"
            case "masked_load", (rest,):
                return f"vector.maskedload {place}, {mask_name(op.data)}, {rest} : {masked} into {kind}"
            case "masked_store", (value,):
                return f"vector.maskedstore {place}, {mask_name(op.data)}, {value} : {masked}"
        raise PrintError(f"mlir: no form for {op.kind} of {len(op.operands)} operands")


def _literal(value: float, element: str) -> str:
    """A float as MLIR parses it: always with a decimal point, every bit kept; NaN and infinity as bit patterns.

    >>> _literal(1e300, "f64"), _literal(float("inf"), "f64"), _literal(float("nan"), "f32")
    ('1.0e+300', '0x7FF0000000000000', '0x7FC00000')
    """
    if not math.isfinite(value):
        return "0x" + struct.pack(">d" if element == "f64" else ">f", value).hex().upper()
    mantissa, e, exponent = repr(value).partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + e + exponent
