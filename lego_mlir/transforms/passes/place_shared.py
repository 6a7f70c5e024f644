"""Where a kernel's shared tiles lie: static memory while they fit, else one dynamic block.

A block may declare 48 KiB of shared memory; what goes beyond is one piece of dynamic memory, sized at the launch, in
which each tile is a view at an offset. Tiles that are never needed at the same time share their place: the staging
buffers of a loop and the tile that its result goes through afterwards. Where a later tile takes over memory, the
threads wait for their copies and meet at a barrier first. A tile that nothing uses takes no memory.

`memref.alloc` in shared memory is a tile like an attribution of the function. PassError says by how much a kernel does
not fit the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.hardware.targets import STATIC_SHARED_PER_BLOCK
from lego_mlir.transforms.kernel_facts import kernels, memref_bytes
from lego_mlir.transforms.modules import string_attribute, walk
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.context import Context, PassError
from lego_mlir.transforms.passes.merge_barriers import BARRIER, wait_for_all
from lego_mlir.transforms.passes.operations import ancestor_in, is_shared, operations, producer, users
from lego_mlir.transforms.passes.shared_alloc import ATTRIBUTES, COUNT, attributions, count, remove

ALIGNMENT: Final = 128  # bytes: one row of all 32 banks


@dataclass(slots=True)
class Tile:
    """A buffer, its bytes, and the operations of the kernel's main block between which it is used."""

    value: Any
    bytes: int
    first: int
    last: int
    offset: int = 0


def run(module: Any, context: Context) -> None:
    """The pass. A kernel without `memref.alloc` whose tiles fit and are used is left as it is."""
    for function in kernels(module):
        for unused in [buffer for buffer in _buffers(function) if not users(buffer)]:
            _drop(function, unused)
        buffers = _buffers(function)
        allocations = [producer(buffer) for buffer in buffers if producer(buffer) is not None]
        total = sum(_aligned(memref_bytes(buffer.type)) for buffer in buffers)
        if total <= STATIC_SHARED_PER_BLOCK:
            _declare(function, allocations)
        else:
            _place(function, buffers, context)


def _buffers(function: Any) -> list[Any]:
    """The function's shared tiles: its attributions, and what is allocated."""
    made = [op.results[0] for op in walk(function) if op.name == "memref.alloc"]
    return [*attributions(function), *(value for value in made if is_shared(value.type))]


def _drop(function: Any, buffer: Any) -> None:
    """Take away a buffer that nothing uses any more."""
    source = producer(buffer)
    if source is None:
        remove(function, buffer)
    else:
        source.erase()


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _declare(function: Any, allocations: list[Any]) -> None:
    """Allocations as attributions of the function."""
    ir = bindings.load().ir
    entry = function.regions[0].blocks[0]
    aligned = ir.DictAttr.parse(f"{{llvm.align = {ALIGNMENT} : i64}}")
    for operation in allocations:
        argument = entry.add_argument(operation.results[0].type, operation.location)
        operation.results[0].replace_all_uses_with(argument)
        operation.erase()
        before = count(function)
        listed = list(function.attributes[ATTRIBUTES]) if ATTRIBUTES in function.attributes else []
        listed += [ir.DictAttr.get({})] * (before - len(listed))
        function.attributes[COUNT] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), before + 1)
        function.attributes[ATTRIBUTES] = ir.ArrayAttr.get([*listed, aligned])


def _place(function: Any, buffers: list[Any], context: Context) -> None:
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
    limit = context.target.shared_per_block
    if needed > limit:
        raise PassError(
            f"lego-place-shared-memory: the shared tiles of @{string_attribute(function, 'sym_name')} take {needed} "
            f"bytes at once, and a block has {limit} on {context.target.name}; take fewer stages or smaller tiles"
        )
    order = operations(block)
    for phase in phases[1:]:
        _hand_over(function, order[phase[0].first])
    _make_views(function, tiles)


def _main_block(function: Any, buffers: list[Any]) -> Any:
    """The innermost block, not inside a loop, that holds every use of the buffers."""
    block = function.regions[0].blocks[0]
    everyone = [user for buffer in buffers for user in users(buffer)]
    while True:
        holders = {ancestor_in(user, block) for user in everyone}
        holder = next(iter(holders))
        if len(holders) != 1 or holder.name != "scf.if":
            return block
        inner = [b for region in holder.regions for b in region.blocks if ancestor_in(everyone[0], b) is not None]
        if not all(ancestor_in(user, inner[0]) is not None for user in everyone):
            return block
        block = inner[0]


def _tile(buffer: Any, block: Any) -> Tile:
    order = operations(block)
    places = [order.index(ancestor_in(user, block)) for user in users(buffer)]
    return Tile(buffer, memref_bytes(buffer.type), min(places), max(places))


def _hand_over(function: Any, before: Any) -> None:
    """Copies have landed and everyone is done with the memory before others use it."""
    if any(op.name == COPY for op in walk(function)):
        wait_for_all(before)
        return
    ir = bindings.load().ir
    with before.location, ir.InsertionPoint(before):
        ir.Operation.create(BARRIER)


def _make_views(function: Any, tiles: list[Tile]) -> None:
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
            view = ir.Operation.create("memref.view", [tile.value.type], [memory, offset]).results[0]
            tile.value.replace_all_uses_with(view)
    for tile in tiles:
        _drop(function, tile.value)
