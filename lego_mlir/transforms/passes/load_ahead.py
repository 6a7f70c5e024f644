"""The fragments of the next step of products, each loaded as soon as its registers are free.

A step of products is those at one depth of the tile. Its fragments are the operands of several products each, so those
of the step before die one after another. The load of a fragment goes behind the last product that needs the fragment in
the same place of the step before: it takes over the registers, and the products that follow cover the time it takes.

    products 0; loads 1; products 1; loads 2; ..   ->   products 0 with loads 1; products 1 with loads 2; ..

The loads of the next iteration's first step, in a turned loop, stand behind the barrier that they need.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from lego_mlir.transforms.passes.context import Context, nothing
from lego_mlir.transforms.passes.merge_barriers import BARRIER
from lego_mlir.transforms.passes.operations import loops, named, needed, operations, producer, users
from lego_mlir.transforms.passes.rotate_fragments import LOADS, MMA, by_step


def run(module: Any, context: Context) -> None:
    """The pass. Raises PassError where no loop loads fragments and multiplies."""
    found = [loop for loop in loops(module) if named(loop.regions[0].blocks[0], MMA)]
    if not found:
        raise nothing("lego-load-ahead", f"an scf.for with {MMA}", module)
    for loop in found:
        body = loop.regions[0].blocks[0]
        steps = by_step(body)
        for products, following in pairwise(steps):
            _load_among(body, products, following)


def _load_among(body: Any, products: list[Any], following: list[Any]) -> None:
    """Put the loads of the `following` step among the products of this one."""
    interval = _intervals(body)
    for load in named(body, *LOADS):
        places = [products.index(producer(p.operands[2])) for p in _products(load.results[0]) if p in following]
        if not places or max(places) + 1 >= len(products):
            continue
        free = products[max(places) + 1]
        for operation in needed([load], body):
            if interval[free] == interval[operation] and free.is_before_in_block(operation):
                operation.move_before(free)


def _intervals(body: Any) -> dict[Any, int]:
    """How many barriers stand before each operation: none may move across one."""
    found, barriers = {}, 0
    for operation in operations(body):
        barriers += operation.name == BARRIER
        found[operation] = barriers
    return found


def _products(fragments: Any) -> list[Any]:
    """The products that have fragments, or parts of them, as operands."""
    found, open_ = [], [fragments]
    while open_:
        for user in users(open_.pop()):
            if user.name == MMA:
                found.append(user)
            elif user.name.startswith("vector."):
                open_.extend(user.results)
    return found
