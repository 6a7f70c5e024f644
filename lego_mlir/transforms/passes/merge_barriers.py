"""The barrier before a loop's copies, dropped where the loop has more than one buffer.

With one buffer a loop needs two barriers: one before the copies, so that nobody overwrites what others still read, and
one after them, so that nobody reads what has not arrived.

    for k: barrier; copy to tile; wait; barrier; read tile

With f >= 2 buffers in turn, iteration k writes the buffer that iteration k - f has read, and the second barrier of
every iteration in between stands between the two. So the first is dropped, if every copy of the loop goes to a buffer
chosen by the iteration modulo f >= 2, and if a barrier follows the wait in the same iteration. Pipelining moves the
copies to the end of the body, after that barrier; with a depth of at most f - 1 the same holds then.

A pipelined loop ends while copies are on their way, of zeros by then, and while some threads still read. Where it is
inside another loop, and begins anew with copies to the same buffers, `lego-drain-copies` puts a wait for all of them
and a barrier behind it.
"""

from __future__ import annotations

import re
from typing import Any

from lego_mlir import bindings
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.context import Context, nothing
from lego_mlir.transforms.passes.operations import loops, loops_around, named, operations, producer

WAIT = "nvgpu.device_async_wait"
BARRIER = "gpu.barrier"
_MODULO = re.compile(r"mod (\d+)\)>")


def run(module: Any, context: Context) -> None:
    """The pass. A loop in which both barriers are needed keeps them."""
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
        raise nothing("lego-merge-barriers", f"an scf.for with {COPY}", module)


def drain(module: Any, context: Context) -> None:
    """The second pass. A kernel without a pipelined loop inside another loop is left as it is."""
    for loop in loops(module):
        if loops_around(loop) and named(loop.regions[0].blocks[0], COPY):
            order = operations(loop.block)
            wait_for_all(order[order.index(loop) + 1])


def wait_for_all(before: Any) -> None:
    """A wait for every copy of the thread, and a barrier, in front of an operation."""
    ir = bindings.load().ir
    with before.location, ir.InsertionPoint(before):
        token = ir.Operation.create(
            "nvgpu.device_async_create_group", [ir.Type.parse("!nvgpu.device.async.token")], []
        ).results[0]
        none = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)
        ir.Operation.create(WAIT, operands=[token], attributes={"numGroups": none})
        ir.Operation.create(BARRIER)


def _buffers(copy: Any) -> int:
    """How many buffers a copy's destination rotates through: f where its first index is `.. mod f`, else 1."""
    source = producer(copy.operands[1])
    if source is None or source.name != "affine.apply":
        return 1
    modulo = _MODULO.search(str(source.attributes["map"]))
    return int(modulo.group(1)) if modulo else 1
