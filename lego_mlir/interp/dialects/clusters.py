"""Clusters: the place of a block in its cluster, their barrier, and the shared memory and barriers of other blocks.

A cluster is a box of neighbouring blocks that run at once (sm_90). Without a cluster size, each block is one. A cast
with the attribute `lego.of_block` takes a shared memref, or a group of barriers, and the rank of a block, to that of
this block.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from lego_mlir.interp import cluster_blocks, values
from lego_mlir.interp.dialects.gpu import identity
from lego_mlir.interp.dialects.mbarrier import Barriers, PeerBarriers
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.memory import MemRef
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.report import Kind

OF_BLOCK: Final = "lego.of_block"


identity("gpu.cluster_id", lambda m, axis: m.block_id(axis) // m.cluster[axis])
identity("gpu.cluster_block_id", lambda m, axis: m.block_id(axis) % m.cluster[axis])
identity("gpu.cluster_dim", lambda m, axis: values.uniform(m.grid[axis] // m.cluster[axis]))
identity("gpu.cluster_dim_blocks", lambda m, axis: values.uniform(m.cluster[axis]))


@implements("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed")
def cluster_arrive(op: Operation) -> Step:
    """All threads of the block arrive at the barrier of their cluster; without clusters, the wait is the barrier."""
    place = op.place
    op.compiler.clustered = op.compiler.concurrent = True

    def step(m: Machine) -> None:
        if m.cluster_blocks is not None:
            cluster_blocks.arrive(m, place)

    return step


@implements("nvvm.cluster.wait")
def cluster_wait(op: Operation) -> Step:
    """Wait until all blocks of the cluster have arrived."""
    place = op.place
    op.compiler.clustered = op.compiler.concurrent = True

    def step(m: Machine) -> None:
        if m.cluster_blocks is None:
            m.passed_barrier(place)
        else:
            cluster_blocks.wait(m, place)

    return step


def of_block(op: Operation) -> Step:
    """The same memref, or group of barriers, in another block of the cluster."""
    own, rank = op.operands
    result, place = op.result, op.place
    op.compiler.clustered = op.compiler.concurrent = True

    def step(m: Machine) -> None:
        given: MemRef | Barriers = m.values[own]
        if m.cluster_blocks is None:
            m.values[result] = given
            return
        number = m.values[rank]
        blocks = len(m.cluster_blocks.ids)
        outside = np.broadcast_to((number < 0) | (number >= blocks), m.lanes) & m.active()
        if outside.any():
            lane = int(np.flatnonzero(outside[0])[0])
            wrong = int(np.broadcast_to(number, m.lanes)[0, lane])
            text = f"rank {wrong} of a cluster of {blocks} blocks"
            m.faults.add(Kind.OUT_OF_BOUNDS, text, place, *m.name_lane(0, lane), count=int(outside.sum()))
        number = np.clip(number, 0, blocks - 1)
        m.values[result] = replace(given, in_block=number) if isinstance(given, MemRef) else PeerBarriers(given, number)

    return step
