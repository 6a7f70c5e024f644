"""Moves of arrays over a mesh of ranks: planned and proved here, carried out by `torch.distributed`.

    lego.redistribute(source, target)              a `RedistributionPlan` between two `Sharded` distributions
    lego.mesh.exactly_once(source, target)         a proof for symbolic sizes
    lego.mesh.redistribute(dtensor, placements)    a DTensor with other placements
    lego.mesh.Exchange(plan, rank)                 what one rank does, on tensors
    lego.mesh.MpiExchange(plan, comm)              the same by MPI, on NumPy arrays
    lego.mesh.JaxExchange(plan, mesh)              what all ranks do, on a JAX array of their parts
    lego.mesh.best_ranks(plan)                     the numbers of the target's ranks with which most elements stay
    lego.mesh.PeerExchange(plan, rank)             the same by stores into the memory of peers
    lego.mesh.plan_product(a, b, c)                a `MeshProductPlan` for matrices in any distributions
    lego.mesh.MeshProduct(plan, dtype, device)     what one rank does, on tensors

axis_moves        runs of elements along one axis, between two chains of splits
redistribution    messages as products of runs; traffic; the plan carried out on arrays of one process
box_kernels       kernels that copy boxes: messages packed, unpacked, or stored at peers
transposed_boxes  boxes whose axes differ in memory, in tiles through shared memory
device_exchange   one rank's exchange by two of them
products          products as moves to a grid of ranks and back
strips            rows or panels that are multiplied while others arrive, and rings of sums
strip_steps       the memory of one rank's product, and what is made once for its strips
torch_products    a product by the memory of peers, transfers while products run
product_epilogues what follows a product: fused into local ones, or applied to sums
relabelling       which process should be which rank of the target
peer_exchange     one kernel that stores into the memory of peers
peer_memory       memory of each rank that all ranks reach
peer_signals      counts that ranks raise at each other, and streams wait for
rank_messages     what one rank sends, receives and keeps
mpi_exchange      packed, exchanged by MPI, unpacked
jax_exchange      packed, exchanged by JAX, unpacked
torch_exchange    packed, exchanged by `all_to_all`, unpacked
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.aliases import Foreign
from lego_mlir.mesh.jax_exchange import JaxExchange
from lego_mlir.mesh.mpi_exchange import MpiExchange
from lego_mlir.mesh.peer_exchange import PeerExchange
from lego_mlir.mesh.peer_memory import PeerMemory
from lego_mlir.mesh.products import MeshProductPlan, ProductGrid, plan_product
from lego_mlir.mesh.redistribution import Message, RedistributionPlan, StridedBox, Traffic, exactly_once
from lego_mlir.mesh.relabelling import best_ranks
from lego_mlir.mesh.torch_exchange import Exchange
from lego_mlir.mesh.torch_products import MeshProduct

__all__ = [
    "Exchange",
    "JaxExchange",
    "MeshProduct",
    "MeshProductPlan",
    "Message",
    "MpiExchange",
    "PeerExchange",
    "PeerMemory",
    "ProductGrid",
    "RedistributionPlan",
    "StridedBox",
    "Traffic",
    "best_ranks",
    "exactly_once",
    "plan_product",
    "redistribute",
]


def redistribute(tensor: Foreign, placements: Sequence[Foreign]) -> Foreign:
    """A DTensor with other placements on its mesh, by a plan that is proved complete; every rank calls it.

    `_StridedShard` and uneven shards are moved directly, without a replica between. Raises UsageError for other
    tensors, and on every rank where another one ends or fails.
    """
    from lego_mlir.mesh.torch_exchange import redistributed

    return redistributed(tensor, placements)
