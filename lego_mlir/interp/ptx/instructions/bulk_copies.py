"""Bulk copies (TMA): between global and shared memory by tensor maps or by size, landing late and in random order.

A load completes on an mbarrier, in each block of its multicast mask; a store belongs to a bulk group of its thread,
which `cp.async.bulk.wait_group` waits for: `.read` until the source may be overwritten, else until the data is visible.
A load reads global memory when it lands, a store reads shared memory when it lands, so early reuse gives wrong values
as well as a race. PTX ISA, "cp.async.bulk", "cp.async.bulk.tensor", "cp.reduce.async.bulk".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.interp import rounding
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.bulk_tensor_maps import MAP_BYTES, TensorMapArgument
from lego_mlir.interp.ptx.decoder import Decoder, Source, opcode, space_of
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.group_queues import GroupQueue
from lego_mlir.interp.ptx.instructions.cp_async import queues_of
from lego_mlir.interp.ptx.instructions.mbarriers import complete_bytes, located, mbarriers_of, used
from lego_mlir.interp.ptx.instructions.ptx_atomics import UPDATES
from lego_mlir.interp.ptx.ptx_machine import AsyncOperation, Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import AddressOperand, Immediate, PtxInstruction
from lego_mlir.interp.ptx.ptx_types import NUMPY
from lego_mlir.interp.report import Kind
from lego_mlir.interp.shared_shadow import BULK_AGENT, COPY_AGENT, ShadowAccess

SHARED_ALIGNMENT: Final = 128  # bytes, of a box in shared memory
BULK_ALIGNMENT: Final = 16


@dataclass(eq=False, slots=True)
class BulkStore:
    """A store in flight: `read` once shared memory was read, `done` once global memory was written."""

    clock: int
    read: bool = False
    done: bool = False


def groups_of(machine: PtxMachine) -> dict[tuple[int, int], GroupQueue[BulkStore]]:
    """The groups by warp and lane."""
    return machine.states("bulk")


@opcode("cp", form="bulk", whole=True)
@opcode("cp", form="mbarrier", whole=True)
def build_bulk(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """All forms of cp.async.bulk, cp.reduce.async.bulk and cp.async.mbarrier.arrive."""
    modifiers = instruction.modifiers
    if "mbarrier" in modifiers:
        return _arrive_after_copies(decoder, instruction)
    if "commit_group" in modifiers:
        return _commit(decoder)
    if "wait_group" in modifiers:
        return _wait(decoder, instruction)
    if "prefetch" in modifiers:
        return lambda gang: None
    if "im2col" in modifiers or "gather4" in "".join(modifiers):
        raise decoder.refused(instruction, "only tiles are modelled")
    if "tensor" in modifiers:
        first = instruction.operands[0]
        if isinstance(first, AddressOperand) and first.coordinates is not None:
            return _tensor_store(decoder, instruction)
        return _tensor_load(decoder, instruction)
    return _plain(decoder, instruction)


# --- tensor maps ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _BoxRequest:
    """What an instruction with a tensor map reads from the registers."""

    decoder: Decoder
    instruction: PtxInstruction
    address: Callable[[Gang], IntArray]
    coordinates: list[Source]

    def of_lane(self, gang: Gang, lane: int) -> tuple[TensorMapArgument, tuple[int, ...]] | None:
        """The map and the box's corner; a fault where there is no map."""
        machine, line = self.decoder.machine, self.instruction.line
        machine.check_previous_ended(gang, lane, line)
        old = gang.active
        gang.active = np.arange(gang.lanes) == lane
        places = machine.locate(gang, "", self.address(gang), MAP_BYTES // 2, line)
        gang.active = old
        found = None
        if places and len(places[0].lanes):
            at = int(places[0].at[0])
            found = TensorMapArgument.decoded(places[0].arena[at : at + MAP_BYTES].tobytes())
        if found is None:
            machine.fault(Kind.OUT_OF_BOUNDS, "the address is not that of a tensor map", gang, lane, line)
            return None
        corner = tuple(int(np.broadcast_to(c(gang), (gang.lanes,))[lane]) for c in self.coordinates)
        if len(corner) != len(found.sizes):
            message = f"{len(corner)} coordinates for a tensor map of {len(found.sizes)} dimensions"
            machine.fault(Kind.OUT_OF_BOUNDS, message, gang, lane, line)
            return None
        return found, corner


def _box(decoder: Decoder, instruction: PtxInstruction, operand: AddressOperand) -> _BoxRequest:
    assert operand.coordinates is not None
    place = AddressOperand(operand.base, operand.offset)
    coordinates = [decoder.source(c, "s32", instruction) for c in operand.coordinates.items]
    return _BoxRequest(decoder, instruction, decoder.address(place, instruction), coordinates)


def _tensor_load(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cp.async.bulk.tensor.2d.shared::cluster.global..[d], [map, {x, y}], [barrier]{, mask}`."""
    to, map_, barrier, *rest = instruction.operands
    assert isinstance(map_, AddressOperand)
    box, target = _box(decoder, instruction, map_), decoder.address(to, instruction)
    find = located(decoder, instruction, barrier)
    multicast = any(m.startswith("multicast") for m in instruction.modifiers)
    mask = decoder.source(rest[0], "u16", instruction) if multicast else None
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        for lane in gang.live():
            request = box.of_lane(gang, int(lane))
            if request is None:
                continue
            place = _of_lane(machine, gang, int(lane), target(gang), SHARED_ALIGNMENT, line)
            at = _one_lane(gang, int(lane), find)
            if place is None or at is None:
                continue
            masks = None if mask is None else int(np.broadcast_to(mask(gang), (gang.lanes,))[lane])
            _issue_load(machine, gang, int(lane), request, (place, at), masks, line)

    return run


def _one_lane(gang: Gang, lane: int, find: Callable[[Gang], spaces.Located]) -> int | None:
    old = gang.active
    gang.active = np.arange(gang.lanes) == lane
    place = find(gang)
    gang.active = old
    return int(place.at[0]) if len(place.at) else None


def _of_lane(machine: PtxMachine, gang: Gang, lane: int, address: IntArray, alignment: int, line: int) -> int | None:
    """The arena position of a lane's shared address, which has an alignment."""
    old = gang.active
    gang.active = np.arange(gang.lanes) == lane
    place = machine.locate(gang, "shared", address, 16, line)[0]
    gang.active = old
    if not len(place.at):
        return None
    if int(address[lane]) % alignment:
        message = f"the shared address {int(address[lane]):#x} of a bulk copy is not a multiple of {alignment}"
        machine.fault(Kind.MISALIGNED, message, gang, lane, line)
    return int(place.at[0])


def _issue_load(
    machine: PtxMachine,
    gang: Gang,
    lane: int,
    request: tuple[TensorMapArgument, tuple[int, ...]],
    places: tuple[int, int],
    mask: int | None,
    line: int,
) -> None:
    """Put one operation in flight for each destination block."""
    at, barrier = places
    for peer in _destinations(machine, gang, lane, at, mask, line):
        shift = peer * machine.stride
        land = _landing_load(machine, gang, lane, request, (at % machine.stride + shift), line)
        if land is not None:
            where = barrier % machine.stride + shift
            check_barrier(machine, gang, lane, where, line)
            agent_joint, write = land
            nbytes = request[0].box_bytes
            if peer != int(machine.slot_of_warp[gang.lane_warp[lane]]):
                warp = int(gang.lane_warp[lane])
                event = int(machine.clocks.first_agent[warp]) + BULK_AGENT, int(machine.clocks.issued[warp, BULK_AGENT])
                machine.note_remote_access(gang, lane, peer, event, line)
            machine.in_flight.append(
                AsyncOperation(
                    partial(_land_load, machine, write, where, nbytes, agent_joint, line), line, "a bulk load"
                )
            )


def _land_load(
    machine: PtxMachine, write: Callable[[], None], barrier: int, nbytes: int, joint: Array, line: int
) -> None:
    write()
    complete_bytes(machine, barrier, nbytes, joint, line)


def _destinations(machine: PtxMachine, gang: Gang, lane: int, at: int, mask: int | None, line: int) -> list[int]:
    """The slots that a load writes to; a fault for a rank outside of the cluster, or a block that has exited."""
    slot = at // machine.stride
    slots = [slot]
    if mask is not None:
        peers = machine.shape.cluster_blocks
        if mask >> peers or not mask:
            message = f"the multicast mask {mask:#x} names blocks outside of a cluster of {peers}, or none"
            machine.fault(Kind.OUT_OF_BOUNDS, message, gang, lane, line)
        slots = [slot - slot % peers + rank for rank in range(peers) if mask >> rank & 1]
    return slots


def check_barrier(machine: PtxMachine, gang: Gang, lane: int, at: int, line: int) -> None:
    """The barrier that a copy completes on exists, and its initialisation is known through the asynchronous proxy."""
    if at not in mbarriers_of(machine):
        message = f"no mbarrier was initialised at shared byte {at % machine.stride}"
        machine.fault(Kind.MBARRIER, message, gang, lane, line)
        return
    one = np.array([int(gang.lane_warp[lane])])
    clocks = machine.clocks
    known = clocks.through_async_proxy(one) if machine.checks.fenced_barriers else clocks.known[one]
    access = ShadowAccess(np.array([at]), 8, clocks.first_agent[one], clocks.clocks(one), known, line)
    conflict = machine.shadow.read(access, atomic=True)
    machine.report_proxy_conflict(conflict, "the use of this mbarrier", gang, lane, line)


def _landing_load(
    machine: PtxMachine, gang: Gang, lane: int, request: tuple[TensorMapArgument, tuple[int, ...]], at: int, line: int
) -> tuple[Array, Callable[[], None]] | None:
    """Enter the write into the shadow; returns what completion makes known, and the copy itself."""
    map_, corner = request
    offset = at % machine.stride
    if offset + map_.box_bytes > machine.shape.shared_bytes:
        message = f"a box of {map_.box_bytes} bytes at shared byte {offset} ends outside of the block's memory"
        machine.fault(Kind.OUT_OF_BOUNDS, message, gang, lane, line)
        return None
    chunks = map_.chunks(at, offset)
    joint = enter(machine, gang, lane, chunks, line, writes=True)
    return joint, partial(_copy_box, machine, map_, corner, chunks)


def enter(machine: PtxMachine, gang: Gang, lane: int, chunks: IntArray, line: int, *, writes: bool) -> Array:
    """An access of the bulk unit in the shadow; returns the clocks that its completion makes known."""
    warp = int(gang.lane_warp[lane])
    clocks = machine.clocks
    agent, clock = clocks.issue(warp, BULK_AGENT)
    one = np.array([warp])
    known = clocks.before_copies(one) if writes else clocks.through_async_proxy(one)
    access = ShadowAccess(chunks, 16, np.array([agent]), np.array([clock]), known, line)
    if writes:
        conflict = machine.shadow.write(access)
        machine.report_conflict(conflict, "this bulk load's write", gang, np.array([lane]), line)
    else:
        conflict = machine.shadow.read(access)
        machine.report_proxy_conflict(conflict, "this bulk store's read", gang, lane, line)
    if not writes and len(missing := machine.shadow.uninitialised(access)):
        message = f"a bulk store reads {16 * len(missing)} bytes of shared memory that were never written"
        machine.fault(Kind.UNINITIALISED, message, gang, lane, line)
    return clocks.completion(warp, agent, clock)


def _copy_box(machine: PtxMachine, map_: TensorMapArgument, corner: tuple[int, ...], chunks: IntArray) -> None:
    """Global to shared memory, zeros outside of the tensor."""
    start, inside, low, high = map_.global_rows(corner)
    word = np.dtype(f"u{map_.itemsize}")
    data = np.zeros((map_.rows, map_.box[0]), word)
    if high > low and inside.any():
        first = start[inside] // map_.itemsize
        data[inside, low:high] = machine.globals.arena.view(word)[first[:, None] + np.arange(low, high)]
    if map_.dtype == "tf32":
        data = rounding.tf32_even(data)
    spaces.scatter(machine.shared, chunks, data.reshape(-1).view(np.uint8).reshape(-1, 16))


def _tensor_store(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {x, y}], [s]`, and `cp.reduce`."""
    map_, from_, *_ = instruction.operands
    assert isinstance(map_, AddressOperand)
    box, origin = _box(decoder, instruction, map_), decoder.address(from_, instruction)
    machine, line = decoder.machine, instruction.line
    operation = (
        next((m for m in instruction.modifiers if m in UPDATES), None) if "reduce" in instruction.modifiers else None
    )

    def run(gang: Gang) -> None:
        for lane in gang.live():
            request = box.of_lane(gang, int(lane))
            at = _of_lane(machine, gang, int(lane), origin(gang), SHARED_ALIGNMENT, line)
            if request is None or at is None:
                continue
            tensor, corner = request
            offset = at % machine.stride
            if offset + tensor.box_bytes > machine.shape.shared_bytes:
                message = (
                    f"a box of {tensor.box_bytes} bytes at shared byte {offset} ends outside of the block's memory"
                )
                machine.fault(Kind.OUT_OF_BOUNDS, message, gang, int(lane), line)
                continue
            chunks = tensor.chunks(at, offset)
            joint = enter(machine, gang, int(lane), chunks, line, writes=False)
            write = partial(_write_box, machine, tensor, corner, operation)
            _store_in_flight(machine, gang, int(lane), chunks, joint, write, line)

    return run


def _store_in_flight(
    machine: PtxMachine,
    gang: Gang,
    lane: int,
    chunks: IntArray,
    joint: Array,
    write: Callable[[Array], None],
    line: int,
) -> None:
    """A store reads its source at one moment, and writes at a later one."""
    warp = int(gang.lane_warp[lane])
    store = BulkStore(int(machine.clocks.issued[warp, BULK_AGENT]))
    groups_of(machine).setdefault((warp, lane % 32), GroupQueue()).open.append(store)

    def read() -> None:
        data = spaces.gather(machine.shared, chunks, 16)
        store.read = True
        machine.in_flight.append(AsyncOperation(partial(finish, data), line, "a bulk store's write"))
        _wake_bulk(machine)

    def finish(data: Array) -> None:
        write(data)
        store.done = True
        _wake_bulk(machine)

    machine.in_flight.append(AsyncOperation(read, line, "a bulk store's read"))


def _wake_bulk(machine: PtxMachine) -> None:
    for gang in [g for g in machine.parked if g.waits.startswith("bulk")]:
        machine.wake(gang)


def _write_box(
    machine: PtxMachine, map_: TensorMapArgument, corner: tuple[int, ...], operation: str | None, data: Array
) -> None:
    """Shared to global memory; what is outside of the tensor is not written."""
    start, inside, low, high = map_.global_rows(corner)
    if high <= low or not inside.any():
        return
    word = np.dtype(f"u{map_.itemsize}")
    rows = np.ascontiguousarray(data).reshape(-1).view(word).reshape(map_.rows, map_.box[0])[inside, low:high]
    where = (start[inside] // map_.itemsize)[:, None] + np.arange(low, high)
    arena = machine.globals.arena.view(word)
    arena[where] = rows if operation is None else _reduced(operation, arena[where], rows, map_.dtype)


def _reduced(operation: str, old: Array, new: Array, dtype: str) -> Array:
    """`.add` and the like, element by element."""
    number = NUMPY[dtype]
    if number.kind in "iu" or dtype in ("f32", "f64"):
        return UPDATES[operation](old.view(number), np.ascontiguousarray(new).view(number)).view(old.dtype)
    wide = UPDATES[operation](old.view(number).astype("f4"), np.ascontiguousarray(new).view(number).astype("f4"))
    return rounding.narrow(wide, number).view(old.dtype)


# --- groups -----------------------------------------------------------------------------------------------------------


def _commit(decoder: Decoder) -> Step:
    machine = decoder.machine

    def run(gang: Gang) -> None:
        for lane in gang.live():
            groups_of(machine).setdefault((int(gang.lane_warp[lane]), int(lane) % 32), GroupQueue()).commit()

    return run


def _wait(decoder: Decoder, instruction: PtxInstruction) -> Step:
    operand = instruction.operands[0]
    if not isinstance(operand, Immediate):
        raise decoder.refused(instruction, "the number of groups is a constant")
    left, only_read = int(operand.value), "read" in instruction.modifiers
    machine, pc = decoder.machine, decoder.pc

    def run(gang: Gang) -> Outcome:
        for lane in gang.live():
            warp = int(gang.lane_warp[lane])
            queue = groups_of(machine).get((warp, int(lane) % 32))
            if queue is None:
                continue
            stores = list(queue.covered(left))
            if not all(store.read if only_read else store.done for store in stores):
                gang.pc = pc
                return machine.park(gang, f"bulk stores, to have at most {left} groups in flight")
            for store in stores:
                machine.clocks.learn(warp, BULK_AGENT, store.clock)
            if not only_read:
                queue.drop(left)
        return None

    return run


# --- copies by size ---------------------------------------------------------------------------------------------------


def _plain(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cp.async.bulk.shared::cluster.global [d], [s], n, [barrier]`, and from shared to global memory."""
    to, from_, size, *rest = instruction.operands
    if "reduce" in instruction.modifiers or any(m.startswith("multicast") for m in instruction.modifiers):
        raise decoder.refused(instruction, "bulk copies by size with reduction or multicast are not modelled")
    target, origin = decoder.address(to, instruction), decoder.address(from_, instruction)
    amount = decoder.source(size, "u32", instruction)
    machine, line = decoder.machine, instruction.line
    loads = space_of(instruction) == "shared"
    find = located(decoder, instruction, rest[0]) if loads else None
    if loads and "global" not in instruction.modifiers:
        raise decoder.refused(instruction, "bulk copies between shared memories are not modelled")

    def run(gang: Gang) -> None:
        sizes = np.broadcast_to(amount(gang), (gang.lanes,))
        for lane in map(int, gang.live()):
            nbytes = int(sizes[lane])
            shared, address = (target, origin) if loads else (origin, target)
            at = _of_lane(machine, gang, lane, shared(gang), BULK_ALIGNMENT, line)
            place = int(address(gang)[lane]) - spaces.GLOBAL_BASE
            fits = machine.globals.inside(np.array([place]), nbytes)[0]
            if nbytes % BULK_ALIGNMENT or place % BULK_ALIGNMENT or not fits or at is None:
                message = f"a bulk copy of {nbytes} bytes: a multiple of 16, at aligned addresses inside a buffer"
                machine.fault(Kind.OUT_OF_BOUNDS, message, gang, lane, line)
                continue
            chunks = at + np.arange(0, nbytes, 16)
            joint = enter(machine, gang, lane, chunks, line, writes=loads)
            if find is None:
                _store_in_flight(machine, gang, lane, chunks, joint, partial(_write_span, machine, place), line)
                continue
            barrier = _one_lane(gang, lane, find)
            if barrier is not None:
                check_barrier(machine, gang, lane, barrier, line)
                write = partial(_copy_span, machine, place, chunks)
                land = partial(_land_load, machine, write, barrier, nbytes, joint, line)
                machine.in_flight.append(AsyncOperation(land, line, "a bulk load"))

    return run


def _copy_span(machine: PtxMachine, start: int, chunks: IntArray) -> None:
    data = machine.globals.arena[start : start + 16 * len(chunks)].reshape(-1, 16)
    spaces.scatter(machine.shared, chunks, data)


def _write_span(machine: PtxMachine, start: int, data: Array) -> None:
    machine.globals.arena[start : start + data.size] = data.reshape(-1)


def _arrive_after_copies(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`cp.async.mbarrier.arrive.noinc.shared.b64 [b]`: arrive once this thread's earlier cp.async have landed."""
    find, machine, line = located(decoder, instruction, instruction.operands[0]), decoder.machine, instruction.line
    counts = "noinc" in instruction.modifiers

    def run(gang: Gang) -> None:
        where = find(gang)
        for barrier, lanes in used(machine, gang, where, line):
            if not counts:
                barrier.pending += len(lanes)
            for warp in np.unique(gang.lane_warp[lanes]):
                copies = list(queues_of(machine).get(int(warp), ()))
                joint = machine.clocks.release(np.array([warp]))
                agent = int(machine.clocks.first_agent[warp]) + COPY_AGENT
                joint[0, agent] = max([int(joint[0, agent]), *(c.clock for c in copies)])  # of the generic proxy
                arrivals = int((gang.lane_warp[lanes] == warp).sum())

                def land(barrier=barrier, copies=copies, joint=joint, arrivals=arrivals) -> None:  # type: ignore[no-untyped-def]
                    for copy in copies:
                        copy.land(machine)
                    barrier.learn(joint)
                    barrier.pending -= min(arrivals, barrier.pending)
                    barrier.advance_in(machine)

                machine.in_flight.append(AsyncOperation(land, line, "an arrival after cp.async"))

    return run
