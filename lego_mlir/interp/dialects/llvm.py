"""`llvm`: the operations of this dialect that a kernel has before it is lowered."""

from __future__ import annotations

from lego_mlir.interp.dialects.arith import report_lanes
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, copy_slots, implements
from lego_mlir.interp.report import Kind


@implements("llvm.inttoptr")
def pointer(op: Operation) -> Step:
    """The address of a barrier as a pointer; there are no others in memory that is accessed through memrefs."""
    if "mbarrier.get" not in str(getattr(op.operation.operands[0].owner, "name", "")):
        op.fail("memory is accessed through memrefs; only the address of an mbarrier may become a pointer")
    return copy_slots(op.operands, op.results)


@implements("llvm.intr.assume")
def assume(op: Operation) -> Step:
    """A claim that proofs rely on: a lane for which it does not hold is a fault."""
    condition, place = op.operands[0], op.place
    text = str(op.operation.attributes["lego.claim"].value) if "lego.claim" in op.operation.attributes else "it"

    def step(m: Machine) -> None:
        report_lanes(m, ~m.values[condition], place, f"a claim does not hold: {text}", Kind.ASSERTION)

    return step
