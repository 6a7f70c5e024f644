"""Whether a loop can be pipelined as deep as asked, said in words before upstream refuses it.

A pipeline of s stages has s - 1 groups of copies on their way when the loop begins, so the loop must run at least that
often, and it must be known how often: bounds and step are constants.
"""

from __future__ import annotations

from typing import Any

from lego_mlir import bindings
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.context import Context, PassError, nothing
from lego_mlir.transforms.passes.operations import loops, named, producer


def run(module: Any, context: Context) -> None:
    """The pass; the number of stages is the parameter `stages`."""
    stages = int(context.parameters["stages"])
    found = [loop for loop in loops(module) if named(loop.regions[0].blocks[0], COPY)]
    if not found:
        raise nothing("lego-check-pipeline", f"an scf.for with {COPY}", module)
    for loop in found:
        low, high, step = (_constant(bound) for bound in list(loop.operands)[:3])
        if low is None or high is None or step is None:
            raise PassError(
                "lego-check-pipeline: it looked for a loop with constant bounds, and found one over sizes that are "
                "known at the launch only; give the kernel that size as an int"
            )
        iterations = -(-(high - low) // step)
        if iterations < stages - 1:
            raise PassError(
                f"lego-check-pipeline: {stages} stages need a loop of at least {stages - 1} iterations, and this one "
                f"has {iterations} iterations; take fewer stages or a shorter step along K"
            )


def _constant(value: Any) -> int | None:
    source = producer(value)
    if source is None or source.name != "arith.constant":
        return None
    return int(bindings.load().ir.IntegerAttr(source.attributes["value"]).value)
