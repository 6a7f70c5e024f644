"""Clusters: two blocks compute neighbouring tiles, and each copies half of the operand that both need, for both.

Neighbours along N multiply the same rows of A, neighbours along M the same columns of B. A multicast copy writes to the
same place in the shared memory of each block, and reports its bytes to the barrier at the same place:

    producer of rank r   wait for own empty[s];  expect all bytes on own full[s];  copy own operand to itself, and
                         part r of the shared one to both blocks
    consumer             wait for own full[s];  multiply;  arrive at empty[s] of both blocks

Since both blocks' consumers release a stage to each producer, no copy overwrites what the other block still reads. No
block may exit while the other can still write to its shared memory, or arrive at its barriers: a barrier of the cluster
ends the kernel, and another one orders the initialisation of the barriers before their use. The arrival has the scope
of a block: one with the scope of the cluster would wait for all of the thread's writes, at each step.

PTX ISA, "mapa", "barrier.cluster", "cp.async.bulk.tensor" (.multicast::cluster).
"""

from __future__ import annotations

from typing import Final

from lego_mlir.transforms.warpgroups.module_text import ModuleText
from lego_mlir.transforms.warpgroups.plan import WARPGROUP, ProductPlan, StagedOperand

REMOTE: Final = "!llvm.ptr<7>"


def rank(t: ModuleText, plan: ProductPlan) -> str | None:
    """The block's number in its cluster, None without clusters."""
    return t.value("nvvm.read.ptx.sreg.cluster.ctarank : i32") if plan.cluster_blocks > 1 else None


def cluster_number(t: ModuleText, plan: ProductPlan) -> str:
    """The number of the block's cluster, or of the block."""
    block = t.value("gpu.block_id x")
    if plan.cluster_blocks == 1:
        return block
    return t.op("divui", block, t.value(f"arith.constant {plan.cluster_blocks} : index"), type_="index")


def synchronise(t: ModuleText, plan: ProductPlan) -> None:
    """A barrier for all threads that can reach the block's shared memory."""
    if plan.cluster_blocks == 1:
        t.line("nvvm.barrier")
        return
    t.line("nvvm.cluster.arrive")
    t.line("nvvm.cluster.wait")


def own_tile(t: ModuleText, plan: ProductPlan, number: str | None, origin: tuple[str, str]) -> tuple[str, str]:
    """The first row and column of a block's tile in that of its cluster."""
    if number is None:
        return origin
    row, column = origin
    if plan.cluster[0] > 1:
        return t.op("addi", row, t.op("muli", number, t.i32(plan.a.tile))), column
    return row, t.op("addi", column, t.op("muli", number, t.i32(plan.b.tile)))


def multicast(t: ModuleText, operand: StagedOperand) -> str:
    """The clause of a copy that names the blocks it writes to."""
    return f" multicast_mask = {t.value(f'arith.constant {(1 << operand.shares) - 1} : i16')}" * (operand.shares > 1)


def release_places(t: ModuleText, plan: ProductPlan, shared: str, thread: str) -> tuple[str, str]:
    """The address, in a cluster, of the first stage's *empty* barrier, and the flag of a thread that arrives there.

    The threads 0 and 1 of a consumer arrive, each at the barrier of the block with its number.
    """
    own = t.shared(shared, t.i32(plan.empty_offset))
    lane = t.op("andi", thread, t.i32(WARPGROUP - 1))
    peer = t.op("andi", thread, t.i32(plan.cluster_blocks - 1))
    there = t.value(f"nvvm.mapa {own}, {peer} : !llvm.ptr<3> -> {REMOTE}")
    return there, t.value(f"arith.cmpi ult, {lane}, {t.i32(plan.cluster_blocks)} : i32")
