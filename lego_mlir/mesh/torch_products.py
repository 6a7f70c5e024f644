"""A product over a mesh, as one rank carries it out: parts arrive, strips are multiplied, results are sent.

    arriving     ready? │ rows of strip 1 │ rows of strip 2 │
    products     strip 0         │ strip 1         │ strip 2 ..              │
    leaving                      │ C of strip 0    │ C of strip 1    │ ..

On GPUs transfers are copies between memories of peers (`PeerMemory`) on two streams of their own, so that those of one
strip run while another is multiplied; copy engines do contiguous ones, and ranks wait for each other by `PeerSignals`,
so that neither takes a multiprocessor from products. On a CPU the same steps run one after the other.

Sums go around a ring where their parts are rows: the epilogue of a strip's product adds what arrived from the rank
before, in f32, and the last strips are the ones that this rank keeps. Other parts of a sum arrive in places of their
own, and are added in f32 at the end.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.mesh.peer_memory import PeerMemory
from lego_mlir.mesh.peer_signals import PeerSignals
from lego_mlir.mesh.product_epilogues import Fused, MeshEpilogue
from lego_mlir.mesh.strips import EdgeBox, Strip, ring_of, strips_of
from lego_mlir.mesh.torch_exchange import view_of

if TYPE_CHECKING:
    from lego_mlir.aliases import Foreign, Tensor
    from lego_mlir.mesh.products import MeshProductPlan
    from lego_mlir.mesh.redistribution import RedistributionPlan

Multiply = Callable[..., None]
"""`multiply(a, b, out, **fused)`: writes a product of matrices, with what is fused as `lego_mlir.matmul` names it."""
READY, TAKEN, FREE, STORED, SUMMED = range(5)
"""Signals: my parts are there; I have yours; my places are free; your part of C has mine; the next sum of the ring."""
POLLED_S: Final = 1e-4
"""Time between two looks at a product that is waited for."""
REASON: Final = "; another rank ended, failed, or did not come in time; the old parts are as they were"


def multiplied(a: Tensor, b: Tensor, out: Tensor, **fused: Foreign) -> None:
    """A product by `lego_mlir.matmul`."""
    import lego_mlir

    out.copy_(lego_mlir.matmul(a, b, result=str(out.dtype).removeprefix("torch."), **fused))


class MeshProduct:
    """What one rank does in a product of matrices of one type: every rank of the default group makes and calls it.

    `multiply` computes the local products. C has the type `result`, that of A and B by default. Raises UsageError where
    the group has another number of ranks than the plan.
    """

    def __init__(
        self, plan: MeshProductPlan, dtype: Foreign, device: Foreign, multiply: Multiply = multiplied,
        result: Foreign = None,
    ) -> None:  # fmt: skip
        import torch
        import torch.distributed as dist

        self.plan, self.dtype, self.device, self.multiply = plan, dtype, torch.device(device), multiply
        self.result, self.rank = dtype if result is None else result, dist.get_rank()
        if plan.a.parts or plan.b.parts:
            raise UsageError("the parts of a sum are no operand of a product; add them first, by lego.mesh.Exchange")
        if dist.get_world_size() != plan.ranks:
            raise UsageError(f"the product is over {plan.ranks} ranks, and the group has {dist.get_world_size()}")
        self.strips, self.ring = strips_of(plan, self.rank), ring_of(plan, self.rank)
        shapes = [moves.target.local_shape(self.rank) for moves in (plan.a, plan.b)]
        self.rows, self.inner, self.columns = *shapes[0], shapes[1][1]
        self.capacities = [plan.c.target.capacity(t) for t in range(plan.ranks)]
        self.epilogue = MeshEpilogue(plan, self.rank)
        self._memory = [None if stays(moves) else self._memory_of(moves) for moves in (plan.a, plan.b)]
        self._results = self._places()
        self._readers, self._senders, self._receivers, self._storing = self._neighbours()
        self._signals = PeerSignals(SUMMED + 1, self.device)
        on_gpu = self.device.type == "cuda"
        self._arrivals, self._departures = (
            torch.cuda.Stream(self.device, priority=-1) if on_gpu else None for _ in range(2)
        )
        self._unmet: dict[int, set[int]] = {}
        self._failure: str | None = None

    @property
    def operands(self) -> tuple[Tensor | None, Tensor | None]:
        """Where this rank's parts of A and B are read by others; parts that are put there are not copied.

        None for an operand that does not move. The parts of other calls are overwritten.
        """
        of = zip(self._memory, (self.plan.a, self.plan.b), strict=True)
        found = [None if one is None else one.own[: moves.source.capacity(self.rank)] for one, moves in of]
        return found[0], found[1]

    def _memory_of(self, moves: RedistributionPlan) -> PeerMemory:
        """Memory for the parts of an operand that moves."""
        return PeerMemory(max(moves.source.capacity(t) for t in range(self.plan.ranks)), self.dtype, self.device)

    def _places(self) -> PeerMemory | None:
        """Memory for what arrives of C: a place for each step of the ring, or for each part of a sum."""
        if stays(self.plan.c):
            return None
        slots = self.plan.sums - 1 if self.ring is not None else self.plan.sums
        return PeerMemory(max(slots, 1) * max(self.capacities), self.result, self.device)

    def _neighbours(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """The ranks that read this rank's operands, that it reads, to whose C it sends, and that send to its own."""
        plan, rank = self.plan, self.rank
        moving = [moves for moves, one in zip((plan.a, plan.b), self._memory, strict=True) if one is not None]
        lists = [
            {m.receiver for moves in moving for m in moves.messages_from(rank)},
            {m.sender for moves in moving for m in moves.messages_to(rank)},
            set() if self._results is None else {m.receiver for m in plan.c.messages_from(rank)},
            set() if self._results is None else {m.sender for m in plan.c.messages_to(rank)},
        ]
        if self.ring is not None:
            lists[2:] = [{self.ring.after}, {self.ring.before}]
        readers, senders, receivers, storing = (sorted(found - {rank}) for found in lists)
        return readers, senders, receivers, storing

    def __call__(
        self, a: Tensor, b: Tensor, bias: Tensor | None = None, activation: str | None = None, *,
        residual: Tensor | None = None, scale_a: Tensor | None = None, scale_b: Tensor | None = None,
        amax: Tensor | None = None, scale_result: Tensor | None = None, within: float | None = None,
    ) -> Tensor:  # fmt: skip
        """This rank's part of C for its parts of A and B, flat and in memory order.

        `scale_result * (activation(scale_a * A B * scale_b + bias) + residual)`, as `lego_mlir.matmul` has it: numbers
        for rows and columns are those of the whole C, the same on every rank; `residual` is this rank's part of a
        matrix that is divided as C is; `amax` becomes the largest of the whole C on every rank. With `within` the host
        waits until all ranks have their parts, for so many seconds at most. Raises UsageError on every rank where one
        ended or did not come in that time, and for parts of another size; the old parts are as they were.
        """
        for name, part, moves in (("A", a, self.plan.a), ("B", b, self.plan.b)):
            wanted = moves.source.capacity(self.rank)
            if part.numel() != wanted:
                raise UsageError(f"rank {self.rank} holds {wanted} elements of {name}, and its part has {part.numel()}")
        if self._failure is not None:
            raise UsageError(f"an earlier product failed ({self._failure}); make a new group and a new MeshProduct")
        self._signals.within = within
        fused = self.epilogue.given(
            scale_a=scale_a, scale_b=scale_b, bias=bias, activation=activation, residual=residual, amax=amax,
            scale_result=scale_result,
        )  # fmt: skip
        try:
            left, right = (part.detach().contiguous().view(-1) for part in (a, b))
            found = self._run(left, right, fused)
            if amax is not None:
                _all_reduced(amax)
            if within is not None:
                self._complete(within)
        except UsageError as error:
            self._failure = str(error)
            raise
        return found

    def _run(self, a: Tensor, b: Tensor, fused: Fused) -> Tensor:
        """All steps of a product, in an order that ends on every rank if each is done when its turn comes."""
        moves = self._results is not None
        follows = self.epilogue.follows(fused, self.strips, moves)
        left = a if self._memory[0] is None else a.new_empty(self.rows * self.inner)
        right = b if self._memory[1] is None else b.new_empty(self.inner * self.columns)
        block = a.new_empty(self.rows * self.columns, dtype=_wide() if follows and not moves else self.result)
        kept = block.new_empty(self.capacities[self.rank]) if moves else block
        self._begin((a, b))
        operands = [self._arriving(strip, (a, b), (left, right)) for strip in self.strips]
        self._signalled(TAKEN, self._senders, self._arrivals)
        sums = None
        for number, (strip, arrived) in enumerate(zip(self.strips, operands, strict=True)):
            out, more = self._out(strip, block, kept), {} if follows else self.epilogue.of_strip(fused, strip)
            goes_on = number + 1 < len(self.strips) and self.strips[number + 1].sums
            if strip.sums:
                more["residual"] = sums
            elif strip.hop:
                more["residual"] = self._arrived_sum(strip)
            if goes_on and sums is None:
                sums = out.new_empty(out.shape, dtype=_wide())
            self._multiply(arrived, sums if goes_on else out, more)
            self._send(strip, out, block)
        found = self._received(kept)
        return self.epilogue.applied(fused if follows else {}, found, self.result)

    def _multiply(self, arrived: Callable[[], tuple[Tensor, Tensor]], out: Tensor, fused: Fused) -> None:
        """One local product; without columns of A it is what is added."""
        a, b = arrived()
        if self.inner:
            self.multiply(a, b, out, **fused)
        elif "residual" in fused:
            out.copy_(fused["residual"])
        else:
            out.zero_()

    def _out(self, strip: Strip, block: Tensor, kept: Tensor) -> Tensor:
        """Where the product of a strip is written: in this rank's block, or in its part of C if it is kept there."""
        first, last = strip.rows
        if self.ring is not None and strip.hop == self.plan.sums - 1:
            start = self.ring.steps[strip.hop][0]
            first, last, block = first - start, last - start, kept
        return block[first * self.columns : last * self.columns].view(-1, self.columns)

    # -- streams and signals

    def _begin(self, parts: tuple[Tensor, Tensor]) -> None:
        """This rank's parts are where others read them, and its places are free."""
        for stream in (self._arrivals, self._departures):
            if stream is not None:
                stream.wait_stream(_current(self.device))
        with _on(self._arrivals):
            for memory, part in zip(self._memory, parts, strict=True):
                if memory is not None and part.data_ptr() != memory.own.data_ptr():
                    memory.own[: part.numel()].copy_(part)
        self._signalled(READY, self._readers, self._arrivals)
        self._signalled(FREE, self._storing, self._arrivals)
        self._unmet = {READY: set(self._senders), FREE: set(self._receivers)}

    def _signalled(self, kind: int, ranks: Sequence[int], stream: Foreign) -> None:
        """Tell other ranks, once they are ready."""
        for other in ranks:
            if kind == TAKEN:
                self._meet(READY, other, stream)
            self._signals.raised(kind, other, stream)

    def _meet(self, kind: int, other: int, stream: Foreign) -> None:
        """Wait once in a product for another rank's parts, or for its places."""
        if other in self._unmet[kind]:
            self._unmet[kind].remove(other)
            self._signals.awaited(kind, other, stream)

    # -- what arrives and what is sent

    def _arriving(
        self, strip: Strip, own: tuple[Tensor, Tensor], gathered: tuple[Tensor, Tensor]
    ) -> Callable[[], tuple[Tensor, Tensor]]:
        """Begin to gather the operands of a strip; the function waits for them.

        What this rank has side by side is taken from where it is.
        """
        (first, last), (start, end) = strip.rows, strip.inner
        shapes, panels = ((last - first, end - start), (end - start, self.columns)), end - start < self.inner
        places = [self._in_place(0, strip.a, shapes[0]), self._in_place(1, strip.b, shapes[1]) if panels else None]
        pulled = False
        with _on(self._arrivals):
            for side, (boxes, moves) in enumerate(((strip.a, self.plan.a), (strip.b, self.plan.b))):
                memory = self._memory[side]
                if memory is None or places[side] is not None:
                    continue
                for box in boxes:
                    self._meet(READY, box.other, self._arrivals)
                    part = memory.part(box.other, moves.source.capacity(box.other))
                    view_of(gathered[side], box.here).copy_(view_of(part, box.there))
                    pulled = True
            reached = self._arrivals.record_event() if pulled and self._arrivals is not None else None

        def arrived() -> tuple[Tensor, Tensor]:
            if reached is not None:
                reached.wait(_current(self.device))
            a, b = (
                part if at is None else whole[at:][: rows * columns].view(rows, columns)
                for part, at, whole, (rows, columns) in zip(of_strip, places, own, shapes, strict=True)
            )
            return a, b

        left, right = gathered[0], gathered[1].view(self.inner, self.columns)
        if panels and self._memory[0] is not None:  # each panel of A is row-major
            left = left[self.rows * start : self.rows * end].view(self.rows, end - start)
        else:
            left = left.view(self.rows, self.inner)[first:last, start:end]
        of_strip = left, right[start:end]
        return arrived

    def _in_place(self, side: int, boxes: Sequence[EdgeBox], shape: tuple[int, int]) -> int | None:
        """Where a whole matrix lies in this rank's own part of an operand that moves; None if it does not."""
        if self._memory[side] is None or len(boxes) != 1 or boxes[0].other != self.rank:
            return None
        box = boxes[0].there
        dense = box.sizes[0] == box.sizes[2] == 1 and box.strides[3] == 1 and box.strides[1] == shape[1]
        return box.offset if dense and box.sizes[1::2] == shape else None

    def _arrived_sum(self, strip: Strip) -> Tensor:
        """The sum of the ranks before, for the rows of a strip."""
        assert self.ring is not None
        self._signals.awaited(SUMMED, self.ring.before, _current(self.device))
        return self._place_of_sum(self.rank, strip, strip.hop or 0)

    def _place_of_sum(self, rank: int, strip: Strip, hop: int) -> Tensor:
        """Where a rank gets the sum of a strip that it goes on with in a step of the ring."""
        assert self.ring is not None and self._results is not None
        (first, last), start = strip.rows, self.ring.steps[strip.hop or 0][0]
        at = (hop - 1) * max(self.capacities)
        rows = self._results.part(rank)[at + (first - start) * self.columns : at + (last - start) * self.columns]
        return rows.view(-1, self.columns)

    def _send(self, strip: Strip, out: Tensor, block: Tensor) -> None:
        """Send what a strip gives, on the ring or to the parts of its receivers."""
        passes = self.ring is not None and strip.hop is not None and strip.hop < self.plan.sums - 1
        if self._results is None or not (passes or strip.gives):
            return
        if self._departures is not None:
            self._departures.wait_stream(_current(self.device))
        with _on(self._departures):
            if passes:
                assert self.ring is not None and strip.hop is not None
                self._meet(FREE, self.ring.after, self._departures)
                self._place_of_sum(self.ring.after, strip, strip.hop + 1).copy_(out)
                self._signals.raised(SUMMED, self.ring.after, self._departures)
            for box in strip.gives:
                self._meet(FREE, box.other, self._departures)
                n = self.capacities[box.other]
                part = self._results.part(box.other)[self.epilogue.part * n : (self.epilogue.part + 1) * n]
                view_of(part, box.there).copy_(view_of(block, box.here))

    def _received(self, kept: Tensor) -> Tensor:
        """This rank's part when all has arrived, the parts of a sum added, and when others have its operands."""
        for other in self._receivers:
            self._meet(FREE, other, self._departures)
        if self.ring is None:
            self._signalled(STORED, self._receivers, self._departures)
        here: Foreign = _current(self.device)
        for stream in (self._arrivals, self._departures):
            if stream is not None:
                here.wait_stream(stream)
        for other in self._readers:
            self._signals.awaited(TAKEN, other, here)
        if self._results is None or self.ring is not None:
            return kept
        for other in self._storing:
            self._signals.awaited(STORED, other, here)
        n, slots = self.capacities[self.rank], self.plan.sums
        parts = self._results.own[: slots * n].view(slots, n)
        return parts[0].clone() if slots == 1 else parts.sum(0, dtype=_wide())

    def _complete(self, within: float) -> None:
        """All ranks have their parts within so many seconds; or a UsageError on each."""
        import torch
        import torch.distributed as dist

        until = time.monotonic() + within
        if self._arrivals is not None:
            reached = _current(self.device).record_event()
            while not reached.query():
                if time.monotonic() > until:
                    self._signals.release()
                    torch.cuda.synchronize(self.device)
                    raise UsageError(f"rank {self.rank}: the product was not done within {within:g} s{REASON}")
                time.sleep(POLLED_S)
        try:
            dist.all_reduce(torch.zeros(1), async_op=True).wait(datetime.timedelta(seconds=within))
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(f"rank {self.rank} has its part, and another rank has not ({reason}){REASON}") from error


def _all_reduced(amax: Tensor) -> None:
    """The largest of all ranks, in place."""
    import torch.distributed as dist

    try:
        dist.all_reduce(amax, dist.ReduceOp.MAX)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"the largest value of all ranks was not found ({reason}){REASON}") from error


def _current(device: Foreign) -> Foreign:
    """The current stream of a GPU; None on a CPU."""
    import torch

    return torch.cuda.current_stream(device) if device.type == "cuda" else None


def _on(stream: Foreign) -> AbstractContextManager[Foreign]:
    if stream is None:
        return nullcontext()
    import torch

    return torch.cuda.stream(stream)


def _wide() -> Foreign:
    """The type of sums."""
    import torch

    return torch.float32


def stays(moves: RedistributionPlan) -> bool:
    """Whether every rank's new part is its old part, in the same order."""
    return not moves.parts and all(_is_identity(moves, rank) for rank in range(moves.target.count))


def _is_identity(moves: RedistributionPlan, rank: int) -> bool:
    messages = moves.messages_to(rank)
    same = all(m.sender == rank and m.source == m.target for m in messages)
    return same and moves.source.local_shape(rank) == moves.target.local_shape(rank)
