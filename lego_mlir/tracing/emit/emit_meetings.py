"""A meeting of the blocks of a grid as MLIR: a counter in global memory, to which each adds 1 and which it polls.

Each meeting adds the number of participants to the counter, which is never reset: the ticket that a participant draws
tells what the counter is once all have arrived. All of them take part in the same number of meetings, so a launch adds
a multiple of their number, and the next launch begins at one. 64 bits do not wrap around.

A participant polls a bounded number of times. Nothing depends on the others being there: one that is late, or a launch
of the kernel on another stream, costs microseconds at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Final

from lego_mlir.aliases import Value
from lego_mlir.printers.builder import Builder
from lego_mlir.printers.constant_tables import symbol_table_owner
from lego_mlir.tracing.trace.marks import Meeting
from lego_mlir.tracing.trace.trace import KernelTrace

POLLS: Final = 256
_POINTER: Final = "!llvm.ptr<1>"
_ADD, _RELAXED = "1 : i64", "2 : i64"  # of LLVM's enumerations of atomic operations and orderings
_EQUAL, _LESS = "0 : i64", "6 : i64"  # predicates of integers, unsigned
_SHARED: Final = {"ordering": _RELAXED, "syncscope": '"device"', "alignment": "8 : i64"}


def emit_meeting(build: Builder, trace: KernelTrace, mark: Meeting, warp: Value) -> None:
    """The meeting, by one lane of a warp; of a cluster, by that of the block of rank 0."""
    cluster = prod(trace.cluster)
    meets = build.value("arith.cmpi", (warp, build.constant(mark.warp, "i32")), "i1", {"predicate": _EQUAL})
    if cluster > 1:
        rank = build.value("nvvm.read.ptx.sreg.cluster.ctarank", (), "i32")
        first = build.value("arith.cmpi", (rank, build.constant(0, "i32")), "i1", {"predicate": _EQUAL})
        meets = build.value("arith.andi", (meets, first), "i1")
    with _branch(build, meets), _branch(build, build.value("nvvm.elect.sync", (), "i1")):
        _count_and_wait(build, f"{trace.name}_arrivals", mark.blocks // cluster)


def _count_and_wait(build: Builder, name: str, participants: int) -> None:
    """Draw a ticket, and poll until the round of the ticket is complete."""
    _declare(build, name)
    counter = build.value("llvm.mlir.addressof", (), _POINTER, {"global_name": f"@{name}"})
    one, all_, zero = (build.constant(n, kind) for n, kind in ((1, "i64"), (participants, "i64"), (0, "i32")))
    ticket = build.value("llvm.atomicrmw", (counter, one), "i64", {"bin_op": _ADD, **_SHARED})
    following = build.value("arith.addi", (build.value("arith.divui", (ticket, all_), "i64"), one), "i64")
    wanted = build.value("arith.muli", (following, all_), "i64")
    loop = build.operation("scf.while", (zero,), ("i32",), regions=2)
    head, body = (region.blocks.append(build.type("i32"), arg_locs=[loop.location]) for region in loop.regions)
    with build.ir.InsertionPoint(head):
        now = build.value("llvm.load", (counter,), "i64", _SHARED)
        missing = build.value("arith.cmpi", (now, wanted), "i1", {"predicate": _LESS})
        most = build.constant(POLLS, "i32")
        patient = build.value("arith.cmpi", (head.arguments[0], most), "i1", {"predicate": _LESS})
        waits = build.value("arith.andi", (missing, patient), "i1")
        build.operation("scf.condition", (waits, head.arguments[0]))
    with build.ir.InsertionPoint(body):
        polls = build.value("arith.addi", (body.arguments[0], build.constant(1, "i32")), "i32")
        build.operation("scf.yield", (polls,))


def _declare(build: Builder, name: str) -> None:
    """The counter, zero when the code is loaded; one for all meetings of a kernel."""
    ir = build.ir
    block = symbol_table_owner(ir).regions[0].blocks[0]
    if any("sym_name" in op.attributes and ir.StringAttr(op.attributes["sym_name"]).value == name for op in block):
        return
    with ir.InsertionPoint.at_block_begin(block):
        attributes = {
            "sym_name": f'"{name}"', "global_type": "i64", "linkage": "#llvm.linkage<internal>", "value": "0 : i64",
            "addr_space": "1 : i32", "alignment": "8 : i64",
        }  # fmt: skip
        build.operation("llvm.mlir.global", attributes=attributes, regions=1)


@contextmanager
def _branch(build: Builder, condition: Value) -> Iterator[None]:
    """Around the operations of a branch without results."""
    branch = build.operation("scf.if", (condition,), (), regions=2)
    with build.ir.InsertionPoint(branch.regions[0].blocks.append()):
        yield
        build.operation("scf.yield")
