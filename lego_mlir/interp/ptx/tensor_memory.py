"""Tensor memory: 128 lanes by 512 columns of 32 bits for each block, which `tcgen05` instructions allocate and access.

    address    bits 16-31: lane    bits 0-15: column

A granule of the shadow is one column of 16 lanes, the least that a load or a product's rows take; whether a cell was
written is known for each. Loads and stores are those of `TENSOR_AGENT`, known after `tcgen05.wait`; products and copies
of `PRODUCT_AGENT`, which run in the order of their issue and are known to a thread that waits for a commit's mbarrier.

Between warps, `tcgen05.fence::before_thread_sync` and `::after_thread_sync` belong around the synchronisation, which is
checked where `Checks.tensor_fences` asks for it. `before` holds what some warp has published so, or by a commit, which
fences too; `after` what each warp knew at its last fence.
PTX ISA, "Tensor Memory", "Memory Consistency Model for 5th generation of TensorCore operations".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import PtxMachine
from lego_mlir.interp.report import Kind
from lego_mlir.interp.shared_shadow import AGENT_NAMES, PRODUCT_AGENT, WARP_AGENT, Conflict, ShadowAccess, SharedShadow

LANES: Final = 128
COLUMNS: Final = 512
GRANULE_LANES: Final = 16
GRANULES: Final = LANES // GRANULE_LANES * COLUMNS
LEAST_COLUMNS: Final = 32


@dataclass(frozen=True, slots=True)
class TensorCells:
    """Cells of one block's tensor memory; `lanes` and `columns` broadcast together."""

    slot: int
    lanes: IntArray
    columns: IntArray

    @staticmethod
    def at(slot: int, address: int, lanes: IntArray, columns: IntArray) -> TensorCells:
        """The cells at offsets from an address."""
        return TensorCells(slot, (address >> 16) + lanes, (address & 0xFFFF) + columns)

    def flat(self) -> tuple[IntArray, IntArray]:
        lanes, columns = np.broadcast_arrays(self.lanes, self.columns)
        return lanes.reshape(-1), columns.reshape(-1)


@dataclass(frozen=True, slots=True)
class TensorMemoryAccess:
    """Who accesses: a lane of a gang, for faults, its unit with its clock, and the instruction."""

    gang: Gang
    lane: int
    unit: int
    clock: int
    line: int
    what: str

    @property
    def warp(self) -> int:
        return int(self.gang.lane_warp[self.lane])


@dataclass(eq=False, slots=True)
class TensorAllocation:
    """Columns of a block: the first, how many, and the line of the allocation."""

    start: int
    columns: int
    line: int


@dataclass(eq=False)
class TensorMemory:
    """The tensor memory of all resident blocks, its allocations, and its shadow."""

    machine: PtxMachine
    allocations: dict[int, list[TensorAllocation]] = field(default_factory=dict)
    relinquished: set[int] = field(default_factory=set)
    waiting: list[Gang] = field(default_factory=list)

    def __post_init__(self) -> None:
        machine = self.machine
        slots, (warps, agents) = len(machine.blocks), machine.clocks.known.shape
        self.data = np.zeros((slots, LANES, COLUMNS), np.uint32)
        self.written = np.zeros((slots, LANES, COLUMNS), np.bool_)
        self.allocated = np.zeros((slots, COLUMNS), np.bool_)
        self.shadow = SharedShadow(slots * GRANULES, 1, agents, machine.shape.units)
        self.before = np.zeros((slots // machine.shape.cluster_blocks, agents), np.int64)
        self.after = np.zeros((warps, agents), np.int64)
        machine.exit_checks.append(self._check_exit)

    # --- allocation ---------------------------------------------------------------------------------------------

    def allocate(self, slot: int, columns: int, line: int) -> int | None:
        """The first column of a new allocation, or None where there is no room now."""
        free = ~self.allocated[slot]
        for start in range(0, COLUMNS, columns):
            if free[start : start + columns].all():
                break
        else:
            return None
        part = slice(start, start + columns)
        self.allocated[slot, part], self.written[slot, :, part] = True, False
        granules = self._granules(slot, np.arange(0, LANES, GRANULE_LANES)[:, None], np.arange(start, start + columns))
        self.shadow.written[granules] = 0
        self.shadow.reads[granules] = 0
        self.allocations.setdefault(slot, []).append(TensorAllocation(start, columns, line))
        return start

    def free(self, access: TensorMemoryAccess, slot: int, address: int, columns: int) -> None:
        """Free what was allocated; every access of it must be known to the warp."""
        found = [a for a in self.allocations.get(slot, []) if a.start == address and a.columns == columns]
        if not found:
            message = f"{columns} columns at tensor memory address {address:#x} are freed, which were not allocated so"
            self.misused(access, message)
            return
        cells = TensorCells(slot, np.arange(LANES)[:, None], address + np.arange(columns))
        self._order(access, cells, writes=True)
        self.allocations[slot].remove(found[0])
        self.allocated[slot, address : address + columns] = False
        waiting, self.waiting = self.waiting, []
        for gang in waiting:
            self.machine.wake(gang)

    def misused(self, access: TensorMemoryAccess, message: str) -> None:
        self.machine.fault(Kind.TENSOR_MEMORY, message, access.gang, access.lane, access.line)

    def _check_exit(self, slot: int, _line: int) -> None:
        for left in self.allocations.pop(slot, []):
            message = f"{left.columns} columns of tensor memory are not freed when the block ends; add tcgen05.dealloc"
            self.machine.fault_of_block(Kind.LEAK, message, slot, left.line)

    # --- accesses -----------------------------------------------------------------------------------------------

    def enter(
        self, access: TensorMemoryAccess, cells: TensorCells, *, writes: bool, needs_written: bool = True
    ) -> bool:
        """Record an access and report its faults; False where it is outside of what is allocated."""
        lanes, columns = cells.flat()
        inside = (lanes < LANES) & (columns < COLUMNS)
        inside[inside] &= self.allocated[cells.slot, columns[inside]]
        if not inside.all():
            first = int(np.argmin(inside))
            message = (
                f"{access.what} accesses lane {int(lanes[first])}, column {int(columns[first])} of tensor memory, "
                "which is not allocated"
            )
            count = int((~inside).sum())
            self.machine.fault(Kind.OUT_OF_BOUNDS, message, access.gang, access.lane, access.line, count=count)
            return False
        if not writes and needs_written:
            missing = ~self.written[cells.slot, lanes, columns]
            if missing.any():
                first = int(np.argmax(missing))
                message = (
                    f"{access.what} reads lane {int(lanes[first])}, column {int(columns[first])} of tensor memory, "
                    "which was never written"
                )
                count = int(missing.sum())
                self.machine.fault(Kind.UNINITIALISED, message, access.gang, access.lane, access.line, count=count)
        self._order(access, cells, writes=writes)
        if writes:
            self.written[cells.slot, lanes, columns] = True
        return True

    def _granules(self, slot: int, lanes: IntArray, columns: IntArray) -> IntArray:
        found: IntArray = (slot * (LANES // GRANULE_LANES) + lanes // GRANULE_LANES) * COLUMNS + columns
        return found

    def _order(self, access: TensorMemoryAccess, cells: TensorCells, *, writes: bool) -> None:
        """Report an access that nothing orders with an earlier one."""
        clocks, warp = self.machine.clocks, access.warp
        agent = np.array([int(clocks.first_agent[warp]) + access.unit])
        granules = np.unique(self._granules(cells.slot, cells.lanes, cells.columns))
        known = self._known(access)
        fenced = known if access.unit == WARP_AGENT else self._fenced(known, warp)
        row = ShadowAccess(granules, 1, agent, np.array([access.clock]), fenced, access.line)
        self._report(access, self.shadow.write(row) if writes else self.shadow.read(row), known[0], writes)

    def _known(self, access: TensorMemoryAccess) -> Array:
        """(1, agents): the clocks that an access may rely on. Products and copies run in order."""
        clocks, warp = self.machine.clocks, access.warp
        known = clocks.known[[warp]]
        if access.unit == PRODUCT_AGENT:
            known[0, int(clocks.first_agent[warp]) + PRODUCT_AGENT] = clocks.issued[warp, PRODUCT_AGENT]
        return known

    def _fenced(self, known: Array, warp: int) -> Array:
        """Of other warps, only what was published and taken by fences."""
        machine = self.machine
        if not machine.checks.tensor_fences:
            return known
        first = int(machine.clocks.first_agent[warp])
        own = np.zeros(known.shape[1], np.bool_)
        own[first : first + machine.shape.units] = True
        fenced = np.minimum(self.after[warp], self.before[self._cluster(warp)])
        return np.where(own, known, np.minimum(known, fenced))

    def _report(self, access: TensorMemoryAccess, conflict: Conflict | None, known: Array, writes: bool) -> None:
        if conflict is None:
            return
        what = f"{access.what}'s {'write' if writes else 'read'} of tensor memory"
        earlier = (
            f"the {'write' if conflict.written else 'read'} of {AGENT_NAMES[conflict.unit]} at line {conflict.line}"
        )
        if known[conflict.agent] >= conflict.clock:
            kind, why = (
                Kind.UNFENCED,
                "tcgen05.fence::before_thread_sync and ::after_thread_sync belong between the warps",
            )
            message = f"{what} follows {earlier} of another warp without fences: {why}"
        else:
            kind, message = Kind.PENDING, f"{what} races with {earlier}, whose completion was not waited for"
        self.machine.fault(
            kind, message, access.gang, access.lane, access.line, other=conflict.line, count=conflict.rows
        )

    # --- fences -------------------------------------------------------------------------------------------------

    def _cluster(self, warp: int) -> int:
        return int(self.machine.slot_of_warp[warp]) // self.machine.shape.cluster_blocks

    def publish(self, warp: int, known: Array) -> None:
        """fence::before_thread_sync, or a commit: what is known so far is ordered before the synchronisation."""
        row = self.before[self._cluster(warp)]
        np.maximum(row, known, out=row)

    def take(self, warp: int) -> None:
        """fence::after_thread_sync: what the warp has learned is ordered before its next accesses."""
        self.after[warp] = self.machine.clocks.known[warp]


def tensor_memory(machine: PtxMachine) -> TensorMemory:
    """The tensor memory of the resident blocks."""
    found = machine.units.get("tensor memory")
    if found is None:
        found = machine.units["tensor memory"] = TensorMemory(machine)
    assert isinstance(found, TensorMemory)
    return found
