"""C = A B by the blocks of a cluster for each tile: each sums a part of K, and adds and stores a share of the tile.

A product of few tiles and long sums leaves most of a device idle. The blocks of a cluster divide K, leave their sums in
shared memory, and read those of each other:

    block p   its part of K -> sums[p]   barrier of the cluster   share p:  sums[0] + sums[1] + .. -> C   barrier

The parts are added in their order, so that the result does not depend on the order in which blocks run. Unlike a split
among independent blocks (`split_k`), it takes no memory of the device and no counter; a cluster has 8 blocks at most.
The last barrier keeps a block from ending while others read its sums. PTX ISA, "barrier.cluster", "mapa".

>>> from lego_mlir import f16
>>> from lego_mlir.kernels import matmul
>>> kernel = matmul.build(64, 128, 512, f16, tiling=matmul.ProductTile(64, 64, 64, (4, 1)), split=ClusterK(4))
>>> kernel.grid, kernel.cluster, [parameter.name for parameter in kernel.params]
((8,), (4,), ['a', 'b', 'c'])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import lego_mlir as lego
from lego_mlir.aliases import Array, IndexLike, Operand, Traced
from lego_mlir.errors import UsageError
from lego_mlir.hardware.limits import PORTABLE_CLUSTER
from lego_mlir.kernels.added_parts import SharedVectors, store_added

if TYPE_CHECKING:
    from lego_mlir.tracing.trace.dtypes import DType
    from lego_mlir.tracing.words.tensor import View


@dataclass(frozen=True, slots=True)
class ClusterK:
    """K in equal parts, each summed by a block of a cluster. Raises UsageError unless there are 2 to 8 parts."""

    parts: int

    def __post_init__(self) -> None:
        if not isinstance(self.parts, int) or not 2 <= self.parts <= PORTABLE_CLUSTER:
            raise UsageError(
                f"matmul: the parts of K in a cluster must be an int from 2 to {PORTABLE_CLUSTER}, got {self.parts!r}; "
                "for more use SplitK, for 1 leave out split"
            )

    @property
    def cluster(self) -> tuple[int, ...]:
        """The blocks of a cluster."""
        return (self.parts,)

    def grid(self, tiles: int) -> int:
        """The number of blocks: one for each part of each tile."""
        return tiles * self.parts

    def workspace(self, tiles: int, tile: tuple[int, int], dtype: DType) -> dict[str, Traced]:
        """No further parameters."""
        return {}

    def left(self, plan: Traced, a: Array, b: Array) -> tuple[Array, ...]:
        """Nothing but C."""
        return ()

    def share(
        self, plan: Traced, matrices: tuple[View, View, View], staged: Sequence[View], out: View,
        operands: tuple[Operand, ...],
    ) -> None:  # fmt: skip
        """A block's part of K of its cluster's tile, and its share of the whole sums."""
        order, number = plan.order, lego.block_id.x // self.parts
        if order.physical_size() != order.numel():
            raise UsageError(
                f"matmul: {order!r} has positions without a tile, and all blocks of a cluster meet with {self}; use "
                "an order of every tile, such as grouped or row"
            )
        c, at = plan.multiply(matrices, staged, out, order.inv(number), lego.cluster_rank, self.parts)
        lego.cluster_barrier()
        width = plan.width(plan.target(c), at, plan.shape[1])
        vectors = SharedVectors(plan.summed, width, plan.tiling.threads, lego.cluster_rank, self.parts)

        def read(part: int, number: IndexLike) -> Operand:
            return out.of_block(part).load(*vectors.place(number), width=width)

        store_added(plan, c, operands, at, vectors, self.parts, read)
        lego.cluster_barrier()
