"""Shared tiles of a loop as `memref.alloc`.

A kernel has its shared tiles as attributions of the function, which need no memory management. Multi-buffering and the
swizzle change the type of a tile, and look for an operation that they can replace. So a tile that is used in one loop
only, the kind that is staged again and again, becomes a `memref.alloc` here; `lego-place-shared-memory` makes shared
memory of it again. Where that loop is inside another one, which the block walks along with one piece of work after
another, tiles of the outer loop stay. The order of a tile's runs, `lego.order`, goes along.
"""

from __future__ import annotations

from typing import Any

from lego_mlir import bindings
from lego_mlir.transforms.kernel_facts import input_types, kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.context import Context, nothing
from lego_mlir.transforms.passes.operations import is_shared, loops_around, users

COUNT = "workgroup_attributions"
ATTRIBUTES = "workgroup_attrib_attrs"
ORDER = "lego.order"  # where the runs of a tile lie: passes/swizzle.py


def run(module: Any, context: Context) -> None:
    """The pass. Raises PassError where no loop uses a shared tile."""
    found = False
    for function in kernels(module):
        homes = {argument: _loop_of(argument) for argument in attributions(function)}
        for argument, loop in reversed(homes.items()):  # each goes to the front
            if loop is not None and not any(_holds(loop, other) for other in homes.values()):
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
    """The innermost loop that holds every use of a buffer, or None."""
    paths = [loops_around(user) for user in users(buffer)]
    return next((loop for loop in paths[0] if all(loop in path for path in paths)), None) if paths else None


def _holds(loop: Any, other: Any) -> bool:
    """Whether another loop is inside a loop."""
    return other is not None and loop in loops_around(other)


def _replace(function: Any, argument: Any) -> None:
    ir = bindings.load().ir
    facts = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}
    if ATTRIBUTES in function.attributes:
        listed = ir.DictAttr(function.attributes[ATTRIBUTES][attributions(function).index(argument)])
        facts |= {ORDER: listed[ORDER]} if ORDER in listed else {}
    with function.location, ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]):
        made = ir.Operation.create("memref.alloc", results=[argument.type], attributes=facts).results[0]
    argument.replace_all_uses_with(made)
    remove(function, argument)
