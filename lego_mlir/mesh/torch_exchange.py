"""A plan carried out by `torch.distributed`: packed into one buffer, exchanged by `all_to_all`, and unpacked.

    local part ── pack ──► [to rank 0 | to rank 1 | ..] ── all_to_all ──► [from 0 | from 1 | ..] ── unpack ──► new part

Works with every backend that has `all_to_all_single`: NCCL on GPUs, gloo on CPUs. What a rank keeps is copied and not
sent. The result is a new tensor, so that a move that fails leaves the old part as it was. On a GPU one kernel packs all
messages and copies what stays, and one unpacks (`box_kernels`); elsewhere, and where parts of a sum are added, boxes
are copied as strided views.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from lego_mlir.aliases import Foreign, Tensor
from lego_mlir.distributions.torch_placements import from_torch
from lego_mlir.errors import UsageError
from lego_mlir.mesh.box_kernels import MakeKernel, box_kernel
from lego_mlir.mesh.device_exchange import DeviceMoves, device_moves
from lego_mlir.mesh.rank_messages import RankMessages
from lego_mlir.mesh.redistribution import Message, RedistributionPlan, StridedBox, redistribute

POLLED_S: Final = 1e-4
"""Time between two looks at an exchange that is waited for."""
_KEPT: Final = 256
"""Exchanges of one process."""


class Exchange(RankMessages):
    """What one rank does in a plan: what it sends, receives and keeps, with its buffers' sizes.

    `kernels` says whether generated kernels pack and unpack; by default they do on a CUDA device. `make` gives each of
    them, called as `box_kernel` is: a packed one, say, where nothing is compiled.
    """

    def __init__(
        self, plan: RedistributionPlan, rank: int, kernels: bool | None = None, make: MakeKernel = box_kernel
    ) -> None:
        super().__init__(plan, rank)
        self.kernels, self.make = kernels, make
        self._made: dict[int, DeviceMoves | None] = {}

    def __call__(self, part: Tensor, group: Foreign = None, within: float | None = None) -> Tensor:
        """This rank's new part, for its old one; every rank of the group calls it. Raises UsageError if one fails.

        `part` has the elements in memory order; types and devices of all ranks agree. With `within` the host waits for
        the exchange, for so many seconds at most, and ends the group's communication if it is not done: with NCCL, a
        rank that ended is not found in another way, and torch ends the process at the time limit of the group.
        """
        held = self.extents[0]
        if part.numel() != held:
            raise UsageError(f"redistribute: rank {self.rank} holds {held} elements, and its tensor has {part.numel()}")
        flat = part.detach().contiguous().view(-1)
        sends = flat.new_empty(sum(self.send_sizes))
        found = (flat.new_zeros if self.plan.leaves_gaps else flat.new_empty)(self.extents[3])
        moves = self._moves(flat)
        if moves is None:
            _copied(self.sent, sends, flat)
        else:
            moves.pack(flat, sends, found)
        receives = flat.new_empty(sum(self.receive_sizes))
        try:
            _exchanged(receives, sends, self.receive_sizes, self.send_sizes, group, within)
        except RuntimeError as error:
            raise UsageError(
                f"redistribute: rank {self.rank} could not exchange its part ({_first_line(error)}); another rank "
                "ended, failed, or did not call it in time; the old parts are as they were"
            ) from error
        if moves is not None:
            moves.unpack(receives, found)
            return found
        for m in self.kept:
            for here, there in zip(m.source, m.target, strict=True):
                _put(view_of(found, there), view_of(flat, here), m.adds)
        at = 0
        for m in self.received:
            for box in m.target:
                _put(view_of(found, box), receives[at : at + box.elements].view(box.sizes), m.adds)
                at += box.elements
        return found

    def _moves(self, flat: Tensor) -> DeviceMoves | None:
        """The kernels that pack and unpack, where they do."""
        if not (flat.is_cuda if self.kernels is None else self.kernels):
            return None
        return self.moves(8 * flat.element_size())

    def moves(self, bits: int) -> DeviceMoves | None:
        """The kernels that pack and unpack elements of this width, in bits; None where none does."""
        if bits not in self._made:
            self._made[bits] = device_moves(self.kept, self.sent, self.received, self.extents, bits, self.make)
        return self._made[bits]


def _exchanged(
    receives: Tensor, sends: Tensor, receive_sizes: Sequence[int], send_sizes: Sequence[int], group: Foreign,
    within: float | None,
) -> None:  # fmt: skip
    """Exchange buffers as bytes: neither NCCL nor gloo has all types of elements. Raises RuntimeError if it fails."""
    import torch
    import torch.distributed as dist

    item = sends.element_size()
    received, sent = ([n * item for n in sizes] for sizes in (receive_sizes, send_sizes))
    bytes_ = receives.view(torch.uint8), sends.view(torch.uint8)
    work = dist.all_to_all_single(*bytes_, received, sent, group=group, async_op=within is not None)
    if within is None:
        return
    until = time.monotonic() + within
    while not work.is_completed():
        if time.monotonic() > until:
            (group or dist.group.WORLD)._get_backend(sends.device).abort()
            raise RuntimeError(f"not done within {within:g} s")
        time.sleep(POLLED_S)
    work.wait()


def _copied(messages: Sequence[Message], buffer: Tensor, flat: Tensor) -> None:
    """Pack messages, one after the other."""
    at = 0
    for m in messages:
        for box in m.source:
            buffer[at : at + box.elements].view(box.sizes).copy_(view_of(flat, box))
            at += box.elements


def view_of(flat: Tensor, box: StridedBox) -> Tensor:
    """A box of a flat tensor."""
    return flat.as_strided(box.sizes, box.strides, flat.storage_offset() + box.offset)


def _put(target: Tensor, given: Tensor, adds: bool) -> None:
    if adds:
        target.add_(given)
    else:
        target.copy_(given)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def redistributed(tensor: Foreign, placements: Sequence[Foreign]) -> Foreign:
    """A DTensor with other placements on its mesh: `lego.mesh.redistribute`. Raises UsageError for other tensors."""
    from torch.distributed.tensor import DTensor

    if not isinstance(tensor, DTensor):
        raise UsageError(f"lego.mesh.redistribute takes a DTensor, got a {type(tensor).__name__}")
    mesh = tensor.device_mesh
    names = mesh.mesh_dim_names or tuple(f"axis{k}" for k in range(mesh.ndim))
    sizes = tuple(zip(names, map(int, mesh.shape), strict=True))
    rank = int((mesh.mesh == mesh.get_rank()).view(-1).nonzero()[0, 0])
    exchange = _exchange(tuple(tensor.shape), sizes, tuple(tensor.placements), tuple(placements), rank)
    part = exchange(tensor.to_local(), _group(mesh)).view(exchange.local_shape)
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride())


@lru_cache(_KEPT)
def _exchange(
    shape: tuple[int, ...], mesh: tuple[tuple[str, int], ...], source: tuple[Foreign, ...], target: tuple[Foreign, ...],
    rank: int,
) -> Exchange:  # fmt: skip
    plan = redistribute(from_torch(shape, dict(mesh), source), from_torch(shape, dict(mesh), target))
    return Exchange(plan, rank)


def _group(mesh: Foreign) -> Foreign:
    """The group of all ranks of a mesh, in the order of the mesh."""
    import torch.distributed as dist

    ranks = mesh.mesh.view(-1).tolist()
    if ranks == list(range(dist.get_world_size())):
        return dist.group.WORLD
    raise UsageError(
        "lego.mesh.redistribute: the mesh must have all ranks, in their order; make it by init_device_mesh"
    )
