"""Exchange among the lanes of a warp: shfl, vote, activemask, match, redux, elect, bar.warp.sync.

A `.sync` instruction needs every lane of its mask: lanes that a branch left elsewhere are waited for, and merged.
PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync", "bar.warp.sync".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.decoder import Decoder, Source, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Outcome, Step
from lego_mlir.interp.ptx.ptx_program import OperandList, PtxInstruction
from lego_mlir.interp.ptx.ptx_types import NUMPY
from lego_mlir.interp.ptx.warp_convergence import converge
from lego_mlir.interp.report import Kind
from lego_mlir.interp.warp_shuffles import LANES, VOTES, lane_bits, matching_lanes, shuffle_source


def _with_members(decoder: Decoder, mask: Source, step: Callable[[Gang, Array], None]) -> Step:
    """A step once all lanes of the mask are together; they are given as (warps, 32) truth values."""
    machine, pc = decoder.machine, decoder.pc

    def run(gang: Gang) -> Outcome:
        members = np.broadcast_to(mask(gang), (gang.lanes,))
        waiting = converge(machine, gang, members, pc)
        if waiting is not None:
            return waiting
        step(gang, gang.mask().reshape(-1, WARP))
        return None

    return run


@opcode("shfl", whole=True)
def build_shfl(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`shfl.sync.bfly.b32 d|p, a, b, c, mask`."""
    result, a, b, c, mask = instruction.operands
    targets = result.items if isinstance(result, OperandList) else (result,)
    writes = [decoder.sink(t, instruction) for t in targets]
    value, other, clamp = (decoder.source(o, "u32", instruction) for o in (a, b, c))
    mode = next(m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx"))
    machine, line = decoder.machine, instruction.line

    def step(gang: Gang, live: Array) -> None:
        rows = (len(gang.warps), WARP)
        x = np.broadcast_to(value(gang), (gang.lanes,)).reshape(rows)
        by = np.broadcast_to(other(gang), (gang.lanes,)).astype(np.int64).reshape(rows)
        bound = np.broadcast_to(clamp(gang), (gang.lanes,)).astype(np.int64).reshape(rows)
        source, inside = shuffle_source("xor" if mode == "bfly" else mode, by, bound)
        missing = inside & live & ~np.take_along_axis(live, source, axis=1)
        if missing.any():
            lane = int(np.argmax(missing.reshape(-1)))
            message = f"lane {lane % WARP} reads lane {int(source.reshape(-1)[lane])}, which does not take part"
            machine.fault(Kind.SHUFFLE, message, gang, lane, line, count=int(missing.sum()))
        found = np.take_along_axis(x, source, axis=1)
        for write, data in zip(writes, (found, inside), strict=False):
            write(gang, np.ascontiguousarray(data).reshape(-1))

    return _with_members(decoder, decoder.source(mask, "u32", instruction), step)


@opcode("vote", whole=True)
def build_vote(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`vote.sync.ballot.b32 d, p, mask`, any, all, uni."""
    d, a, mask = instruction.operands
    write, value = decoder.sink(d, instruction), decoder.source(a, "pred", instruction)
    mode = instruction.modifiers[1]

    def step(gang: Gang, live: Array) -> None:
        votes = np.broadcast_to(value(gang), (gang.lanes,)).reshape(-1, WARP)
        write(gang, np.repeat(VOTES[mode](votes, live), WARP))

    return _with_members(decoder, decoder.source(mask, "u32", instruction), step)


@opcode("activemask")
def build_activemask(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`activemask.b32 d`: the lanes that execute it together."""
    write = decoder.sink(instruction.operands[0], instruction)

    def run(gang: Gang) -> None:
        write(gang, np.repeat(lane_bits(gang.mask().reshape(-1, WARP)), WARP))

    return run


@opcode("match", whole=True)
def build_match(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`match.any.sync.b32 d, a, mask`: the lanes with the same value."""
    if "all" in instruction.modifiers:
        return _match_all(decoder, instruction)
    d, a, mask = instruction.operands
    write = decoder.sink(d, instruction)
    value = decoder.source(a, decoder.type_of(instruction), instruction)

    def step(gang: Gang, live: Array) -> None:
        rows = np.broadcast_to(value(gang), (gang.lanes,)).reshape(-1, WARP)
        write(gang, matching_lanes(rows, live).reshape(-1))

    return _with_members(decoder, decoder.source(mask, "u32", instruction), step)


def _match_all(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`match.all.sync.b32 d|p, a, mask`: the members if all have one value, else 0."""
    target, a, mask = instruction.operands
    first, *others = decoder.items(target)
    write = decoder.sink(first, instruction)
    also = decoder.sink(others[0], instruction) if others else None
    value = decoder.source(a, decoder.type_of(instruction), instruction)

    def step(gang: Gang, live: Array) -> None:
        rows = np.broadcast_to(value(gang), (gang.lanes,)).reshape(-1, WARP)
        head = rows[np.arange(len(rows)), live.argmax(axis=1)]
        all_same = ((rows == head[:, None]) | ~live).all(axis=1)
        write(gang, np.repeat(np.where(all_same, lane_bits(live), np.uint32(0)), WARP))
        if also is not None:
            also(gang, np.repeat(all_same, WARP))

    return _with_members(decoder, decoder.source(mask, "u32", instruction), step)


REDUCTIONS: Final[dict[str, np.ufunc]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


@opcode("redux", whole=True)
def build_redux(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`redux.sync.add.s32 d, a, mask`."""
    type_ = decoder.type_of(instruction)
    operation = next(m for m in instruction.modifiers if m in REDUCTIONS)
    function = REDUCTIONS[operation]
    if type_ == "f32" and "NaN" not in instruction.modifiers:
        function = {"min": np.fmin, "max": np.fmax}[operation]
    dtype = NUMPY[type_]
    d, a, mask = instruction.operands
    write, value = decoder.sink(d, instruction), decoder.source(a, type_, instruction)

    def step(gang: Gang, live: Array) -> None:
        rows = np.broadcast_to(value(gang), (gang.lanes,)).reshape(-1, WARP)
        rows = np.abs(rows) if "abs" in instruction.modifiers else rows
        found = [function.reduce(row[mask]) if mask.any() else 0 for row, mask in zip(rows, live, strict=True)]
        write(gang, np.repeat(np.array(found).astype(dtype), WARP))

    return _with_members(decoder, decoder.source(mask, "u32", instruction), step)


@opcode("elect", whole=True)
def build_elect(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`elect.sync d|p, mask`: one lane of the mask, here the lowest, as on today's hardware."""
    result, mask = instruction.operands
    targets = result.items if isinstance(result, OperandList) else (result,)
    writes = [decoder.sink(t, instruction) for t in targets]

    def step(gang: Gang, live: Array) -> None:
        leader = np.argmax(live, axis=1)
        chosen = (leader[:, None] == LANES) & live
        for write, data in zip(writes, (np.repeat(leader.astype(np.uint32), WARP), chosen.reshape(-1)), strict=False):
            write(gang, data)

    return _with_members(decoder, decoder.source(mask, "u32", instruction), step)
