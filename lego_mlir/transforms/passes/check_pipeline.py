"""Check that a loop can be pipelined as deep as requested, with a clearer message than upstream's.

Upstream pipelines a loop whose copies have places that the loop does not load, and crashes at a loop in a branch. Other
loops are for schedules. A pipeline of s stages has s - 1 groups of copies in flight when the loop begins, so the loop
needs at least that many iterations: by its constant bounds, or by the declared range of the sizes that bound it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.aliases import Module, Op, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.index_operations import I64
from lego_mlir.transforms.passes.base import Pass, PassError, UnreadError
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.known_ranges import range_of
from lego_mlir.transforms.passes.operations import loops, named, producer

_LOADS: Final = ("memref.load", "vector.load", "scf.if")


@dataclass(frozen=True, slots=True)
class CheckPipeline(Pass):
    """Check every loop with copies against the number of stages."""

    name = "lego-check-pipeline"
    once = "first"
    stages: int = 4

    def run(self, module: Module, target: Target) -> None:
        found = [loop for loop in loops(module) if named(loop.regions[0].blocks[0], COPY)]
        if not found:
            raise self.no_match(f"an scf.for with {COPY}", module)
        for loop in found:
            _require_form(loop)
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


def _require_form(loop: Op) -> None:
    """Raise UnreadError for a loop that upstream cannot pipeline."""
    around = loop.parent.operation
    while around.name == "scf.for":
        around = around.parent.operation
    if around.name == "scf.if":
        raise UnreadError(f"{CheckPipeline.name}: the loop that copies and multiplies tiles is in a branch")
    body = loop.regions[0].blocks[0]
    for copy in named(body, COPY):
        open_: list[Value] = list(copy.operands)
        while open_:
            source = producer(open_.pop())
            if source is None or source.block != body:
                continue
            if source.name in _LOADS and "memref" not in str(source.results[0].type):
                raise UnreadError(f"{CheckPipeline.name}: the place of a copy is loaded in the loop")
            open_.extend(source.operands)
