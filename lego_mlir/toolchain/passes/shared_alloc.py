"""Shared tiles of a loop as `memref.alloc`.

A kernel has its shared tiles as attributions of the function, which need no memory management. Multi-buffering and the
swizzle change the type of a tile, and look for an operation that they can replace. So a tile that is used in one loop
only, the kind that is staged again and again, becomes a `memref.alloc` here; `lego-place-shared-memory` makes shared
memory of it again.
"""

from __future__ import annotations

from typing import Any

from lego_mlir import bindings
from lego_mlir.toolchain.facts import input_types, kernels
from lego_mlir.toolchain.modules import walk
from lego_mlir.toolchain.passes.context import Context, nothing
from lego_mlir.toolchain.passes.operations import is_shared, users

COUNT = "workgroup_attributions"
ATTRIBUTES = "workgroup_attrib_attrs"


def run(module: Any, context: Context) -> None:
    """The pass. Raises PassError where no loop uses a shared tile."""
    found = False
    for function in kernels(module):
        for argument in reversed(attributions(function)):  # each goes to the front
            if _loop_of(argument) is not None:
                _replace(function, argument)
                found = True
        found |= any(op.name == "memref.alloc" and is_shared(op.results[0].type) for op in walk(function))
    if not found:
        raise nothing("lego-shared-to-alloc", "shared tiles that one scf.for uses", module)


def attributions(function: Any) -> list[Any]:
    """The block arguments that are the function's shared memory."""
    first = len(input_types(function))
    return list(function.regions[0].blocks[0].arguments)[first : first + count(function)]


def count(function: Any) -> int:
    """How many pieces of shared memory the function declares."""
    return int(function.attributes[COUNT]) if COUNT in function.attributes else 0


def remove(function: Any, argument: Any) -> None:
    """Take away an attribution that nothing uses any more."""
    ir = bindings.load().ir
    position, left = argument.arg_number, count(function) - 1
    number = position - len(input_types(function))
    function.regions[0].blocks[0].erase_argument(position)
    if left:
        function.attributes[COUNT] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), left)
    else:
        del function.attributes[COUNT]
    if ATTRIBUTES in function.attributes:
        kept = [entry for i, entry in enumerate(function.attributes[ATTRIBUTES]) if i != number]
        if kept:
            function.attributes[ATTRIBUTES] = ir.ArrayAttr.get(kept)
        else:
            del function.attributes[ATTRIBUTES]


def _loop_of(buffer: Any) -> Any:
    """The one outermost loop that holds every use of a buffer, or None."""
    outermost = {_outermost_loop(user) for user in users(buffer)}
    return outermost.pop() if len(outermost) == 1 else None


def _outermost_loop(operation: Any) -> Any:
    found, current = None, operation.parent
    while current is not None and current.operation.name != "gpu.func":
        if current.operation.name == "scf.for":
            found = current.operation
        current = current.operation.parent
    return found


def _replace(function: Any, argument: Any) -> None:
    ir = bindings.load().ir
    segments = ir.DenseI32ArrayAttr.get([0, 0])
    with function.location, ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]):
        made = ir.Operation.create(
            "memref.alloc", results=[argument.type], attributes={"operandSegmentSizes": segments}
        ).results[0]
    argument.replace_all_uses_with(made)
    remove(function, argument)
