"""Placeholders of the new kernel, functions without a body: their calls become the old kernel's computations.

The tile order, and for a class of sizes the number of tiles, are arithmetic of the kernel that was read. It is cloned
to where the new kernel calls for it.
"""

from __future__ import annotations

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.kernel_facts import input_types
from lego_mlir.transforms.modules import string_attribute, walk
from lego_mlir.transforms.passes.operations import clone, create, producer
from lego_mlir.transforms.warpgroups.class_reading import MATRICES, SymbolicProduct
from lego_mlir.transforms.warpgroups.launch_sizes import TILE_COUNT
from lego_mlir.transforms.warpgroups.roles import ORIGIN


def calls_of(function: Op, name: str) -> list[Op]:
    """The calls of a placeholder in the functions beside this one."""
    siblings = [op.operation for op in function.block.operations]
    calls = [op for sibling in siblings for op in walk(sibling) if op.name == "func.call"]
    return [call for call in calls if str(call.attributes["callee"]) == f"@{name}"]


def remove_declarations(function: Op, *names: str) -> None:
    """Remove placeholders whose calls have been replaced."""
    for sibling in [op.operation for op in function.block.operations]:
        if sibling.name == "func.func" and string_attribute(sibling, "sym_name") in names:
            sibling.erase()


def rebuilt(value: Value, known: dict[Value, Value], zero: Value) -> Value:
    """The computation of a value, again, at the insertion point; ids and loop variables that are not known are 0."""
    if value not in known:
        source = producer(value)
        if source is None or source.name in ("gpu.thread_id", "gpu.block_id"):
            known[value] = zero
        else:
            mapping = {operand: rebuilt(operand, known, zero) for operand in source.operands}
            known[value] = clone(source, mapping).results[list(source.results).index(value)]
    return known[value]


def fill_in_counts(function: Op, symbolic: SymbolicProduct, *, transposed: bool = False) -> None:
    """Replace the calls in a kernel for a class: the number of tiles, and the place of one, from the old values."""
    ir, product = bindings.load().ir, symbolic.product
    for name in (ORIGIN, TILE_COUNT):
        for call in calls_of(function, name):
            known = dict(zip(_sizes_of(function), _sizes_of(_kernel_around(call)), strict=True))
            with call.location, ir.InsertionPoint(call):
                zero = create("arith.constant", [ir.IndexType.get()], attributes={"value": "0 : index"}).results[0]
                if name == TILE_COUNT:
                    call.results[0].replace_all_uses_with(rebuilt(symbolic.tile_count, known, zero))
                else:
                    known[product.position] = call.operands[0]
                    for number, extent in enumerate(product.out.shape):
                        place = rebuilt(symbolic.place[number], known, zero)
                        times = ir.Attribute.parse(f"affine_map<(d0) -> (d0 * {extent})>")
                        line = create("affine.apply", [ir.IndexType.get()], [place], {"map": times}).results[0]
                        call.results[1 - number if transposed else number].replace_all_uses_with(line)
            call.erase()
    remove_declarations(function, ORIGIN, TILE_COUNT)


def _sizes_of(function: Op) -> list[Value]:
    """The arguments of a kernel that are sizes."""
    return list(function.regions[0].blocks[0].arguments)[: len(input_types(function))][-MATRICES:]


def _kernel_around(operation: Op) -> Op:
    current = operation
    while current.name != "gpu.func":
        current = current.parent.operation
    return current
