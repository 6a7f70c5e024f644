"""`nvvm`: barriers of a block and of a warp; shuffles, votes, matches and reductions of a warp's lanes.

Operations on LLVM pointers (`nvvm.mbarrier.init` and the like) are not supported: memory is accessed through memrefs;
`nvgpu` has the same operations on them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import values
from lego_mlir.interp.barrier_phases import NamedBarrier
from lego_mlir.interp.dialects.gpu import (
    active_by_warp,
    by_warp,
    from_warp,
    lanes_and_active,
    reduced,
    require_whole_warps,
)
from lego_mlir.interp.happens_before import active_warps
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.report import Kind, SourceLocation
from lego_mlir.interp.role_scheduler import Waiting
from lego_mlir.interp.values import Array, like_vector
from lego_mlir.interp.warp_shuffles import LANES, VOTES, lane_bits, shuffle_source

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


@implements("llvm.call_intrinsic")
def active_lanes(op: Operation) -> Step:
    """`llvm.nvvm.activemask`, the lanes of a warp that execute it; no other intrinsic is known."""
    result, name = op.result, str(op.operation.attributes["intrin"].value)
    if name != "llvm.nvvm.activemask":
        op.fail(f"the intrinsic {name} is not known to the interpreter")

    def step(m: Machine) -> None:
        active = active_by_warp(m) & by_warp(m, np.ones((1, m.threads), bool))
        bits = np.broadcast_to(lane_bits(active)[..., None], active.shape)
        m.values[result] = from_warp(m, bits.view(np.int32))

    return step


@implements("nvvm.vote.sync")
def vote_sync(op: Operation) -> Step:
    """The condition in all lanes of a warp that the mask names."""
    mask, condition = op.operands
    kind, result, place = op.keyword("kind"), op.result, op.place

    def step(m: Machine) -> None:
        holds, groups = by_warp(m, m.values[condition]), _taking_part(m, m.values[mask], f"vote {kind}", place)
        found = VOTES[kind](holds[..., None, :], groups)
        m.values[result] = from_warp(m, found.view(np.int32) if kind == "ballot" else found)

    return step


@implements("nvvm.shfl.sync")
def shuffle_sync(op: Operation) -> Step:
    """Each lane reads the value of another among the lanes that its mask names; one of another lane is a fault."""
    mask, value, offset, clamp = op.operands
    result, place = op.result, op.place
    mode = op.keyword("kind").replace("bfly", "xor")

    def step(m: Machine) -> None:
        source, groups = by_warp(m, m.values[value]), _taking_part(m, m.values[mask], f"shuffle {mode}", place)
        distance, bound = (by_warp(m, m.values[word]).astype(np.int64) for word in (offset, clamp))
        partner, _ = shuffle_source(mode, distance, bound)
        partner = np.broadcast_to(partner, groups.shape[:-1])
        active = active_by_warp(m) & by_warp(m, np.ones((1, m.threads), bool))
        outside = active & ~np.take_along_axis(groups, partner[..., None], axis=-1)[..., 0]
        if outside.any():
            row, warp, lane = (int(i) for i in np.argwhere(outside)[0])
            block, thread = m.name_lane(row, warp * WARP + lane)
            text = f"shuffle {mode} reads lane {int(partner[row, warp, lane])} of its warp, which is not a member"
            m.faults.add(Kind.SHUFFLE, text, place, block, thread, count=int(outside.sum()))
        source = np.broadcast_to(source, (*partner.shape, *source.shape[3:]))
        m.values[result] = from_warp(m, np.take_along_axis(source, like_vector(partner, source.ndim), axis=2))

    return step


@implements("nvvm.match.sync")
def match_sync(op: Operation) -> Step:
    """The lanes of a warp that the mask names and that have the same value, as bits."""
    mask, value = op.operands
    kind, result, place = op.keyword("kind"), op.result, op.place

    def step(m: Machine) -> None:
        if kind != "any":
            op.fail("only match any is supported")
        lanes, groups = by_warp(m, m.values[value]), _taking_part(m, m.values[mask], "match", place)
        same = lanes[..., :, None] == lanes[..., None, :]
        m.values[result] = from_warp(m, lane_bits(same & groups).view(np.int32))

    return step


def _taking_part(m: Machine, mask: Array, what: str, place: SourceLocation) -> Array:
    """For each lane the lanes that it exchanges with, as (blocks, warps, 32, 32): those that its mask names.

    A lane that a mask names and that is elsewhere, or has another mask, is a fault.
    """
    active = active_by_warp(m) & by_warp(m, np.ones((1, m.threads), bool))
    if (mask == -1).all():
        require_whole_warps(m, what, place)
        return np.broadcast_to(active[..., None, :], (*active.shape, WARP))
    masks = by_warp(m, mask)
    named = (masks.astype(np.int32).view(np.uint32)[..., None] >> LANES.astype(np.uint32) & 1).astype(bool)
    alike = (masks[..., :, None] == masks[..., None, :]) & active[..., None, :]
    wrong = active & ((named & ~alike).any(axis=-1) | ~named[..., LANES, LANES])
    if wrong.any():
        row, warp, lane = (int(i) for i in np.argwhere(wrong)[0])
        block, thread = m.name_lane(row, warp * WARP + lane)
        text = f"the members of this {what} are not the lanes that reach it together with the same members"
        m.faults.add(Kind.SHUFFLE, text, place, block, thread, count=int(wrong.sum()))
    return named & active[..., None, :]
