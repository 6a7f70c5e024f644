"""The state of the blocks that are resident together, and their accesses to memory, checked.

A resident warp has a number: `slot * warps_per_block + warp`, where a slot holds one block; the blocks of a cluster are
in neighbouring slots, in order of rank. Shared memory is one array of bytes for all slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.faults import Faults
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.address_spaces import GlobalMemory, Located
from lego_mlir.interp.ptx.checks import DEFAULT, Checks
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.global_shadow import GlobalRequest
from lego_mlir.interp.ptx.request_counts import RequestCounts
from lego_mlir.interp.ptx.warp_shadow import WarpShadow
from lego_mlir.interp.report import Kind, SourceLocation
from lego_mlir.interp.shared_shadow import (
    AGENT_NAMES,
    UNITS,
    WARP_AGENT,
    WGMMA_AGENT,
    Conflict,
    ShadowAccess,
    SharedShadow,
    VectorClocks,
)

if TYPE_CHECKING:
    from lego_mlir.interp.barrier_phases import PhaseBarrier
    from lego_mlir.interp.ptx.line_mix import InstructionMix

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A variable of shared memory: its first byte in a block's memory, and its size (0: to the end)."""

    name: str
    start: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """Extents of a launch, the bytes of shared and local memory, and the granule in which races are detected.

    `units` are the agents of a warp: itself and its asynchronous units.
    """

    grid: Dim3
    block: Dim3
    cluster: Dim3
    shared_bytes: int
    dynamic_shared: int
    local_bytes: int
    granule: int
    shared_arrays: tuple[SharedArray, ...] = ()
    units: int = UNITS

    def shared_array(self, byte: int) -> SharedArray | None:
        """The variable that has a byte of a block's shared memory."""
        for array in self.shared_arrays:
            if array.start <= byte < (array.start + array.nbytes if array.nbytes else self.shared_bytes):
                return array
        return None

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP)

    @property
    def cluster_blocks(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


def block_numbers(blocks: Array, grid: Dim3) -> IntArray:
    """The numbers in the grid of blocks at places (blocks, 3)."""
    numbers: IntArray = (blocks @ np.array([1, grid[0], grid[0] * grid[1]])).astype(np.int32)
    return numbers


def _rounded_apart(stored: Array, rows: Array) -> bool:
    """Whether rows of f32 or f64 differ by rounding at most, of sums in two orders."""
    return any(_close(stored.view(kind), rows.view(kind)) for kind in ("f4", "f8") if not rows.shape[1] % int(kind[1]))


def _close(x: Array, y: Array) -> bool:
    finite = np.abs(y[np.isfinite(y)])
    bound = 64 * float(np.finfo(y.dtype).eps) * float(finite.max(initial=0.0))
    return bool(np.allclose(x, y, rtol=0, atol=bound, equal_nan=True))


@dataclass(eq=False, slots=True)
class AsyncOperation:
    """An operation in flight: `land` performs it; the scheduler chooses when."""

    land: Callable[[], None]
    line: int
    text: str


@dataclass(eq=False)
class PtxMachine:
    """Resident blocks: identity of warps and lanes, memory, vector clocks, and what is in flight."""

    shape: LaunchShape
    blocks: Array  # (slots, 3): ctaid
    globals: GlobalMemory
    parameters: bytes
    faults: Faults
    source: str
    random: np.random.Generator
    checks: Checks = DEFAULT

    def __post_init__(self) -> None:
        self.time = 0  # of clocks
        self.has_begun = False  # whether its first blocks have run
        self.previous_runs = False  # a kernel before this one on the stream, which began early
        self.counts = RequestCounts() if self.checks.counts else None
        self.mix: InstructionMix | None = None  # set before the instructions are decoded
        self.parameter_bytes = np.zeros(spaces.rounded(len(self.parameters), 16), np.uint8)
        self.parameter_bytes[: len(self.parameters)] = np.frombuffer(self.parameters, np.uint8)
        self.begin(self.blocks)

    def begin(self, blocks: Array) -> None:
        """Make other blocks resident, at their first instruction."""
        shape, self.blocks = self.shape, blocks
        slots, warps = len(blocks), shape.warps
        self.block_numbers = block_numbers(blocks, shape.grid)
        self.slot_of_warp = np.repeat(np.arange(slots), warps)
        lanes = np.arange(warps * WARP)
        x, y, _ = shape.block
        tid = np.stack([lanes % x, lanes // x % y, lanes // (x * y)])
        self.tid = np.tile(tid, (1, slots)).astype(np.uint32).reshape(3, slots * warps, WARP)
        self.exited = np.tile(lanes >= shape.threads, slots).reshape(-1, WARP)
        self.stride = spaces.rounded(shape.shared_bytes, 256)
        self.shared = np.zeros(slots * self.stride, np.uint8)
        self.local = np.zeros((slots * warps * WARP) * spaces.rounded(shape.local_bytes, 16), np.uint8)
        self.local_written = np.zeros(len(self.local), np.bool_)
        per_cluster = shape.cluster_blocks * warps
        self.clocks = VectorClocks(slots * warps, per_cluster, shape.units)
        self.shadow = SharedShadow(len(self.shared), shape.granule, self.clocks.known.shape[1], shape.units)
        self.lanes = WarpShadow(len(self.shared), shape.granule) if self.checks.lanes else None
        self.in_flight: list[AsyncOperation] = []
        self.triggered: set[int] = set()  # slots of blocks that let the next kernel begin
        self.runnable: list[Gang] = []
        self.parked: list[Gang] = []
        self.units: dict[str, object] = {}  # the state of barriers and units, by their module's name
        self.exit_checks: list[Callable[[int, int], None]] = []  # of a slot whose block ends, at a line
        self.stopped = False  # an assertion failed: the launch ends
        if self.globals.order is not None:
            self.globals.order.begin()
        self.remote: dict[int, dict[int, tuple[int, int]]] = {}
        self.progress, self.progress_at_expiry, self.expiries = 0, -1, 0
        self.changes = 0  # stores and updates that changed a value

    def states(self, unit: str) -> dict[Any, Any]:
        """The states of a kind of barrier or unit, by what its module keeps them for."""
        found = self.units.setdefault(unit, {})
        assert isinstance(found, dict)
        return found

    @property
    def allows_regions(self) -> bool:
        """Whether the checks of the launch are those that compiled regions make."""
        checks = self.checks
        others = checks.counts or checks.nonfinite or checks.overflow or checks.lanes
        return checks.compiled and not others and self.shape.cluster_blocks == 1 and self.globals.heap is None

    # --- identity -----------------------------------------------------------------------------------------------

    def slots(self, gang: Gang) -> IntArray:
        """The slot of each lane's block."""
        found: IntArray = self.slot_of_warp[gang.lane_warp]
        return found

    def rank(self, slot: int) -> int:
        """The rank of a slot's block in its cluster."""
        return slot % self.shape.cluster_blocks

    def thread(self, gang: Gang, lane: int) -> tuple[Dim3, Dim3]:
        """Block and thread of a lane of a gang."""
        warp = int(gang.lane_warp[lane])
        x, y, z = (int(n) for n in self.tid[:, warp, lane % WARP])
        return self.block_of(int(self.slot_of_warp[warp])), (x, y, z)

    def block_of(self, slot: int) -> Dim3:
        x, y, z = (int(n) for n in self.blocks[slot])
        return x, y, z

    # --- faults -------------------------------------------------------------------------------------------------

    def fault(
        self, kind: Kind, message: str, gang: Gang, lane: int, line: int, *, other: int = 0, count: int = 1,
        buffer: str = "",
    ) -> None:  # fmt: skip
        block, thread = self.thread(gang, lane)
        at, place = SourceLocation(self.source, other) if other else None, SourceLocation(self.source, line)
        self.faults.add(kind, message, place, block, thread, other=at, count=count, buffer=buffer)

    def fault_of_block(self, kind: Kind, message: str, slot: int, line: int, *, other: int = 0) -> None:
        """A fault of an asynchronous unit, which has no thread."""
        at = SourceLocation(self.source, other) if other else None
        self.faults.add(kind, message, SourceLocation(self.source, line), self.block_of(slot), (0, 0, 0), other=at)

    def report_conflict(self, conflict: Conflict | None, what: str, gang: Gang, lanes: IntArray, line: int) -> None:
        """The race of an access with an earlier one, if any."""
        if conflict is None:
            return
        did = "write" if conflict.written else "read"
        by = AGENT_NAMES[conflict.unit]
        kind = Kind.RACE
        if conflict.unit == WARP_AGENT:
            earlier = f"the {did} at line {conflict.line} by another warp, with no barrier between"
        else:
            lacks = "no wait and barrier order before it" if conflict.unit == WGMMA_AGENT else "was not waited for"
            earlier = f"the {did} of {by} at line {conflict.line}, whose completion {lacks}"
            kind = Kind.PENDING
        lane = int(lanes[min(conflict.row, len(lanes) - 1)]) if len(lanes) else 0
        self.fault(kind, f"{what} races with {earlier}", gang, lane, line, other=conflict.line, count=conflict.rows)

    def report_proxy_conflict(self, conflict: Conflict | None, what: str, gang: Gang, lane: int, line: int) -> None:
        """The conflict of an access through the asynchronous proxy: a write that is known but not fenced, or a race."""
        if conflict is None:
            return
        warp = int(gang.lane_warp[lane])
        if self.clocks.generic[conflict.agent] and self.clocks.known[warp, conflict.agent] >= conflict.clock:
            message = (
                f"{what} is through the asynchronous proxy, and the write at line {conflict.line} was not followed by "
                "fence.proxy.async"
            )
            self.fault(Kind.UNFENCED, message, gang, lane, line, other=conflict.line, count=conflict.rows)
            return
        self.report_conflict(conflict, what, gang, np.array([lane]), line)

    def note_remote(self, gang: Gang, place: Located, line: int) -> None:
        """Remember accesses to other blocks' shared memory: those blocks must not exit before."""
        if self.shape.cluster_blocks == 1:
            return
        slots = place.at // self.stride
        warps = gang.lane_warp[place.lanes]
        for slot, warp in {(int(s), int(w)) for s, w in zip(slots, warps, strict=True)}:
            if slot != int(self.slot_of_warp[warp]):
                lane = int(place.lanes[int(np.argmax(warps == warp))])
                agent = int(self.clocks.first_agent[warp])
                self.note_remote_access(gang, lane, slot, (agent, int(self.clocks.known[warp, agent])), line)

    def note_remote_access(self, gang: Gang, lane: int, slot: int, event: tuple[int, int], line: int) -> None:
        """One access to a block's shared memory from another block, at an agent's clock."""
        agent, clock = event
        warps = self.shape.warps
        if self.exited[slot * warps : (slot + 1) * warps].all():
            message = f"an access to the shared memory of block {self.block_of(slot)}, which has exited"
            self.fault(Kind.OUT_OF_BOUNDS, message, gang, lane, line)
        self.remote.setdefault(slot, {})[agent] = (clock, line)

    def check_exit(self, slot: int, line: int) -> None:
        """A block ends: its warps must know of every access of other blocks to its shared memory."""
        warps = self.shape.warps
        known = self.clocks.known[slot * warps : (slot + 1) * warps].max(axis=0)
        for agent, (clock, other) in self.remote.get(slot, {}).items():
            if clock > known[agent]:
                message = (
                    f"the block may exit before the access of another block to its shared memory at line {other}; "
                    "end with barrier.cluster.arrive and wait"
                )
                self.fault_of_block(Kind.RACE, message, slot, line, other=other)
        for check in self.exit_checks:
            check(slot, line)

    # --- addresses ----------------------------------------------------------------------------------------------

    def locate(self, gang: Gang, space: str, address: IntArray, size: int, line: int) -> list[Located]:
        """Where the active lanes' bytes are: misaligned and out-of-bounds lanes are reported and left out."""
        lanes = gang.live()
        if gang.active is not None:
            address = address[lanes]
        bad = address % size != 0
        if bad.any():
            first = int(np.argmax(bad))
            message = f"address {int(address[first]):#x} is not a multiple of the access's {size} bytes"
            self.fault(Kind.MISALIGNED, message, gang, int(lanes[first]), line, count=int(bad.sum()))
            lanes, address = lanes[~bad], address[~bad]
        if space:
            return [self._located(gang, space, address, lanes, size, line)]
        found = []
        for window in (spaces.SHARED_WINDOW, spaces.LOCAL_WINDOW, spaces.PARAM_WINDOW, 0):
            inside = (address & window) != 0 if window else address < spaces.SHARED_WINDOW
            if inside.any():
                name = next(n for n, w in spaces.WINDOWS.items() if w == window)
                part = address[inside] - window
                found.append(self._located(gang, name, part, lanes[inside], size, line))
        return found

    def _located(self, gang: Gang, space: str, address: IntArray, lanes: IntArray, size: int, line: int) -> Located:
        if space == "shared":
            arena, at, fits = self._in_shared(gang, address, lanes, size)
        elif space == "local":
            stride = spaces.rounded(self.shape.local_bytes, 16)
            thread = gang.lane_warp[lanes] * WARP + lanes % WARP
            arena, at, fits = self.local, thread * stride + address, (address >= 0) & (address + size <= stride)
        elif space == "param":
            arena = self.parameter_bytes
            at, fits = address, (address >= 0) & (address + size <= len(self.parameters))
        else:
            if len(lanes):
                self.check_previous_ended(gang, int(lanes[0]), line)
            arena, at = self.globals.arena, address - spaces.GLOBAL_BASE
            fits = self.globals.inside(at, size)
        if not fits.all():
            first = int(np.argmin(fits))
            where, buffer = self._describe(space, int(address[first])), ""
            if space in ("global", "const") and (near := self.globals.owner(int(at[first]))) is not None:
                buffer = near.name
            message = f"{size} bytes at {where}"
            count, lane = int((~fits).sum()), int(lanes[first])
            self.fault(Kind.OUT_OF_BOUNDS, message, gang, lane, line, count=count, buffer=buffer)
            at, lanes = at[fits], lanes[fits]
        return Located(space, arena, at, lanes)

    def _in_shared(self, gang: Gang, address: IntArray, lanes: IntArray, size: int) -> tuple[Array, IntArray, Array]:
        """Shared addresses name a block of the cluster by its rank; rank and offset must exist."""
        rank, offset = address >> spaces.RANK_SHIFT, address & spaces.OFFSET_MASK
        slot = self.slot_of_warp[gang.lane_warp[lanes]]
        peers = self.shape.cluster_blocks
        at = (slot - slot % peers + rank) * self.stride + offset
        fits = (rank >= 0) & (rank < peers) & (offset >= spaces.SHARED_BASE)
        fits &= offset + size <= self.shape.shared_bytes
        return self.shared, at, fits

    def _describe(self, space: str, address: int) -> str:
        if space == "shared":
            rank, offset = address >> spaces.RANK_SHIFT, address & spaces.OFFSET_MASK
            last = self.shape.shared_arrays[-1] if self.shape.shared_arrays else None
            after = f", byte {offset - last.start} of {last.name}" if last is not None and offset >= last.start else ""
            return (
                f"shared address {address:#x} (rank {rank}, byte {offset}{after}) is outside: the block has bytes "
                f"{spaces.SHARED_BASE} to {self.shape.shared_bytes}, and its cluster {self.shape.cluster_blocks} blocks"
            )
        if space in ("global", "const"):
            return self.globals.describe_outside(address - spaces.GLOBAL_BASE)
        return f"{space} address {address:#x} is outside"

    # --- loads and stores ---------------------------------------------------------------------------------------

    def load(self, gang: Gang, space: str, address: IntArray, size: int, line: int, strong: bool = False) -> Array:
        """(lanes, size) bytes; zeros for lanes that are inactive or out of bounds."""
        out = np.zeros((gang.lanes, size), np.uint8)
        for place in self.locate(gang, space, address, size, line):
            if not len(place.lanes):
                continue
            if self.counts is not None:
                self.counts.count(self, gang, place, size, line, "read")
            out[place.lanes] = spaces.gather(place.arena, place.at, size)
            match place.space:
                case "global":
                    self.check_global(gang, place, size, line, written=False, strong=strong)
                    if self.globals.unwritten:
                        self._check_unwritten(gang, place, line)
                case "shared":
                    self.check_shared_read(gang, place, size, line)
                case "local":
                    self._check_local_read(gang, place, size, line)
        return out

    def store(self, gang: Gang, space: str, address: IntArray, data: Array, line: int, strong: bool = False) -> None:
        """Store a row of bytes per lane."""
        size = data.shape[1]
        for place in self.locate(gang, space, address, size, line):
            if not len(place.lanes):
                continue
            if place.space in ("param", "const"):
                what = "a kernel's parameter" if place.space == "param" else "constant memory"
                self.fault(Kind.OUT_OF_BOUNDS, f"a store to {what}", gang, int(place.lanes[0]), line)
                continue
            if self.counts is not None:
                self.counts.count(self, gang, place, size, line, "write")
            self._store_rows(gang, place, data[place.lanes], line, strong)

    def _store_rows(self, gang: Gang, place: Located, rows: Array, line: int, strong: bool) -> None:
        size = rows.shape[1]
        if place.space == "local":
            spaces.scatter(place.arena, place.at, rows)
            self.local_written[place.at[:, None] + np.arange(size)] = True
            return
        before = spaces.gather(place.arena, place.at, size)
        spaces.scatter(place.arena, place.at, rows)
        after = spaces.gather(place.arena, place.at, size)
        self.changes += not np.array_equal(before, after)
        lost = (after != rows).any(axis=1)
        if self.checks.replicated and place.space == "shared" and _rounded_apart(after, rows):
            rows = after
        elif lost.any():
            row = int(np.argmax(lost))
            element = "one shared address" if place.space == "shared" else self.globals.element(int(place.at[row]))
            message = f"different values are stored to {element} in one instruction"
            self.fault(Kind.RACE, message, gang, int(place.lanes[row]), line, count=int(lost.sum()))
            if place.space == "global":
                return
        changed = (before != rows).any(axis=1)  # rows that agree with what was there race with no earlier write
        if place.space == "global":
            self.check_global(gang, place, size, line, written=True, changed=changed, strong=strong)
        else:
            self.check_shared_write(gang, place, size, line, changed=changed)

    def access(self, gang: Gang, place: Located, size: int, line: int) -> ShadowAccess:
        """The shared access of a gang's lanes, for the shadow."""
        warps = gang.lane_warp[place.lanes]
        clocks = self.clocks
        by = warps[:1] if len(gang.warps) == 1 else warps
        return ShadowAccess(place.at, size, clocks.first_agent[by], clocks.clocks(by), clocks.before_stores(by), line)

    def check_shared_read(self, gang: Gang, place: Located, size: int, line: int, *, atomic: bool = False) -> None:
        self.note_remote(gang, place, line)
        access = self.access(gang, place, size, line)
        missing = self.shadow.uninitialised(access)
        if len(missing):
            lane = int(place.lanes[missing[0]])
            offset = int(place.at[missing[0]]) % self.stride
            array = self.shape.shared_array(offset)
            where = f"byte {offset - array.start} of {array.name}" if array is not None else f"shared byte {offset}"
            message = f"{where} was never written"
            self.fault(Kind.UNINITIALISED, message, gang, lane, line, count=len(missing))
        conflict = self.shadow.read(access, atomic=atomic)
        self.report_conflict(conflict, "this read", gang, place.lanes, line)
        if not atomic:
            self._check_lanes(gang, place, size, line, written=False)

    def _check_lanes(
        self, gang: Gang, place: Located, size: int, line: int, *, written: bool, changed: Array | None = None
    ) -> None:
        """Report a race with another lane of the same warp."""
        if self.lanes is None:
            return
        warps = gang.lane_warp[place.lanes]
        clocks, lanes = self.clocks.clocks(warps), place.lanes % WARP
        found = self.lanes.access(place.at, size, warps, lanes, clocks, line, written=written, changed=changed)
        if found is not None:
            what, did = "write" if written else "read", "write" if found.written else "read"
            message = f"this {what} races with the {did} at line {found.line} by another lane of its warp, with no "
            message += "__syncwarp between"
            lane = int(place.lanes[found.row])
            self.fault(Kind.RACE, message, gang, lane, line, other=found.line, count=found.rows)

    def _check_unwritten(self, gang: Gang, place: Located, line: int) -> None:
        """Words that still hold what their allocation was filled with."""
        missing = place.arena.view(np.uint32)[place.at // 4] == spaces.UNWRITTEN
        if not missing.any():
            return
        ranges = np.array(self.globals.unwritten)
        missing &= ((place.at[:, None] >= ranges[:, 0]) & (place.at[:, None] < ranges[:, 1])).any(axis=1)
        if missing.any():
            row = int(np.argmax(missing))
            message = f"{self.globals.element(int(place.at[row]))} was never written"
            self.fault(Kind.UNINITIALISED, message, gang, int(place.lanes[row]), line, count=int(missing.sum()))

    def _check_local_read(self, gang: Gang, place: Located, size: int, line: int) -> None:
        """Local memory of which no byte was written: padding next to written bytes is no fault."""
        missing = ~self.local_written[place.at[:, None] + np.arange(size)].any(axis=1)
        if missing.any():
            lane = int(place.lanes[int(np.argmax(missing))])
            message = "local memory (an array or a variable of the thread) that was never written"
            self.fault(Kind.UNINITIALISED, message, gang, lane, line, count=int(missing.sum()))

    def check_shared_write(
        self, gang: Gang, place: Located, size: int, line: int, *, atomic: bool = False, changed: Array | None = None
    ) -> None:
        """Record a write to shared memory; report a race. `changed`: the rows that write another value than before."""
        self.note_remote(gang, place, line)
        conflict = self.shadow.write(self.access(gang, place, size, line), atomic=atomic, changed=changed)
        self.report_conflict(conflict, "this write", gang, place.lanes, line)
        if not atomic:
            self._check_lanes(gang, place, size, line, written=True, changed=changed)

    def check_global(
        self, gang: Gang, place: Located, size: int, line: int, *, written: bool, changed: Array | None = None,
        strong: bool = False, what: str = "",
    ) -> None:  # fmt: skip
        """Record accesses to global memory; report a race with an earlier one of another warp or block."""
        shadow, order, clocks = self.globals.shadow, self.globals.order, self.clocks
        if shadow is None:
            return
        warps = gang.lane_warp[place.lanes]
        access = GlobalRequest(
            warps, self.block_numbers[self.slot_of_warp[warps]], clocks.first_agent[warps], clocks.clocks(warps),
            clocks.known, line,
        )  # fmt: skip
        knows = None if order is None else lambda row, *event: order.knows(int(warps[row]), *event)
        for step in range(max(size // shadow.granule, 1)):
            granules = place.at // shadow.granule + step
            found = shadow.access(granules, access, written=written, record=not strong, knows=knows, changed=changed)
            if found is None:
                continue
            what, did = what or ("write" if written else "read"), "write" if found.written else "read"
            by = "of another block" if found.across_blocks else "by another warp, with no barrier between"
            element = self.globals.element(int(place.at[found.row]) + step * shadow.granule)
            message = f"this {what} of {element} races with the {did} at line {found.line} {by}"
            lane = int(place.lanes[found.row])
            self.fault(Kind.RACE, message, gang, lane, line, other=found.line, count=found.rows)
            return

    # --- scheduling ---------------------------------------------------------------------------------------------

    def later(self) -> int:
        """What a clock shows now: more than before, by a random amount."""
        self.time += int(self.random.integers(1, MOST_CYCLES))
        return self.time

    def check_previous_ended(self, gang: Gang, lane: int, line: int) -> None:
        """A kernel that begins early must not touch global memory while the previous one runs."""
        if self.previous_runs:
            message = "global memory is accessed while the kernel before it on the stream may still run, with no "
            message += "griddepcontrol.wait before"
            self.fault(Kind.RACE, message, gang, lane, line)

    def park(self, gang: Gang, waits: str) -> str:
        """Stop a gang until `wake`; what it waits for is shown if it never comes."""
        gang.state, gang.waits = "parked", waits
        self.parked.append(gang)
        return PARKED

    def wake(self, gang: Gang) -> None:
        """Let a parked gang continue."""
        if gang.state == "parked":
            self.parked.remove(gang)
            gang.state, gang.waits = "runnable", ""
            self.runnable.append(gang)

    def wake_all(self, barrier: PhaseBarrier) -> None:
        """A phase of a barrier is over: those who wait for it continue."""
        waiting, barrier.waiting = barrier.waiting, []
        for gang in waiting:
            self.wake(gang)


MOST_CYCLES: Final = 1 << 20
"""Between two readings of a clock: loops that wait for a second end soon, and those that give up after one do not."""
PARKED: Final = "parked"
YIELD: Final = "yield"
EXIT: Final = "exit"


@dataclass(frozen=True, slots=True)
class GangDivergence:
    """A gang's lanes go two ways: `taken` to one instruction, the others to another, and meet at `join`."""

    taken: Array
    to: int
    otherwise: int
    join: int | None


Outcome = str | GangDivergence | None
"""What an instruction returns: None to continue at the gang's `pc`."""
Step = Callable[[Gang], Outcome]
