"""expm1 and log1p on a CPU as calls of the C library.

`convert-math-to-llvm` expands them to exp(x) - 1 and log(1 + x), which near 0 have no right digit. The library's
functions take one number, so vectors are taken apart.
"""

from __future__ import annotations

from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.elementwise import element_name, replace

FUNCTIONS: Final = {"math.expm1": "expm1", "math.log1p": "log1p"}
_SUFFIX: Final = {"f32": "f", "f64": ""}


def replace_in(function: Op, host: Module) -> None:
    """Replace these operations of a function by calls, and declare what they call in the host's module."""
    ir = bindings.load().ir
    declared: set[str] = set()
    for operation in [op for op in walk(function) if op.name in FUNCTIONS]:
        result, given = operation.results[0], operation.operands[0]
        name = FUNCTIONS[operation.name] + _SUFFIX[element_name(result.type)]
        _declare(name, element_name(result.type), host, declared)
        with operation.location, ir.InsertionPoint(operation):
            replace(operation, _called(name, given))


def _declare(name: str, element: str, host: Module, declared: set[str]) -> None:
    ir = bindings.load().ir
    there = {str(op.attributes["sym_name"]) for op in host.body.operations if "sym_name" in op.attributes}
    if name in declared or f'"{name}"' in there:
        return
    declared.add(name)
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "function_type": ir.TypeAttr.parse(f"({element}) -> {element}"),
    }
    with ir.Location.unknown(), ir.InsertionPoint.at_block_begin(host.body):
        ir.Operation.create("func.func", attributes=attributes, regions=1)


def _called(name: str, given: Value) -> Value:
    ir = bindings.load().ir
    callee = {"callee": ir.FlatSymbolRefAttr.get(name)}

    def call(number: Value) -> Value:
        return ir.Operation.create("func.call", [number.type], [number], attributes=callee).results[0]

    if not isinstance(given.type, ir.VectorType):
        return call(given)
    element = ir.VectorType(given.type).element_type
    found = []
    for lane in range(ir.VectorType(given.type).shape[0]):
        position = {"static_position": ir.DenseI64ArrayAttr.get([lane])}
        found.append(call(ir.Operation.create("vector.extract", [element], [given], attributes=position).results[0]))
    return ir.Operation.create("vector.from_elements", [given.type], found).results[0]
