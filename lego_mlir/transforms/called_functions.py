"""Functions that kernels of a module call: `func.func` with the attribute `lego.called`, beside the `gpu.func`s.

They become internal functions of LLVM that are not inlined. For a CPU, whose loops over threads are cut at barriers,
and for passes that look at one kernel, they are inlined first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Type, Value
from lego_mlir.transforms.modules import string_attribute, walk
from lego_mlir.transforms.passes.operations import clone, operations

CALLED: Final = "lego.called"
FUNCTIONS: Final = frozenset({"func.func", "llvm.func", "gpu.func"})
KEPT: Final = '["noinline", "convergent"]'  # convergent: the function may contain a barrier or a shuffle


def called_functions(operation: Op) -> Iterator[Op]:
    """The functions below an operation that are marked as called; none is inside another function."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                op = inner.operation
                if op.name not in FUNCTIONS:
                    yield from called_functions(op)
                elif CALLED in op.attributes:
                    yield op


def inline(module: Module) -> None:
    """Replace calls of functions by their bodies, in place. MLIR's own inliner visits no `gpu.func`."""
    functions = {string_attribute(f, "sym_name"): f for f in called_functions(module.operation)}
    while calls := [op for op in walk(module.operation) if op.name == "func.call" and _callee(op) in functions]:
        for call in calls:
            _replace(call, functions[_callee(call)])
    for function in functions.values():
        function.erase()


def _callee(call: Op) -> str:
    return str(bindings.load().ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


def _replace(call: Op, function: Op) -> None:
    """Copy the function's block before the call, and the operands of its return to the uses of the call's results."""
    block = function.regions[0].blocks[0]
    mapping = dict(zip(block.arguments, call.operands, strict=True))
    *body, end = operations(block)
    with bindings.load().ir.InsertionPoint(call):
        for operation in body:
            copy = clone(operation, mapping)
            for inner in walk(copy):
                for number, operand in enumerate(inner.operands):
                    if operand in mapping:
                        inner.operands[number] = mapping[operand]
            mapping.update(zip(operation.results, copy.results, strict=True))
    for result, value in zip(call.results, end.operands, strict=True):
        result.replace_all_uses_with(mapping[value])
    call.erase()


def pass_pointers(module: Module) -> None:
    """Let functions take `memref<?xf32>` as memrefs of one element, which are passed as bare pointers.

    Such a memref is a pointer without a size; both sides cast it, and neither uses the size.
    """
    ir = bindings.load().ir
    functions = {string_attribute(f, "sym_name"): f for f in called_functions(module.operation)}
    for function in functions.values():
        type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        block, inputs = function.regions[0].blocks[0], list(type_.inputs)
        for position, given in enumerate(inputs):
            if isinstance(given, ir.MemRefType) and not given.has_static_shape:
                inputs[position] = _one_element(given)
                argument = block.arguments[position]
                argument.set_type(inputs[position])
                with function.location, ir.InsertionPoint.at_block_begin(block):
                    view = _cast(argument, given)
                argument.replace_all_uses_except(view, view.owner.operation)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, list(type_.results)))
    for call in [op for op in walk(module.operation) if op.name == "func.call" and _callee(op) in functions]:
        _pass_pointers(call)


def _pass_pointers(call: Op) -> None:
    ir = bindings.load().ir
    for position, operand in enumerate(call.operands):
        if isinstance(operand.type, ir.MemRefType) and not operand.type.has_static_shape:
            with call.location, ir.InsertionPoint(call):
                call.operands[position] = _cast(operand, _one_element(operand.type))


def _one_element(type_: Type) -> Type:
    ir = bindings.load().ir
    return ir.MemRefType.get([1], type_.element_type, memory_space=type_.memory_space)


def _cast(memref: Value, wanted: Type) -> Value:
    """The same memory as a memref of this type, of one element or of unknown size."""
    ir, arith, dialect = bindings.load().ir, bindings.load().dialect("arith"), bindings.load().dialect("memref")
    if wanted.has_static_shape:
        return dialect.ReinterpretCastOp(wanted, memref, [], [], [], [0], [1], [1]).result
    unknown = arith.ConstantOp(ir.IndexType.get(), (1 << 63) - 1).result
    dynamic = ir.ShapedType.get_dynamic_size()
    return dialect.ReinterpretCastOp(wanted, memref, [], [unknown], [], [0], [dynamic], [1]).result


def keep_calls(gpu_module: Op) -> None:
    """Mark the functions of a lowered module, so that LLVM inlines none of them."""
    ir = bindings.load().ir
    for function in called_functions(gpu_module):
        function.attributes["passthrough"] = ir.Attribute.parse(KEPT)
        del function.attributes[CALLED]
