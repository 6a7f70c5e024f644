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
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Foreign, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.mesh.peer_signals import PeerSignals
from lego_mlir.mesh.product_epilogues import Fused, MeshEpilogue
from lego_mlir.mesh.strip_steps import ProductMemory, StripStep

if TYPE_CHECKING:
    from lego_mlir.mesh.products import MeshProductPlan

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
        on_gpu = self.device.type == "cuda"
        self._arrivals, self._departures = (
            torch.cuda.Stream(self.device, priority=-1) if on_gpu else None for _ in range(2)
        )
        self._reached = torch.cuda.Event() if on_gpu else None
        self.memory = ProductMemory(plan, (dtype, self.result), self.device, (self._arrivals, self._departures))
        self.epilogue = MeshEpilogue(plan, self.rank)
        self._signals = PeerSignals(SUMMED + 1, self.device)
        self._unmet: dict[int, set[int]] = {}
        self._held = [moves.source.capacity(self.rank) for moves in (plan.a, plan.b)]
        self._failure: str | None = None

    @property
    def operands(self) -> tuple[Tensor | None, Tensor | None]:
        """Where this rank's parts of A and B are read by others; parts that are put there are not copied.

        None for an operand that does not move. The parts of other calls are overwritten.
        """
        of = zip(self.memory.operands, (self.plan.a, self.plan.b), strict=True)
        found = [None if one is None else one.own[: moves.source.capacity(self.rank)] for one, moves in of]
        return found[0], found[1]

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
        for name, part, wanted in zip("AB", (a, b), self._held, strict=True):
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
        memory = self.memory
        moves, here = memory.results is not None, _current(self.device)
        follows = self.epilogue.follows(fused, [step.strip for step in memory.steps], moves)
        held = memory.capacities[self.rank] if moves else memory.rows * memory.columns
        kept = a.new_empty(held, dtype=_wide() if follows and not moves else self.result)
        self._begin(here, (a, b))
        for step in memory.steps:
            for sender, copy in step.pulls:
                self._meet(READY, sender, self._arrivals)
                copy()
            if step.arrived is not None:
                step.arrived.record(self._arrivals)
        for other in memory.senders:
            self._meet(READY, other, self._arrivals)
            self._signals.raised(TAKEN, other, self._arrivals)
        sums, arrived = None, None
        for number, step in enumerate(memory.steps):
            arrived = step.arrived or arrived
            if arrived is not None:
                arrived.wait(here)
            more = {} if follows else self.epilogue.of_strip(fused, step.strip)
            if step.before is not None and memory.ring is not None:
                self._signals.awaited(SUMMED, memory.ring.before, here)
                more["residual"] = step.before
            elif step.strip.sums:
                more["residual"] = sums
            out = memory.rows_of(step.strip, kept) if step.out is None else step.out
            if number + 1 < len(memory.steps) and memory.steps[number + 1].strip.sums:
                sums = out = out.new_empty(out.shape, dtype=_wide()) if sums is None else sums
            self._multiply(*memory.matrices(step, a, b), out, more)
            self._send(step, here)
        found = self._received(kept, here)
        return self.epilogue.applied(fused if follows else {}, found, self.result)

    def _multiply(self, a: Tensor, b: Tensor, out: Tensor, fused: Fused) -> None:
        """One local product; without columns of A it is what is added."""
        if self.memory.inner:
            self.multiply(a, b, out, **fused)
        elif "residual" in fused:
            out.copy_(fused["residual"])
        else:
            out.zero_()

    # -- streams and signals

    def _begin(self, here: Foreign, parts: tuple[Tensor, Tensor]) -> None:
        """This rank's parts are where others read them, and its places are free."""
        memory = self.memory
        for there, part in zip(memory.operands, parts, strict=True):
            if there is not None and part.data_ptr() != there.own.data_ptr():
                there.own[: part.numel()].copy_(part)
        self._follow(here, self._arrivals, self._departures)
        for kind, ranks in ((READY, memory.readers), (FREE, memory.storing)):
            for other in ranks:
                self._signals.raised(kind, other, self._arrivals)
        self._unmet = {READY: set(memory.senders), FREE: set(memory.receivers)}

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
        """Send what a strip gives when it is computed, on the ring or to the parts of its receivers."""
        if not step.sends:
            return
        self._follow(here, self._departures)
        for receiver, copy in step.sends:
            self._meet(FREE, receiver, self._departures)
            copy()
            if self.memory.ring is not None:
                self._signals.raised(SUMMED, receiver, self._departures)

    def _received(self, kept: Tensor, here: Foreign) -> Tensor:
        """This rank's part when all has arrived, the parts of a sum added, and when others have its operands."""
        memory = self.memory
        for other in memory.receivers:
            self._meet(FREE, other, self._departures)
            if memory.ring is None:
                self._signals.raised(STORED, other, self._departures)
        for stream in (self._arrivals, self._departures):
            self._follow(stream, here)
        for other in memory.readers:
            self._signals.awaited(TAKEN, other, here)
        if memory.results is None or memory.ring is not None:
            return kept
        for other in memory.storing:
            self._signals.awaited(STORED, other, here)
        n, slots = memory.capacities[self.rank], self.plan.sums
        parts = memory.results.own[: slots * n].view(slots, n)
        return parts[0].clone() if slots == 1 else parts.sum(0, dtype=_wide())

    def _complete(self, within: float) -> None:
        """All ranks have their parts `within` seconds; or a UsageError on each."""
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


def _wide() -> Foreign:
    """The type of sums."""
    import torch

    return torch.float32
