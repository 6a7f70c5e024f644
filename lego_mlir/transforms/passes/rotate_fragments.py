"""Register double buffering across the barrier.

An iteration of a pipelined loop waits for its tile, meets a barrier, and loads fragments before it can multiply; the
matrix unit idles meanwhile. Rotated by part of an iteration, the loop has products left to execute:

    wait; barrier; load 0                                   before the loop
    for k: products 0 .. n-2 (and their loads), copies;     wait; barrier; load 0 of k+1;      products n-1

The last products of an iteration need nothing from the next tile, and the first fragments of the next iteration arrive
while they execute. A step of products consists of those at one depth of the tile; an accumulator passes through all n.
The loop carries the fragments that cross the end of an iteration. After the last iteration one extra set is loaded,
from a buffer that the pipeline has filled with zeros, and discarded.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir import bindings
from lego_mlir.aliases import Block, Module, Op
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.passes.base import Pass, UnreadError
from lego_mlir.transforms.passes.carried_values import carrying, repeat, yielding
from lego_mlir.transforms.passes.merge_barriers import BARRIER, WAIT
from lego_mlir.transforms.passes.operations import is_shared, loops, named, needed, operations, producer

MMA = "nvgpu.mma.sync"
LOADS = ("nvgpu.ldmatrix", "vector.load", "memref.load")


@dataclass(frozen=True, slots=True)
class RotateFragments(Pass):
    """Raises PassError where no loop waits, meets at a barrier, loads and multiplies."""

    name = "lego-rotate-fragments"

    def run(self, module: Module, target: Target) -> None:
        found = [loop for loop in loops(module) if named(loop.regions[0].blocks[0], MMA)]
        if not found:
            raise self.no_match(f"an scf.for with {MMA}", module)
        for loop in found:
            _rotate(loop)


def steps(body: Block) -> dict[Op, int]:
    """Each product of a loop's body, and how many products on the same accumulator precede it in the body."""
    found: dict[Op, int] = {}
    for product in named(body, MMA):
        before = producer(product.operands[2])
        found[product] = found[before] + 1 if before in found else 0
    return found


def by_step(body: Block) -> list[list[Op]]:
    """The products of a loop's body, step by step."""
    numbers = steps(body)
    return [[product for product, n in numbers.items() if n == step] for step in range(max(numbers.values()) + 1)]


def _rotate(loop: Op) -> None:
    ir = bindings.load().ir
    body = loop.regions[0].blocks[0]
    products = steps(body)
    first = _first_loads(body, products)
    head = _head(body, first)
    last = max(products.values())
    fragments = [load.results[0] for load in first]

    with loop.location, ir.InsertionPoint(loop):
        bound = [loop.operands[0], *list(loop.operands)[3:]]
        ahead = repeat(head, dict(zip(body.arguments, bound, strict=True)))
        made, carried = carrying(loop, [ahead[f] for f in fragments])
    rotated = made.regions[0].blocks[0]
    end = operations(rotated)[-1]
    tail = [product for product, step in products.items() if step == last]
    for product in tail:
        product.move_before(end)
    with loop.location, ir.InsertionPoint(tail[0]):
        following = ir.Operation.create(
            "arith.addi", [ir.IndexType.get()], [rotated.arguments[0], made.operands[2]]
        ).results[0]
        ahead = repeat(head, dict(zip(rotated.arguments, [following, *end.operands], strict=False)))
    for fragment, argument in zip(fragments, carried, strict=True):
        fragment.replace_all_uses_with(argument)
    yielding(made, [ahead[f] for f in fragments], head, loop)


def _first_loads(body: Block, products: dict[Op, int]) -> list[Op]:
    """The loads of fragments that the first products of an iteration need, in order."""
    wanted: set[Op] = set()
    for product, step in products.items():
        if step == 0:
            open_ = [product.operands[0], product.operands[1]]
            while open_:
                source = producer(open_.pop())
                if source is None or source.block != body:
                    continue
                if source.name in LOADS and is_shared(source.operands[0].type):
                    wanted.add(source)
                else:
                    open_.extend(source.operands)
    return [operation for operation in operations(body) if operation in wanted]


def _head(body: Block, first: list[Op]) -> list[Op]:
    """The wait, the barrier, the first loads and what their indices need, to be repeated ahead of the iteration."""
    waits, barriers = named(body, WAIT), named(body, BARRIER)
    order = operations(body)
    loads = [number for number, op in enumerate(order) if op.name in LOADS]
    if len(waits) != 1 or len(barriers) != 1 or not first or order.index(barriers[0]) > min(loads):
        raise UnreadError(
            "lego-rotate-fragments needs a loop that waits once, meets at one barrier, and then loads fragments; this "
            f"one has {len(waits)} {WAIT}, {len(barriers)} {BARRIER} and {len(first)} loads of first fragments: "
            "pipeline it first (pipeline.mlir)"
        )
    return needed([waits[0], barriers[0], *first], body)
