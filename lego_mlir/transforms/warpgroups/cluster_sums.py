"""K in parts within a cluster: each block sums a part, and the blocks add them through distributed shared memory.

A product of few tiles leaves most of a device idle while K is long. With `depth_parts` blocks of a cluster for a tile,
each multiplies an equal part of K, in whole steps, and leaves its sums in the ring of stages, which no copy fills any
more. When all blocks of the cluster have done so, each adds some columns of the tile and stores them:

    block p   its part of K -> sums[p]   barrier of the cluster   columns p:  sums[0] + sums[1] + .. -> C   barrier

The order of the additions is fixed, so the result does not depend on the order in which blocks run. Unlike a split of K
among independent blocks (`kernels/split_k.py`), it takes no memory of the device and no counter.

A thread keeps its sums for 8 columns, four numbers, in one vector of 16 bytes; those of a warp's threads follow each
other. So does the thread of another block that has the same place in its tile, which reads them from there. The last
barrier keeps a block from exiting while others read its sums. PTX ISA, "barrier.cluster", "mapa".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir.transforms.warpgroups import block_clusters
from lego_mlir.transforms.warpgroups.block_clusters import REMOTE, ClusterPlace
from lego_mlir.transforms.warpgroups.module_text import ModuleText
from lego_mlir.transforms.warpgroups.plan import UNIT_COLUMNS, WARPGROUP, ProductPlan

if TYPE_CHECKING:
    from lego_mlir.transforms.warpgroups.roles import Warp

FOUR: Final = 4
"""Sums of a thread in 8 columns: two rows of two."""
VECTOR: Final = 16
"""Bytes of them."""
Store = Callable[[Sequence[str], str, str], None]


def own_step(t: ModuleText, plan: ProductPlan, place: ClusterPlace | None, step: str) -> str:
    """A step of the block's part of K as one of the whole K. Those after its last one copy zeros."""
    if place is None or place.part is None:
        return step
    return t.op("addi", step, t.op("muli", place.part, t.i32(plan.steps)))


def let_add(t: ModuleText, plan: ProductPlan) -> None:
    """The producer's threads take part in the barrier after which sums are added."""
    if plan.depth_parts > 1:
        block_clusters.synchronise(t, plan)


def add_and_store(
    t: ModuleText, plan: ProductPlan, warp: Warp, thread: str, sums: Sequence[str], struct: str, store: Store,
    column: str,
) -> None:  # fmt: skip
    """Store a consumer's sums from `column` on, or those columns of the sums of all parts of K that this block adds."""
    place = warp.place
    if plan.depth_parts == 1 or place is None or place.part is None:
        store(sums, struct, column)
        return
    if plan.consumers > 1:
        threads = t.i32(WARPGROUP * plan.consumers)
        t.line(f"nvvm.barrier id = {t.i32(plan.consumers + 1)} number_of_threads = {threads}")
    own = _own_place(t, plan, warp, thread)
    groups = plan.columns // UNIT_COLUMNS
    for number, one in enumerate(sums):
        for group in range(groups):
            _keep(t, plan, own, number * groups + group, [f"{one}[{FOUR * group + i}]" for i in range(FOUR)], struct)
    block_clusters.synchronise(t, plan)
    adds = t.value(f"arith.cmpi ult, {place.part}, {t.i32(plan.adders)} : i32")
    with t.block(f"scf.if {adds} {{"):
        registers = plan.stored_columns // UNIT_COLUMNS * FOUR
        part = f"!llvm.struct<({', '.join([plan.sums] * registers)})>"
        first = t.op("muli", place.part, t.i32(plan.stored_columns // UNIT_COLUMNS * WARPGROUP * VECTOR))
        peers = _peers(t, plan, place, t.shared(own, first))
        totals = [_total(t, plan, peers, number * groups, part) for number in range(len(sums))]
        store(totals, part, t.op("addi", column, t.op("muli", place.part, t.i32(plan.stored_columns))))


def _own_place(t: ModuleText, plan: ProductPlan, warp: Warp, thread: str) -> str:
    """Where the thread's first vector is."""
    lane = t.op("andi", thread, t.i32(WARPGROUP - 1))
    vectors = plan.parts * plan.columns // UNIT_COLUMNS
    group = t.op("muli", warp.group, t.i32(vectors * WARPGROUP * VECTOR))
    return t.shared(warp.shared, t.op("addi", group, t.op("muli", lane, t.i32(VECTOR))))


def _keep(t: ModuleText, plan: ProductPlan, own: str, vector: int, places: Sequence[str], struct: str) -> None:
    """Write four sums to the thread's vector of this number."""
    values = [t.value(f"llvm.extractvalue {place} : {struct}") for place in places]
    type_ = f"vector<{FOUR}x{plan.sums}>"
    made = t.value(f"vector.from_elements {', '.join(values)} : {type_}")
    there = t.shared(own, t.i32(vector * WARPGROUP * VECTOR))
    t.line(f"llvm.store {made}, {there} {{alignment = {VECTOR} : i64}} : {type_}, !llvm.ptr<3>")


def _peers(t: ModuleText, plan: ProductPlan, place: ClusterPlace, address: str) -> list[str]:
    """The same address in the blocks of all parts of K, in their order."""
    begin = t.op("subi", place.rank, t.op("muli", place.part or "", t.i32(plan.sharing_blocks)))
    ranks = [t.op("addi", begin, t.i32(part * plan.sharing_blocks)) for part in range(plan.depth_parts)]
    return [t.value(f"nvvm.mapa {address}, {rank} : !llvm.ptr<3> -> {REMOTE}") for rank in ranks]


def _total(t: ModuleText, plan: ProductPlan, peers: Sequence[str], first: int, struct: str) -> str:
    """The sums of all parts, of the columns that this block stores, vector by vector."""
    made, type_ = t.value(f"llvm.mlir.undef : {struct}"), f"vector<{FOUR}x{plan.sums}>"
    add = "addi" if plan.sums == "i32" else "addf"
    for group in range(plan.stored_columns // UNIT_COLUMNS):
        offset = t.i32((first + group) * WARPGROUP * VECTOR)
        loaded = []
        for peer in peers:
            there = t.value(f"llvm.getelementptr {peer}[{offset}] : ({REMOTE}, i32) -> {REMOTE}, i8")
            loaded.append(t.value(f"llvm.load {there} {{alignment = {VECTOR} : i64}} : {REMOTE} -> {type_}"))
        total, *others = loaded
        for other in others:
            total = t.op(add, total, other, type_=type_)
        for i in range(FOUR):
            value = t.value(f"vector.extract {total}[{i}] : {plan.sums} from {type_}")
            made = t.value(f"llvm.insertvalue {value}, {made}[{FOUR * group + i}] : {struct}")
    return made
