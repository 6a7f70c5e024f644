"""Warp roles run concurrently: each until it waits for a barrier, in turns.

A role is a branch of the kernel for some of its warps (`lego.warps`). The steps of the interpreter cannot be left half
done and resumed, so each role has a thread of the host, of which one runs at a time: it hands control back when it
waits. If no role can continue, the oldest asynchronous copy in flight lands, as late as any hardware would let it. If
none is in flight, the roles wait for each other for ever, which is reported with the line of every wait, and the block
ends there.
"""

from __future__ import annotations

import contextvars
import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.interp.faults import BlockStopped
from lego_mlir.interp.report import Kind, SourceLocation

if TYPE_CHECKING:
    from lego_mlir.interp.faults import RunningLoop
    from lego_mlir.interp.machine import Machine
    from lego_mlir.interp.program import Step


@dataclass(slots=True)
class Waiting:
    """What a role waits for: whether it may go on, where it is, and a sentence; `parts` are the roles within it."""

    ready: Callable[[], bool]
    place: SourceLocation
    reason: Callable[[], str]
    lane: int
    parts: Sequence[_Role] = ()


@dataclass(eq=False, slots=True)
class _Role:
    machine: Machine
    step: Step
    loops: list[RunningLoop]
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    waiting: Waiting | None = None
    done: bool = False
    error: BaseException | None = None


class RoleScheduler:
    """The roles of one place of a kernel."""

    others = "every other role waits too"

    def __init__(self, machine: Machine, steps: Sequence[Step]) -> None:
        self.machine = machine
        self._back = threading.Semaphore(0)
        self._stopping = False
        self._running: _Role | None = None
        self.roles: list[_Role] = []
        self.add([(self._machine_of(machine), step) for step in steps])

    def add(self, parts: Sequence[tuple[Machine, Step]]) -> None:
        """What runs concurrently, each with the machine that it runs on."""
        self.roles += [_Role(machine, step, list(machine.faults.loops)) for machine, step in parts]

    def _machine_of(self, machine: Machine) -> Machine:
        """A machine with a mask and copies of its own, and the memory, values and clocks of the block."""
        made = copy.copy(machine)
        made.issued, made.groups, made.scheduler, made.copied = [], [], self, None
        return made

    def run(self) -> None:
        """Run all roles to their ends. Raises BlockStopped for a deadlock, and the error of a role."""
        loops = self.machine.faults.loops
        threads = [threading.Thread(target=contextvars.copy_context().run, args=(self._body, r)) for r in self.roles]
        for thread in threads:
            thread.start()
        try:
            while any(not role.done for role in self.roles):
                if ready := self._ready():
                    self._resume(ready[0])
                else:
                    self._rescue()
        finally:
            self._stop()
            for thread in threads:
                thread.join()
            self.machine.faults.loops = loops

    def _ready(self) -> list[_Role]:
        return [r for r in self.roles if not r.done and (r.waiting is None or r.waiting.ready())]

    def _rescue(self) -> None:
        """No role can go on: let other blocks of the cluster run, or the oldest copy land."""
        outer = self.machine.scheduler
        if outer is not None and outer is not self:
            blocked = [role for role in self.roles if role.waiting is not None]
            first = blocked[0].waiting
            assert first is not None
            waiting = Waiting(lambda: bool(self._ready()), first.place, first.reason, first.lane, blocked)
            outer.wait(waiting)
        elif not self.machine.land_oldest():
            self._report_deadlock()
            raise BlockStopped

    def wait(self, waiting: Waiting) -> None:
        """Hand control back until the role may go on."""
        role = self._running
        assert role is not None
        role.waiting = waiting
        self._back.release()
        role.go.acquire()
        if self._stopping:
            raise BlockStopped

    def _resume(self, role: _Role) -> None:
        role.waiting, self._running = None, role
        self.roles.remove(role)
        self.roles.append(role)  # the others come first next time
        self.machine.faults.loops = role.loops
        role.go.release()
        self._back.acquire()
        if role.error is not None:
            raise role.error

    def _body(self, role: _Role) -> None:
        role.go.acquire()
        try:
            if not self._stopping:
                with np.errstate(all="ignore"):
                    role.step(role.machine)
        except BlockStopped:
            pass
        except BaseException as error:
            role.error = error
        finally:
            role.done = True
            self._back.release()

    def _stop(self) -> None:
        """End the threads of roles that still wait."""
        self._stopping = True
        for role in self.roles:
            while not role.done:
                role.go.release()
                self._back.acquire()

    def _report_deadlock(self) -> None:
        blocked = list(_blocked(self.roles))
        for role in blocked:
            assert role.waiting is not None
            self.machine.faults.loops = role.loops
            block, thread = role.machine.name_lane(0, role.waiting.lane)
            text = f"the wait hangs: {role.waiting.reason()}"
            if len(blocked) > 1:
                text += f", and {self.others}"
            self.machine.faults.add(Kind.DEADLOCK, text, role.waiting.place, block, thread)


def _blocked(roles: Sequence[_Role]) -> Iterator[_Role]:
    """The roles that wait, those within a block that waits in place of it."""
    for role in roles:
        if role.waiting is not None and role.waiting.parts:
            yield from _blocked(role.waiting.parts)
        elif role.waiting is not None:
            yield role


def concurrent(steps: Sequence[Step]) -> Step:
    """The step that runs adjacent roles together."""

    def step(m: Machine) -> None:
        RoleScheduler(m, steps).run()

    return step
