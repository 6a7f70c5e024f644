"""`nvgpu`: barriers in shared memory (`mbarrier`), which count arrivals and complete one phase after another.

A barrier is initialised with the number of arrivals of a phase. The last arrival completes the phase and starts the
next one. A token names the phase in which its thread arrived; a parity names the last phase that was even (0) or odd
(1), as PTX's `mbarrier.test_wait` does. (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".)

All threads run each operation together, so a wait finds what arrived before it in the text. A wait for a phase that is
not complete then would hang, which is a fault: arrivals in a branch that runs later are not seen. A completed wait
orders all earlier accesses of its block, as a barrier does; races with threads that did not arrive are missed.

In a kernel with warp roles, which run concurrently, a role that waits hands control to the others, and the vector
clocks of `happens_before` order what the warps that arrived did, and the copies that landed, before what follows the
wait. A phase then also waits for the asynchronous copies whose completion it was given (`cp.async.mbarrier.arrive`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import cluster_blocks, values
from lego_mlir.interp.happens_before import active_warps
from lego_mlir.interp.machine import CopiesInFlight, Machine
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.report import Kind, SourceLocation
from lego_mlir.interp.role_scheduler import Waiting
from lego_mlir.interp.values import Array

NEVER = -1


@dataclass(frozen=True, slots=True)
class PhaseCopy:
    """A copy whose landing a phase waits for: the agent and clock of its issue, and how a fault names it."""

    agent: int
    clock: int
    report: Callable[[str], None]


@dataclass(slots=True)
class Barriers:
    """The barriers of a group, one row for each block: arrivals of a phase, those still missing, completed phases."""

    expected: Array
    missing: Array
    phase: Array
    initialised_at: Array  # the epoch, or NEVER
    initialised_by: Array  # the thread
    flying: Array  # asynchronous copies that the phase waits for
    name: str = ""
    since: dict[int, tuple[int, int]] = field(default_factory=dict)  # the agent and clock of an initialisation
    joint: dict[tuple[int, int], Array] = field(default_factory=dict)  # what those who arrived in the phase know
    done: dict[tuple[int, int], Array] = field(default_factory=dict)  # what a wait that succeeds learns
    arrived: dict[tuple[int, int], Array] = field(default_factory=dict)  # what the arrivals of the phase know
    copies: dict[tuple[int, int], list[PhaseCopy]] = field(default_factory=dict)

    def advance(self, row: int, number: int) -> None:
        """End a phase whose arrivals and copies are all there."""
        if self.missing[row, number] == 0 and self.flying[row, number] == 0:
            self.phase[row, number] += 1
            self.missing[row, number] = self.expected[row, number]
            self._require_issued(row, number)
            if (joint := self.joint.pop((row, number), None)) is not None:
                known = self.done.get((row, number))
                self.done[row, number] = joint if known is None else np.maximum(known, joint)

    def _require_issued(self, row: int, number: int) -> None:
        """Report a copy that no arrival of its phase follows: the phase could have ended before it was issued."""
        arrived = self.arrived.pop((row, number), None)
        for copy in self.copies.pop((row, number), ()):
            if arrived is None or arrived[0, copy.agent] < copy.clock:
                copy.report(
                    f"no arrival of phase {int(self.phase[row, number]) - 1} of barrier {number} follows this copy, so "
                    "that the phase may end before the copy is issued; arrive after the copy at the barriers of all "
                    "blocks that it writes to, and count these arrivals"
                )

    def arrive(self, row: int, number: int, joint: Array) -> None:
        """Learn what those know who arrive."""
        self.learn(row, number, joint)
        known = self.arrived.get((row, number))
        self.arrived[row, number] = joint if known is None else np.maximum(known, joint)

    def learn(self, row: int, number: int, joint: Array | None) -> None:
        if joint is not None:
            known = self.joint.get((row, number))
            self.joint[row, number] = joint if known is None else np.maximum(known, joint)


@dataclass(frozen=True, slots=True)
class PeerBarriers:
    """The same group in the block of the cluster with this rank, for each lane."""

    own: Barriers
    rank: Array

    def groups(self, m: Machine, active: Array) -> Iterator[tuple[int, Barriers | None, Array]]:
        """Each block that some lane names: its rank, its group if it has made one, and these lanes."""
        assert m.cluster_blocks is not None
        ranks = np.broadcast_to(self.rank, m.lanes)
        for rank in np.unique(ranks[active]):
            found = m.cluster_blocks.machines[rank].barriers.get(self.own.name)
            yield int(rank), found, active & (ranks == rank)


@dataclass(frozen=True, slots=True)
class BarrierAddress:
    """A barrier of a group, for each lane."""

    group: Barriers | PeerBarriers
    index: Array


@implements("nvgpu.mbarrier.create")
def create(op: Operation) -> Step:
    """A group of barriers in shared memory, the same one each time that the operation runs."""
    found = re.search(r"num_barriers = (\d+)", str(op.result_type()))
    result, count = op.result, 1 if found is None else int(found[1])
    name = f"the mbarriers of {op.place}, value {result}"

    def step(m: Machine) -> None:
        if name not in m.barriers:
            shape = (m.blocks, count)
            m.barriers[name] = Barriers(
                expected=np.zeros(shape, np.int64), missing=np.zeros(shape, np.int64), phase=np.zeros(shape, np.int64),
                initialised_at=np.full(shape, NEVER), initialised_by=np.zeros(shape, np.int64),
                flying=np.zeros(shape, np.int64), name=name,
            )  # fmt: skip
        m.values[result] = m.barriers[name]

    return step


@implements("nvgpu.mbarrier.init")
def init(op: Operation) -> Step:
    """Set the number of arrivals of a phase, once for all threads of the block."""
    group, count, index, *predicate = op.operands

    def step(m: Machine) -> None:
        barriers: Barriers = m.values[group]
        active = _active(m, predicate)
        arrivals = np.broadcast_to(m.values[count], m.lanes)
        for row, number, thread in _first_of_each(m, active, m.values[index]):
            barriers.expected[row, number] = barriers.missing[row, number] = arrivals[row, thread]
            barriers.phase[row, number] = 0
            barriers.initialised_at[row, number] = _epoch(m)[row, thread]
            barriers.initialised_by[row, number] = thread
            if m.clocks is not None:
                barriers.since[number] = m.clocks.vector.now(m.first_warp + thread // WARP)

    return step


@implements("nvgpu.mbarrier.arrive", "nvgpu.mbarrier.arrive.nocomplete")
def arrive(op: Operation) -> Step:
    """Every active thread arrives, `count` times if given; the token is the phase before."""
    group, index, *count = op.operands
    result, place = op.result, op.place

    def step(m: Machine) -> None:
        barriers: Barriers | PeerBarriers = m.values[group]
        at = np.broadcast_to(m.values[index], m.lanes)
        times = np.broadcast_to(values.uniform(1) if not count else m.values[count[0]], m.lanes)
        if isinstance(barriers, PeerBarriers):
            m.values[result] = np.zeros(m.lanes, np.int64)  # an arrival at another block's barrier has no token
            for rank, there, lanes in barriers.groups(m, _active(m, ())):
                if _may_use(there, m, place, rank, at, lanes):
                    _arrive(m, place, there, at, times, lanes)
            return
        m.values[result] = np.take_along_axis(barriers.phase, at, axis=1)
        _arrive(m, place, barriers, at, times, _active(m, ()))

    return step


@implements("nvgpu.mbarrier.arrive.expect_tx")
def arrive_expect_tx(op: Operation) -> Step:
    """Arrive; bytes that a TMA copy must bring are not supported, because the copies are not."""
    group, expected, index, *predicate = op.operands
    place = op.place

    def step(m: Machine) -> None:
        active = _active(m, predicate)
        if (np.broadcast_to(m.values[expected], m.lanes)[active] != 0).any():
            op.fail("a barrier that waits for the bytes of a TMA copy is not supported, because the copies are not")
        at = np.broadcast_to(m.values[index], m.lanes)
        _arrive(m, place, m.values[group], at, np.ones(m.lanes, np.int64), active)

    return step


@implements("nvgpu.mbarrier.test.wait")
def test_wait(op: Operation) -> Step:
    """Whether the phase of the token is complete."""
    group, token, index = op.operands
    result, place = op.result, op.place

    def step(m: Machine) -> None:
        barriers: Barriers = m.values[group]
        at = np.broadcast_to(m.values[index], m.lanes)
        _require_initialised(m, place, barriers, at, _active(m, ()))
        done = np.take_along_axis(barriers.phase, at, axis=1) > m.values[token]
        m.order_blocks((done & _active(m, ())).any(axis=1, keepdims=True))
        m.values[result] = done

    return step


@implements("nvgpu.mbarrier.try_wait.parity")
def try_wait_parity(op: Operation) -> Step:
    """Wait until the phase of this parity is complete."""
    group, parity, _, index, *predicate = op.operands
    place = op.place

    def step(m: Machine) -> None:
        barriers: Barriers = m.values[group]
        active = _active(m, predicate)
        at = np.broadcast_to(m.values[index], m.lanes)
        _require_initialised(m, place, barriers, at, active)
        wanted = np.broadcast_to(m.values[parity], m.lanes)
        if m.clocks is not None:
            _wait(m, place, barriers, at, wanted, active)
            return
        phase = np.take_along_axis(barriers.phase, at, axis=1)
        hanging = active & (phase % 2 == wanted)
        if hanging.any():
            row, thread = (int(i[0]) for i in hanging.nonzero())
            number = int(at[row, thread])
            missing, expected = int(barriers.missing[row, number]), int(barriers.expected[row, number])
            text = (
                f"the wait hangs: {missing} of the {expected} arrivals of phase {int(phase[row, thread])} are missing"
            )
            m.faults.add(Kind.BARRIER, text, place, *m.name_lane(row, thread), count=int(hanging.sum()))
        m.order_blocks((active & ~hanging).any(axis=1, keepdims=True))

    return step


def _wait(m: Machine, place: SourceLocation, barriers: Barriers, at: Array, wanted: Array, active: Array) -> None:
    """Wait among roles; copies land when nothing else can go on."""

    def hanging() -> Array:
        return np.asarray(active & (np.take_along_axis(barriers.phase, at, axis=1) % 2 == wanted))

    def reason() -> str:
        row, thread = (int(i[0]) for i in hanging().nonzero())
        number = int(at[row, thread])
        missing, expected = int(barriers.missing[row, number]), int(barriers.expected[row, number])
        return (
            f"{missing} of the {expected} arrivals of phase {int(barriers.phase[row, number])} of barrier {number} are "
            "missing"
        )

    if hanging().any():
        lane = int(np.flatnonzero(hanging()[0])[0])
        m.wait_for(Waiting(lambda: not hanging().any(), place, reason, lane))
    for row, number, _ in _first_of_each(m, active, at):
        lanes = active & (np.arange(m.blocks)[:, None] == row) & (at == number)
        m.acquire(barriers.done.get((row, number)), lanes)


@implements("nvgpu.mbarrier.get")
def address(op: Operation) -> Step:
    """One barrier of a group."""
    group, index = op.operands
    result = op.result

    def step(m: Machine) -> None:
        m.values[result] = BarrierAddress(m.values[group], m.values[index])

    return step


@implements("nvvm.cp.async.mbarrier.arrive")
def copies_arrive(op: Operation) -> Step:
    """The phase of a barrier waits for the copies that the active threads have issued."""
    (pointer,), place = op.operands, op.place
    op.compiler.concurrent = True
    if op.flag("noinc"):
        op.fail("only the form without .noinc is supported, which counts no arrival")

    def step(m: Machine) -> None:
        given: BarrierAddress = m.values[pointer]
        active, at = m.active(), np.broadcast_to(given.index, m.lanes)
        landings, clocks = m.take_issued()
        if isinstance(given.group, PeerBarriers):
            groups = [
                (there, lanes)
                for rank, there, lanes in given.group.groups(m, active)
                if _may_use(there, m, place, rank, at, lanes)
            ]
        else:
            groups = [(given.group, active)]
            _require_initialised(m, place, given.group, at, active)
        used = [(one, row, number) for one, lanes in groups for row, number, _ in _first_of_each(m, lanes, at)]
        issue = _issue(m, place, active)
        for barriers, row, number in used:
            barriers.flying[row, number] += 1
            barriers.copies.setdefault((row, number), []).append(issue)

        def completed() -> None:
            for barriers, row, number in used:
                barriers.flying[row, number] -= 1
                barriers.learn(row, number, clocks)
                barriers.advance(row, number)

        m.flights.append(CopiesInFlight(landings, None, completed))

    return step


def _issue(m: Machine, place: SourceLocation, active: Array) -> PhaseCopy:
    """The copies that the first active warp issues now, which is the one that issues a tensor copy."""
    assert m.clocks is not None
    lane = int(np.flatnonzero(active[0])[0])
    agent, clock = m.clocks.vector.now(m.first_warp + lane // WARP)
    return PhaseCopy(agent, clock, lambda text: m.faults.add(Kind.MBARRIER, text, place, *m.name_lane(0, lane)))


def _may_use(
    barriers: Barriers | None, m: Machine, place: SourceLocation, rank: int, at: Array, lanes: Array
) -> TypeGuard[Barriers]:
    """Whether the barriers of another block exist, which must be known to the lanes, and not only by chance."""
    blocks, clocks = m.cluster_blocks, m.clocks
    assert blocks is not None and clocks is not None
    lane = int(np.flatnonzero(lanes[0])[0])
    warp, number = m.first_warp + lane // WARP, int(at[0, lane])
    blocks.require_alive(m, values.uniform(rank), lanes, place, f"a use of barrier {number}")
    since = None if barriers is None else barriers.since.get(number)
    if since is None or since[1] > clocks.vector.known[warp, since[0]]:
        text = (
            f"barrier {number} of block {blocks.place_of(rank)} is used with no barrier of the cluster after its "
            "initialisation"
        )
        m.faults.add(Kind.RACE, text, place, *m.name_lane(0, lane))
    for warp in active_warps(m, lanes):
        agent, clock = clocks.vector.now(int(warp))
        blocks.arrivals[rank, agent] = cluster_blocks.RemoteArrival(clock, place)
    return since is not None


def _active(m: Machine, predicate: Any) -> Array:
    """The active lanes, (blocks, threads), for which the optional predicate holds."""
    active = np.broadcast_to(values.uniform(True, np.bool_) if m.mask is None else m.mask, m.lanes)
    return active & m.values[predicate[0]] if predicate else active


def _epoch(m: Machine) -> Array:
    return np.broadcast_to(m.epochs[False], m.lanes)


def _first_of_each(m: Machine, active: Array, index: Array) -> list[tuple[int, int, int]]:
    """For each block and barrier that some lane names: (block, barrier, first lane)."""
    at = np.broadcast_to(index, m.lanes)
    found: dict[tuple[int, int], int] = {}
    for row, thread in zip(*active.nonzero(), strict=True):
        found.setdefault((int(row), int(at[row, thread])), int(thread))
    return [(row, number, thread) for (row, number), thread in found.items()]


def _require_initialised(m: Machine, place: SourceLocation, barriers: Barriers, at: Array, active: Array) -> None:
    """Report a barrier that is not initialised, or by another thread with nothing in between."""
    if m.cluster_blocks is not None and barriers is not m.barriers.get(barriers.name):
        return  # of another block: `_may_use`
    since = np.take_along_axis(barriers.initialised_at, at, axis=1)
    by = np.take_along_axis(barriers.initialised_by, at, axis=1)
    raw = active & (since == NEVER)
    unordered = active & (since == _epoch(m)) & (by != m.linear_thread())
    for kind, lanes, text in (
        (Kind.UNINITIALISED, raw, "this mbarrier is not initialised"),
        (Kind.RACE, unordered, "this mbarrier is initialised by another thread with no barrier between"),
    ):
        if lanes.any():
            row, thread = (int(i[0]) for i in lanes.nonzero())
            m.faults.add(kind, text, place, *m.name_lane(row, thread), count=int(lanes.sum()))


def _arrive(m: Machine, place: SourceLocation, barriers: Barriers, at: Array, times: Array, active: Array) -> None:
    """Count the arrivals of the active lanes; a phase that got all of them is complete."""
    _require_initialised(m, place, barriers, at, active)
    arrived = np.zeros_like(barriers.missing)
    rows = np.broadcast_to(np.arange(m.blocks).reshape(-1, 1), m.lanes)
    np.add.at(arrived, (rows[active], at[active]), times[active])
    expected = np.maximum(barriers.expected, 1)
    total = expected - barriers.missing + arrived
    usable = (arrived > 0) & (barriers.expected > 0)
    if m.clocks is not None:
        _arrive_among_roles(m, place, barriers, at, arrived, active)
        return
    barriers.phase[usable] += (total // expected)[usable]
    barriers.missing[usable] = (expected - total % expected)[usable]


def _arrive_among_roles(
    m: Machine, place: SourceLocation, barriers: Barriers, at: Array, arrived: Array, active: Array
) -> None:
    """Count arrivals of a role; what its warps did before is known to those who wait for the phase."""
    assert m.clocks is not None
    m.forget_tags()
    for row, number, thread in _first_of_each(m, active, at):
        count, lanes = int(arrived[row, number]), active & (at == number)
        barriers.arrive(row, number, m.clocks.release(active_warps(m, lanes)))
        missing = int(barriers.missing[row, number])
        if count > missing:
            expected = int(barriers.expected[row, number])
            text = f"{count} arrivals at barrier {number}, whose phase has {missing} of {expected} left"
            m.faults.add(Kind.MBARRIER, text, place, *m.name_lane(row, thread))
        barriers.missing[row, number] = max(0, missing - count)
        barriers.advance(row, number)
