"""K in parts among the clusters of a grid: each leaves its sums in global memory, and the last one to arrive adds them.

A cluster has 8 blocks at most, and clusters of many blocks leave multiprocessors idle. With `splits`, as many clusters
compute a tile, each a part of K. Its consumers write their sums to a workspace, `partial`, and add 1 to a counter. The
one that finds all others arrived reads the sums of all parts, in their order, adds them, and stores its columns of C
through the epilogue:

    cluster 0 of tile t   its part of K -> partial[0, t]   fence   counter[t] 0 -> 1
    cluster 2             its part of K -> partial[2, t]   fence   counter[t] 1 -> 2
    cluster 1             its part of K -> partial[1, t]   fence   counter[t] 2 -> 3, the last:  fence
                          partial[0, t] + partial[1, t] + partial[2, t] -> C                     counter[t] = 0

Each warpgroup has a counter for itself, and waits for no other one: blocks may run in any order, and not all at once.
The order of the additions is fixed, so the result does not depend on that. The last one resets the counter, so that
the next launch finds zeros; the workspace is that of one launch at a time (`kernels/split_k.py` does the same for
mma.sync). With `depth_parts` the blocks of a cluster add their parts first (`cluster_sums`), and each of those that
add has a place in the workspace. Units of work are numbered with tiles first, so that clusters which run at the same
time read the same part of K.

The kernel takes the workspace as its last two arguments, which nothing else uses. PTX ISA, "Memory Consistency Model".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.transforms.warpgroups import block_clusters
from lego_mlir.transforms.warpgroups.module_text import ModuleText, operand_name
from lego_mlir.transforms.warpgroups.plan import MATRICES, UNIT_COLUMNS, WARPGROUP, ProductPlan

if TYPE_CHECKING:
    from lego_mlir.transforms.warpgroups.roles import Warp

FOUR: Final = 4
"""Sums of a thread in 8 columns, a vector."""
VECTOR: Final = 16
"""Bytes of a vector."""
MOST_PAIRED: Final = 64
"""Sums of a thread up to which those of two parts are loaded at once."""
_ATOMIC: Final = 'syncscope("device") monotonic'
_FENCE: Final = 'llvm.fence syncscope("device") acq_rel'
Store = Callable[[Sequence[str], str, str], None]


@dataclass(frozen=True, slots=True)
class FoundSums:
    """Names of a consumer's sums, one set for each 64 rows, their type, and the first column of C that they are of."""

    sums: Sequence[str]
    struct: str
    column: str


def first_tile(t: ModuleText, plan: ProductPlan) -> str:
    """The first tile of the block's cluster, an index."""
    number = block_clusters.cluster_number(t, plan)
    if plan.splits == 1:
        return number
    return t.op("remui", number, t.value(f"arith.constant {plan.positions} : index"), type_="index")


def own_step(t: ModuleText, plan: ProductPlan, step: str) -> str:
    """A step of the cluster's part of K as one of the whole K. Those after its last one copy zeros."""
    if plan.splits == 1:
        return step
    first = t.op("muli", _part(t, plan), t.i32(plan.steps * plan.depth_parts))
    return t.op("addi", step, first)


def publish_or_store(
    t: ModuleText, plan: ProductPlan, warp: Warp, lane: tuple[str, str], position: str, found: FoundSums, store: Store
) -> None:
    """Store a consumer's sums, or leave them for the last cluster of the tile, or be that one; `lane` is the thread's
    number, and the flag of a thread that does for the warpgroup what one does."""
    if plan.splits == 1:
        store(found.sums, found.struct, found.column)
        return
    (thread, leads), place = lane, _number(t, plan, warp, position)
    groups = plan.stored_columns // UNIT_COLUMNS
    vectors = len(found.sums) * groups
    lane_ = t.op("andi", thread, t.i32(WARPGROUP - 1))
    offset = t.op("addi", t.op("muli", place, t.i32(vectors * WARPGROUP * VECTOR)), t.op("muli", lane_, t.i32(VECTOR)))
    first = _address(t, plan.workspace[0], plan, offset)
    own = t.op("muli", t.value(f"arith.extui {_part(t, plan)} : i32 to i64"), t.i64(_part_bytes(plan)), type_="i64")
    there = t.value(f"llvm.getelementptr {first}[{own}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8")
    for number, one in enumerate(found.sums):
        for group in range(groups):
            names = [f"{one}[{FOUR * group + i}]" for i in range(FOUR)]
            _keep(t, plan, there, number * groups + group, names, found.struct)
    last = _arrive(t, plan, warp, leads, place)
    with t.block(f"scf.if {last} {{"):
        t.line(_FENCE)
        store(_totals(t, plan, first, len(found.sums), found.struct), found.struct, found.column)


def _arrive(t: ModuleText, plan: ProductPlan, warp: Warp, leads: str, place: str) -> str:
    """Count this warpgroup as arrived: whether all others of the tile have, an i1. The last one resets the counter."""
    barrier = f"nvvm.barrier id = {t.op('addi', warp.group, t.i32(1))} number_of_threads = {t.i32(WARPGROUP)}"
    counter = _address(t, plan.workspace[1], plan, t.op("muli", place, t.i32(FOUR)))
    slot = t.shared(warp.shared, t.op("addi", t.op("muli", warp.group, t.i32(FOUR)), t.i32(plan.ticket_offset)))
    wanted = t.i32(plan.splits - 1)
    t.line(_FENCE)
    t.line(barrier)
    with t.block(f"scf.if {leads} {{"):
        ticket = t.value(f"llvm.atomicrmw add {counter}, {t.i32(1)} {_ATOMIC} : !llvm.ptr<1>, i32")
        t.line(f"llvm.store {ticket}, {slot} {{alignment = 4 : i64}} : i32, !llvm.ptr<3>")
        with t.block(f"scf.if {t.value(f'arith.cmpi eq, {ticket}, {wanted} : i32')} {{"):
            t.line(f"llvm.store {t.i32(0)}, {counter} atomic {_ATOMIC} {{alignment = 4 : i64}} : i32, !llvm.ptr<1>")
    t.line(barrier)
    drawn = t.value(f"llvm.load {slot} {{alignment = 4 : i64}} : !llvm.ptr<3> -> i32")
    return t.value(f"arith.cmpi eq, {drawn}, {wanted} : i32")


def _part(t: ModuleText, plan: ProductPlan) -> str:
    """The number of the cluster's part of K, an i32."""
    number = block_clusters.cluster_number(t, plan)
    part = t.op("divui", number, t.value(f"arith.constant {plan.positions} : index"), type_="index")
    return t.value(f"arith.index_cast {part} : index to i32")


def _number(t: ModuleText, plan: ProductPlan, warp: Warp, position: str) -> str:
    """The number of the warpgroup among those that add sums of one part of K, an i32."""
    tile = t.value(f"arith.index_cast {position} : index to i32")
    adding = plan.sharing_blocks * plan.adders
    block = t.op("muli", tile, t.i32(adding))
    if warp.place is not None:
        block = t.op("addi", block, warp.place.rank)
    return t.op("addi", t.op("muli", block, t.i32(plan.consumers)), warp.group)


def _part_bytes(plan: ProductPlan) -> int:
    """Bytes of the sums of all tiles, of one part of K."""
    return plan.positions * plan.sharing_blocks * plan.a.tile * plan.b.tile * FOUR


def _address(t: ModuleText, argument: int, plan: ProductPlan, offset: str) -> str:
    """The address a number of bytes, an i32, after the begin of a tensor argument."""
    name, type_ = operand_name(argument), plan.operands[argument - MATRICES]
    place = t.value(f"memref.extract_aligned_pointer_as_index {name} : {type_} -> index")
    begin = t.value(f"arith.index_cast {place} : index to i64")
    pointer = t.value(f"llvm.inttoptr {begin} : i64 to !llvm.ptr<1>")
    return t.value(f"llvm.getelementptr {pointer}[{offset}] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8")


def _keep(t: ModuleText, plan: ProductPlan, there: str, vector: int, places: Sequence[str], struct: str) -> None:
    """Write four sums to the thread's vector of this number."""
    values = [t.value(f"llvm.extractvalue {place} : {struct}") for place in places]
    type_ = f"vector<{FOUR}x{plan.sums}>"
    made = t.value(f"vector.from_elements {', '.join(values)} : {type_}")
    address = _after(t, there, vector * WARPGROUP * VECTOR)
    t.line(f"llvm.store volatile {made}, {address} {{alignment = {VECTOR} : i64}} : {type_}, !llvm.ptr<1>")


def _totals(t: ModuleText, plan: ProductPlan, first: str, sets: int, struct: str) -> list[str]:
    """The sums of all parts, in their order, in as many sets.

    A loop loads those of one part at a time, or of two of few columns: their latency is most of the time.
    """
    count = 2 if plan.splits > 2 and sets * plan.stored_columns // 2 <= MOST_PAIRED else 1
    begun = 2 - plan.splits % 2 if count > 1 else 1
    size = t.i64(_part_bytes(plan))
    addresses = [_after(t, first, part * _part_bytes(plan)) for part in range(begun)]
    known = [_added(t, plan, addresses, number, struct, None) for number in range(sets)]
    part, carried, after = t.name(), [t.name() for _ in known], t.name()
    given = ", ".join(f"{name} = {value}" for name, value in zip(carried, known, strict=True))
    types = ", ".join([struct] * sets)
    bounds = f"{t.i32(begun)} to {t.i32(plan.splits)} step {t.i32(count)}"
    with t.block(f"{after}:{sets} = scf.for {part} = {bounds} iter_args({given}) -> ({types}) : i32 {{"):
        offset = t.op("muli", t.value(f"arith.extui {part} : i32 to i64"), size, type_="i64")
        there = t.value(f"llvm.getelementptr {first}[{offset}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8")
        addresses = [_after(t, there, more * _part_bytes(plan)) for more in range(count)]
        added = [_added(t, plan, addresses, number, struct, one) for number, one in enumerate(carried)]
        t.line(f"scf.yield {', '.join(added)} : {types}")
    return [f"{after}#{number}" for number in range(sets)]


def _added(
    t: ModuleText, plan: ProductPlan, addresses: Sequence[str], number: int, struct: str, known: str | None
) -> str:  # fmt: skip
    """A set of sums of parts at some addresses, added in their order, to known ones first if there are any."""
    made, type_ = t.value(f"llvm.mlir.undef : {struct}"), f"vector<{FOUR}x{plan.sums}>"
    add = "addi" if plan.sums == "i32" else "addf"
    groups = range(plan.stored_columns // UNIT_COLUMNS)
    loaded = [
        [
            t.value(
                f"llvm.load volatile {_after(t, there, (number * len(groups) + group) * WARPGROUP * VECTOR)} "
                f"{{alignment = {VECTOR} : i64}} : !llvm.ptr<1> -> {type_}"
            )
            for group in groups
        ]
        for there in addresses
    ]
    for place in range(FOUR * len(groups)):
        group, lane = divmod(place, FOUR)
        total = None if known is None else t.value(f"llvm.extractvalue {known}[{place}] : {struct}")
        for part in loaded:
            value = t.value(f"vector.extract {part[group]}[{lane}] : {plan.sums} from {type_}")
            total = value if total is None else t.op(add, total, value, type_=plan.sums)
        made = t.value(f"llvm.insertvalue {total}, {made}[{place}] : {struct}")
    return made


def _after(t: ModuleText, address: str, offset: int) -> str:
    """The address a constant number of bytes after another one."""
    return t.value(f"llvm.getelementptr {address}[{offset}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8")
