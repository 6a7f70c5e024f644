"""A plan carried out by MPI on NumPy arrays: packed into one buffer, exchanged by `Alltoallv`, and unpacked.

mpi4py is imported where an exchange is made; nothing else of this package needs it.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from lego_mlir.aliases import Array, Foreign
from lego_mlir.errors import UsageError
from lego_mlir.mesh.rank_messages import RankMessages
from lego_mlir.mesh.redistribution import RedistributionPlan


class MpiExchange(RankMessages):
    """What one process of a communicator does in a plan; its rank there is its rank in the plan.

    Raises UsageError for a communicator of fewer processes than the plan has ranks. Where a process ends, MPI ends the
    others with a message, unless the communicator's error handler is another one.
    """

    def __init__(self, plan: RedistributionPlan, comm: Foreign) -> None:
        super().__init__(plan, comm.Get_rank())
        if comm.Get_size() < self.ranks:
            raise UsageError(f"the plan has {self.ranks} ranks, and the communicator {comm.Get_size()} processes")
        self.comm = comm
        idle = [0] * (comm.Get_size() - self.ranks)
        self.send_sizes, self.receive_sizes = self.send_sizes + idle, self.receive_sizes + idle

    def __call__(self, part: Array) -> Array:
        """This rank's new part, flat, for its old one, whose elements are in memory order; every process calls it."""
        held, sends_size, receives_size, capacity = self.extents
        if part.size != held:
            raise UsageError(f"rank {self.rank} holds {held} elements, and its array has {part.size}")
        from mpi4py import MPI

        flat = np.ascontiguousarray(part).reshape(-1)
        sends, receives = (np.empty(n, flat.dtype) for n in (sends_size, receives_size))
        found = np.zeros(capacity, flat.dtype)
        at = 0
        for m in self.sent:
            for box in m.source:
                sends[at : at + box.elements] = box.of(flat).reshape(-1)
                at += box.elements
        counts = [[n * flat.itemsize for n in sizes] for sizes in (self.send_sizes, self.receive_sizes)]
        starts = [[0, *accumulate(sizes)][:-1] for sizes in counts]
        given, taken = (
            [buffer.view(np.uint8), (count, start), MPI.BYTE]
            for buffer, count, start in zip((sends, receives), counts, starts, strict=True)
        )
        self.comm.Alltoallv(given, taken)
        for m in self.kept:
            for here, there in zip(m.source, m.target, strict=True):
                _put(there.of(found), here.of(flat), m.adds)
        at = 0
        for m in self.received:
            for box in m.target:
                _put(box.of(found), receives[at : at + box.elements].reshape(box.sizes), m.adds)
                at += box.elements
        return found


def _put(target: Array, given: Array, adds: bool) -> None:
    target[...] = target + given if adds else given
