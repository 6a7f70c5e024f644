"""A product over a mesh, as one rank carries it out: parts arrive, strips of rows are multiplied, results are sent.

    transfers    barrier │ rows of strip 1 │ rows of strip 2 │ C of strip 1 │ ..  │ barrier
    products             │ strip 0         │ strip 1         │ strip 2      │ ..  │         sums

On GPUs transfers are copies between memories of peers (`PeerMemory`) on a stream of their own, so that those of one
strip run while another is multiplied; copy engines do contiguous ones, and take no multiprocessor from products. On a
CPU the same steps run one after the other. The parts of a sum arrive in places of their own, and are added in f32.

A barrier on a GPU is a kernel, which a product that fills all multiprocessors keeps waiting. So products begin after
the first barrier, and the stream of transfers has a higher priority.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from lego_mlir.errors import UsageError
from lego_mlir.mesh.peer_memory import PeerMemory
from lego_mlir.mesh.strips import RowBox, Strip, row_boxes, strips_of
from lego_mlir.mesh.torch_exchange import view_of

if TYPE_CHECKING:
    from lego_mlir.aliases import Foreign, Tensor
    from lego_mlir.mesh.products import MeshProductPlan
    from lego_mlir.mesh.redistribution import RedistributionPlan

Multiply = Callable[..., None]
"""`multiply(a, b, out, bias=None, activation=None)`: writes a product of matrices, with what is fused into it."""


def multiplied(a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None = None, activation: str | None = None) -> None:
    """A product by `lego_mlir.matmul`."""
    import lego_mlir

    out.copy_(lego_mlir.matmul(a, b, bias=bias, activation=activation))


class MeshProduct:
    """What one rank does in a product of matrices of one type: every rank of the default group makes and calls it.

    `multiply` computes the local products. Raises UsageError where the group has another number of ranks than the plan.
    """

    def __init__(self, plan: MeshProductPlan, dtype: Foreign, device: Foreign, multiply: Multiply = multiplied) -> None:
        import torch
        import torch.distributed as dist

        self.plan, self.dtype, self.device, self.multiply = plan, dtype, torch.device(device), multiply
        self.rank = dist.get_rank()
        if plan.a.parts or plan.b.parts:
            raise UsageError("the parts of a sum are no operand of a product; add them first, by lego.mesh.Exchange")
        if dist.get_world_size() != plan.ranks:
            raise UsageError(f"the product is over {plan.ranks} ranks, and the group has {dist.get_world_size()}")
        self.strips = strips_of(plan, self.rank)
        shapes = [moves.target.local_shape(self.rank) for moves in (plan.a, plan.b)]
        self.rows, self.inner, self.columns = *shapes[0], shapes[1][1]
        self.b_needs = row_boxes(plan.b.messages_to(self.rank), True, max(self.columns, 1))
        self._memory = [self._memory_of(moves) for moves in (plan.a, plan.b)]
        along = plan.grid.order.index("l")
        self.slots, self._slot = plan.sums, int(plan.c.source.mesh_of(_number(self.rank))[along])
        self.capacities = [plan.c.target.capacity(t) for t in range(plan.ranks)]
        self._results = (
            PeerMemory(self.slots * max(self.capacities), dtype, self.device) if not _stays(plan.c) else None
        )
        self._own = self._own_rows_of_sum()
        self._stream = torch.cuda.Stream(self.device, priority=-1) if self.device.type == "cuda" else None

    @property
    def operands(self) -> tuple[Tensor | None, Tensor | None]:
        """Where this rank's parts of A and B are read by others; parts that are put there are not copied.

        None for an operand that does not move. The parts of other calls are overwritten.
        """
        of = zip(self._memory, (self.plan.a, self.plan.b), strict=True)
        found = [None if one is None else one.own[: moves.source.capacity(self.rank)] for one, moves in of]
        return found[0], found[1]

    def _own_rows_of_sum(self) -> int | None:
        """Where its block of C has this rank's part of a sum of two, as it lies in the result; None if it does not.

        It is added from there, without a place of its own.
        """
        m = self.plan.c.message(self.rank, self.rank) if self.slots == 2 else None
        if m is None or len(m.source) != 1 or m.elements != self.capacities[self.rank]:
            return None
        here, there = m.source[0], m.target[0]
        rows = here.sizes[0] == here.sizes[2] == 1 and here.sizes[3] == here.strides[1] == self.columns
        alike = there.offset == 0 and there.strides[1::2] == here.strides[1::2]
        return here.offset if rows and alike else None

    def _memory_of(self, moves: RedistributionPlan) -> PeerMemory | None:
        """Memory for the parts of an operand that moves."""
        if _stays(moves):
            return None
        most = max(moves.source.capacity(rank) for rank in range(self.plan.ranks))
        return PeerMemory(most, self.dtype, self.device)

    def __call__(self, a: Tensor, b: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
        """This rank's part of C, flat, for its parts of A and B; every rank calls it.

        `bias` has a number for each column of the whole of C. It and `activation` ("relu", "gelu" or "silu") are fused
        into the local products, or follow the sums. Raises UsageError for parts of another size.
        """
        plan = self.plan
        for name, part, moves in (("A", a, plan.a), ("B", b, plan.b)):
            wanted = moves.source.capacity(self.rank)
            if part.numel() != wanted:
                raise UsageError(f"rank {self.rank} holds {wanted} elements of {name}, and its part has {part.numel()}")
        a, b = (part.detach().contiguous().view(-1) for part in (a, b))
        left = a if self._memory[0] is None else a.new_empty(self.rows * self.inner)
        right = b if self._memory[1] is None else b.new_empty(self.inner * self.columns)
        result = a.new_empty(self.rows * self.columns)
        self._fork()
        with self._transfers():
            for memory, part in zip(self._memory, (a, b), strict=True):
                if memory is not None and part.data_ptr() != memory.own.data_ptr():
                    memory.own[: part.numel()].copy_(part)
            self._meet()
        self._join()
        with self._transfers():
            self._pull(self._memory[1], plan.b, self.b_needs if self.strips else (), right)
        arrivals = [self._arriving(strip, left, a) for strip in self.strips]
        fused = {} if plan.sums > 1 else self._fused(bias, activation, lambda: self._block_columns)
        for strip, arrived in zip(self.strips, arrivals, strict=True):
            out = result[strip.first * self.columns : strip.last * self.columns].view(-1, self.columns)
            if self.inner:
                self.multiply(arrived(), right.view(self.inner, self.columns), out, **fused)
            else:
                out.zero_()
            self._send(strip, result)
        with self._transfers():
            self._meet()
        self._join()
        if self._results is None:
            return result
        follows = plan.sums > 1 and self.capacities[self.rank] > 0
        return self._summed(result, self._fused(bias, activation, lambda: self._part_columns) if follows else {})

    # -- streams

    def _fork(self) -> None:
        if self._stream is not None:
            import torch

            self._stream.wait_stream(torch.cuda.current_stream(self.device))

    def _join(self) -> None:
        if self._stream is not None:
            import torch

            torch.cuda.current_stream(self.device).wait_stream(self._stream)

    def _transfers(self) -> AbstractContextManager[Foreign]:
        if self._stream is None:
            return nullcontext()
        import torch

        return torch.cuda.stream(self._stream)

    def _meet(self) -> None:
        """All ranks are here, if anything moves."""
        memory = next((one for one in (*self._memory, self._results) if one is not None), None)
        if memory is not None:
            memory.barrier()

    # -- what arrives and what is sent

    def _pull(
        self, memory: PeerMemory | None, moves: RedistributionPlan, boxes: Sequence[RowBox], target: Tensor
    ) -> None:
        """Copy boxes out of the memory of their senders."""
        if memory is not None:
            for box in boxes:
                part = memory.part(box.other, moves.source.capacity(box.other))
                view_of(target, box.here).copy_(view_of(part, box.there))

    def _arriving(self, strip: Strip, left: Tensor, a: Tensor) -> Callable[[], Tensor]:
        """Begin to gather the rows of A of a strip; the function waits for them, and for B.

        Rows of this rank's own that lie side by side are taken from where they are.
        """
        memory, n = self._memory[0], (strip.last - strip.first) * self.inner
        rows = left[strip.first * self.inner :][:n]
        own = _own_rows(strip, self.rank, self.inner) if memory is not None else None
        if own is not None:
            rows = a[own : own + n]
        with self._transfers():
            if own is None:
                self._pull(memory, self.plan.a, strip.needs, left)
            reached = None if self._stream is None else self._stream.record_event()

        def arrived() -> Tensor:
            if reached is not None and (self._memory[1] is not None or (memory is not None and own is None)):
                reached.wait()
            return rows.view(-1, self.inner)

        return arrived

    def _send(self, strip: Strip, result: Tensor) -> None:
        """Store what a strip gives to the parts of its receivers, where this rank's part of a sum has its place."""
        if self._results is None or not strip.gives:
            return
        self._fork()
        with self._transfers():
            for box in strip.gives:
                if box.other == self.rank and self._own is not None:
                    continue
                n = self.capacities[box.other]
                part = self._results.part(box.other)[self._slot * n : (self._slot + 1) * n]
                view_of(part, box.there).copy_(view_of(result, box.here))

    def _summed(self, result: Tensor, fused: dict[str, Foreign]) -> Tensor:
        """The sum of what arrived, and what follows it."""
        assert self._results is not None
        n = self.capacities[self.rank]
        parts = self._results.own[: self.slots * n].view(self.slots, n)
        if self.slots == 1 or not n:
            return parts[0].clone()
        import torch

        dtype = torch.promote_types(self.dtype, torch.float32) if fused else self.dtype
        if self._own is None:
            found = parts.sum(0, dtype=dtype)
        else:
            found = result[self._own : self._own + n].to(dtype) + parts[1 - self._slot]
        if (bias := fused.get("bias")) is not None:
            shape = self.plan.c.target.local_shape(self.rank)
            strides = self.plan.c.target.strides(self.rank)
            found.as_strided(shape, strides).add_(bias)
        activations = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}
        name = fused.get("activation")
        return (found if name is None else activations[name](found)).to(self.dtype)

    # -- what follows a product

    def _fused(self, bias: Tensor | None, activation: str | None, columns: Callable[[], Foreign]) -> dict[str, Foreign]:
        """The epilogue of some columns, which only a bias asks for: to put their numbers on a device waits for it."""
        given: dict[str, Foreign] = {} if activation is None else {"activation": activation}
        return given if bias is None else {**given, "bias": bias[columns()].contiguous()}

    @cached_property
    def _block_columns(self) -> slice:
        """The columns of C in this rank's block."""
        grid, n = self.plan.grid, self.plan.shape[1]
        along = int(self.plan.c.source.mesh_of(_number(self.rank))[grid.order.index("j")])
        first = along * -(-n // grid.sizes[1])
        return slice(first, first + self.columns)

    @cached_property
    def _part_columns(self) -> Foreign:
        """The columns of C in this rank's part."""
        import numpy as np
        import torch

        side, rank = self.plan.c.target, self.rank
        columns = side.local_shape(rank)[1]
        mesh = dict(zip(side.names, map(int, side.mesh_of(_number(rank))), strict=True))
        found = side.distribution.inv(**mesh, offset=np.arange(columns) * side.strides(rank)[1])[1]
        return torch.from_numpy(np.asarray(found)).to(self.device)


def _own_rows(strip: Strip, rank: int, inner: int) -> int | None:
    """Where the rows of A of a strip lie side by side in this rank's own part; None if they do not."""
    if len(strip.needs) != 1 or strip.needs[0].other != rank:
        return None
    box = strip.needs[0].there
    dense = box.sizes[0] == box.sizes[2] == 1 and box.strides[1] == inner and box.strides[3] == 1
    return box.offset if dense and box.elements == (strip.last - strip.first) * inner else None


def _number(rank: int) -> Foreign:
    import numpy as np

    return np.asarray(rank)


def _stays(moves: RedistributionPlan) -> bool:
    """Whether every rank's new part is its old part, in the same order."""
    return not moves.parts and all(_is_identity(moves, rank) for rank in range(moves.target.count))


def _is_identity(moves: RedistributionPlan, rank: int) -> bool:
    messages = moves.messages_to(rank)
    same = all(m.sender == rank and m.source == m.target for m in messages)
    return same and moves.source.local_shape(rank) == moves.target.local_shape(rank)
