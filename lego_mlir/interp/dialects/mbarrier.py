"""`nvgpu`: barriers in shared memory (`mbarrier`), which count arrivals and complete one phase after another.

A barrier is initialised with the number of arrivals of a phase. The last arrival completes the phase and starts the
next one. A token names the phase in which its thread arrived; a parity names the last phase that was even (0) or odd
(1), as PTX's `mbarrier.test_wait` does. (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".)

The vector clocks of `happens_before` order what the warps that arrived did, and the copies that landed, before what
follows the wait. A role of a kernel with warp roles, which run concurrently, hands control to the others when it waits.
All threads of a role, or of a kernel without roles, run each operation together, so a wait finds what arrived before it
in the text: arrivals in a branch that runs later are not seen, and the wait hangs, which is a fault. A phase also waits
for the asynchronous copies whose completion it was given (`cp.async.mbarrier.arrive`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import cluster_blocks, values
from lego_mlir.interp.barrier_phases import MemoryBarrier, Promise
from lego_mlir.interp.happens_before import active_warps
from lego_mlir.interp.machine import CopiesInFlight, Machine
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.report import Kind, SourceLocation
from lego_mlir.interp.role_scheduler import Waiting
from lego_mlir.interp.values import Array


@dataclass(frozen=True, slots=True)
class Initialisation:
    """The thread that initialised a barrier, its epoch, and the agent and clock of its warp then."""

    thread: int
    epoch: int
    agent: int
    clock: int


@dataclass(slots=True)
class Barriers:
    """The barriers of a group in one block, and the initialisations of those that have one."""

    name: str
    each: list[MemoryBarrier]
    since: dict[int, Initialisation] = field(default_factory=dict)

    def unordered(self, m: Machine, number: int) -> Array:
        """The threads of a block that don't know of the barrier's initialisation."""
        assert m.clocks is not None
        since, threads = self.since[number], np.arange(m.threads)
        warps = m.first_warp + threads // WARP
        of_warp = m.clocks.first_agent[warps] == since.agent
        alone = (threads != since.thread) & (np.broadcast_to(m.epochs[False], m.lanes)[0] == since.epoch)
        return np.where(of_warp, alone, m.clocks.known[warps, since.agent] < since.clock)


@dataclass(frozen=True, slots=True)
class PeerBarriers:
    """The same group in the block of the cluster with this rank, for each lane."""

    own: Barriers
    rank: Array


@dataclass(frozen=True, slots=True)
class BarrierAddress:
    """A barrier of a group, for each lane."""

    group: Barriers | PeerBarriers
    index: Array


@dataclass(frozen=True, slots=True)
class UsedBarrier:
    """A barrier that the marked threads of the block use, and its number in its group."""

    barrier: MemoryBarrier
    number: int
    lanes: Array

    @property
    def first(self) -> int:
        return int(self.lanes.argmax())

    def missing(self) -> str:
        """What its phase lacks, for a wait that hangs."""
        b = self.barrier
        return f"{b.pending} of the {b.count} arrivals of phase {b.phase} of barrier {self.number} are missing"


@implements("nvgpu.mbarrier.create")
def create(op: Operation) -> Step:
    """A group of barriers in shared memory, the same one each time that the operation runs."""
    found = re.search(r"num_barriers = (\d+)", str(op.result_type()))
    result, count = op.result, 1 if found is None else int(found[1])
    name = f"the mbarriers of {op.place}, value {result}"
    op.compiler.concurrent = True

    def step(m: Machine) -> None:
        if name not in m.barriers:
            m.barriers[name] = Barriers(name, [MemoryBarrier() for _ in range(count)])
        m.values[result] = m.barriers[name]

    return step


@implements("nvgpu.mbarrier.init")
def init(op: Operation) -> Step:
    """Set the number of arrivals of a phase, once for all threads of the block."""
    group, count, index, *predicate = op.operands

    def step(m: Machine) -> None:
        assert m.clocks is not None
        barriers: Barriers = m.values[group]
        active, at = _active(m, predicate), _of_threads(m, index)
        arrivals = _of_threads(m, count)
        for number in np.unique(at[active]):
            thread = int((active & (at == number)).argmax())
            barriers.each[number] = MemoryBarrier(count=int(arrivals[thread]), pending=int(arrivals[thread]))
            epoch = int(np.broadcast_to(m.epochs[False], m.lanes)[0, thread])
            barriers.since[int(number)] = Initialisation(thread, epoch, *m.clocks.now(m.first_warp + thread // WARP))

    return step


@implements("nvgpu.mbarrier.arrive", "nvgpu.mbarrier.arrive.nocomplete")
def arrive(op: Operation) -> Step:
    """Every active thread arrives, `count` times if given; the token is the phase before."""
    group, index, *count = op.operands
    result, place = op.result, op.place

    def step(m: Machine) -> None:
        times = _of_threads(m, count[0]) if count else np.ones(m.threads, np.int64)
        m.values[result] = _arrive(m, place, _used(m, place, m.values[group], m.values[index], _active(m)), times)

    return step


@implements("nvgpu.mbarrier.arrive.expect_tx")
def arrive_expect_tx(op: Operation) -> Step:
    """Arrive; bytes that a TMA copy must bring are not supported, because the copies are not."""
    group, expected, index, *predicate = op.operands
    place = op.place

    def step(m: Machine) -> None:
        active = _active(m, predicate)
        if (_of_threads(m, expected)[active] != 0).any():
            op.fail("a barrier that waits for the bytes of a TMA copy is not supported, because the copies are not")
        used = _used(m, place, m.values[group], m.values[index], active)
        _arrive(m, place, used, np.ones(m.threads, np.int64))

    return step


@implements("nvgpu.mbarrier.test.wait")
def test_wait(op: Operation) -> Step:
    """Whether the phase of the token is complete."""
    group, token, index = op.operands
    result, place = op.result, op.place

    def step(m: Machine) -> None:
        done = np.zeros(m.lanes, np.bool_)
        for used in _used(m, place, m.values[group], m.values[index], _active(m)):
            over = used.lanes & (used.barrier.phase > _of_threads(m, token))
            done[0] |= over
            m.acquire(used.barrier.done, over[None])
        m.values[result] = done

    return step


@implements("nvgpu.mbarrier.try_wait.parity")
def try_wait_parity(op: Operation) -> Step:
    """Wait until the phase of this parity is complete; copies land when nothing else can go on."""
    group, parity, _, index, *predicate = op.operands
    place = op.place

    def step(m: Machine) -> None:
        used = _used(m, place, m.values[group], m.values[index], _active(m, predicate))
        wanted = [(one, _of_threads(m, parity)[one.lanes]) for one in used]

        def hanging() -> list[UsedBarrier]:
            return [one for one, parities in wanted if (parities == one.barrier.phase % 2).any()]

        if first := hanging():
            m.wait_for(Waiting(lambda: not hanging(), place, lambda: hanging()[0].missing(), first[0].first))
        for one in used:
            m.acquire(one.barrier.done, one.lanes[None])

    return step


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
    if op.flag("noinc"):
        op.fail("only the form without .noinc is supported, which counts no arrival")

    def step(m: Machine) -> None:
        given: BarrierAddress = m.values[pointer]
        landings, clocks = m.take_issued()
        used = _used(m, place, given.group, given.index, _active(m))
        for one in used:
            one.barrier.flying += 1
        _promise(m, place, used)

        def completed() -> None:
            for one in used:
                one.barrier.flying -= 1
                one.barrier.learn(clocks)
                one.barrier.advance()

        m.flights.append(CopiesInFlight(landings, None, completed))

    return step


def _promise(m: Machine, place: SourceLocation, used: list[UsedBarrier]) -> None:
    """The phases must not end before the copies are issued, by the first active warp, which issues a tensor copy."""
    assert m.clocks is not None
    lane = int(_active(m).argmax())
    agent, clock = m.clocks.now(m.first_warp + lane // WARP)

    def report(number: int, phase: int) -> None:
        text = (
            f"no arrival of phase {phase} of barrier {number} follows this copy, so that the phase may end before the "
            "copy is issued; arrive after the copy at the barriers of all blocks that it writes to, and count these "
            "arrivals"
        )
        m.faults.add(Kind.MBARRIER, text, place, *m.name_lane(0, lane))

    for one in used:
        one.barrier.promises.append(Promise(agent, clock, partial(report, one.number)))


def _active(m: Machine, predicate: Sequence[int] = ()) -> Array:
    """The active threads of the block for which the optional predicate holds."""
    active = m.active()[0]
    return active & _of_threads(m, predicate[0]) if predicate else active


def _of_threads(m: Machine, value: int) -> Array:
    """A value of each thread of the block."""
    return np.broadcast_to(m.values[value], m.lanes)[0]


def _used(
    m: Machine, place: SourceLocation, given: Barriers | PeerBarriers, index: Array, active: Array
) -> list[UsedBarrier]:
    """The barriers that active threads name; those whose initialisation is not known to them are reported."""
    at, found = np.broadcast_to(index, m.lanes)[0], []
    ranks = None if isinstance(given, Barriers) else np.broadcast_to(given.rank, m.lanes)[0]
    for rank in (m.rank,) if ranks is None else map(int, np.unique(ranks[active])):
        those = active if ranks is None else active & (ranks == rank)
        for number in map(int, np.unique(at[those])):
            lanes = those & (at == number)
            if isinstance(given, Barriers):
                barriers: Barriers | None = given
                _require_initialised(m, place, given, number, lanes)
            else:
                barriers = _of_peer(m, place, given, rank, number, lanes)
            if barriers is not None and number in barriers.since:
                found.append(UsedBarrier(barriers.each[number], number, lanes))
    return found


def _require_initialised(m: Machine, place: SourceLocation, barriers: Barriers, number: int, lanes: Array) -> None:
    """Report a barrier that is not initialised, or by another thread with nothing in between."""
    wrong, kind, text = lanes, Kind.UNINITIALISED, "this mbarrier is not initialised"
    if number in barriers.since:
        wrong, kind = lanes & barriers.unordered(m, number), Kind.RACE
        text = "this mbarrier is initialised by another thread with no barrier between"
    if wrong.any():
        m.faults.add(kind, text, place, *m.name_lane(0, int(wrong.argmax())), count=int(wrong.sum()))


def _of_peer(
    m: Machine, place: SourceLocation, given: PeerBarriers, rank: int, number: int, lanes: Array
) -> Barriers | None:
    """The group in another block, if it has made one; its initialisation must be known, and not only by chance."""
    blocks, clocks = m.cluster_blocks, m.clocks
    assert blocks is not None and clocks is not None
    barriers: Barriers | None = blocks.machines[rank].barriers.get(given.own.name)
    blocks.require_alive(m, values.uniform(rank), lanes[None], place, f"a use of barrier {number}")
    if barriers is None or number not in barriers.since or (lanes & barriers.unordered(m, number)).any():
        text = (
            f"barrier {number} of block {blocks.place_of(rank)} is used with no barrier of the cluster after its "
            "initialisation"
        )
        m.faults.add(Kind.RACE, text, place, *m.name_lane(0, int(lanes.argmax())))
    for warp in active_warps(m, lanes[None]):
        agent, clock = clocks.now(int(warp))
        blocks.arrivals[rank, agent] = cluster_blocks.RemoteArrival(clock, place)
    return barriers


def _arrive(m: Machine, place: SourceLocation, used: list[UsedBarrier], times: Array) -> Array:
    """Count arrivals, after which come those who wait for the phase; the tokens, which are the phases before."""
    assert m.clocks is not None
    tokens = np.zeros(m.lanes, np.int64)
    m.forget_tags()
    for one in used:
        barrier, count = one.barrier, int(times[one.lanes].sum())
        tokens[0, one.lanes] = barrier.phase
        if count > barrier.pending:
            left = f"{barrier.pending} of {barrier.count} left"
            text = f"{count} arrivals at barrier {one.number}, whose phase has {left}"
            m.faults.add(Kind.MBARRIER, text, place, *m.name_lane(0, one.first))
        joint = m.clocks.release(active_warps(m, one.lanes[None]))
        barrier.learn(joint)
        barrier.arrive(count, joint[0])
        barrier.advance()
    return tokens
