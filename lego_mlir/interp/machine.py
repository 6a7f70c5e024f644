"""The state of a batch of blocks in lockstep: values, the mask of active lanes, ids, barrier epochs, async copies.

All threads of all blocks of a batch execute each step together. If a branch diverges, both sides run, each under the
mask of the lanes that took it. Accesses and barriers apply the mask; arithmetic ignores it.

An *epoch* counts the barriers that a block has passed. Two accesses of one block are ordered if one thread made both or
if their epochs differ; the race check needs no other notion of time. Global and shared memory have separate epochs,
because a barrier may fence only one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import shadow, values
from lego_mlir.interp.faults import BlockStopped
from lego_mlir.interp.geometry import Dim3, coordinates, unravel
from lego_mlir.interp.happens_before import WarpClocks, active_warps
from lego_mlir.interp.memory import DeviceBuffer, MemRef
from lego_mlir.interp.report import Kind, LoopRound, SourceLocation
from lego_mlir.interp.values import Array, SlotValue

if TYPE_CHECKING:
    from lego_mlir.interp.access import MemoryAccess
    from lego_mlir.interp.cluster_blocks import ClusterBlocks
    from lego_mlir.interp.counters import Counters
    from lego_mlir.interp.element_history import RunWatch
    from lego_mlir.interp.faults import Faults
    from lego_mlir.interp.printed import Printed
    from lego_mlir.interp.role_scheduler import RoleScheduler, Waiting


@dataclass(slots=True)
class CopyGroup:
    """Asynchronous copies that a thread committed together: landings, the lanes that issued them, and clocks."""

    landings: list[Callable[[Array | None], None]]
    lanes: Array | None
    clocks: Array | None = None


@dataclass(slots=True)
class CopiesInFlight:
    """Asynchronous copies whose completion a barrier waits for: what lands, and what to tell the barrier then."""

    landings: list[Callable[[Array | None], None]]
    lanes: Array | None
    completed: Callable[[], None]


@dataclass(slots=True)
class Machine:
    """One batch of blocks of one launch."""

    grid: Dim3
    block: Dim3
    batch: Array
    values: list[Any]
    faults: Faults
    counters: Counters | None
    checks: bool
    accesses: list[MemoryAccess]
    run_grid: Callable[..., None]
    printed: Printed
    watch: RunWatch | None = None
    cluster: Dim3 = (1, 1, 1)
    launch: int = 0
    dynamic_shared_bytes: int = 0
    mask: Array | None = None
    epochs: dict[bool, Array] = field(default_factory=lambda: {True: values.uniform(0), False: values.uniform(0)})
    dynamic_shared: DeviceBuffer | None = None
    barriers: dict[str, Any] = field(default_factory=dict)
    warps_synchronised: bool = False
    fences: dict[bool, Array] = field(default_factory=lambda: {True: values.uniform(0), False: values.uniform(0)})
    statics: dict[str, MemRef] = field(default_factory=dict)
    issued: list[Callable[[Array | None], None]] = field(default_factory=list)
    groups: list[CopyGroup] = field(default_factory=list)
    copied: Array | None = None
    flights: list[CopiesInFlight] = field(default_factory=list)
    clocks: WarpClocks | None = None
    scheduler: RoleScheduler | None = None
    cluster_blocks: ClusterBlocks | None = None
    rank: int = 0  # of the block in `cluster_blocks`
    _ids: dict[tuple[str, int], Array] = field(default_factory=dict)
    _tags: dict[bool, Array] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        return int(self.batch.shape[0])

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    @property
    def lanes(self) -> tuple[int, int]:
        return self.blocks, self.threads

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP)

    @property
    def first_warp(self) -> int:
        """The number of the block's first warp among those that `clocks` knows."""
        return self.rank * self.warps

    def linear_thread(self) -> Array:
        return self._id("linear", 0, lambda: np.arange(self.threads, dtype=np.int64).reshape(1, -1))

    def thread_id(self, axis: int) -> Array:
        return self._id("thread", axis, lambda: unravel(self.linear_thread(), self.block, axis))

    def block_id(self, axis: int) -> Array:
        return self._id("block", axis, lambda: unravel(self.batch.reshape(-1, 1), self.grid, axis))

    def _id(self, kind: str, axis: int, make: Callable[[], Array]) -> Array:
        found = self._ids.get((kind, axis))
        if found is None:
            found = self._ids[kind, axis] = make()
        return found

    def name_lane(self, block_row: int, thread: int) -> tuple[Dim3, Dim3]:
        """The (x, y, z) of a lane's block and of its thread."""
        return coordinates(int(self.batch[block_row]), self.grid), coordinates(thread, self.block)

    def rounds(self) -> tuple[LoopRound, ...]:
        """The rounds of the loops that run, the outermost first."""
        return self.faults.rounds()

    def place_of_site(self, number: int) -> SourceLocation | None:
        return self.accesses[number].place if number < len(self.accesses) else None

    def passed_barrier(self, place: SourceLocation, fenced: tuple[bool, ...] = (False, True)) -> None:
        """Advance the epochs. A block of which only some threads arrive is a fault; its epoch advances all the same.

        `fenced` lists the memories whose accesses the barrier orders: shared (False), global (True).
        """
        self._tags.clear()
        if self.clocks is not None:
            self.clocks.meet(active_warps(self))
        if self.mask is None:
            self._advance(fenced, values.uniform(True, np.bool_))
            return
        arrived = np.broadcast_to(self.mask, (self.mask.shape[0], self.threads))
        some, all_ = arrived.any(axis=1, keepdims=True), arrived.all(axis=1, keepdims=True)
        diverged = some & ~all_
        if diverged.any() and self.checks:
            row = int(np.flatnonzero(diverged)[0])
            missing = int(np.flatnonzero(~arrived[row])[0])
            arrivals = int(arrived[row].sum())
            block, thread = self.name_lane(row, missing)
            self.faults.add(
                Kind.BARRIER,
                f"{arrivals} of the block's {self.threads} threads reach this barrier; thread {thread} does not",
                place, block, thread, count=int(diverged.sum()) * (self.blocks if diverged.shape[0] == 1 else 1),
            )  # fmt: skip
        self._advance(fenced, np.asarray(some))

    def _advance(self, fenced: tuple[bool, ...], some: Array) -> None:
        """Raise the epochs of blocks that passed a barrier: of all their threads to one that none had."""
        for memory in fenced:
            if self.warps_synchronised:
                latest = self.epochs[memory].max(axis=1, keepdims=True)
                self.epochs[memory] = np.where(some, latest + 1, self.epochs[memory])
                self.fences[memory] = np.where(some, latest + 1, self.fences[memory])
            else:
                self.epochs[memory] = self.epochs[memory] + (1 if some.all() else some.astype(np.int64))

    def passed_warp_barrier(self, place: SourceLocation) -> None:
        """Advance the epochs of the warps that arrive. A warp of which only some lanes arrive is a fault."""
        self._tags.clear()
        arrived = values.uniform(True, np.bool_) if self.mask is None else self.mask
        lanes = np.broadcast_to(arrived, (arrived.shape[0], self.threads))
        first = np.arange(0, self.threads, WARP)
        some = np.repeat(np.logical_or.reduceat(lanes, first, axis=1), WARP, axis=1)[:, : self.threads]
        missing = some & ~lanes
        if missing.any() and self.checks:
            row, lane = (int(i[0]) for i in missing.nonzero())
            block, thread = self.name_lane(row, lane)
            self.faults.add(
                Kind.BARRIER, f"lane {lane % WARP} of warp {lane // WARP} does not reach this barrier of the warp",
                place, block, thread,
                count=int(np.logical_or.reduceat(missing, first, axis=1).sum()) * self.blocks // len(lanes),
            )  # fmt: skip
        if self.clocks is not None:
            self.clocks.step(active_warps(self))
        for memory in self.epochs:
            self.epochs[memory] = self.epochs[memory] + some

    def tag(self, across_blocks: bool) -> Array:
        """The word of an access at this point, packed as in `shadow.py`: per thread, or per block and thread."""
        found = self._tags.get(across_blocks)
        if found is None:
            block = self.batch.reshape(-1, 1) if across_blocks or self.cluster_blocks is not None else 0
            epoch = self.epochs[across_blocks] if self.clocks is None else self.clocks.of_lanes(self)
            found = self._tags[across_blocks] = shadow.pack(block, epoch, self.linear_thread())
        return found

    def active(self) -> Array:
        """The active lanes, (blocks, threads)."""
        return np.broadcast_to(values.uniform(True, np.bool_) if self.mask is None else self.mask, self.lanes)

    def acquire(self, joint: Array | None, active: Array) -> None:
        """The warps of the active lanes learn what others released, or what their own copies have written."""
        self._tags.clear()
        if self.clocks is not None and joint is not None:
            self.clocks.acquire(active_warps(self, active), joint)

    def forget_tags(self) -> None:
        """The clocks of warps have changed."""
        self._tags.clear()

    def wait_for(self, waiting: Waiting) -> None:
        """Let other roles run until this one may go on; without roles, only copies in flight can help."""
        if self.scheduler is not None:
            self.scheduler.wait(waiting)
            return
        while not waiting.ready():
            if not self.land_oldest():
                text = f"the wait hangs: {waiting.reason()}"
                self.faults.add(Kind.DEADLOCK, text, waiting.place, *self.name_lane(0, waiting.lane))
                raise BlockStopped

    def land_oldest(self) -> bool:
        """The oldest copy in flight lands; false if there is none."""
        if not self.flights:
            return False
        flight = self.flights.pop(0)
        for land in flight.landings:
            land(flight.lanes)
        flight.completed()
        return True

    def any_active(self) -> bool:
        return self.mask is None or bool(self.mask.any())

    def narrow(self, condition: Array) -> Array:
        """The active lanes for which the condition holds."""
        return condition if self.mask is None else self.mask & condition

    def issue(self, landing: Callable[[Array | None], None]) -> None:
        """An asynchronous copy of the active lanes begins."""
        self.issued.append(landing)
        if self.clocks is not None:
            clocks = self.clocks.issue_copies(active_warps(self))
            self.copied = clocks if self.copied is None else np.maximum(self.copied, clocks)

    def take_issued(self) -> tuple[list[Callable[[Array | None], None]], Array | None]:
        """The copies issued and in no group yet, and their clocks."""
        found = self.issued, self.copied
        self.issued, self.copied = [], None
        return found

    @contextmanager
    def copies_apart(self) -> Iterator[None]:
        """Around a tile copy: its barrier waits for its own copies, and those issued before it stay for their group.

        On sm_90 the copy unit copies the tile, and neither waits for copies of threads.
        """
        earlier, clocks = self.take_issued()
        yield
        self.issued = earlier + self.issued
        if clocks is not None:
            self.copied = clocks if self.copied is None else np.maximum(self.copied, clocks)

    def commit_copies(self) -> None:
        landings, clocks = self.take_issued()
        self.groups.append(CopyGroup(landings, self.mask, clocks))

    def wait_copies(self, still_pending: int) -> None:
        """Land all groups except each lane's newest `still_pending`."""
        newer: Any = 0
        waiting: list[CopyGroup] = []
        for group in reversed(self.groups):
            landed = _both(self.mask, _both(group.lanes, _as_mask(newer >= still_pending)))
            newer = newer + (1 if group.lanes is None else group.lanes)
            if landed is not None and not landed.any():
                waiting.append(group)
                continue
            for land in group.landings:
                land(landed)
            self.acquire(group.clocks, self.active())
            if landed is not None:
                rest = ~landed if group.lanes is None else group.lanes & ~landed
                if rest.any():
                    waiting.append(CopyGroup(group.landings, rest, group.clocks))
        self.groups = waiting[::-1]


def _as_mask(condition: bool | np.bool_ | Array) -> Array | None:
    """None if the condition holds for all lanes, an array otherwise."""
    if isinstance(condition, bool | np.bool_):
        return None if condition else np.zeros((1, 1), bool)
    return None if condition.all() else condition


def _both(left: Array | None, right: Array | None) -> Array | None:
    if left is None:
        return right
    return left if right is None else left & right


def merge(condition: Array, yes: SlotValue, no: SlotValue) -> SlotValue:
    """Per lane, `yes` where the condition holds and `no` elsewhere; for any value that a region can yield."""
    if condition.shape == (1, 1):
        return yes if condition[0, 0] else no
    if isinstance(yes, MemRef):
        return yes.merged(condition, no)
    if not isinstance(yes, np.ndarray):
        return yes
    return np.where(values.like_vector(condition, max(yes.ndim, condition.ndim)), yes, no)
