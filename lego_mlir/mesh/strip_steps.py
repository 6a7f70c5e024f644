"""The memory of one rank's product over a mesh, and its strips with all that is made once for them.

    operands    the parts of A and B that move, where other ranks read them
    gathered    the blocks of A and B, as their parts arrive
    block       the block of C before it moves
    results     places for what arrives of C: one for each step of the ring, or for each part of a sum

A step is a strip with its copies, events and views: a call has addresses, streams and counts to fill in only, since a
product of 0.3 ms leaves the host no more for all its strips.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.aliases import Foreign, Tensor
from lego_mlir.mesh.peer_memory import PeerMemory
from lego_mlir.mesh.strips import EdgeBox, Strip, ring_of, strips_of
from lego_mlir.mesh.torch_exchange import view_of

if TYPE_CHECKING:
    from lego_mlir.mesh.products import MeshProductPlan
    from lego_mlir.mesh.redistribution import RedistributionPlan

Copy = Callable[[], None]
"""A copy that is prepared."""


@dataclass(slots=True)
class StripStep:
    """A strip with what is made once for it: copies with the ranks that they wait for, events, and views.

    `views` are its operands in this rank's memory, None for one that does not move; `before` is the sum that it goes
    on with, and `out` where its product is written unless that is the caller's part of C.
    """

    strip: Strip
    pulls: list[tuple[int, Copy]] = field(default_factory=list)
    sends: list[tuple[int, Copy]] = field(default_factory=list)
    arrived: Foreign = None
    views: tuple[Tensor | None, Tensor | None] = (None, None)
    before: Tensor | None = None
    out: Tensor | None = None


class ProductMemory:
    """The memory and the steps of this rank; every rank of the default group makes it at the same time.

    `types` are those of the operands and of C; copies that arrive run on the first of `streams`, others on the second.
    `readers` read this rank's operands, which it reads of `senders`; it sends parts of C to `receivers`, and
    `storing` send theirs.
    """

    def __init__(
        self, plan: MeshProductPlan, types: tuple[Foreign, Foreign], device: Foreign,
        streams: tuple[Foreign, Foreign],
    ) -> None:  # fmt: skip
        import torch
        import torch.distributed as dist

        self.plan, self.rank, self.device = plan, dist.get_rank(), device
        self._arrivals, self._departures = streams
        self.ring, strips = ring_of(plan, self.rank), strips_of(plan, self.rank)
        shapes = [moves.target.local_shape(self.rank) for moves in (plan.a, plan.b)]
        self.rows, self.inner, self.columns = *shapes[0], shapes[1][1]
        self.capacities = [plan.c.target.capacity(t) for t in range(plan.ranks)]
        along = plan.grid.order.index("l")
        self._part = int(plan.c.source.mesh_of(np.asarray(self.rank))[along])
        self.operands = [None if stays(moves) else self._memory_of(moves, types[0]) for moves in (plan.a, plan.b)]
        self.results = self._places(types[1])
        self.readers, self.senders, self.receivers, self.storing = self._neighbours()
        sizes = (self.rows * self.inner, self.inner * self.columns)
        self.gathered = [
            None if one is None else torch.empty(n, dtype=types[0], device=device)
            for one, n in zip(self.operands, sizes, strict=True)
        ]
        held = 0 if self.results is None else self.rows * self.columns
        self.block = torch.empty(held, dtype=types[1], device=device)
        self.steps = [self._prepared(strip) for strip in strips]

    def _memory_of(self, moves: RedistributionPlan, dtype: Foreign) -> PeerMemory:
        """Memory for the parts of an operand that moves."""
        return PeerMemory(max(moves.source.capacity(t) for t in range(self.plan.ranks)), dtype, self.device)

    def _places(self, dtype: Foreign) -> PeerMemory | None:
        """Memory for what arrives of C: a place for each step of the ring, or for each part of a sum."""
        if stays(self.plan.c):
            return None
        slots = self.plan.sums - 1 if self.ring is not None else self.plan.sums
        return PeerMemory(max(slots, 1) * max(self.capacities), dtype, self.device)

    def _neighbours(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """The ranks that read this rank's operands, that it reads, to whose C it sends, and that send to its own."""
        plan, rank = self.plan, self.rank
        moving = [moves for moves, one in zip((plan.a, plan.b), self.operands, strict=True) if one is not None]
        lists = [
            {m.receiver for moves in moving for m in moves.messages_from(rank)},
            {m.sender for moves in moving for m in moves.messages_to(rank)},
            set() if self.results is None else {m.receiver for m in plan.c.messages_from(rank)},
            set() if self.results is None else {m.sender for m in plan.c.messages_to(rank)},
        ]
        if self.ring is not None:
            lists[2:] = [{self.ring.after}, {self.ring.before}]
        readers, senders, receivers, storing = (sorted(found - {rank}) for found in lists)
        return readers, senders, receivers, storing

    def matrices(self, step: StripStep, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """The operands of a strip, which have arrived."""
        (first, last), (start, end) = step.strip.rows, step.strip.inner
        left, right = step.views
        if left is None:
            left = a.view(self.rows, self.inner)[first:last, start:end].contiguous()
        return left, b.view(self.inner, self.columns)[start:end] if right is None else right

    def rows_of(self, strip: Strip, block: Tensor) -> Tensor:
        """The rows of a strip in this rank's block, or in its part of C where the ring ends."""
        first, last = strip.rows
        if self.ring is not None and strip.hop is not None:
            start = self.ring.steps[strip.hop][0]
            first, last = first - start, last - start
        return block[first * self.columns : last * self.columns].view(-1, self.columns)

    def _prepared(self, strip: Strip) -> StripStep:
        """The copies, events and views of a strip."""
        import torch

        (first, last), (start, end) = strip.rows, strip.inner
        shapes, panels = ((last - first, end - start), (end - start, self.columns)), end - start < self.inner
        step = StripStep(strip)
        views: list[Tensor | None] = []
        for side, (boxes, moves) in enumerate(((strip.a, self.plan.a), (strip.b, self.plan.b))):
            memory, gathered = self.operands[side], self.gathered[side]
            if memory is None or gathered is None:
                views.append(None)
                continue
            at = self._in_place(boxes, shapes[side]) if panels or side == 0 else None
            if at is not None:
                rows, columns = shapes[side]
                views.append(memory.own[at : at + rows * columns].view(rows, columns))
                continue
            for box in boxes:
                part = view_of(memory.part(box.other, moves.source.capacity(box.other)), box.there)
                step.pulls.append((box.other, self._copy(view_of(gathered, box.here), part, self._arrivals)))
            if side:
                views.append(gathered.view(self.inner, self.columns)[start:end])
            elif panels:  # each panel of A is row-major
                views.append(gathered[self.rows * start : self.rows * end].view(self.rows, end - start))
            else:
                views.append(gathered.view(self.rows, self.inner)[first:last])
        step.views = views[0], views[1]
        if step.pulls and self._arrivals is not None:
            step.arrived = torch.cuda.Event()
        self._prepare_sends(step)
        return step

    def _prepare_sends(self, step: StripStep) -> None:
        """Where the product of a strip is written if C moves, and the copies that send it."""
        strip = step.strip
        if self.results is None:
            return
        if self.ring is not None and strip.hop is not None:
            if strip.hop:
                step.before = self._place_of_sum(self.rank, strip, strip.hop)
            if strip.hop < self.plan.sums - 1:
                first, last = (n * self.columns for n in strip.rows)
                step.out = self.block[first:last].view(-1, self.columns)
                there = self._place_of_sum(self.ring.after, strip, strip.hop + 1)
                step.sends.append((self.ring.after, self._copy(there, step.out, self._departures)))
            return
        step.out = self.rows_of(strip, self.block)
        for box in strip.gives:
            n, slot = self.capacities[box.other], self._part
            part = view_of(self.results.part(box.other)[slot * n : (slot + 1) * n], box.there)
            step.sends.append((box.other, self._copy(part, view_of(self.block, box.here), self._departures)))

    def _in_place(self, boxes: Sequence[EdgeBox], shape: tuple[int, int]) -> int | None:
        """Where a whole matrix lies in this rank's own part of an operand that moves; None if it does not."""
        if len(boxes) != 1 or boxes[0].other != self.rank:
            return None
        box = boxes[0].there
        dense = box.sizes[0] == box.sizes[2] == 1 and box.strides[3] == 1 and box.strides[1] == shape[1]
        return box.offset if dense and box.sizes[1::2] == shape else None

    def _place_of_sum(self, rank: int, strip: Strip, hop: int) -> Tensor:
        """Where a rank gets the sum of a strip that it goes on with in a step of the ring."""
        assert self.results is not None
        whole = self.results.part(rank)[(hop - 1) * max(self.capacities) :]
        return self.rows_of(strip, whole)

    def _copy(self, target: Tensor, source: Tensor, stream: Foreign) -> Copy:
        """A copy on a stream: of what is side by side on both sides by the driver, which takes a copy engine."""
        if stream is not None and target.is_contiguous() and source.is_contiguous():
            from lego_mlir.runtime.driver import driver

            size, device = target.numel() * target.element_size(), target.device.index
            return driver().copier(target.data_ptr(), source.data_ptr(), size, device, stream.cuda_stream)

        def copied() -> None:
            with on_stream(stream):
                target.copy_(source)

        return copied


def on_stream(stream: Foreign) -> AbstractContextManager[Foreign]:
    """What is launched inside runs on a stream of a GPU; None is a CPU."""
    if stream is None:
        return nullcontext()
    import torch

    return torch.cuda.stream(stream)


def stays(moves: RedistributionPlan) -> bool:
    """Whether every rank's new part is its old part, in the same order."""
    return not moves.parts and all(_is_identity(moves, rank) for rank in range(moves.target.count))


def _is_identity(moves: RedistributionPlan, rank: int) -> bool:
    messages = moves.messages_to(rank)
    same = all(m.sender == rank and m.source == m.target for m in messages)
    return same and moves.source.local_shape(rank) == moves.target.local_shape(rank)
