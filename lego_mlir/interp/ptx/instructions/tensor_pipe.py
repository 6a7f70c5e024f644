"""The queue of a block's tensor unit, tcgen05.cp, and tcgen05.commit.

Products, copies and commits of a block land in the order of their issue, each as late as the scheduler draws; a commit
then arrives at its mbarrier, for what its thread issued before. A copy moves rows of shared memory that a matrix
descriptor places to lanes of tensor memory, to several at once where its shape says so. PTX ISA, "tcgen05.cp",
"tcgen05.commit", "Pipelined tcgen05 Instructions".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.address_spaces import OFFSET_MASK, SHARED_BASE
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.instructions.bulk_copies import check_barrier
from lego_mlir.interp.ptx.instructions.mbarriers import arrive_once, located
from lego_mlir.interp.ptx.ptx_machine import AsyncOperation, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.tensor_memory import LANES, TensorCells, TensorMemoryAccess, tensor_memory
from lego_mlir.interp.ptx.wgmma_descriptors import DecodedDescriptor
from lego_mlir.interp.report import Kind
from lego_mlir.interp.shared_shadow import PRODUCT_AGENT, ShadowAccess

COPIES: Final[dict[str, tuple[int, int, tuple[int, ...]]]] = {
    "128x256b": (128, 32, (0,)),
    "128x128b": (128, 16, (0,)),
    "64x128b.warpx2::02_13": (64, 16, (0, 64)),
    "64x128b.warpx2::01_23": (64, 16, (0, 32)),
    "32x128b.warpx4": (32, 16, (0, 32, 64, 96)),
}
"""Rows, bytes of a row, and the lanes at which the copies of the rows begin."""
COARSE_SWIZZLE: Final = 1 << 61


@dataclass(eq=False, slots=True)
class TensorPipe:
    """What a block's tensor unit has to do, oldest first."""

    waiting: deque[Callable[[], None]] = field(default_factory=deque)

    def land(self) -> None:
        self.waiting.popleft()()


def pipes(machine: PtxMachine) -> dict[int, TensorPipe]:
    """The queues by slot."""
    return machine.states("tensor pipes")


def issued_by(machine: PtxMachine) -> dict[tuple[int, int], int]:
    """The clock of the last operation of a warp's lane, for its commits."""
    return machine.states("tensor issues")


def put_in_pipe(machine: PtxMachine, slot: int, perform: Callable[[], None], line: int, text: str) -> None:
    """Queue an operation of a block; each landing performs the oldest."""
    pipe = pipes(machine).setdefault(slot, TensorPipe())
    pipe.waiting.append(perform)
    machine.in_flight.append(AsyncOperation(pipe.land, line, text))


def issued(machine: PtxMachine, gang: Gang, lane: int, line: int, what: str) -> TensorMemoryAccess:
    """A new operation of a lane."""
    warp = int(gang.lane_warp[lane])
    _, clock = machine.clocks.issue(warp, PRODUCT_AGENT)
    issued_by(machine)[warp, lane % WARP] = clock
    return TensorMemoryAccess(gang, lane, PRODUCT_AGENT, clock, line, what)


def slots_of_group(machine: PtxMachine, gang: Gang, lane: int, size: int) -> list[int]:
    """The blocks of a `cta_group`: the one that issues, or the pair of even and odd rank that it is of."""
    slot = int(machine.slot_of_warp[gang.lane_warp[lane]])
    return [slot] if size == 1 else [slot - slot % 2, slot - slot % 2 + 1]


def group_size(decoder: Decoder, instruction: PtxInstruction) -> int:
    """1 or 2 of `.cta_group`; pairs need a cluster of an even number of blocks."""
    size = 2 if "cta_group::2" in instruction.modifiers else 1
    if size == 2 and decoder.machine.shape.cluster_blocks % 2:
        raise decoder.refused(instruction, "cta_group::2 needs clusters of an even number of blocks")
    return size


def shared_rows(machine: PtxMachine, access: TensorMemoryAccess, places: IntArray, slot: int) -> IntArray | None:
    """Enter reads of a block's shared memory through the asynchronous proxy; positions in the arena, or None."""
    chunks = np.unique(places // 16 * 16)
    outside = (chunks < SHARED_BASE) | (chunks + 16 > machine.shape.shared_bytes) | (chunks > OFFSET_MASK)
    if outside.any():
        at = int(chunks[np.argmax(outside)])
        message = f"{access.what} reads shared byte {at}, outside of the block's memory"
        machine.fault(Kind.OUT_OF_BOUNDS, message, access.gang, access.lane, access.line, count=int(outside.sum()))
        return None
    one, clocks = np.array([access.warp]), machine.clocks
    agent = clocks.first_agent[one] + PRODUCT_AGENT
    base = slot * machine.stride
    row = ShadowAccess(chunks + base, 16, agent, np.array([access.clock]), clocks.through_async_proxy(one), access.line)
    if len(missing := machine.shadow.uninitialised(row)):
        message = f"{access.what} reads {16 * len(missing)} bytes of shared memory that were never written"
        machine.fault(Kind.UNINITIALISED, message, access.gang, access.lane, access.line)
    conflict = machine.shadow.read(row)
    machine.report_proxy_conflict(conflict, f"{access.what}'s read", access.gang, access.lane, access.line)
    if slot != int(machine.slot_of_warp[access.warp]):
        machine.note_remote_access(access.gang, access.lane, slot, (int(agent[0]), access.clock), access.line)
    return places + base


def matrix_descriptor(decoder: Decoder, instruction: PtxInstruction, bits: int) -> DecodedDescriptor:
    """A descriptor of shared memory. Raises InterpreterError for what is not modelled."""
    if bits & COARSE_SWIZZLE:
        raise decoder.refused(instruction, "the 128-byte swizzle of 32-byte atoms is not modelled")
    return DecodedDescriptor.decoded(bits)


@opcode("tcgen05", form="cp", whole=True)
def build_tensor_copy(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tcgen05.cp.cta_group::1.128x256b [address], descriptor`."""
    shape = next((s for s in COPIES if set(s.split(".")) <= set(instruction.modifiers)), None)
    if shape is None or instruction.modifiers[-1] not in shape.split("."):
        raise decoder.refused(instruction, f"it copies {', '.join(COPIES)}, without a change of format")
    rows, nbytes, starts = COPIES[shape]
    if shape == "64x128b.warpx2::01_23":
        own = np.arange(64) % 32 + np.arange(64) // 32 * 64
    else:
        own = np.arange(rows)
    place, source = instruction.operands
    address, read = decoder.address(place, instruction), decoder.source(source, "u64", instruction)
    size = group_size(decoder, instruction)
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        addresses, descriptors = address(gang), np.broadcast_to(read(gang), (gang.lanes,))
        for lane in map(int, gang.live()):
            access = issued(machine, gang, lane, line, "tcgen05.cp")
            bits, at = int(descriptors[lane]), int(addresses[lane])
            descriptor = matrix_descriptor(decoder, instruction, bits)
            places = descriptor.addresses(np.arange(rows)[:, None], np.arange(nbytes)[None, :], 1, k_major=True)
            for slot in slots_of_group(machine, gang, lane, size):
                lanes = (own[:, None] + np.array(starts)) % LANES
                cells = TensorCells.at(slot, at, lanes[:, :, None], np.arange(nbytes // 4))
                found = shared_rows(machine, access, places, slot)
                if found is not None and tensor_memory(machine).enter(access, cells, writes=True):
                    put_in_pipe(machine, slot, partial(_copy, machine, cells, found), line, "tcgen05.cp")

    return run


def _copy(machine: PtxMachine, cells: TensorCells, places: IntArray) -> None:
    words: Array = machine.shared[places].view(np.uint32)
    tensor_memory(machine).data[cells.slot, cells.lanes, cells.columns] = words[:, None, :]


@opcode("tcgen05", form="commit", whole=True)
def build_commit(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [barrier]{, mask}`."""
    barrier, *rest = instruction.operands
    find = located(decoder, instruction, barrier)
    mask = decoder.source(rest[0], "u16", instruction) if rest else None
    group_size(decoder, instruction)
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        where = find(gang)
        masks = None if mask is None else np.broadcast_to(mask(gang), (gang.lanes,))
        for at, lane in zip(where.at, map(int, where.lanes), strict=True):
            warp = int(gang.lane_warp[lane])
            joint = _done(machine, warp, lane % WARP)
            tensor_memory(machine).publish(warp, joint[0])
            for target in _targets(machine, int(at), None if masks is None else int(masks[lane])):
                check_barrier(machine, gang, lane, target, line)
                slot = int(machine.slot_of_warp[warp])
                put_in_pipe(machine, slot, partial(arrive_once, machine, target, joint, line), line, "tcgen05.commit")

    return run


def _done(machine: PtxMachine, warp: int, lane: int) -> Array:
    """What a commit of a lane makes known: what its warp knows, and the lane's operations."""
    agent = int(machine.clocks.first_agent[warp]) + PRODUCT_AGENT
    return machine.clocks.completion(warp, agent, issued_by(machine).get((warp, lane), 0))


def _targets(machine: PtxMachine, at: int, mask: int | None) -> Iterator[int]:
    """The barrier's position, or that of the same offset in each block of a mask."""
    if mask is None:
        yield at
        return
    slot, offset = divmod(at, machine.stride)
    peers = machine.shape.cluster_blocks
    for rank in range(peers):
        if mask >> rank & 1:
            yield (slot - slot % peers + rank) * machine.stride + offset
