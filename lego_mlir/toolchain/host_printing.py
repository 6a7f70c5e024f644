"""`gpu.printf` on a CPU: a call of the C library's printf, thread by thread.

C passes integers below 32 bits as int and floats as double. The output is flushed when the kernel ends.
"""

from __future__ import annotations

from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.operations import create, operations

PRINT: Final = "gpu.printf"
_POINTER: Final = "!llvm.ptr"
_CALLED: Final = {"printf": "!llvm.func<i32 (ptr, ...)>", "fflush": "!llvm.func<i32 (ptr)>"}


def replace_in(function: Op, host: Module) -> None:
    """Replace the printing of a function, and declare what it calls in the host's module."""
    ir = bindings.load().ir
    prints = [op for op in walk(function) if op.name == PRINT]
    if not prints:
        return
    for name, type_ in _CALLED.items():
        _declare(host, name, type_)
    kernel = str(ir.StringAttr(function.attributes["sym_name"]).value)
    for number, operation in enumerate(prints):
        name = f"{kernel}_format_{number}"
        _text(host, name, str(ir.StringAttr(operation.attributes["format"]).value))
        with operation.location, ir.InsertionPoint(operation):
            text = create("llvm.mlir.addressof", [ir.Type.parse(_POINTER)], [], {"global_name": f"@{name}"}).results[0]
            _call("printf", [text, *map(_promoted, operation.operands)], _CALLED["printf"])
        operation.erase()
    end = operations(function.regions[0].blocks[0])[-1]
    with end.location, ir.InsertionPoint(end):
        _call("fflush", [create("llvm.mlir.zero", [ir.Type.parse(_POINTER)]).results[0]])


def _declare(host: Module, name: str, type_: str) -> None:
    ir = bindings.load().ir
    there = [op.operation for op in host.body.operations if op.operation.name == "llvm.func"]
    if any(str(ir.StringAttr(op.attributes["sym_name"]).value) == name for op in there):
        return
    attributes = {"sym_name": f'"{name}"', "function_type": type_, "linkage": "#llvm.linkage<external>"}
    parsed = {key: ir.Attribute.parse(text) for key, text in attributes.items()}
    with ir.Location.unknown(), ir.InsertionPoint.at_block_begin(host.body):
        ir.Operation.create("llvm.func", attributes=parsed, regions=1)


def _text(host: Module, name: str, text: str) -> None:
    """A constant string that ends in 0."""
    ir = bindings.load().ir
    value = ir.StringAttr.get(text + "\0")
    length = len(text.encode()) + 1
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "global_type": ir.TypeAttr.parse(f"!llvm.array<{length} x i8>"),
        "linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
        "constant": ir.UnitAttr.get(),
        "value": value,
    }
    with ir.Location.unknown(), ir.InsertionPoint.at_block_begin(host.body):
        ir.Operation.create("llvm.mlir.global", attributes=attributes, regions=1)


def _call(name: str, operands: list[Value], variadic: str = "") -> None:
    ir = bindings.load().ir
    segments = {"operandSegmentSizes": f"array<i32: {len(operands)}, 0>", "op_bundle_sizes": "array<i32>"}
    facts = {"callee": f"@{name}", **segments, **({"var_callee_type": variadic} if variadic else {})}
    create("llvm.call", [ir.Type.parse("i32")], operands, facts)


def _promoted(value: Value) -> Value:
    ir, kind = bindings.load().ir, str(value.type)
    if kind in ("f16", "bf16", "f32"):
        return create("arith.extf", [ir.Type.parse("f64")], [value]).results[0]
    if kind in ("i1", "i8", "i16"):
        name = "arith.extui" if kind == "i1" else "arith.extsi"
        return create(name, [ir.Type.parse("i32")], [value]).results[0]
    return value
