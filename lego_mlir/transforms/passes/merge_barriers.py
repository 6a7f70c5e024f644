"""Remove the barrier before a loop's copies where the loop has two or more buffers.

With one buffer a loop needs two barriers: one before the copies, so that no thread overwrites what others still read,
and one after them, so that no thread reads what has not arrived.

    for k: barrier; copy to tile; wait; barrier; read tile

With f >= 2 buffers in rotation, iteration k writes the buffer that iteration k - f read, and the second barrier of each
iteration in between separates the two. The first barrier is removed if every copy of the loop goes to a buffer selected
by the iteration modulo f >= 2 and a barrier follows the wait in the same iteration. Pipelining moves the copies to the
end of the body, after that barrier; with a depth of at most f - 1 the same argument holds.

A pipelined loop ends with copies in flight (of zeros by then) and some threads still reading. Where another loop
surrounds it, and it starts again with copies to the same buffers, `lego-drain-copies` adds a wait for all copies and a
barrier behind it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.operations import loops, loops_around, named, operations, producer

WAIT = "nvgpu.device_async_wait"
BARRIER = "gpu.barrier"
_MODULO = re.compile(r"mod (\d+)\)>")


@dataclass(frozen=True, slots=True)
class MergeBarriers(Pass):
    """A loop that needs both barriers keeps them."""

    name = "lego-merge-barriers"

    def run(self, module: Module, target: Target) -> None:
        found = False
        for loop in loops(module):
            body = loop.regions[0].blocks[0]
            copies = named(body, COPY)
            if not copies:
                continue
            found = True
            order = operations(body)
            first, waits = order.index(copies[0]), [order.index(op) for op in named(body, WAIT)]
            barriers = [(order.index(op), op) for op in named(body, BARRIER)]
            guarded = any(waits and number > waits[-1] for number, _ in barriers)
            if guarded and all(_buffers(copy) >= 2 for copy in copies):
                for number, barrier in barriers:
                    if number < first:
                        barrier.erase()
        if not found:
            raise self.no_match(f"an scf.for with {COPY}", module)


@dataclass(frozen=True, slots=True)
class DrainCopies(Pass):
    """A kernel without a pipelined loop inside another loop is left unchanged."""

    name = "lego-drain-copies"

    def run(self, module: Module, target: Target) -> None:
        for loop in loops(module):
            if loops_around(loop) and named(loop.regions[0].blocks[0], COPY):
                order = operations(loop.block)
                wait_for_all(order[order.index(loop) + 1])


def wait_for_all(before: Op) -> None:
    """A wait for every copy of the thread, and a barrier, in front of an operation."""
    ir = bindings.load().ir
    with before.location, ir.InsertionPoint(before):
        token = ir.Operation.create(
            "nvgpu.device_async_create_group", [ir.Type.parse("!nvgpu.device.async.token")], []
        ).results[0]
        none = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)
        ir.Operation.create(WAIT, operands=[token], attributes={"numGroups": none})
        ir.Operation.create(BARRIER)


def _buffers(copy: Op) -> int:
    """How many buffers a copy's destination rotates through: f where its first index is `.. mod f`, else 1."""
    source = producer(copy.operands[1])
    if source is None or source.name != "affine.apply":
        return 1
    modulo = _MODULO.search(str(source.attributes["map"]))
    return int(modulo.group(1)) if modulo else 1
