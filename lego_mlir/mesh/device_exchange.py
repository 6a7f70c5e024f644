"""One rank's exchange by two kernels: all messages packed and what stays copied, and what arrives unpacked.

Elements are moved as integers of their width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lego_mlir.aliases import Tensor
from lego_mlir.mesh.box_kernels import (
    MOST_BOXES,
    BoxKernel,
    MakeKernel,
    box_kernel,
    kept_moves,
    pack_moves,
    unpack_moves,
)
from lego_mlir.mesh.redistribution import Message
from lego_mlir.tracing.trace.dtypes import dtype_named

INTEGERS: Final = (8, 16, 32, 64)
"""Widths of elements, in bits."""


@dataclass(frozen=True, slots=True)
class DeviceMoves:
    """The kernels of one rank, for elements of `bits`; None where nothing moves. `fills`: the buffers of packing."""

    bits: int
    packing: BoxKernel | None
    unpacking: BoxKernel | None
    fills: tuple[int, ...]

    def pack(self, part: Tensor, sends: Tensor, found: Tensor) -> None:
        """Fill the send buffer, and the elements of the new part that stay."""
        if self.packing is not None:
            filled = [(sends, found)[buffer] for buffer in self.fills]
            self.packing(*(as_integers(x, self.bits) for x in (part, *filled)))

    def unpack(self, receives: Tensor, found: Tensor) -> None:
        """Put what arrived into the new part."""
        if self.unpacking is not None:
            self.unpacking(as_integers(receives, self.bits), as_integers(found, self.bits))


def as_integers(tensor: Tensor, bits: int) -> Tensor:
    """A tensor's elements as integers of their width, which is one of INTEGERS."""
    import torch

    return tensor.view(getattr(torch, f"int{bits}"))


def device_moves(
    kept: Sequence[Message], sent: Sequence[Message], received: Sequence[Message], extents: Sequence[int], bits: int,
    make: MakeKernel = box_kernel,
) -> DeviceMoves | None:  # fmt: skip
    """The kernels of one rank: of its old part, of both buffers and of its new part by their `extents` in elements.

    `make` gives each kernel, called as `box_kernel` is: a packed one where nothing is compiled. None
    where parts of a sum are added, for elements that no integer is as wide as, and for too many boxes.
    """
    if bits not in INTEGERS or any(m.adds for m in (*kept, *received)):
        return None
    held, sends, receives, capacity = extents
    packed = [*pack_moves(sent), *(replace(move, buffer=1) for move in kept_moves(kept))]
    unpacked = unpack_moves(received)
    if max(len(packed), len(unpacked)) > MOST_BOXES:
        return None
    dtype = dtype_named(f"i{bits}")
    pack = make("pack_messages", packed, dtype, held, (sends, capacity)) if packed else None
    unpack = make("unpack_messages", unpacked, dtype, receives, (capacity,)) if unpacked else None
    return DeviceMoves(bits, pack, unpack, tuple(sorted({move.buffer for move in packed})))
