"""Load the next tile into registers while this one is multiplied, where no asynchronous copy can.

Rows of an odd number of 2-byte elements begin at odd multiples of 2 bytes, and an asynchronous copy moves at least 4.
Such tiles go through registers. A loop that loads, stores to shared memory and multiplies waits for memory in every
iteration; with the loads one iteration ahead, their latency passes during the products:

    for k: barrier; r = load(k); store r; barrier; products
->  r = load(first);  for k, r: barrier; store r; barrier; r' = load(k + 1); products; yield r'

The last iteration loads its own tile again, which nobody stores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Block, Module, Op, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.carried_values import carrying, repeat, yielding
from lego_mlir.transforms.passes.merge_barriers import BARRIER
from lego_mlir.transforms.passes.operations import ancestor_in, is_pure, is_shared, loops, named, operations, producer
from lego_mlir.transforms.passes.rotate_fragments import MMA

LOADS: Final = ("memref.load", "vector.load", "vector.transfer_read")
STORES: Final = ("memref.store", "vector.store", "vector.transfer_write")


@dataclass(frozen=True, slots=True)
class LoadTilesEarly(Pass):
    """Raises PassError where no loop stores loaded values to shared memory between two barriers and multiplies."""

    name = "lego-load-tiles-early"

    def run(self, module: Module, target: Target) -> None:
        found = False
        for loop in loops(module):
            body = loop.regions[0].blocks[0]
            barriers = named(body, BARRIER)
            if not named(body, MMA) or named(body, COPY) or len(barriers) < 2:
                continue
            stores = [op for op in named(body, *STORES) if is_shared(op.operands[1].type) and _before(op, barriers[1])]
            loads = [producer(store.operands[0]) for store in stores]
            if stores and all(load is not None and load.block == body and _reads(load) for load in loads):
                found = True
                _rotate(loop, stores, loads, barriers[1])
        if not found:
            raise self.no_match(f"an scf.for that stores loaded values to shared memory and has {MMA}", module)


def _before(operation: Op, barrier: Op) -> bool:
    return bool(operation.is_before_in_block(barrier))


def _reads(operation: Op) -> bool:
    """Whether an operation is a load of global memory, or a branch around one."""
    inside = [operation, *walk(operation)]
    read = [op for op in inside if op.name in LOADS]
    known = all(op.name in (*LOADS, "scf.if", "scf.yield", "vector.broadcast") or is_pure(op) for op in inside)
    return bool(read) and known and not any(is_shared(op.operands[0].type) for op in read)


def _rotate(loop: Op, stores: list[Op], loads: list[Op], barrier: Op) -> None:
    """Carry the loaded values from the iteration before."""
    ir = bindings.load().ir
    body = loop.regions[0].blocks[0]
    head = _needed(loads, body)
    with loop.location, ir.InsertionPoint(loop):
        first = repeat(head, {body.arguments[0]: loop.operands[0]})
        values = [store.operands[0] for store in stores]
        made, carried = carrying(loop, [first[value] for value in values])
    after = made.regions[0].blocks[0]
    for store, argument in zip(stores, carried, strict=True):
        store.operands[0] = argument
    products = next(op for op in operations(after) if barrier.is_before_in_block(op))
    with loop.location, ir.InsertionPoint(products):
        ahead = repeat(head, {after.arguments[0]: _next(made, after.arguments[0])})
    yielding(made, [ahead[value] for value in values], head, loop)


def _next(loop: Op, now: Value) -> Value:
    """The iteration after this one; after the last one, the last."""
    ir = bindings.load().ir
    index = [ir.IndexType.get()]
    following = ir.Operation.create("arith.addi", index, [now, loop.operands[2]]).results[0]
    less = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 2)}  # arith.cmpi, slt
    more = ir.Operation.create(
        "arith.cmpi", [ir.IntegerType.get_signless(1)], [following, loop.operands[1]], attributes=less
    ).results[0]
    return ir.Operation.create("arith.select", index, [more, following, now]).results[0]


def _needed(loads: list[Op], block: Block) -> list[Op]:
    """The loads and the operations of the block that they and their branches depend on, in order."""
    chosen, open_ = set(), list(loads)
    while open_:
        operation = open_.pop()
        if operation in chosen:
            continue
        chosen.add(operation)
        for inner in (operation, *walk(operation)):
            for operand in inner.operands:
                source = producer(operand)
                outer = None if source is None else ancestor_in(source, block)
                if outer is not None and outer != operation:
                    open_.append(outer)
    return [operation for operation in operations(block) if operation in chosen]
