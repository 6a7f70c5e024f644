"""A plan carried out by stores into the memory of peers: one kernel a rank, and no buffer between.

    exchange = lego.mesh.PeerExchange(plan, rank)
    memory = lego.mesh.PeerMemory(elements, dtype, device)
    memory.barrier()                            every rank's new part may be overwritten
    exchange(part, memory.parts(sizes))         parts[t]: the new part of rank t, as this rank reaches it
    memory.barrier()                            every rank's new part is complete

The memory of peers is the caller's: `PeerMemory`, or other buffers of one device. A rank that fails between the
barriers leaves new parts that are not whole; a caller keeps the old ones until the second barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lego_mlir.aliases import Tensor
from lego_mlir.errors import UsageError
from lego_mlir.mesh.box_kernels import MOST_BOXES, BoxKernel, MakeKernel, box_kernel, peer_moves
from lego_mlir.mesh.device_exchange import INTEGERS, as_integers
from lego_mlir.mesh.redistribution import RedistributionPlan
from lego_mlir.tracing.trace.dtypes import dtype_named


class PeerExchange:
    """What one rank stores into which peers; `receivers` are those that it writes, itself included.

    `make` gives the kernel, called as `box_kernel` is: a packed one, say, where nothing is compiled. Raises UsageError
    for parts of sums, which are added as they arrive, and for more boxes than a kernel takes.
    """

    def __init__(self, plan: RedistributionPlan, rank: int, make: MakeKernel = box_kernel) -> None:
        self.plan, self.rank, self.make = plan, rank, make
        messages = plan.messages_from(rank) if rank < plan.source.count else []
        self.moves = peer_moves(messages)
        if len(self.moves) > MOST_BOXES:
            raise UsageError(
                f"rank {rank} stores {len(self.moves)} boxes, and a kernel takes {MOST_BOXES}; use Exchange, which "
                "sends them by all_to_all"
            )
        self.receivers = tuple(sorted({move.buffer for move in self.moves}))
        self.kernel = lru_cache(self._kernel)

    def _kernel(self, bits: int) -> BoxKernel:
        """The kernel for elements of this width, in bits."""
        target = self.plan.target
        capacities = [target.capacity(t) for t in range(target.count)]
        held = self.plan.source.capacity(self.rank)
        return self.make("store_messages", self.moves, dtype_named(f"i{bits}"), held, capacities)

    def __call__(self, part: Tensor, peers: Sequence[Tensor]) -> None:
        """Store this rank's part, flat tensors throughout. Raises UsageError for tensors of another size or type."""
        if not self.moves:
            return
        bits = 8 * part.element_size()
        if bits not in INTEGERS:
            raise UsageError(f"a kernel moves elements of 1, 2, 4 or 8 bytes, got {part.dtype}; view it as one of them")
        target = self.plan.target
        if len(peers) != target.count:
            raise UsageError(f"the plan has {target.count} receivers, got {len(peers)} peers; give one for each rank")
        for t in self.receivers:
            if (peers[t].numel(), peers[t].dtype) != (target.capacity(t), part.dtype):
                raise UsageError(
                    f"the new part of rank {t} has {target.capacity(t)} elements of {part.dtype}, got "
                    f"{peers[t].numel()} of {peers[t].dtype}"
                )
        tensors = (part.detach(), *(peers[t] for t in self.receivers))
        self.kernel(bits)(*(as_integers(tensor.view(-1), bits) for tensor in tensors))
