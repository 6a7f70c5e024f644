"""The copies of a loop, put between its products.

Pipelining leaves the copies of a later tile in one run at the end of the body. Issued at once they fill the memory
pipeline's queue and hold up the loads of fragments behind them; one by one, each waits for the loads before it, which
read the memory that copies write. Between two barriers they may stand anywhere. So each step of products there gets an
equal group of them, early in the step, with the arithmetic of their addresses.
"""

from __future__ import annotations

from typing import Any, Final

from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.context import Context, nothing
from lego_mlir.transforms.passes.merge_barriers import BARRIER
from lego_mlir.transforms.passes.operations import loops, named, needed, operations
from lego_mlir.transforms.passes.rotate_fragments import MMA, by_step

EARLY: Final = 4  # the copies stand behind this part of a step


def run(module: Any, context: Context) -> None:
    """The pass. A loop with a barrier between all its products and its copies keeps its order.

    Raises PassError where no loop has both.
    """
    found = False
    for loop in loops(module):
        body = loop.regions[0].blocks[0]
        copies = named(body, COPY)
        if not copies or not named(body, MMA):
            continue
        found = True
        products = _beside(body, copies)
        if products:
            _deal_out(body, copies, products)
    if not found:
        raise nothing("lego-spread-copies", f"an scf.for with {COPY} and {MMA}", module)


def _beside(body: Any, copies: list[Any]) -> list[Any]:
    """The products before the copies that no barrier separates from them."""
    beside: list[Any] = []
    for operation in operations(body):
        if operation == copies[0]:
            return beside
        if operation.name == BARRIER:
            beside = []
        elif operation.name == MMA:
            beside.append(operation)
    return beside


def _deal_out(body: Any, copies: list[Any], products: list[Any]) -> None:
    addresses = [needed([copy], body) for copy in copies]
    beside = set(products)
    groups = [step for step in ([p for p in step if p in beside] for step in by_step(body)) if step]
    for number, operations_ in enumerate(addresses):
        step = groups[number * len(groups) // len(copies)]
        after = step[len(step) // EARLY]
        for operation in operations_:
            if after.is_before_in_block(operation):
                operation.move_before(after)
