"""Check that a loop can be pipelined as deep as requested, with a clearer message than upstream's.

A pipeline of s stages has s - 1 groups of copies in flight when the loop begins, so the loop needs at least that many
iterations: by its constant bounds, or by the declared range of the sizes that bound it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir.aliases import Module
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.index_ranges import I64
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.known_ranges import range_of
from lego_mlir.transforms.passes.operations import loops, named


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
            low, high, step = map(range_of, list(loop.operands)[:3])
            if high[0] < 0 or low[1] == I64[1] or step[0] != step[1]:
                raise PassError(
                    f"{self.name}: it looked for a loop with a known least number of iterations, and found one over "
                    "sizes without a range; declare it: lego.size(.., min=.., max=..), or give the size as an int"
                )
            iterations = -(-(high[0] - low[1]) // step[0])
            if iterations < self.stages - 1:
                least = "" if high[0] == high[1] else ", the least for its sizes' range"
                raise PassError(
                    f"{self.name}: {self.stages} stages need a loop of at least {self.stages - 1} iterations, and this "
                    f"one has {iterations} iterations{least}; take fewer stages or a shorter step along K"
                )
