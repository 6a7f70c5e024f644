"""Queries about operations, and moving them: helpers that several passes use on top of the bindings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Block, Module, Op, Type, Value
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk

SHARED: Final = "#gpu.address_space<workgroup>"
# Operations without effects, which may be repeated and moved anywhere below their operands.
_PURE: Final = ("arith.", "affine.apply", "index.", "gpu.lane_id", "gpu.thread_id", "gpu.block_id", "vector.extract")


def is_shared(type_: Type) -> bool:
    """Whether a type is a memref in a block's shared memory."""
    ir = bindings.load().ir
    return isinstance(type_, ir.MemRefType) and str(type_.memory_space) == SHARED


def is_pure(operation: Op) -> bool:
    """Whether an operation only computes a value."""
    return operation.name.startswith(_PURE)


def producer(value: Value) -> Op:
    """The operation that makes a value, or None for a block's argument."""
    owner = value.owner
    return getattr(owner, "operation", None)


def users(value: Value) -> list[Op]:
    """The operations that use a value, without repetition."""
    found: list[Op] = []
    for use in value.uses:
        owner = use.owner.operation
        if owner not in found:
            found.append(owner)
    return found


def bits(width: int) -> Type:
    """The type of integers of this width."""
    return bindings.load().ir.IntegerType.get_signless(width)


def operations(block: Block) -> list[Op]:
    """The operations of a block, in order."""
    return [op.operation for op in block.operations]


def loops(module: Module) -> Iterator[Op]:
    """Every scf.for of every kernel."""
    for function in kernels(module):
        yield from [op for op in walk(function) if op.name == "scf.for"]


def loops_around(operation: Op) -> list[Op]:
    """The loops that an operation is in, innermost first."""
    found, current = [], operation.parent
    while current is not None and current.operation.name != "gpu.func":
        if current.operation.name == "scf.for":
            found.append(current.operation)
        current = current.operation.parent
    return found


def named(block: Block, *names: str) -> list[Op]:
    """The operations of a block with one of these names."""
    return [op for op in operations(block) if op.name in names]


def ancestor_in(operation: Op, block: Block) -> Op:
    """The operation of `block` that is or contains this one; None if there is none."""
    current = operation
    while current.parent is not None:  # the outermost operation is in no block
        if current.block == block:
            return current
        current = current.parent.operation
    return None


def create(
    name: str,
    results: Sequence[Type],
    operands: Sequence[Value] = (),
    attributes: Mapping[str, str | Attribute] | None = None,
) -> Op:
    """A new operation at the current insertion point and location; attributes are MLIR text or attribute objects."""
    ir = bindings.load().ir
    parsed = {k: ir.Attribute.parse(a) if isinstance(a, str) else a for k, a in (attributes or {}).items()}
    return ir.Operation.create(name, list(results), list(operands), attributes=parsed)


def clone(operation: Op, mapping: Mapping[Value, Value]) -> Op:
    """A copy at the current insertion point, with operands replaced as `mapping` says, those in its branches too."""
    copy = operation.clone().operation
    for inner in (copy, *walk(copy)):
        for number, operand in enumerate(inner.operands):
            if operand in mapping:
                inner.operands[number] = mapping[operand]
    return copy


def needed(operations_: list[Op], block: Block) -> list[Op]:
    """The given operations of `block` and the pure ones in it that they depend on, in order."""
    chosen, open_ = set(), list(operations_)
    while open_:
        operation = open_.pop()
        if operation in chosen:
            continue
        chosen.add(operation)
        for operand in operation.operands:
            source = producer(operand)
            if source is not None and source.block == block and is_pure(source):
                open_.append(source)
    return [operation for operation in operations(block) if operation in chosen]
