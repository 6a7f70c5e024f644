"""Turn the shared tiles of a loop into `memref.alloc`.

A kernel declares its shared tiles as attributions of the function, which need no memory management. Multi-buffering and
the swizzle change the type of a tile and need an operation to replace. So a tile that only one loop uses, which is
therefore staged repeatedly, becomes a `memref.alloc` here; `lego-place-shared-memory` makes it shared memory again.
Where that loop is inside another one, over the tiles of a persistent block, tiles of the outer loop are left alone. The
order of a tile's segments, `lego.order`, is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Module, Op, Type, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import input_types, kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import Pass, UnreadError
from lego_mlir.transforms.passes.operations import is_shared, loops_around, users
from lego_mlir.transforms.tile_names import ATTRIBUTES, declared, located

COUNT = "workgroup_attributions"
ORDER = "lego.order"  # the order of a tile's segments: passes/swizzle.py


@dataclass(frozen=True, slots=True)
class AllocateShared(Pass):
    """Raises PassError where no loop uses a shared tile."""

    name = "lego-shared-to-alloc"
    once = "first"

    def run(self, module: Module, target: Target) -> None:
        found = False
        for function in kernels(module):
            homes = {argument: _loop_of(argument) for argument in attributions(function)}
            for argument, loop in reversed(homes.items()):  # each is inserted at the front
                if loop is not None and not any(_holds(loop, other) for other in homes.values()):
                    _replace(function, argument)
                    found = True
            found |= any(op.name == "memref.alloc" and is_shared(op.results[0].type) for op in walk(function))
        if not found:
            raise UnreadError(str(self.no_match("shared tiles that one scf.for uses", module)))


def attributions(function: Op) -> list[Op]:
    """The block arguments that are the function's shared memory."""
    first = len(input_types(function))
    return list(function.regions[0].blocks[0].arguments)[first : first + count(function)]


def count(function: Op) -> int:
    """The number of shared tiles that the function declares."""
    return int(function.attributes[COUNT]) if COUNT in function.attributes else 0


def declare(function: Op, type_: Type, facts: Mapping[str, Attribute] | None = None) -> Value:
    """A further shared tile of the function, with these attributes."""
    ir = bindings.load().ir
    argument = function.regions[0].blocks[0].add_argument(type_, function.location)
    before = count(function)
    listed = list(function.attributes[ATTRIBUTES]) if ATTRIBUTES in function.attributes else []
    listed += [ir.DictAttr.get({})] * (before - len(listed))
    function.attributes[COUNT] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), before + 1)
    function.attributes[ATTRIBUTES] = ir.ArrayAttr.get([*listed, ir.DictAttr.get(dict(facts or {}))])
    return argument


def remove(function: Op, argument: Value) -> None:
    """Remove an attribution that has no uses left."""
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


def _loop_of(buffer: Value) -> Op:
    """The innermost loop that holds every use of a buffer, or None."""
    paths = [loops_around(user) for user in users(buffer)]
    return next((loop for loop in paths[0] if all(loop in path for path in paths)), None) if paths else None


def _holds(loop: Op, other: Op) -> bool:
    """Whether another loop is inside a loop."""
    return other is not None and loop in loops_around(other)


def _replace(function: Op, argument: Value) -> None:
    ir = bindings.load().ir
    facts = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}
    number = attributions(function).index(argument)
    if ATTRIBUTES in function.attributes:
        listed = ir.DictAttr(function.attributes[ATTRIBUTES][number])
        facts |= {ORDER: listed[ORDER]} if ORDER in listed else {}
    name = declared(function, count(function))[number]
    with located(function.location, name), ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]):
        made = ir.Operation.create("memref.alloc", results=[argument.type], attributes=facts).results[0]
    argument.replace_all_uses_with(made)
    remove(function, argument)
