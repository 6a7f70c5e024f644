"""`nvvm`: barriers of a block and of a warp, and reductions of a warp's integers.

Operations on LLVM pointers (`nvvm.mbarrier.init` and the like) are not supported: memory is accessed through memrefs;
`nvgpu` has the same operations on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.interp import values
from lego_mlir.interp.barrier_phases import NamedBarrier
from lego_mlir.interp.dialects.gpu import (
    from_warp,
    lanes_and_active,
    reduced,
    require_whole_warps,
)
from lego_mlir.interp.happens_before import active_warps
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.role_scheduler import Waiting

if TYPE_CHECKING:
    from lego_mlir.interp.report import SourceLocation
    from lego_mlir.interp.values import Array

REDUX: Final = {
    "add": "add", "and": "and", "or": "or", "xor": "xor",
    "min": "minsi", "max": "maxsi", "umin": "minui", "umax": "maxui",
}  # fmt: skip
"""nvvm's names of reductions, and those of `gpu.subgroup_reduce`."""


@implements("nvvm.bar.warp.sync")
def bar_warp_sync(op: Operation) -> Step:
    """All lanes of a warp arrive before any continues; it orders their accesses to memory."""
    (mask,), place = op.operands, op.place
    op.compiler.synchronises_warps = True

    def step(m: Machine) -> None:
        _require_whole_mask(op, m, mask)
        m.passed_warp_barrier(place)

    return step


@implements("nvvm.barrier0", "nvvm.barrier")
def barrier(op: Operation) -> Step:
    """A barrier of the block; with a number and a count of threads, of the threads that arrive there."""
    if len(op.operands) == 2:
        return _numbered_barrier(op)
    if op.operands:
        op.fail("a barrier has a number and a count of threads, or neither")
    place = op.place

    def step(m: Machine) -> None:
        m.passed_barrier(place)

    return step


def _numbered_barrier(op: Operation) -> Step:
    number, threads = op.operands
    place = op.place

    def step(m: Machine) -> None:
        active = m.active()
        at = np.broadcast_to(m.values[number], m.lanes)
        for value in np.unique(at[active]):
            meet(m, place, int(value), int(np.max(m.values[threads])), active & (at == value))

    return step


def meet(m: Machine, place: SourceLocation, number: int, threads: int, lanes: Array) -> None:
    """Arrive at a numbered barrier, and wait for as many threads as it counts."""
    if m.clocks is None:
        m.passed_barrier(place)
        return
    name = f"barrier {number} of the block"
    state: NamedBarrier = m.barriers.setdefault(name, NamedBarrier())
    phase, state.expected = state.phase, threads
    m.forget_tags()
    if state.add(m.clocks, active_warps(m, lanes), int(lanes.sum())):
        warps = np.unique(state.warps)
        state.restart()
        assert state.done is not None
        m.clocks.acquire(warps, state.done)
        return

    def reason() -> str:
        return f"{state.arrived} of the {threads} threads have arrived at {name}"

    m.wait_for(Waiting(lambda: state.phase != phase, place, reason, int(np.flatnonzero(lanes[0])[0])))


@implements("nvvm.cp.async.commit.group")
def commit_copies(op: Operation) -> Step:
    """The asynchronous copies of `nvgpu.device_async_copy` so far are a group."""

    def step(m: Machine) -> None:
        m.commit_copies()

    return step


@implements("nvvm.cp.async.wait.group")
def wait_copies(op: Operation) -> Step:
    """Wait until at most `n` of the thread's newest groups are in flight."""
    pending = op.integer("n")

    def step(m: Machine) -> None:
        m.wait_copies(pending)

    return step


@implements("nvvm.redux.sync")
def redux_sync(op: Operation) -> Step:
    """The reduction of an integer over a warp, in each lane."""
    value, mask = op.operands
    result, place, kind = op.result, op.place, op.keyword("kind")
    if kind not in REDUX:
        op.fail(f"the reduction {kind} is not supported; supported: {', '.join(REDUX)}")

    def step(m: Machine) -> None:
        _require_whole_mask(op, m, mask)
        require_whole_warps(m, f"redux.sync {kind}", place)
        lanes, active = lanes_and_active(m, m.values[value])
        m.values[result] = from_warp(m, np.broadcast_to(reduced(REDUX[kind], lanes, active, 2), lanes.shape))

    return step


def _require_whole_mask(op: Operation, m: Machine, mask: int) -> None:
    given = m.values[mask]
    if not (values.unsigned(np.ascontiguousarray(given)) == 0xFFFFFFFF).all():
        op.fail(f"only masks of the whole warp are supported, -1, got {int(given.flat[0])}")
