"""Producers in lockstep along K: blocks that run at the same time read the same tiles at the same time, from L2.

Blocks drift apart: one that is a few steps behind reads tiles of A and B which the others no longer need, and which L2
has dropped. Every few steps a producer adds 1 to a counter in global memory and waits until all blocks have, for a
bounded number of polls: nothing depends on it, and a block that comes late delays the others by microseconds at most.
The stages that were filled ahead cover the wait. Every second tile takes K backwards, so that a round begins with what
the previous one read last.

The counter is never reset. Each meeting adds the number of blocks to it, so the ticket that a block draws tells what
the counter is once all have arrived. Rounds in which some blocks have no tile have no meetings: a launch adds a
multiple of the number of blocks, and the next launch begins at one. 64 bits do not wrap around.
"""

from __future__ import annotations

from typing import Final

from lego_mlir.transforms.warpgroups.launch_sizes import last_step, tiles_of_whole_rounds
from lego_mlir.transforms.warpgroups.module_text import ModuleText
from lego_mlir.transforms.warpgroups.plan import ProductPlan

POLLS: Final = 256
_ATOMIC: Final = 'syncscope("device") monotonic'


def counter_name(plan: ProductPlan) -> str:
    """The counter of a kernel."""
    return f"{plan.name}_arrivals"


def declare(t: ModuleText, plan: ProductPlan) -> None:
    """The counter, zero when the code is loaded."""
    attributes = "{addr_space = 1 : i32, alignment = 8 : i64}"
    t.line(f"llvm.mlir.global internal @{counter_name(plan)}(0 : i64) {attributes} : i64")


def meet(t: ModuleText, plan: ProductPlan, position: str, step: str, rank: str | None = None) -> None:
    """Meet the other producers, at every `lockstep`-th step of a tile in a round that all blocks take part in.

    The producer of rank 0 does so for its cluster: the others are at most as many steps ahead as there are stages.
    """
    place = t.op("andi", step, t.i32(plan.lockstep - 1))
    due = t.value(f"arith.cmpi eq, {place}, {t.i32(0)} : i32")
    end = tiles_of_whole_rounds(t, plan)
    whole = t.value(f"arith.cmpi ult, {position}, {end} : index")
    meets = t.op("andi", due, whole, type_="i1")
    if rank is not None:
        meets = t.op("andi", meets, t.value(f"arith.cmpi eq, {rank}, {t.i32(0)} : i32"), type_="i1")
    with t.block(f"scf.if {meets} {{"):
        counter = t.value(f"llvm.mlir.addressof @{counter_name(plan)} : !llvm.ptr<1>")
        ticket = t.value(f"llvm.atomicrmw add {counter}, {t.i64(1)} {_ATOMIC} : !llvm.ptr<1>, i64")
        blocks = t.i64(plan.blocks)
        round_ = t.op("divui", ticket, blocks, type_="i64")
        wanted = t.op("muli", t.op("addi", round_, t.i64(1), type_="i64"), blocks, type_="i64")
        polls, first, result = t.name(), t.i32(0), t.name()
        with t.block(f"{result} = scf.while ({polls} = {first}) : (i32) -> i32 {{", "} do {"):
            now = t.value(f"llvm.load {counter} atomic {_ATOMIC} {{alignment = 8 : i64}} : !llvm.ptr<1> -> i64")
            missing = t.value(f"arith.cmpi ult, {now}, {wanted} : i64")
            patient = t.value(f"arith.cmpi ult, {polls}, {t.i32(POLLS)} : i32")
            t.line(f"scf.condition({t.op('andi', missing, patient, type_='i1')}) {polls} : i32")
        known = t.name()
        t.line(f"^bb0({known}: i32):")
        t.line(f"scf.yield {t.op('addi', known, t.i32(1))} : i32")
        t.line("}")


def direction(t: ModuleText, plan: ProductPlan, position: str, step: str) -> str:
    """The step along K to copy: in order, and from the last one in every second round."""
    blocks, two = (t.value(f"arith.constant {n} : index") for n in (plan.blocks, 2))
    round_ = t.op("divui", position, blocks, type_="index")
    zero = t.value("arith.constant 0 : index")
    forward = t.value(f"arith.cmpi eq, {t.op('remui', round_, two, type_='index')}, {zero} : index")
    back = t.op("subi", last_step(t, plan), step)
    return t.value(f"arith.select {forward}, {step}, {back} : i32")
