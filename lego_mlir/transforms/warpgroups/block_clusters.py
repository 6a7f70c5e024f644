"""Clusters: blocks compute neighbouring tiles, and each copies a part of the operand that several need, for all.

Neighbours along N multiply the same rows of A, neighbours along M the same columns of B. A multicast copy writes to the
same place in the shared memory of each block, and reports its bytes to the barrier at the same place:

    producer of rank r   wait for own empty[s];  expect all bytes on own full[s];  copy own operand to itself, and
                         part r of a shared one to all blocks that need it
    consumer             wait for own full[s];  multiply;  arrive at empty[s] of all blocks

A cluster of 2 x 4 blocks shares both operands. Its ranks are numbered along N first, then M; with K in parts
(`cluster_sums`), the blocks of one part follow those of the part before, and share among themselves.

Since all blocks' consumers release a stage to each producer, no copy overwrites what another block still reads. No
block may exit while another can still write to its shared memory, or arrive at its barriers: a barrier of the cluster
ends the kernel, and another one orders the initialisation of the barriers before their use. The arrival has the scope
of a block: one with the scope of the cluster would wait for all of the thread's writes, at each step.

PTX ISA, "mapa", "barrier.cluster", "cp.async.bulk.tensor" (.multicast::cluster).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.transforms.warpgroups.module_text import ModuleText
from lego_mlir.transforms.warpgroups.plan import WARPGROUP, ProductPlan, StagedOperand

REMOTE: Final = "!llvm.ptr<7>"


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """Names of a block's rank in its cluster and of its numbers along M, N and K; None along a side of one block."""

    rank: str
    row: str | None
    column: str | None
    part: str | None


def place(t: ModuleText, plan: ProductPlan) -> ClusterPlace | None:
    """The block's place in its cluster, None without clusters."""
    if plan.cluster_blocks == 1:
        return None
    rank = t.value("nvvm.read.ptx.sreg.cluster.ctarank : i32")
    found: list[str | None] = []
    before = 1
    for extent in (plan.cluster[1], plan.cluster[0], plan.depth_parts):
        if extent == 1:
            found.append(None)
            continue
        number = rank if before == 1 else t.op("shrui", rank, t.i32(before.bit_length() - 1))
        before *= extent
        found.append(number if before == plan.cluster_blocks else t.op("andi", number, t.i32(extent - 1)))
    column, row, part = found
    return ClusterPlace(rank, row, column, part)


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


def own_tile(t: ModuleText, plan: ProductPlan, own: ClusterPlace | None, origin: tuple[str, str]) -> tuple[str, str]:
    """The first row and column of a block's tile in that of its cluster."""
    row, column = origin
    if own is not None and own.row is not None:
        row = t.op("addi", row, t.op("muli", own.row, t.i32(plan.a.tile)))
    if own is not None and own.column is not None:
        column = t.op("addi", column, t.op("muli", own.column, t.i32(plan.b.tile)))
    return row, column


def share_of(operand: StagedOperand, own: ClusterPlace | None, *, of_rows: bool) -> str | None:
    """The number of the part of a shared operand that the block copies; None of an operand that is not shared."""
    if own is None or operand.shares == 1:
        return None
    return own.column if of_rows else own.row


def multicast(
    t: ModuleText, plan: ProductPlan, operand: StagedOperand, own: ClusterPlace | None, *, of_rows: bool
) -> str:
    """The clause of a copy that names the blocks it writes to: those along N for rows of A, along M for B's columns."""
    share = share_of(operand, own, of_rows=of_rows)
    if own is None or share is None:
        return ""
    distance = 1 if of_rows else plan.cluster[1]
    ranks = sum(1 << number * distance for number in range(operand.shares))
    mask = t.value(f"arith.constant {ranks} : i16")
    if operand.shares < plan.cluster_blocks:
        first = t.op("subi", own.rank, share if distance == 1 else t.op("muli", share, t.i32(distance)))
        mask = t.op("shli", mask, t.value(f"arith.trunci {first} : i32 to i16"), type_="i16")
    return f" multicast_mask = {mask}"


def release_places(
    t: ModuleText, plan: ProductPlan, shared: str, thread: str, place: ClusterPlace | None
) -> tuple[str, str]:
    """The address, in a cluster, of the first stage's *empty* barrier, and the flag of a thread that arrives there.

    The first threads of a consumer arrive, each at the barrier of the block with its number among those that share.
    """
    own = t.shared(shared, t.i32(plan.empty_offset))
    lane = t.op("andi", thread, t.i32(WARPGROUP - 1))
    peer = t.op("andi", thread, t.i32(plan.sharing_blocks - 1))
    if place is not None and place.part is not None:
        peer = t.op("addi", peer, t.op("muli", place.part, t.i32(plan.sharing_blocks)))
    there = t.value(f"nvvm.mapa {own}, {peer} : !llvm.ptr<3> -> {REMOTE}")
    return there, t.value(f"arith.cmpi ult, {lane}, {t.i32(plan.sharing_blocks)} : i32")
