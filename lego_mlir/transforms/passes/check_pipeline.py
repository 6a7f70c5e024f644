"""Check that a loop can be pipelined as deep as requested, with a clearer message than upstream's.

A pipeline of s stages has s - 1 groups of copies in flight when the loop begins, so the loop needs at least that many
iterations, and a constant number of them: bounds and step are constants.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir import bindings
from lego_mlir.aliases import Module, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.operations import loops, named, producer


@dataclass(frozen=True, slots=True)
class CheckPipeline(Pass):
    """Check every loop with copies against the number of stages."""

    name = "lego-check-pipeline"
    stages: int = 4

    def run(self, module: Module, target: Target) -> None:
        found = [loop for loop in loops(module) if named(loop.regions[0].blocks[0], COPY)]
        if not found:
            raise self.no_match(f"an scf.for with {COPY}", module)
        for loop in found:
            low, high, step = (_constant(bound) for bound in list(loop.operands)[:3])
            if low is None or high is None or step is None:
                raise PassError(
                    f"{self.name}: it looked for a loop with constant bounds, and found one over sizes that are known "
                    "at launch only; give the kernel that size as an int"
                )
            iterations = -(-(high - low) // step)
            if iterations < self.stages - 1:
                raise PassError(
                    f"{self.name}: {self.stages} stages need a loop of at least {self.stages - 1} iterations, and this "
                    f"one has {iterations} iterations; take fewer stages or a shorter step along K"
                )


def _constant(value: Value) -> int | None:
    source = producer(value)
    if source is None or source.name != "arith.constant":
        return None
    return int(bindings.load().ir.IntegerAttr(source.attributes["value"]).value)
