"""Turn a branch around a wide read into a masked read.

A kernel guards reads past the end of a matrix with a branch that yields zeros there:

    %v = scf.if %inside -> vector<8xf16> { yield (vector.load %a[%i]) } else { yield zeros }

An asynchronous copy takes a number of elements to read and fills the rest with zeros; upstream makes one from a masked
read. So the branch becomes a mask of all or no elements:

    %m = vector.create_mask (select %inside, 8, 0) : vector<8xi1>
    %v = vector.transfer_read %a[%i], %zero, %m

Only reads whose value is stored in shared memory change: elsewhere the branch is the better code.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Type, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.passes.operations import is_pure, is_shared, operations, producer, users


@dataclass(frozen=True, slots=True)
class MaskReads(Pass):
    """Replace every such branch; a kernel without one is left unchanged."""

    name = "lego-masked-reads"

    def run(self, module: Module, target: Target) -> None:
        for function in kernels(module):
            for branch in [op for op in walk(function) if op.name == "scf.if"]:
                load = _wide_read(branch)
                if load is not None:
                    _as_masked(branch, load)


def _wide_read(branch: Op) -> Op:
    """The vector.load of a branch that does nothing else, whose value goes to shared memory; None for others."""
    if len(branch.results) != 1 or len(branch.regions) != 2:
        return None
    to_shared = [user.name == "vector.store" and is_shared(user.operands[1].type) for user in users(branch.results[0])]
    inside = operations(branch.regions[0].blocks[0])
    if not (to_shared and all(to_shared)) or len(inside) < 2 or inside[-2].name != "vector.load":
        return None
    *before, load, end = inside
    if not all(map(is_pure, before)) or end.operands[0] != load.results[0]:
        return None
    return load if _is_zero(operations(branch.regions[1].blocks[0])[-1].operands[0]) else None


def _is_zero(value: Value) -> bool:
    source = producer(value)
    if source is not None and source.name == "vector.broadcast":
        source = producer(source.operands[0])
    return source is not None and source.name == "arith.constant" and "0.000000e+00" in str(source.attributes["value"])


def _as_masked(branch: Op, load: Op) -> None:
    ir = bindings.load().ir
    create, index = ir.Operation.create, ir.IndexType.get()
    vector = ir.VectorType(load.results[0].type)
    for operation in operations(branch.regions[0].blocks[0])[:-1]:
        operation.move_before(branch)
    with branch.location, ir.InsertionPoint(branch):

        def constant(type_: Type, text: str) -> Op:
            return create("arith.constant", [type_], attributes={"value": ir.Attribute.parse(text)}).results[0]

        width, none = constant(index, f"{vector.shape[0]} : index"), constant(index, "0 : index")
        zero = constant(vector.element_type, f"0.0 : {vector.element_type}")
        number = create("arith.select", [index], [branch.operands[0], width, none]).results[0]
        mask_type = ir.VectorType.get(vector.shape, ir.IntegerType.get_signless(1))
        mask = create("vector.create_mask", [mask_type], [number]).results[0]
        rank = len(load.operands) - 1
        read = create(
            "vector.transfer_read",
            [vector],
            [*load.operands, zero, mask],
            attributes={
                "in_bounds": ir.Attribute.parse("[true]"),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, rank, 1, 1]),
                "permutation_map": ir.AffineMapAttr.get(ir.AffineMap.get_minor_identity(rank, 1)),
            },
        ).results[0]
    branch.results[0].replace_all_uses_with(read)
    branch.erase()
    load.erase()
