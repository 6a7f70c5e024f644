"""`gpu`: the place of a block in its cluster, and of the cluster in the grid.

A cluster is a box of neighbouring blocks that run at once (sm_90). Without a cluster size, each block is one.
"""

from __future__ import annotations

from collections.abc import Callable

from lego_mlir.interp import values
from lego_mlir.interp.dialects.gpu import AXES
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.values import Array


def _along(name: str, find: Callable[[Machine, int], Array]) -> None:
    @implements(name)
    def build(op: Operation) -> Step:
        axis, result = AXES[op.keyword("dimension")], op.result

        def step(m: Machine) -> None:
            m.values[result] = find(m, axis)

        return step


_along("gpu.cluster_id", lambda m, axis: m.block_id(axis) // m.cluster[axis])
_along("gpu.cluster_block_id", lambda m, axis: m.block_id(axis) % m.cluster[axis])
_along("gpu.cluster_dim", lambda m, axis: values.uniform(m.grid[axis] // m.cluster[axis]))
_along("gpu.cluster_dim_blocks", lambda m, axis: values.uniform(m.cluster[axis]))
