"""Run the gangs of a machine in random order until all exit, or none can continue.

Which gang runs next, for how long, and when an asynchronous operation lands is drawn from a seed: code that relies on
an order that nothing guarantees fails for some seed, and usually leaves a race for any. When no gang can run, the next
operation in flight lands; when none is in flight, lanes that wait for the rest of their warp go on without it, as
independent thread scheduling lets them; after that it is a deadlock, reported with what each gang waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.gangs import LANES_AT_ONCE, DeferredMove, Gang, Join, PollState, by_warp, merge, simplified
from lego_mlir.interp.ptx.liveness import slots_of
from lego_mlir.interp.ptx.ptx_machine import EXIT, PARKED, YIELD, GangDivergence, PtxMachine, Step
from lego_mlir.interp.report import Kind
from lego_mlir.interp.shared_shadow import UNITS

QUANTA: Final = (20, 200, 2000, 100_000)
SHOWN_WAITERS: Final = 6
HOT_STEPS: Final = 2_000_000
AT_JOIN: Final = "the other lanes of its warp at the end of a branch"


@dataclass(frozen=True, slots=True)
class PtxCode:
    """A decoded entry: a step and a line per instruction, their live registers, and their registers; what moves write.

    `when_hot` is called once `HOT_STEPS` lanes have run an instruction: compiled regions then take the place of steps.
    """

    steps: Sequence[Step]
    lines: Sequence[int]
    live: Sequence[int]
    registers: Sequence[frozenset[int]]
    waits_for_wgmma: Sequence[bool]
    polls: Sequence[bool]
    moved: Sequence[frozenset[int]]
    when_hot: Callable[[], None] | None = None


class GangScheduler:
    """The gangs of one wave of blocks."""

    def __init__(self, machine: PtxMachine, code: PtxCode, budget: int, lane_steps: int = 0) -> None:
        self.machine, self.code, self.budget = machine, code, budget
        self.executed, self.lane_steps = 0, lane_steps
        self.is_cold = lane_steps < max(HOT_STEPS, 1)
        self._live: dict[int, frozenset[int]] = {}
        self._moves: dict[int, DeferredMove] = {}
        self.rescues: list[Callable[[], bool]] = []

    def run(self) -> None:
        """Run to the end, or to a deadlock, which is a fault."""
        for _ in self.turns():
            pass

    def turns(self) -> Iterator[None]:
        """Run one gang, or land an operation, at each turn."""
        machine = self.machine
        while machine.runnable or machine.parked:
            yield
            if not machine.runnable:
                landed = self._land(len(machine.in_flight))
                if not landed and not machine.previous_runs and not self._rescue():
                    self._deadlock()
                    return
                continue
            if machine.in_flight and machine.random.random() < 0.3:
                self._land(1)
                continue
            if self._all_poll():
                self._deadlock(polling=True)
                return
            if self.is_cold and self.lane_steps >= HOT_STEPS:
                self.is_cold = False
                if self.code.when_hot is not None:
                    self.code.when_hot()
            gang = self._pick()
            quantum, before = int(machine.random.choice(QUANTA)), self.executed
            self._run_gang(gang, quantum)
            self.lane_steps += gang.lanes * (self.executed - before)
            if machine.stopped:
                return
            if self.executed > self.budget:
                self._too_long(gang)
                return
        while self._land(1):
            pass

    def _land(self, operations: int) -> bool:
        """Land one operation in flight, chosen at random."""
        flight = self.machine.in_flight
        if not operations or not flight:
            return False
        flight.pop(int(self.machine.random.integers(len(flight)))).land()
        return True

    def _pick(self) -> Gang:
        """A runnable gang, with the others that are at its instruction."""
        runnable = self.machine.runnable
        gang = runnable.pop(int(self.machine.random.integers(len(runnable))))
        alike = [
            g for g in runnable
            if g.pc == gang.pc and g.joins == gang.joins and g.origins == gang.origins and g.deferred == gang.deferred
        ]  # fmt: skip
        room = LANES_AT_ONCE - gang.lanes
        chosen = []
        for other in alike:
            if other.lanes <= room or set(map(int, other.warps)) <= set(map(int, gang.warps)):
                chosen.append(other)
                room -= other.lanes
        if not chosen:
            return gang
        for other in chosen:
            runnable.remove(other)
        return self._merged([gang, *chosen], gang.joins)

    def _merged(self, parts: list[Gang], joins: tuple[Join, ...]) -> Gang:
        for part in parts:
            self._drop_dead(part, part.pc)
        return merge(parts, joins)

    def _drop_dead(self, gang: Gang, pc: int) -> None:
        """Forget registers that no later instruction reads, so that they are not copied."""
        live = self._live_at(pc)
        for slot in range(len(gang.regs)):
            if slot not in live and slot not in gang.pending:
                gang.regs[slot] = None

    def _live_at(self, pc: int) -> frozenset[int]:
        if pc not in self._live:
            self._live[pc] = frozenset(slots_of(self.code.live[pc]))
        return self._live[pc]

    def _run_gang(self, gang: Gang, quantum: int) -> None:
        steps, registers, polls = self.code.steps, self.code.registers, self.code.polls
        polled: set[int] = set()
        gang.stuck_at = -1
        for done in range(quantum):
            pc = gang.pc
            if polls[pc]:
                if pc in polled:  # a loop that may wait for another gang: let it run
                    self.executed += done
                    self._give_way(gang)
                    return
                polled.add(pc)
            if gang.joins and gang.joins[-1].pc == pc and gang.joins[-1].depth == len(gang.frames):
                self.executed += done
                self._arrive(gang)
                return
            if gang.pending and not registers[pc].isdisjoint(gang.pending) and not self.code.waits_for_wgmma[pc]:
                if self.code.moved[pc] and not self.machine.checks.fenced_barriers:
                    gang.pc = pc + 1
                    self._defer(gang, pc)
                    continue
                self._touches_pending(gang, pc)
            gang.pc = pc + 1
            outcome = steps[pc](gang)
            if outcome is None:
                continue
            self.executed += done + 1
            if outcome is PARKED:
                gang.parked_at = pc
                return
            if outcome is YIELD:
                self.machine.runnable.append(gang)
            elif outcome is EXIT:
                self._exit(gang)
            else:
                assert isinstance(outcome, GangDivergence)
                self._split(gang, outcome)
            return
        self.executed += quantum
        self.machine.runnable.append(gang)

    def _give_way(self, gang: Gang) -> None:
        """Note whether a gang polls with what it had at its last poll, when nothing has changed since."""
        live = self._live_at(gang.pc)
        now = PollState(gang.pc, self.machine.changes, [gang.regs[slot] for slot in sorted(live)])
        if gang.polled is not None and gang.polled.equals(now):
            gang.stuck_at = now.changes
        gang.polled = now
        self.machine.runnable.append(gang)

    def _all_poll(self) -> bool:
        """Whether every gang polls, nothing is in flight, and so nothing will change."""
        machine = self.machine
        if machine.in_flight or machine.previous_runs:
            return False
        return all(gang.stuck_at == machine.changes for gang in machine.runnable)

    def _defer(self, gang: Gang, pc: int) -> None:
        """A move of registers in flight, such as the halves of one, is no instruction of the machine: it may wait."""
        if pc not in self._moves:
            moved = self.code.moved[pc]
            self._moves[pc] = DeferredMove(self.code.registers[pc] - moved, moved, self.code.steps[pc])
        gang.deferred = (*gang.deferred, self._moves[pc])
        gang.pending = gang.pending | self._moves[pc].targets

    def _touches_pending(self, gang: Gang, pc: int) -> None:
        unit, wait = ("wgmma", "wgmma.wait_group")
        if self.machine.shape.units > UNITS:
            unit, wait = "tcgen05.ld", "tcgen05.wait::ld"
        message = f"this uses a register of a {unit} that is still in flight; wait for it with {wait} first"
        self.machine.fault(Kind.PENDING, message, gang, int(gang.live()[0]), self.code.lines[pc])

    # --- divergence ---------------------------------------------------------------------------------------------

    def _split(self, gang: Gang, way: GangDivergence) -> None:
        """By warps if each warp goes one way, else by lanes, which meet again at the join."""
        taking, staying = by_warp(way.taken, gang.active)
        if not (taking & staying).any():
            for chosen, pc in ((taking, way.to), (staying, way.otherwise)):
                if chosen.any():
                    part = self._of_warps(gang, chosen, pc)
                    part.pc = pc
                    self.machine.runnable.append(part)
            return
        mask = gang.mask()
        joins = gang.joins
        if way.join is not None:
            joins = (*joins, Join(way.join, gang.count(), len(gang.frames)))
        for lanes, pc in ((way.taken & mask, way.to), (~way.taken & mask, way.otherwise)):
            part = gang.of_lanes(lanes)
            part.pc, part.joins = pc, joins
            self.machine.runnable.append(part)

    def _of_warps(self, gang: Gang, chosen: Array, pc: int) -> Gang:
        if chosen.all():
            return gang
        kept = gang.regs
        gang.regs = list(kept)
        self._drop_dead(gang, pc)
        part = gang.of_warps(chosen)
        gang.regs = kept
        return part

    def _arrive(self, gang: Gang) -> None:
        """At the join of the innermost split: wait for the other parts."""
        join = gang.joins[-1]
        join.missing -= gang.count()
        join.arrived.append(gang)
        gang.parked_at = max(gang.pc - 1, 0)
        self.machine.park(gang, AT_JOIN)
        if join.missing == 0:
            self._complete(join)

    def _complete(self, join: Join) -> None:
        parts = join.arrived
        if not parts:
            return
        for part in parts:
            self.machine.parked.remove(part)
            part.state = "runnable"
        join.arrived = []
        self.machine.runnable.append(self._merged(parts, parts[0].joins[:-1]))

    def _exit(self, gang: Gang) -> None:
        lanes = gang.live()
        self.machine.exited[gang.lane_warp[lanes], lanes % WARP] = True
        gang.state = "exited"
        warps = self.machine.shape.warps
        for slot in map(int, np.unique(self.machine.slot_of_warp[gang.warps])):
            if self.machine.exited[slot * warps : (slot + 1) * warps].all():
                self.machine.check_exit(slot, self.code.lines[gang.pc - 1])
        for join in gang.joins:
            join.missing -= len(lanes)
            if join.missing == 0:
                self._complete(join)

    # --- when nothing can run -----------------------------------------------------------------------------------

    def _rescue(self) -> bool:
        """Lanes at a join go on alone; barriers complete without warps that have exited (a fault)."""
        for gang in self.machine.parked:
            if gang.joins and gang in gang.joins[-1].arrived:
                join = gang.joins[-1]
                parts, join.arrived = join.arrived, []
                for part in parts:
                    self.machine.parked.remove(part)
                    part.state, part.joins = "runnable", part.joins[:-1]
                    self.machine.runnable.append(part)
                return True
        return any(rescue() for rescue in self.rescues)

    def _deadlock(self, *, polling: bool = False) -> None:
        waiting: dict[str, list[Gang]] = {}
        for gang in self.machine.runnable if polling else ():
            text = f"line {self.code.lines[gang.pc]}: a loop that reads what no other warp will change"
            waiting.setdefault(text, []).append(gang)
        parked = self.machine.parked
        for gang in [gang for gang in parked if gang.waits != AT_JOIN] or ([] if polling else parked):
            line = self.code.lines[gang.parked_at]
            waiting.setdefault(f"line {line}: {gang.waits}", []).append(gang)
        shown = []
        for text, gangs in list(waiting.items())[:SHOWN_WAITERS]:
            shown.append(f"{_warps(self.machine, gangs)} at {text}")
        more = len(waiting) - SHOWN_WAITERS
        tail = f"; and {more} more places" if more > 0 else ""
        first = (self.machine.runnable if polling else self.machine.parked)[0]
        line = self.code.lines[first.pc if polling else first.parked_at]
        message = f"no warp can continue: {'; '.join(shown)}{tail}"
        self.machine.fault(Kind.DEADLOCK, message, first, int(first.live()[0]), line)

    def _too_long(self, gang: Gang) -> None:
        line = self.code.lines[gang.pc]
        message = (
            f"{self.executed} steps were run and the kernel has not ended: a loop that never ends, or one that polls "
            "what nothing changes; raise the budget for a long kernel"
        )
        self.machine.fault(Kind.DEADLOCK, message, gang, int(gang.live()[0]), line)


def _warps(machine: PtxMachine, gangs: Sequence[Gang]) -> str:
    """`warps 4-7 of block (0, 0, 0)`."""
    found: dict[int, set[int]] = {}
    for gang in gangs:
        for warp in np.unique(gang.lane_warp[gang.live()]):
            slot, local = divmod(int(warp), machine.shape.warps)
            found.setdefault(slot, set()).add(local)
    parts = []
    for slot, warps in list(found.items())[:2]:
        ordered = sorted(warps)
        contiguous = ordered[-1] - ordered[0] == len(ordered) - 1 and len(ordered) > 1
        names = f"{ordered[0]}-{ordered[-1]}" if contiguous else ", ".join(map(str, ordered))
        parts.append(f"warp{'s' if len(ordered) > 1 else ''} {names} of block {machine.block_of(slot)}")
    rest = f" and {len(found) - 2} more blocks" if len(found) > 2 else ""
    return " and ".join(parts) + rest


def first_gangs(machine: PtxMachine, registers: int) -> list[Gang]:
    """All warps of all blocks, at the first instruction."""
    total = len(machine.slot_of_warp)
    per_gang = max(LANES_AT_ONCE // WARP // machine.shape.warps, 1) * machine.shape.warps
    gangs = []
    for start in range(0, total, per_gang):
        warps = np.arange(start, min(start + per_gang, total))
        active = simplified(~machine.exited[warps].reshape(-1))
        gangs.append(Gang(warps, [None] * registers, active))
    return gangs
