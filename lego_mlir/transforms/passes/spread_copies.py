"""Interleave the copies of a loop with its products.

Pipelining leaves the copies of a later tile together at the end of the body. Issued at once they fill the memory
pipeline's queue and delay the loads of fragments after them; issued singly, each waits for the loads before it, which
read the memory that copies write. Between two barriers they may move freely. So each step of products there gets an
equal group of copies, early in the step, with the address arithmetic that they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.aliases import Block, Module, Op
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.merge_barriers import BARRIER
from lego_mlir.transforms.passes.operations import loops, named, needed, operations
from lego_mlir.transforms.passes.rotate_fragments import MMA, by_step

EARLY: Final = 4  # the copies follow this fraction of a step


@dataclass(frozen=True, slots=True)
class SpreadCopies(Pass):
    """A loop with a barrier between all its products and its copies is left unchanged.

    Raises PassError where no loop has both.
    """

    name = "lego-spread-copies"

    def run(self, module: Module, target: Target) -> None:
        found = False
        for loop in loops(module):
            body = loop.regions[0].blocks[0]
            copies = named(body, COPY)
            if not copies or not named(body, MMA):
                continue
            found = True
            products = _beside(body, copies)
            if products:
                _interleave(body, copies, products)
        if not found:
            raise self.no_match(f"an scf.for with {COPY} and {MMA}", module)


def _beside(body: Block, copies: list[Op]) -> list[Op]:
    """The products before the copies that no barrier separates from them."""
    beside: list[Op] = []
    for operation in operations(body):
        if operation == copies[0]:
            return beside
        if operation.name == BARRIER:
            beside = []
        elif operation.name == MMA:
            beside.append(operation)
    return beside


def _interleave(body: Block, copies: list[Op], products: list[Op]) -> None:
    addresses = [needed([copy], body) for copy in copies]
    beside = set(products)
    groups = [step for step in ([p for p in step if p in beside] for step in by_step(body)) if step]
    for number, operations_ in enumerate(addresses):
        step = groups[number * len(groups) // len(copies)]
        after = step[len(step) // EARLY]
        for operation in operations_:
            if after.is_before_in_block(operation):
                operation.move_before(after)
