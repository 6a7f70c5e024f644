"""Messages of one rank in a plan, whatever carries them: sizes and places of its buffers."""

from __future__ import annotations

from lego_mlir.mesh.redistribution import RedistributionPlan


class RankMessages:
    """The messages of a rank; buffers have them in the order of the other ranks, sizes are in elements.

    A rank beyond those of the source sends nothing, one beyond those of the target receives nothing.
    """

    def __init__(self, plan: RedistributionPlan, rank: int) -> None:
        self.plan, self.rank, self.ranks = plan, rank, max(plan.source.count, plan.target.count)
        sent = plan.messages_from(rank) if rank < plan.source.count else []
        received = plan.messages_to(rank) if rank < plan.target.count else []
        self.kept = [m for m in sent if m.receiver == rank]
        self.sent = [m for m in sent if m.receiver != rank]
        self.received = [m for m in received if m.sender != rank]
        self.send_sizes, self.receive_sizes = [0] * self.ranks, [0] * self.ranks
        for m in self.sent:
            self.send_sizes[m.receiver] = m.elements
        for m in self.received:
            self.receive_sizes[m.sender] = m.elements

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The sizes of this rank's new part; one axis of 0 for a rank that has none."""
        return self.plan.target.local_shape(self.rank) if self.rank < self.plan.target.count else (0,)

    @property
    def extents(self) -> tuple[int, int, int, int]:
        """The elements of the old part, of both buffers, and of the new part."""
        held = self.plan.source.capacity(self.rank) if self.rank < self.plan.source.count else 0
        capacity = self.plan.target.capacity(self.rank) if self.rank < self.plan.target.count else 0
        return held, sum(self.send_sizes), sum(self.receive_sizes), capacity
