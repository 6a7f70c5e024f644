"""`async`: regions of a host program that may run later, and waits for them.

The interpreter runs a region in program order: an order that the program allows.
"""

from __future__ import annotations

from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, copy_slots, implements


@implements("async.execute")
def execute(op: Operation) -> Step:
    """Run the region; its arguments are the values awaited, its results the values that it yields, after the token."""
    body = op.body()
    _, awaited = op.segments()
    enter, leave = copy_slots(awaited, body.arguments), copy_slots(body.results, op.results[1:])

    def step(m: Machine) -> None:
        enter(m)
        body.run(m)
        leave(m)

    return step


@implements("async.await")
def await_(op: Operation) -> Step:
    """The value of a region that has run."""
    return copy_slots(op.operands[: len(op.results)], op.results)
