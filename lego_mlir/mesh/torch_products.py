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
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class StripStep:
    """A strip with what is made once for it: copies with the ranks that they wait for, events, and views.

    `views` are its operands in this rank's memory, None for one that does not move; `before` is the sum that it goes
    on with, and `out` where its product is written unless that is the caller's part of C.
    """

    strip: Strip
    pulls: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    sends: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    arrived: Foreign = None
    views: tuple[Tensor | None, Tensor | None] = (None, None)
    before: Tensor | None = None
    out: Tensor | None = None


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
        self._reached = torch.cuda.Event() if on_gpu else None
        sizes = (self.rows * self.inner, self.inner * self.columns)
        self._gathered = [
            None if one is None else torch.empty(n, dtype=dtype, device=self.device)
            for one, n in zip(self._memory, sizes, strict=True)
        ]
        self._block = torch.empty(
            0 if self._results is None else self.rows * self.columns, dtype=self.result, device=self.device
        )
        self._steps = [self._prepared(strip) for strip in self.strips]
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
        moves, here = self._results is not None, _current(self.device)
        follows = self.epilogue.follows(fused, self.strips, moves)
        held = self.capacities[self.rank] if moves else self.rows * self.columns
        kept = a.new_empty(held, dtype=_wide() if follows and not moves else self.result)
        self._begin(here, (a, b))
        for step in self._steps:
            for sender, copy in step.pulls:
                self._meet(READY, sender, self._arrivals)
                copy()
            if step.arrived is not None:
                step.arrived.record(self._arrivals)
        for other in self._senders:
            self._meet(READY, other, self._arrivals)
            self._signals.raised(TAKEN, other, self._arrivals)
        sums = None
        for number, step in enumerate(self._steps):
            if step.arrived is not None:
                step.arrived.wait(here)
            more = {} if follows else self.epilogue.of_strip(fused, step.strip)
            if step.before is not None and self.ring is not None:
                self._signals.awaited(SUMMED, self.ring.before, here)
                more["residual"] = step.before
            elif step.strip.sums:
                more["residual"] = sums
            out = self._rows_of(step.strip, kept) if step.out is None else step.out
            if number + 1 < len(self._steps) and self._steps[number + 1].strip.sums:
                sums = out = out.new_empty(out.shape, dtype=_wide()) if sums is None else sums
            self._multiply(*self._operands(step, a, b), out, more)
            self._send(step, here)
        found = self._received(kept, here)
        return self.epilogue.applied(fused if follows else {}, found, self.result)

    def _multiply(self, a: Tensor, b: Tensor, out: Tensor, fused: Fused) -> None:
        """One local product; without columns of A it is what is added."""
        if self.inner:
            self.multiply(a, b, out, **fused)
        elif "residual" in fused:
            out.copy_(fused["residual"])
        else:
            out.zero_()

    def _operands(self, step: StripStep, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """The operands of a strip, which have arrived."""
        (first, last), (start, end) = step.strip.rows, step.strip.inner
        left, right = step.views
        if left is None:
            left = a.view(self.rows, self.inner)[first:last, start:end].contiguous()
        return left, b.view(self.inner, self.columns)[start:end] if right is None else right

    def _rows_of(self, strip: Strip, block: Tensor) -> Tensor:
        """The rows of a strip in this rank's block, or in its part of C where the ring ends."""
        first, last = strip.rows
        if self.ring is not None and strip.hop is not None:
            start = self.ring.steps[strip.hop][0]
            first, last = first - start, last - start
        return block[first * self.columns : last * self.columns].view(-1, self.columns)

    # -- what is prepared

    def _prepared(self, strip: Strip) -> StripStep:
        """The copies, events and views of a strip."""
        import torch

        (first, last), (start, end) = strip.rows, strip.inner
        shapes, panels = ((last - first, end - start), (end - start, self.columns)), end - start < self.inner
        step = StripStep(strip)
        views: list[Tensor | None] = []
        for side, (boxes, moves) in enumerate(((strip.a, self.plan.a), (strip.b, self.plan.b))):
            memory, gathered = self._memory[side], self._gathered[side]
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
        if self._results is None:
            return
        if self.ring is not None and strip.hop is not None:
            if strip.hop:
                step.before = self._place_of_sum(self.rank, strip, strip.hop)
            if strip.hop < self.plan.sums - 1:
                first, last = (n * self.columns for n in strip.rows)
                step.out = self._block[first:last].view(-1, self.columns)
                there = self._place_of_sum(self.ring.after, strip, strip.hop + 1)
                step.sends.append((self.ring.after, self._copy(there, step.out, self._departures)))
            return
        step.out = self._rows_of(strip, self._block)
        for box in strip.gives:
            n, slot = self.capacities[box.other], self.epilogue.part
            part = view_of(self._results.part(box.other)[slot * n : (slot + 1) * n], box.there)
            step.sends.append((box.other, self._copy(part, view_of(self._block, box.here), self._departures)))

    def _in_place(self, boxes: Sequence[EdgeBox], shape: tuple[int, int]) -> int | None:
        """Where a whole matrix lies in this rank's own part of an operand that moves; None if it does not."""
        if len(boxes) != 1 or boxes[0].other != self.rank:
            return None
        box = boxes[0].there
        dense = box.sizes[0] == box.sizes[2] == 1 and box.strides[3] == 1 and box.strides[1] == shape[1]
        return box.offset if dense and box.sizes[1::2] == shape else None

    def _place_of_sum(self, rank: int, strip: Strip, hop: int) -> Tensor:
        """Where a rank gets the sum of a strip that it goes on with in a step of the ring."""
        assert self._results is not None
        whole = self._results.part(rank)[(hop - 1) * max(self.capacities) :]
        return self._rows_of(strip, whole)

    def _copy(self, target: Tensor, source: Tensor, stream: Foreign) -> Callable[[], None]:
        """A copy on a stream: of what is side by side on both sides by the driver, which takes a copy engine."""
        if stream is not None and target.is_contiguous() and source.is_contiguous():
            from lego_mlir.runtime.driver import driver

            size, device = target.numel() * target.element_size(), target.device.index
            return driver().copier(target.data_ptr(), source.data_ptr(), size, device, stream.cuda_stream)

        def copied() -> None:
            with _on(stream):
                target.copy_(source)

        return copied

    # -- streams and signals

    def _begin(self, here: Foreign, parts: tuple[Tensor, Tensor]) -> None:
        """This rank's parts are where others read them, and its places are free."""
        for memory, part in zip(self._memory, parts, strict=True):
            if memory is not None and part.data_ptr() != memory.own.data_ptr():
                memory.own[: part.numel()].copy_(part)
        self._follow(here, self._arrivals, self._departures)
        for kind, ranks in ((READY, self._readers), (FREE, self._storing)):
            for other in ranks:
                self._signals.raised(kind, other, self._arrivals)
        self._unmet = {READY: set(self._senders), FREE: set(self._receivers)}

    def _follow(self, before: Foreign, *streams: Foreign) -> None:
        """Let streams wait for what another has so far."""
        if self._reached is not None:
            self._reached.record(before)
            for stream in streams:
                self._reached.wait(stream)

    def _meet(self, kind: int, other: int, stream: Foreign) -> None:
        """Wait once in a product for another rank's parts, or for its places."""
        if other in self._unmet[kind]:
            self._unmet[kind].remove(other)
            self._signals.awaited(kind, other, stream)

    def _send(self, step: StripStep, here: Foreign) -> None:
        """Send what a strip gives, on the ring or to the parts of its receivers."""
        if not step.sends:
            return
        self._follow(here, self._departures)
        for receiver, copy in step.sends:
            self._meet(FREE, receiver, self._departures)
            copy()
            if self.ring is not None:
                self._signals.raised(SUMMED, receiver, self._departures)

    def _received(self, kept: Tensor, here: Foreign) -> Tensor:
        """This rank's part when all has arrived, the parts of a sum added, and when others have its operands."""
        for other in self._receivers:
            self._meet(FREE, other, self._departures)
            if self.ring is None:
                self._signals.raised(STORED, other, self._departures)
        for stream in (self._arrivals, self._departures):
            self._follow(stream, here)
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
            if not _polled(reached, until):
                self._signals.release()
                _polled(reached, time.monotonic() + within)
                raise UsageError(f"rank {self.rank}: the product was not done within {within:g} s{REASON}")
        try:
            dist.all_reduce(torch.zeros(1), async_op=True).wait(datetime.timedelta(seconds=within))
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(f"rank {self.rank} has its part, and another rank has not ({reason}){REASON}") from error


def _polled(event: Foreign, until: float) -> bool:
    """Whether an event is reached before a time."""
    while not event.query():
        if time.monotonic() > until:
            return False
        time.sleep(POLLED_S)
    return True


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
