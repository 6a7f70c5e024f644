"""Clusters: neighbouring blocks that run at the same time and reach each other's shared memory.

    @lego.kernel(grid=(64,), block=128, cluster=(4,))
    def sums(..):
        part = lego.shared(f32, Row(1))
        part[0] = ..                             each block has a part
        lego.cluster_barrier()                   all threads of the cluster arrive, and see what was written before
        total = part.of_block(0)[0] + ..         the parts of all blocks
        lego.cluster_barrier()                   no block ends while another one reads its memory

`lego.cluster_reduce(v)` does so for one number of each block.

A cluster is a box of blocks of the grid. `lego.block_in_cluster` is the place of the block in it, and
`lego.cluster_rank` its number, x fastest; both are indices with known ranges, computed from the block's ids.
`tile.of_block(rank)` is a shared tile in the memory of another block, and `ring[k].arrive(block=rank)` arrives at a
barrier there (`barrier_rings`); a copy by the tensor unit writes the tiles of several blocks (`tile_copies`).

A block's memory is valid only while the block runs: a barrier of the cluster precedes the first access from outside,
and another one follows the last. The interpreter reports accesses that no barrier orders, and a block that ends too
early. Clusters exist from sm_90 on; a cluster of one block needs nothing and runs everywhere.

PTX ISA, "Cluster Dimension", "barrier.cluster", "mapa"; CUDA C++ Programming Guide, "Distributed Shared Memory".
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Final, NoReturn

import sympy

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.expr.index import Index
from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.layout.base import Layout
from lego_mlir.tracing.trace.dtypes import index
from lego_mlir.tracing.trace.trace import Buffer, FromIndex, MlirOperation, Value
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.control import Ids, barrier, when
from lego_mlir.tracing.words.places import Place
from lego_mlir.tracing.words.reductions import combining, require_uniform
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import ElementAccess, View, declare_scratch
from lego_mlir.tracing.words.warps import ThreadNumber, linear_thread

ARRIVE: Final = "nvvm.cluster.arrive"
WAIT: Final = "nvvm.cluster.wait"
CAST: Final = "builtin.unrealized_conversion_cast"
OF_BLOCK: Final = "lego.of_block"


class BlockInCluster(Ids):
    """The place of this block in its cluster, along the axes of the grid."""

    def _all(self) -> tuple[Index, ...]:
        tracer = current("lego.block_in_cluster")
        extents = (*tracer.cluster, *(1 for _ in tracer.grid[len(tracer.cluster) :]))
        ids = (Index(tracer.id_symbol("block_id", axis)) for axis in builtins.range(len(tracer.grid)))
        return tuple(i % n for i, n in zip(ids, extents, strict=True))


class ClusterRank(ThreadNumber):
    """The number of this block in its cluster, an index that is known inside a kernel."""

    __slots__ = ()

    @property
    def expr(self) -> Expr:
        """The rank as an expression of the block's ids."""
        return rank_of(current(self._written)).expr


block_in_cluster = BlockInCluster("block_in_cluster")
"""The place of this block in its cluster: x, y, z, below the sizes of `cluster=`. PTX: %cluster_ctaid."""
cluster_rank = ClusterRank("lego.cluster_rank")
"""The number of this block in its cluster, x fastest; 0 in a kernel without clusters. PTX: %cluster_ctarank."""


def rank_of(tracer: Tracer) -> Index:
    """The number of the block in its cluster."""
    places = list(zip(block_in_cluster, tracer.cluster, strict=False))
    return reduce(lambda inner, place: place[0] + place[1] * inner, reversed(places), Index(0))


def blocks_of_cluster(tracer: Tracer) -> int:
    """The number of blocks of a cluster: 1 without clusters."""
    return prod(tracer.cluster)


def cluster_barrier() -> None:
    """All threads of all blocks of the cluster arrive before any continues; stores before it are visible after it.

    Without clusters it is a barrier of the block. Raises TraceError in a role, or where threads may skip it.
    """
    tracer = current("lego.cluster_barrier")
    if tracer.role is not None or tracer.called is not None:
        raise tracer.error(
            "lego.cluster_barrier in a role or in a function that is called: all threads of the cluster arrive there; "
            "put it at the kernel's top level, after the roles"
        )
    require_uniform(tracer, "lego.cluster_barrier")
    if blocks_of_cluster(tracer) == 1:
        barrier()
        return
    for name in (ARRIVE, WAIT):
        tracer.append(MlirOperation((), name, (), (), tracer.here()))


def cluster_reduce(value: Scalar, op: str | Callable[[Scalar, Scalar], Scalar] = "add") -> Scalar:
    """The values of the blocks of the cluster, or their vectors, combined in the order of their ranks, in every thread.

    A block's value is that of its first thread: reduce over the block before, by `lego.block_reduce` or a reduction of
    a tile. `op` is as in `lego.warp_reduce`, or an associative function of two values. It contains two barriers of the
    cluster, before and after the blocks read each other's memory. Without clusters it is the value. Raises TraceError
    where threads may skip it.
    """
    tracer = current("lego.cluster_reduce")
    combine = op if callable(op) else combining(tracer, "lego.cluster_reduce", value, op, vectors=True)
    require_uniform(tracer, "lego.cluster_reduce")
    blocks = blocks_of_cluster(tracer)
    if blocks == 1:
        return value
    part, _ = declare_scratch(tracer, value.dtype, value.width or 1)
    with when(linear_thread(tracer) < 1):
        part.store(value, 0)
    cluster_barrier()
    parts = [part.of_block(rank).load(0, width=value.width or 1) for rank in builtins.range(blocks)]
    cluster_barrier()  # here, and not after the kernel's stores, for which the last barrier would wait
    return reduce(combine, parts)


class PeerTile(ElementAccess):
    """A shared tile in the memory of the block of the cluster with the number `rank`: its elements, by index."""

    __slots__ = ("_tracer", "buffer", "layout", "rank")

    def __init__(self, tracer: Tracer, buffer: Buffer, layout: Layout, rank: Expr) -> None:
        self._tracer, self.buffer, self.layout, self.rank = tracer, buffer, layout, rank

    def dims(self) -> tuple[IndexLike, ...]:
        """The logical sizes."""
        return self.layout.dims()

    def place(self, *index: IndexLike, stored: bool = False) -> Place:
        """The address of an index, before its width is chosen."""
        return Place(self._inside_kernel(), self.buffer, self.layout, index, block=self.rank)

    def _atomic(self, name: str, *_: object, **__: object) -> NoReturn:
        raise self._inside_kernel().error(
            f"{self.buffer.name}.of_block({self.rank}).atomic_{name}: only the threads of a block update its shared "
            "tiles atomically; let each block update its own, and add the results after lego.cluster_barrier()"
        )

    def __repr__(self) -> str:
        return f"<{self.buffer.name} of block {self.rank}: {self.dtype}, {self.layout!r}>"


def tile_of_block(view: View, rank: IndexLike) -> View | PeerTile:
    """A shared tile in the memory of another block: the method `View.of_block`."""
    tracer = current(f"{view.buffer.name}.of_block")
    if view.buffer.space != "workgroup" or view.boundary is not None:
        raise tracer.error(
            f"{view.buffer.name}.of_block: only a shared tile, without a halo, has one place in each block of a "
            f"cluster; got {view!r}",
            LayoutError,
        )
    number = checked_rank(tracer, f"{view.buffer.name}.of_block", rank)
    return view if blocks_of_cluster(tracer) == 1 else PeerTile(tracer, view.buffer, view.layout, number)


def checked_rank(tracer: Tracer, called: str, rank: IndexLike) -> Expr:
    """The number of a block in the cluster, simplified. Raises TraceError where it is not proved to be one."""
    blocks, number = blocks_of_cluster(tracer), tracer.index(rank)
    verdict = tracer.prove(sympy.And(Le(0, number), Lt(number, blocks)))
    if isinstance(verdict, Proved):
        return tracer.simplified(number)
    values = ", ".join(f"{n} = {v}" for n, v in verdict.counter_example.items()) if isinstance(verdict, Refuted) else ""
    reason = f"is outside for {values}" if values else "is not proved to be inside"
    remedy = "" if tracer.cluster else "; divide the grid into clusters with @lego.kernel(.., cluster=(2, 1))"
    raise tracer.error(
        f"{called}: a cluster of {tracer.name} has the blocks 0 to {blocks - 1}, and {number} {reason}"
        + (remedy or f"; take it modulo {blocks}, or guard it with lego.when"),
        TraceError,
    )


def of_peer(tracer: Tracer, own: Value, rank: Expr) -> Value:
    """A ring of barriers in the memory of another block."""
    number, result = tracer.value(index), tracer.value(own.dtype)
    tracer.append(FromIndex(number, rank, tracer.here()))
    tracer.append(MlirOperation((result,), CAST, (own, number), ((OF_BLOCK, "unit"),), tracer.here()))
    return result
