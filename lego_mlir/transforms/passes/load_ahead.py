"""Load each fragment of the next step of products as soon as its registers are free.

A step of products consists of those at one depth of the tile. Each fragment is an operand of several products, so the
fragments of the previous step die one after another. The load of a fragment moves after the last product that uses
the corresponding fragment of the previous step: it reuses the registers, and the remaining products hide its latency.

    products 0; loads 1; products 1; loads 2; ..   ->   products 0 with loads 1; products 1 with loads 2; ..

In a rotated loop the loads for the first step of the next iteration remain after the barrier that they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lego_mlir.aliases import Block, Module, Op, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.passes.merge_barriers import BARRIER
from lego_mlir.transforms.passes.operations import loops, named, needed, operations, producer, users
from lego_mlir.transforms.passes.rotate_fragments import LOADS, MMA, by_step


@dataclass(frozen=True, slots=True)
class LoadAhead(Pass):
    """Raises PassError where no loop loads fragments and multiplies."""

    name = "lego-load-ahead"

    def run(self, module: Module, target: Target) -> None:
        found = [loop for loop in loops(module) if named(loop.regions[0].blocks[0], MMA)]
        if not found:
            raise self.no_match(f"an scf.for with {MMA}", module)
        for loop in found:
            body = loop.regions[0].blocks[0]
            steps = by_step(body)
            for products, following in pairwise(steps):
                _load_among(body, products, following)


def _load_among(body: Block, products: list[Op], following: list[Op]) -> None:
    """Interleave the loads of the `following` step with the products of this one."""
    interval = _intervals(body)
    for load in named(body, *LOADS):
        places = [products.index(producer(p.operands[2])) for p in _products(load.results[0]) if p in following]
        if not places or max(places) + 1 >= len(products):
            continue
        free = products[max(places) + 1]
        for operation in needed([load], body):
            if interval[free] == interval[operation] and free.is_before_in_block(operation):
                operation.move_before(free)


def _intervals(body: Block) -> dict[Op, int]:
    """The number of barriers before each operation: none may move across one."""
    found, barriers = {}, 0
    for operation in operations(body):
        barriers += operation.name == BARRIER
        found[operation] = barriers
    return found


def _products(fragments: Value) -> list[Op]:
    """The products that have fragments, or parts of them, as operands."""
    found, open_ = [], [fragments]
    while open_:
        for user in users(open_.pop()):
            if user.name == MMA:
                found.append(user)
            elif user.name.startswith("vector."):
                open_.extend(user.results)
    return found
