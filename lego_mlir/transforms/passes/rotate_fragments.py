"""Register double buffering across the barrier.

An iteration of a pipelined loop waits for its tile, meets the others at a barrier, and loads fragments before it can
multiply; the matrix unit idles all the while. Turned by a part of an iteration, it has products left to do:

    wait; barrier; load 0                                   before the loop
    for k: products 0 .. n-2 (and their loads), copies;     wait; barrier; load 0 of k+1;      products n-1

The last products of an iteration need nothing from the next tile, and the first fragments of the next iteration arrive
while they run. A step of products is those at one depth of the tile; an accumulator passes through all n of them. The
fragments that cross the end of the iteration are carried by the loop. After the last iteration one set too many is
loaded, from a buffer that the pipeline has filled with zeros, and dropped.
"""

from __future__ import annotations

from typing import Any

from lego_mlir import bindings
from lego_mlir.transforms.passes.context import Context, PassError, nothing
from lego_mlir.transforms.passes.merge_barriers import BARRIER, WAIT
from lego_mlir.transforms.passes.operations import clone, is_shared, loops, named, needed, operations, producer

MMA = "nvgpu.mma.sync"
LOADS = ("nvgpu.ldmatrix", "vector.load", "memref.load")


def run(module: Any, context: Context) -> None:
    """The pass. Raises PassError where no loop waits, meets at a barrier, loads and multiplies."""
    found = [loop for loop in loops(module) if named(loop.regions[0].blocks[0], MMA)]
    if not found:
        raise nothing("lego-rotate-fragments", f"an scf.for with {MMA}", module)
    for loop in found:
        _rotate(loop)


def steps(body: Any) -> dict[Any, int]:
    """Each product of a loop's body, and how many come before it on its accumulator's way through the body."""
    found: dict[Any, int] = {}
    for product in named(body, MMA):
        before = producer(product.operands[2])
        found[product] = found[before] + 1 if before in found else 0
    return found


def by_step(body: Any) -> list[list[Any]]:
    """The products of a loop's body, step by step."""
    numbers = steps(body)
    return [[product for product, n in numbers.items() if n == step] for step in range(max(numbers.values()) + 1)]


def _rotate(loop: Any) -> None:
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
        made = ir.Operation.create(
            "scf.for",
            results=[r.type for r in (*loop.results, *fragments)],
            operands=[*loop.operands, *(ahead[f] for f in fragments)],
            attributes={name: loop.attributes[name] for name in loop.attributes},
            regions=1,
        )
        types = [a.type for a in body.arguments] + [f.type for f in fragments]
        turned = made.regions[0].blocks.append(*types, arg_locs=[loop.location] * len(types))
    for operation in operations(body):
        turned.append(operation)
    carried = list(turned.arguments)[len(body.arguments) :]
    for old, new in zip(body.arguments, turned.arguments, strict=False):
        old.replace_all_uses_with(new)
    end = operations(turned)[-1]
    tail = [product for product, step in products.items() if step == last]
    for product in tail:
        product.move_before(end)
    with loop.location, ir.InsertionPoint(tail[0]):
        following = ir.Operation.create(
            "arith.addi", [ir.IndexType.get()], [turned.arguments[0], made.operands[2]]
        ).results[0]
        ahead = repeat(head, dict(zip(turned.arguments, [following, *end.operands], strict=False)))
    for fragment, argument in zip(fragments, carried, strict=True):
        fragment.replace_all_uses_with(argument)
    with loop.location, ir.InsertionPoint(end):
        ir.Operation.create("scf.yield", operands=[*end.operands, *(ahead[f] for f in fragments)])
    end.erase()
    for operation in reversed(head):
        if not any(list(result.uses) for result in operation.results):
            operation.erase()
    for old, new in zip(loop.results, made.results, strict=False):
        old.replace_all_uses_with(new)
    loop.erase()


def repeat(head: list[Any], mapping: dict[Any, Any]) -> dict[Any, Any]:
    """Copies of operations at the insertion point, each using the copies before it; the mapping of their results."""
    for operation in head:
        copy = clone(operation, mapping)
        mapping.update(zip(operation.results, copy.results, strict=True))
    return mapping


def _first_loads(body: Any, products: dict[Any, int]) -> list[Any]:
    """The loads of fragments that the first products of an iteration need, in order."""
    wanted: set[Any] = set()
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


def _head(body: Any, first: list[Any]) -> list[Any]:
    """The wait, the barrier, the first loads and what their indices need: what is repeated ahead of the iteration."""
    waits, barriers = named(body, WAIT), named(body, BARRIER)
    order = operations(body)
    loads = [number for number, op in enumerate(order) if op.name in LOADS]
    if len(waits) != 1 or len(barriers) != 1 or not first or order.index(barriers[0]) > min(loads):
        raise PassError(
            "lego-rotate-fragments turns a loop that waits once, meets at one barrier, and then loads fragments; this "
            f"one has {len(waits)} {WAIT}, {len(barriers)} {BARRIER} and {len(first)} loads of first fragments: "
            "pipeline it first (pipeline.mlir)"
        )
    return needed([waits[0], barriers[0], *first], body)
