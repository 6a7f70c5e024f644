"""Clusters: barrier.cluster, mapa, getctarank. PTX ISA, "barrier.cluster", "mapa", "getctarank".

All threads of all blocks arrive once a phase, and wait later; a thread that has exited counts as arrived.
"""

from __future__ import annotations

import numpy as np

from lego_mlir.aliases import IntArray
from lego_mlir.interp.barrier_phases import ClusterBarrier
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.warp_convergence import whole_warps
from lego_mlir.interp.report import Kind


def cluster_barriers(machine: PtxMachine) -> dict[int, ClusterBarrier]:
    """The barriers by number of the cluster."""
    return machine.states("clusters")


def _advance(machine: PtxMachine, cluster: int, barrier: ClusterBarrier) -> bool:
    """Complete the phase if all warps of the cluster have arrived or exited."""
    warps = machine.shape.cluster_blocks * machine.shape.warps
    every = range(cluster * warps, (cluster + 1) * warps)
    arrived = barrier.arrived
    if not barrier.advance([warp for warp in every if not machine.exited[warp].all()]):
        return False
    if machine.globals.order is not None:
        machine.globals.order.barrier(arrived)
    machine.progress += 1
    machine.wake_all(barrier)
    return True


def _clusters(machine: PtxMachine, gang: Gang) -> IntArray:
    found: IntArray = machine.slot_of_warp[gang.warps] // machine.shape.cluster_blocks
    return found


@opcode("barrier", form="cluster", whole=True)
def build_cluster_barrier(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`barrier.cluster.arrive.release.aligned`, `barrier.cluster.wait.acquire.aligned`."""
    machine, line, pc = decoder.machine, instruction.line, decoder.pc
    releases = "relaxed" not in instruction.modifiers
    waits = "wait" in instruction.modifiers

    def arrive(gang: Gang) -> None:
        clusters = _clusters(machine, gang)
        for cluster in np.unique(clusters):
            barrier = cluster_barriers(machine).setdefault(int(cluster), ClusterBarrier())
            warps = gang.warps[clusters == cluster]
            if not barrier.add(machine.clocks, warps, releases=releases):
                message = "barrier.cluster.arrive twice without barrier.cluster.wait between"
                machine.fault(Kind.BARRIER, message, gang, int(gang.live()[0]), line)
            _advance(machine, int(cluster), barrier)

    def wait(gang: Gang) -> Outcome:
        return _wait(machine, gang, line, pc)

    return whole_warps(decoder, wait if waits else arrive)


def _wait(machine: PtxMachine, gang: Gang, line: int, pc: int) -> Outcome:
    clusters = _clusters(machine, gang)
    blocked = np.zeros(len(gang.warps), np.bool_)
    for cluster in np.unique(clusters):
        barrier = cluster_barriers(machine).setdefault(int(cluster), ClusterBarrier())
        chosen = clusters == cluster
        match barrier.is_open(gang.warps[chosen]):
            case None:
                message = "barrier.cluster.wait without barrier.cluster.arrive"
                machine.fault(Kind.BARRIER, message, gang, int(gang.live()[0]), line)
            case True:
                blocked |= chosen
            case False:
                barrier.leave(machine.clocks, gang.warps[chosen])
    if not blocked.any():
        return None
    if not blocked.all():
        machine.runnable.append(gang.of_warps(~blocked))
    for cluster in np.unique(clusters[blocked]):
        part = gang if (clusters == cluster).all() else gang.of_warps(clusters == cluster)
        part.pc = pc
        barrier = cluster_barriers(machine)[int(cluster)]
        total = machine.shape.cluster_blocks * machine.shape.warps
        machine.park(part, f"the barrier of its cluster, at which {len(barrier.arrived)} of {total} warps have arrived")
        barrier.waiting.append(part)
    return "parked"


def release_cluster_after_exits(machine: PtxMachine) -> bool:
    """Exited warps count as arrived."""
    return any(_advance(machine, *found) for found in cluster_barriers(machine).items())


@opcode("mapa")
def build_mapa(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`mapa.shared::cluster.u32 d, a, rank`: the same variable in another block of the cluster."""
    d, a, b = instruction.operands
    type_ = decoder.type_of(instruction)
    address, rank = decoder.source(a, type_, instruction), decoder.source(b, "u32", instruction)
    write, machine, line = decoder.sink(d, instruction), decoder.machine, instruction.line
    window = 0 if "shared::cluster" in instruction.modifiers else spaces.SHARED_WINDOW
    peers = machine.shape.cluster_blocks

    def run(gang: Gang) -> None:
        ranks = np.broadcast_to(rank(gang), (gang.lanes,)).astype(np.int64)
        beyond = (ranks >= peers) & gang.mask()
        if beyond.any():
            lane = int(np.argmax(beyond))
            message = f"rank {int(ranks[lane])} of a cluster of {peers} blocks"
            machine.fault(Kind.OUT_OF_BOUNDS, message, gang, lane, line, count=int(beyond.sum()))
        offset = address(gang).astype(np.int64) & spaces.OFFSET_MASK
        write(gang, (offset | ranks << spaces.RANK_SHIFT | window).astype(np.uint64))

    return run


@opcode("getctarank")
def build_getctarank(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`getctarank.shared::cluster.u32 d, a`: the rank of the block that owns an address."""
    d, a = instruction.operands
    address = decoder.source(a, decoder.type_of(instruction), instruction)
    write = decoder.sink(d, instruction)

    def run(gang: Gang) -> None:
        rank = address(gang).astype(np.int64) >> spaces.RANK_SHIFT
        write(gang, (rank & 0xFF).astype(np.uint32))

    return run
