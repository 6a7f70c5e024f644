"""The kernel of a plan: barriers, the producer's copies, the consumers' products.

    producer   for every tile, for every step:  wait empty[s];  expect the bytes on full[s];  copy A and B into stage s
    consumer   for every tile, for every step:  wait full[s];  multiply stage s;  wait for the previous step's products
               and arrive at its empty[..]
               then store the tile (`epilogue`)

Stage and parity go on from tile to tile: the producer fills the ring for the next tile while the consumers store. The
first step of a tile ignores the accumulators, so that nothing has to set them to zero: initial values would be moved
into the registers behind the fence, and ptxas would serialise the products (C7515).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Final

from lego_mlir.f2.matrix_descriptors import LARGEST, OperandTile
from lego_mlir.hardware.consumers import ROWS
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.transforms.kernel_facts import DEPENDENT_ATTRIBUTE, SPLITS_ATTRIBUTE, map_attribute
from lego_mlir.transforms.warpgroups import (
    block_clusters,
    cluster_sums,
    dependent_launch,
    grid_sums,
    launch_sizes,
    lockstep,
    promotion,
    unfilled_rows,
)  # fmt: skip
from lego_mlir.transforms.warpgroups.epilogue import load_early, store_tile
from lego_mlir.transforms.warpgroups.module_text import ModuleText, operand_name
from lego_mlir.transforms.warpgroups.plan import (
    BARRIER_BYTES,
    DEPTH_BYTES,
    CornerArithmetic,
    ProductPlan,
    StagedOperand,
    operand_tile,
)

SHARED_NAME: Final = "lego_shared"
ORIGIN: Final = "lego_tile_origin"
"""A placeholder for the tile order, a function: position -> first row and first column of C; the pass fills it in."""
WAIT_NANOSECONDS: Final = 10_000_000
SUM_NAMES: Final = {"f32": "f32", "i32": "s32"}
_ALL_LANES: Final = -1


@dataclass(frozen=True, slots=True)
class Turn:
    """The place in the ring: a stage, and the parity of its barriers' phase, as names of i32 values."""

    stage: str
    parity: str


@dataclass(frozen=True, slots=True)
class Warp:
    """Names of a warp's values: shared memory, its warpgroup, its number, and the place of its block in a cluster."""

    shared: str
    group: str
    warp: str
    place: block_clusters.ClusterPlace | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Where consumers give stages back: the flag of a thread that does, and in a cluster its first barrier."""

    flag: str
    first: str | None = None


class WarpgroupKernel:
    """The text of one plan's kernel."""

    def __init__(self, plan: ProductPlan) -> None:
        self.plan, self.text = plan, ModuleText()
        registers = plan.columns // 2
        self.accumulators = f"!llvm.struct<({', '.join([plan.sums] * registers)})>"

    # -- the ring

    def barrier(self, warp: Warp, first: int, stage: str) -> str:
        """The address of a stage's barrier."""
        t = self.text
        return t.shared(warp.shared, t.op("addi", t.op("muli", stage, t.i32(BARRIER_BYTES)), t.i32(first)))

    def wait(self, barrier: str, parity: str) -> None:
        """Wait until the phase of this parity is complete."""
        ticks = self.text.i32(WAIT_NANOSECONDS)
        self.text.line(f"nvvm.mbarrier.try_wait.parity {barrier}, {parity}, {ticks} : !llvm.ptr<3>, i32, i32")

    def advance(self, turn: Turn) -> Turn:
        """The next stage; the parity changes when the ring starts over."""
        t = self.text
        following = t.op("addi", turn.stage, t.i32(1))
        over = t.value(f"arith.cmpi eq, {following}, {t.i32(self.plan.stages)} : i32")
        stage = t.value(f"arith.select {over}, {t.i32(0)}, {following} : i32")
        return Turn(stage, t.op("xori", turn.parity, t.value(f"arith.extui {over} : i1 to i32")))

    # -- the kernel

    def build(self) -> str:
        """The `gpu.func`, and its declarations."""
        t, plan = self.text, self.plan
        t.line(f"llvm.mlir.global external @{SHARED_NAME}() "
               "{addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>")  # fmt: skip
        if plan.lockstep:
            lockstep.declare(t, plan)
        t.line(f"func.func private @{ORIGIN}(index) -> (index, index)")
        launch_sizes.declare(t, plan)
        attributes = ", ".join((
            f"known_block_size = array<i32: {plan.threads}, 1, 1>",
            *([] if plan.launch_sizes else [
                f"known_grid_size = array<i32: {plan.blocks * plan.cluster_blocks * plan.splits}, 1, 1>"
            ]),
            f"lego.dynamic_shared_bytes = {plan.shared_bytes} : i64", f"nvvm.minctasm = {plan.resident} : i32",
            f"lego.tensor_maps = [{', '.join(starmap(map_attribute, plan.maps))}]",
            *([f"{DEPENDENT_ATTRIBUTE} = true"] * plan.dependent),
            *([f"{SPLITS_ATTRIBUTE} = {plan.splits} : i64"] * (plan.splits > 1)),
            *([f"known_cluster_size = array<i32: {plan.cluster_blocks}, 1, 1>"] * (plan.cluster_blocks > 1)),
        ))  # fmt: skip
        names = ("%a", "%b", "%c")
        maps = [f"{names[plan.arguments.index(number)]}: !llvm.ptr" for number in range(len(names))]
        sizes = plan.launch_sizes
        others = [
            f"{operand_name(i)}: {type_}{sizes.attributes(i) if sizes else ''}"
            for i, type_ in enumerate(plan.operands, len(names))
        ]
        with t.block(f"gpu.func @{plan.name}({', '.join([*maps, *others])}) kernel attributes {{{attributes}}} {{"):
            self.body()
            t.line("gpu.return")
        return str(t)

    def body(self) -> None:
        t, plan = self.text, self.plan
        dependent_launch.let_next_begin(t, plan)
        launch_sizes.define(t, plan)
        thread = t.value("nvvm.read.ptx.sreg.tid.x : i32")
        lanes = t.i32(_ALL_LANES)
        of_lane = t.op("shrui", thread, t.i32(5))
        number = t.value(f"nvvm.shfl.sync idx {lanes}, {of_lane}, {t.i32(0)}, {t.i32(31)} : i32 -> i32")
        shared = t.value(f"llvm.mlir.addressof @{SHARED_NAME} : !llvm.ptr<3>")
        warp = Warp(shared, t.op("shrui", number, t.i32(2)), number, block_clusters.place(t, plan))
        with t.block(f"scf.if {self.elected(number, 4 * plan.consumers if plan.dependent else 0)} {{"):
            dependent_launch.prefetch_maps(t, plan)
            self.initialise(warp)
        unfilled_rows.clear(t, plan, shared, thread)
        if not plan.dependent or plan.cluster_blocks > 1:
            block_clusters.synchronise(t, plan)
        produces = t.value(f"arith.cmpi eq, {warp.group}, {t.i32(plan.consumers)} : i32")
        with t.block(f"scf.if {produces} {{"):
            dependent_launch.meet(t, plan, waits=False)
            self.take_registers("decrease", plan.registers[0])
            with t.block(f"scf.if {self.elected(number, 4 * plan.consumers)} {{"):
                self.produce(warp)
            cluster_sums.let_add(t, plan)
            t.otherwise()
            dependent_launch.meet(t, plan, waits=True)
            self.take_registers("increase", plan.registers[1])
            self.consume(warp, thread)
        if plan.cluster_blocks > 1:
            block_clusters.synchronise(t, plan)

    def take_registers(self, change: str, count: int) -> None:
        """Move registers from the threads that copy to those that multiply, where a block has a multiprocessor."""
        if self.plan.resident == 1:
            self.text.line(f"nvvm.setmaxregister {change} {count}")

    def elected(self, warp: str, number: int) -> str:
        """True for one lane of the warp of this number."""
        t = self.text
        lane = t.value("nvvm.elect.sync -> i1")
        return t.op("andi", t.value(f"arith.cmpi eq, {warp}, {t.i32(number)} : i32"), lane, type_="i1")

    def initialise(self, warp: Warp) -> None:
        """Set up the barriers, and make that visible to the copies."""
        t, plan = self.text, self.plan
        for first, count in (
            (plan.full_offset, 1),
            (plan.empty_offset, plan.consumers * plan.sharing_blocks),
        ):
            for stage in range(plan.stages):
                address = t.shared(warp.shared, t.i32(first + stage * BARRIER_BYTES))
                t.line(f"nvvm.mbarrier.init {address}, {t.i32(count)} : !llvm.ptr<3>, i32")
        t.line("nvvm.fence.mbarrier.init")
        t.line("nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}")

    def tiles(self, stage: str, parity: str) -> tuple[str, str, str, str]:
        """The head of the loop over a cluster's tiles, and the names inside: the position, the stage and its parity."""
        t, plan = self.text, self.plan
        first = grid_sums.first_tile(t, plan)
        end, step = launch_sizes.tile_count(t, plan), t.value(f"arith.constant {plan.blocks} : index")
        position, *inside = (t.name() for _ in range(3))
        given = f"{inside[0]} = {stage}, {inside[1]} = {parity}"
        head = f"scf.for {position} = {first} to {end} step {step} iter_args({given}) -> (i32, i32) {{"
        return head, position, inside[0], inside[1]

    def origin(self, position: str, warp: Warp) -> tuple[str, str]:
        """The first row and column of C of the block's tile, as i32."""
        t = self.text
        both = t.name()
        t.line(f"{both}:2 = func.call @{ORIGIN}({position}) : (index) -> (index, index)")
        row, column = (t.value(f"arith.index_cast {both}#{i} : index to i32") for i in range(2))
        return block_clusters.own_tile(t, self.plan, warp.place, (row, column))

    # -- the producer

    def produce(self, warp: Warp) -> None:
        """The one thread that copies."""
        t, plan = self.text, self.plan
        dependent_launch.wait_for_previous(t, plan)
        zero, one, steps = t.i32(0), t.i32(1), launch_sizes.step_count(t, plan)
        # The phase before the first is complete, as a new barrier reports it: the first round does not wait.
        head, position, stage, parity = self.tiles(zero, one)
        result = t.name()
        with t.block(f"{result}:2 = {head}"):
            row, column = self.origin(position, warp)
            k, inner_stage, inner_parity, after = t.name(), t.name(), t.name(), t.name()
            with t.block(
                f"{after}:2 = scf.for {k} = {zero} to {steps} step {one} iter_args({inner_stage} = {stage}, "
                f"{inner_parity} = {parity}) -> (i32, i32) : i32 {{"
            ):
                if plan.lockstep:
                    lockstep.meet(t, plan, position, k, None if warp.place is None else warp.place.rank)
                turn = Turn(inner_stage, inner_parity)
                self.wait(self.barrier(warp, plan.empty_offset, turn.stage), turn.parity)
                full = self.barrier(warp, plan.full_offset, turn.stage)
                t.line(f"nvvm.mbarrier.arrive.expect_tx {full}, {t.i32(plan.stage_bytes)} : !llvm.ptr<3>, i32")
                number = lockstep.direction(t, plan, position, k) if plan.lockstep else k
                number = cluster_sums.own_step(t, plan, warp.place, number)
                number = grid_sums.own_step(t, plan, number)
                depth = t.op("muli", number, t.i32(plan.a.step))
                self.copies(warp, "%a", plan.a, 0, turn.stage, full, row, depth)
                self.copies(warp, "%b", plan.b, plan.b_offset, turn.stage, full, column, depth)
                following = self.advance(turn)
                t.line(f"scf.yield {following.stage}, {following.parity} : i32, i32")
            t.line(f"scf.yield {after}#0, {after}#1 : i32, i32")

    def copies(
        self,
        warp: Warp,
        tensor_map: str,
        operand: StagedOperand,
        base: int,
        stage: str,
        full: str,
        row: str,
        depth: str,
    ) -> None:
        """The copies of one operand's tile."""
        t, plan = self.text, self.plan
        tile = t.op("addi", t.op("muli", stage, t.i32(operand.tile_bytes)), t.i32(base))
        of_rows = tensor_map == "%a"
        part = block_clusters.share_of(operand, warp.place, of_rows=of_rows)
        if part is not None:
            tile = t.op("addi", tile, t.op("muli", part, t.i32(operand.part_bytes)))
        arithmetic = CornerArithmetic(
            t.i32, lambda value, n: t.op("addi", value, t.i32(n)), lambda value, n: t.op("divui", value, t.i32(n)),
            lambda value, n: t.op("muli", value, t.i32(n)), lambda one, other: t.op("addi", one, other),
        )  # fmt: skip
        for copy in range(operand.copies):
            address = t.shared(warp.shared, t.op("addi", tile, t.i32(operand.copy_offset(copy))))
            inside = t.value(f"llvm.addrspacecast {address} : !llvm.ptr<3> to !llvm.ptr<7>")
            box = operand.corner(copy, row, depth, arithmetic, part)
            mask = block_clusters.multicast(t, plan, operand, warp.place, of_rows=of_rows)
            t.line(
                f"nvvm.cp.async.bulk.tensor.shared.cluster.global {inside}, {tensor_map}, {full}, box "
                f"[{', '.join(box)}]{mask} : !llvm.ptr<7>, !llvm.ptr"
            )

    # -- the consumers

    def consume(self, warp: Warp, thread: str) -> None:
        """A consumer warpgroup: products, then the tile's store. An epilogue reads what the previous kernel wrote."""
        t, plan = self.text, self.plan
        if plan.operands:
            dependent_launch.wait_for_previous(t, plan)
        zero = t.i32(0)
        leads = self.elected(t.op("andi", warp.warp, t.i32(3)), 0)
        release = Release(leads)
        if plan.sharing_blocks > 1:
            first, flag = block_clusters.release_places(t, plan, warp.shared, thread, warp.place)
            release = Release(flag, first)
        descriptors = self.descriptors(warp)
        head, position, stage, parity = self.tiles(zero, zero)
        result = t.name()
        with t.block(f"{result}:2 = {head}"):
            row, column = self.origin(position, warp)
            early = load_early(t, plan, warp, thread, (row, column), self.accumulators)
            sums, turn = self.multiply(warp, descriptors, release, Turn(stage, parity))
            lane = thread, leads

            def store(found: Sequence[str], struct: str, first: str) -> None:
                store_tile(t, plan, warp, lane, found, (row, first), struct, early)

            def publish(found: Sequence[str], struct: str, first: str) -> None:
                added = grid_sums.FoundSums(found, struct, first)
                grid_sums.publish_or_store(t, plan, warp, lane, position, added, store)

            cluster_sums.add_and_store(t, plan, warp, thread, sums, self.accumulators, publish, column)
            t.line(f"scf.yield {turn.stage}, {turn.parity} : i32, i32")
        with t.block(f"scf.if {leads} {{"):
            t.line("nvvm.cp.async.bulk.wait_group 0 {read}")

    @property
    def operand_tiles(self) -> tuple[OperandTile, OperandTile]:
        """The derived descriptors of A's and B's tiles."""
        return operand_tile(self.plan.a, ROWS), operand_tile(self.plan.b, self.plan.columns)

    def descriptors(self, warp: Warp) -> tuple[str, str]:
        """The descriptors of the first stage's tiles, from this warpgroup's rows of A on, or its columns of B."""
        t, plan = self.text, self.plan
        base = t.value(f"llvm.ptrtoint {warp.shared} : !llvm.ptr<3> to i32")
        of_a, of_b = self.operand_tiles
        if plan.across > 1:  # the consumers divide B's columns
            first, own = base, t.op("muli", warp.group, t.i32(of_b.row_step))
            second = t.op("addi", t.op("addi", base, t.i32(plan.b_offset)), own)
        else:
            first = t.op("addi", base, t.op("muli", warp.group, t.i32(of_a.row_step * plan.parts)))
            second = t.op("addi", base, t.i32(plan.b_offset))
        made = []
        for tile, address in ((of_a, first), (of_b, second)):
            chunk = t.op("shrui", t.op("andi", address, t.i32(LARGEST - 1)), t.i32(4))
            constant = t.i64(tile.descriptor.word)
            made.append(t.op("ori", t.value(f"arith.extui {chunk} : i32 to i64"), constant, type_="i64"))
        return made[0], made[1]

    def step(self, descriptors: tuple[str, str], sums: Sequence[str], stage: str, first: bool) -> list[str]:
        """The products of one stage, as one group."""
        t, plan = self.text, self.plan
        here = []
        for descriptor, operand in zip(descriptors, (plan.a, plan.b), strict=True):
            chunks = t.op("muli", stage, t.i32(operand.tile_bytes >> 4))
            here.append(t.op("addi", descriptor, t.value(f"arith.extui {chunks} : i32 to i64"), type_="i64"))
        t.line("nvvm.wgmma.fence.aligned")
        made = [self.products(here, part, one, first) for part, one in enumerate(sums)]
        t.line("nvvm.wgmma.commit.group.sync.aligned")
        return made

    def products(self, words: Sequence[str], part: int, sums: str, first: bool) -> str:
        """The products of one stage with 64 rows of A."""
        t, plan = self.text, self.plan
        of_a, of_b = self.operand_tiles
        depth = DEPTH_BYTES // ELEMENT_BYTES[plan.a.dtype]
        majors = ("row" if plan.a.contiguous == "k" else "col", "col" if plan.b.contiguous == "k" else "row")
        for number in range(plan.a.step // depth):
            moves = (part * of_a.row_step + number * of_a.depth_step, number * of_b.depth_step)
            left, right = (
                t.op("addi", word, t.i64(move // CHUNK), type_="i64") for word, move in zip(words, moves, strict=True)
            )
            out = "zero" if first and number == 0 else "one"
            sums = t.value(
                f"nvvm.wgmma.mma_async {left}, {right}, {sums}, <m = {ROWS}, n = {plan.columns}, k = {depth}>, "
                f"D [<{SUM_NAMES[plan.sums]}>, <{out}>], A [<{plan.unit}>, <one>, <{majors[0]}>], "
                f"B [<{plan.unit}>, <one>, <{majors[1]}>] : {self.accumulators} -> {self.accumulators}"
            )
        return sums

    def release(self, warp: Warp, release: Release, stage: str) -> None:
        """Give a stage back to the producer, in a cluster to all producers."""
        t = self.text
        with t.block(f"scf.if {release.flag} {{"):
            if release.first is None:
                empty = self.barrier(warp, self.plan.empty_offset, stage)
                t.value(f"nvvm.mbarrier.arrive {empty} : !llvm.ptr<3> -> i64")
                return
            offset = t.op("muli", stage, t.i32(BARRIER_BYTES))
            kind = block_clusters.REMOTE
            there = t.value(f"llvm.getelementptr {release.first}[{offset}] : ({kind}, i32) -> {kind}, i8")
            t.line(f"nvvm.mbarrier.arrive {there} : {kind}")

    def multiply(
        self, warp: Warp, descriptors: tuple[str, str], release: Release, turn: Turn
    ) -> tuple[list[str], Turn]:
        """All steps of a tile."""
        if self.plan.exact:
            return promotion.promoted_steps(self, warp, descriptors, release, turn)
        return self.sum_steps(warp, descriptors, release, turn, lambda: launch_sizes.step_count(self.text, self.plan))

    def sum_steps(
        self, warp: Warp, descriptors: tuple[str, str], release: Release, turn: Turn, count: Callable[[], str]
    ) -> tuple[list[str], Turn]:
        """Some steps, into new sums. A stage is released when the products of the step after it have been issued."""
        t, plan = self.text, self.plan
        struct, parts = self.accumulators, range(plan.parts)
        empty = [t.value(f"llvm.mlir.undef : {struct}") for _ in parts]
        self.wait(self.barrier(warp, plan.full_offset, turn.stage), turn.parity)
        sums = self.step(descriptors, empty, turn.stage, first=True)
        following = self.advance(turn)
        one, steps = t.i32(1), count()
        k, carried, after = t.name(), [t.name() for _ in range(plan.parts + 3)], t.name()
        given = ", ".join(
            f"{name} = {value}"
            for name, value in zip(carried, (*sums, turn.stage, following.stage, following.parity), strict=True)
        )
        types = ", ".join([struct] * plan.parts + ["i32"] * 3)
        with t.block(
            f"{after}:{len(carried)} = scf.for {k} = {one} to {steps} step {one} iter_args({given}) -> ({types}) : "
            "i32 {"
        ):
            inside, (previous, *now_) = carried[: plan.parts], carried[plan.parts :]
            now = Turn(*now_)
            self.wait(self.barrier(warp, plan.full_offset, now.stage), now.parity)
            added = self.step(descriptors, inside, now.stage, first=False)
            t.line("nvvm.wgmma.wait.group.sync.aligned 1")
            self.release(warp, release, previous)
            later = self.advance(now)
            t.line(f"scf.yield {', '.join(added)}, {now.stage}, {later.stage}, {later.parity} : {types}")
        t.line("nvvm.wgmma.wait.group.sync.aligned 0")
        self.release(warp, release, f"{after}#{plan.parts}")
        return [f"{after}#{part}" for part in parts], Turn(f"{after}#{plan.parts + 1}", f"{after}#{plan.parts + 2}")
