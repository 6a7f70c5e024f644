"""`nvvm`: votes of a warp, and the lanes with equal values."""

from __future__ import annotations

import numpy as np

from lego_mlir.interp.dialects.gpu import active_by_warp, by_warp, from_warp, require_whole_warps
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.warp_shuffles import VOTES, matching_lanes


@implements("nvvm.vote.sync")
def vote_sync(op: Operation) -> Step:
    """The condition in all lanes of a warp that the mask names; only the mask of the whole warp is supported."""
    mask, condition = op.operands
    kind, result, place = op.keyword("kind"), op.result, op.place

    def step(m: Machine) -> None:
        if not (m.values[mask] == -1).all():
            op.fail("only votes of the whole warp are supported: the mask must be -1")
        require_whole_warps(m, f"vote {kind}", place)
        holds = by_warp(m, m.values[condition])
        active = np.broadcast_to(active_by_warp(m), np.broadcast_shapes(holds.shape, active_by_warp(m).shape))
        found = VOTES[kind](np.broadcast_to(holds, active.shape), active)
        found = found.view(np.int32) if kind == "ballot" else found
        m.values[result] = from_warp(m, np.repeat(found[:, :, None], active.shape[2], axis=2))

    return step


@implements("nvvm.match.sync")
def match_sync(op: Operation) -> Step:
    """The lanes of a warp with the same value, as bits; only the mask of the whole warp is supported."""
    mask, value = op.operands
    kind, result, place = op.keyword("kind"), op.result, op.place

    def step(m: Machine) -> None:
        if kind != "any" or not (m.values[mask] == -1).all():
            op.fail("only match any of the whole warp is supported: the mask must be -1")
        require_whole_warps(m, "match", place)
        lanes = by_warp(m, m.values[value])
        active = np.broadcast_to(active_by_warp(m), np.broadcast_shapes(lanes.shape, active_by_warp(m).shape))
        m.values[result] = from_warp(m, matching_lanes(np.broadcast_to(lanes, active.shape), active).view(np.int32))

    return step
