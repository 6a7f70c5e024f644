"""Place a kernel's shared tiles: in static memory while they fit, in one dynamic block otherwise.

A block may declare 48 KiB of static shared memory. Beyond that, all tiles become views at offsets of one dynamic block,
sized at launch. Tiles with disjoint lifetimes share memory: the staging buffers of a loop, and the tile through which
its result is written afterwards. Before a later tile reuses memory, the threads wait for their copies and meet at a
barrier. Unused tiles take no memory.

`memref.alloc` in shared memory counts as a tile, as an attribution of the function does. PassError reports by how much
a kernel exceeds the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Block, Module, Op, Value
from lego_mlir.hardware.limits import STATIC_SHARED_BYTES
from lego_mlir.hardware.memory import BANK_ROW_BYTES
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels, memref_bytes
from lego_mlir.transforms.modules import string_attribute, walk
from lego_mlir.transforms.passes.allocate_shared import attributions, count, declare, remove
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.merge_barriers import BARRIER, wait_for_all
from lego_mlir.transforms.passes.operations import ancestor_in, is_shared, operations, producer, users
from lego_mlir.transforms.tile_names import NAME, declared, located, of_location

ALIGNMENT: Final = BANK_ROW_BYTES


@dataclass(slots=True)
class Tile:
    """A buffer, its bytes, and the operations of the kernel's main block between which it is used."""

    value: Value
    bytes: int
    first: int
    last: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PlaceShared(Pass):
    """A kernel without `memref.alloc` whose tiles fit and are all used is left unchanged."""

    name = "lego-place-shared-memory"
    once = "last"

    def run(self, module: Module, target: Target) -> None:
        for function in kernels(module):
            for unused in [buffer for buffer in _buffers(function) if not users(buffer)]:
                _drop(function, unused)
            buffers = _buffers(function)
            allocations = [producer(buffer) for buffer in buffers if producer(buffer) is not None]
            total = sum(_aligned(memref_bytes(buffer.type)) for buffer in buffers)
            if total <= STATIC_SHARED_BYTES:
                _declare(function, allocations)
            else:
                _place(function, buffers, target)


def _buffers(function: Op) -> list[Value]:
    """The function's shared tiles: its attributions and its allocations."""
    made = [op.results[0] for op in walk(function) if op.name == "memref.alloc"]
    return [*attributions(function), *(value for value in made if is_shared(value.type))]


def _drop(function: Op, buffer: Value) -> None:
    """Remove a buffer that has no uses left."""
    source = producer(buffer)
    if source is None:
        remove(function, buffer)
    else:
        source.erase()


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _declare(function: Op, allocations: list[Value]) -> None:
    """Allocations as attributions of the function."""
    ir = bindings.load().ir
    aligned = {"llvm.align": ir.Attribute.parse(f"{ALIGNMENT} : i64")}
    for operation in allocations:
        name = of_location(operation.location)
        facts = aligned if name is None else {**aligned, NAME: ir.StringAttr.get(name)}
        operation.results[0].replace_all_uses_with(declare(function, operation.results[0].type, facts))
        operation.erase()


def _place(function: Op, buffers: list[Value], target: Target) -> None:
    block = _main_block(function, buffers)
    tiles = sorted((_tile(buffer, block) for buffer in buffers), key=lambda tile: (tile.first, tile.last))
    phases: list[list[Tile]] = []
    for tile in tiles:
        if not phases or tile.first > max(t.last for t in phases[-1]):
            phases.append([])
        here = phases[-1]
        tile.offset = sum(_aligned(t.bytes) for t in here)
        here.append(tile)
    needed = max(sum(_aligned(t.bytes) for t in phase) for phase in phases)
    limit = target.shared_per_block
    if needed > limit:
        raise PassError(
            f"lego-place-shared-memory: the shared tiles of @{string_attribute(function, 'sym_name')} take {needed} "
            f"bytes at once, and a block has {limit} on {target.name}; take fewer stages or smaller tiles"
        )
    order = operations(block)
    for phase in phases[1:]:
        _synchronize(function, order[phase[0].first])
    _make_views(function, tiles)


def _main_block(function: Op, buffers: list[Value]) -> Op:
    """The innermost block, not inside a loop, that holds every use of the buffers."""
    block = function.regions[0].blocks[0]
    uses = [user for buffer in buffers for user in users(buffer)]
    while True:
        holders = {ancestor_in(user, block) for user in uses}
        holder = next(iter(holders))
        if len(holders) != 1 or holder.name != "scf.if":
            return block
        inner = [b for region in holder.regions for b in region.blocks if ancestor_in(uses[0], b) is not None]
        if not all(ancestor_in(user, inner[0]) is not None for user in uses):
            return block
        block = inner[0]


def _tile(buffer: Value, block: Block) -> Tile:
    order = operations(block)
    places = [order.index(ancestor_in(user, block)) for user in users(buffer)]
    return Tile(buffer, memref_bytes(buffer.type), min(places), max(places))


def _synchronize(function: Op, before: Op) -> None:
    """Before memory is reused: wait for all copies, and for all threads that use it."""
    if any(op.name == COPY for op in walk(function)):
        wait_for_all(before)
        return
    ir = bindings.load().ir
    with before.location, ir.InsertionPoint(before):
        ir.Operation.create(BARRIER)


def _make_views(function: Op, tiles: list[Tile]) -> None:
    ir = bindings.load().ir
    index = ir.IndexType.get()
    with function.location, ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]):
        memory = ir.Operation.create(
            "gpu.dynamic_shared_memory", [ir.Type.parse("memref<?xi8, #gpu.address_space<workgroup>>")]
        ).results[0]
        for tile in tiles:
            offset = ir.Operation.create(
                "arith.constant", [index], attributes={"value": ir.IntegerAttr.get(index, tile.offset)}
            ).results[0]
            with located(function.location, _name(function, tile.value)):
                view = ir.Operation.create("memref.view", [tile.value.type], [memory, offset]).results[0]
            tile.value.replace_all_uses_with(view)
    for tile in tiles:
        _drop(function, tile.value)


def _name(function: Op, buffer: Value) -> str | None:
    """The name of a shared tile, declared or allocated."""
    source = producer(buffer)
    if source is not None:
        return of_location(source.location)
    return declared(function, count(function))[attributions(function).index(buffer)]
