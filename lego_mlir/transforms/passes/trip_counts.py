"""Pipeline loops whose trip count is known only at the launch: upstream's pipelining takes constant bounds.

`lego-fix-trip-counts` gives such a loop a constant upper bound that no other number of the kernel is near, the loop is
pipelined, and `lego-restore-trip-counts` computes each constant made of that bound from the bound again:

    for k = 0 to %n                ->  for k = 0 to B:  .. if k < B - 3: copy  ->  for k = 0 to %n:  .. if k < %n - 3

Pipelining subtracts at most the number of stages from a bound, so a constant at most `NEAR` below B is one of these.
A pipelined loop begins with the copies of its first `stages - 1` iterations: a loop that may be shorter is refused by
`lego-check-pipeline`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.operations import create, loops, named, operations, producer

HELD: Final = "lego.trip_count"
"""Of the operation that keeps a bound alive: the constant that represents it."""
FIRST: Final = (1 << 46) + (1 << 43)
NEAR: Final = 1 << 8
APART: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class FixTripCounts(Pass):
    """A kernel whose loops with copies have constant bounds is left unchanged."""

    name = "lego-fix-trip-counts"

    def run(self, module: Module, target: Target) -> None:
        ir = bindings.load().ir
        found = [loop for loop in loops(module) if named(loop.regions[0].blocks[0], COPY)]
        for number, loop in enumerate(found):
            bound = loop.operands[1]
            if constant_of(bound) is not None:
                continue
            fixed = f"{FIRST + APART * number} : index"
            with loop.location, ir.InsertionPoint(loop):
                create("gpu.printf", [], [bound], {"format": '"%d"', HELD: fixed})  # has an effect, and so is kept
                loop.operands[1] = create("arith.constant", [ir.IndexType.get()], (), {"value": fixed}).results[0]


@dataclass(frozen=True, slots=True)
class RestoreTripCounts(Pass):
    """A kernel without fixed bounds is left unchanged."""

    name = "lego-restore-trip-counts"

    def run(self, module: Module, target: Target) -> None:
        ir = bindings.load().ir
        for function in kernels(module):
            held = [op for op in walk(function) if HELD in op.attributes]
            for operation in held:
                _restore(function, operation.operands[0], int(ir.IntegerAttr(operation.attributes[HELD]).value))
                operation.erase()


def _restore(function: Op, bound: Value, fixed: int) -> None:
    """Replace the constants at most NEAR below `fixed` by the bound less as much."""
    ir = bindings.load().ir
    index = ir.IndexType.get()
    for operation in [op for op in walk(function) if op.name == "arith.constant"]:
        value = constant_of(operation.results[0])
        if value is None or not 0 <= fixed - value <= NEAR:
            continue
        source = producer(bound)
        first = operations(function.regions[0].blocks[0])[0]
        place = ir.InsertionPoint(first) if source is None else ir.InsertionPoint.after(source)
        with operation.location, place:
            made = bound
            if value != fixed:
                less = create("arith.constant", [index], (), {"value": f"{fixed - value} : index"}).results[0]
                made = create("arith.subi", [index], [bound, less]).results[0]
        operation.results[0].replace_all_uses_with(made)
        operation.erase()


def constant_of(value: Value) -> int | None:
    """The value of an index constant; None for anything else."""
    source = producer(value)
    if source is None or source.name != "arith.constant" or str(value.type) != "index":
        return None
    return int(bindings.load().ir.IntegerAttr(source.attributes["value"]).value)
