"""Matrix descriptors of wgmma: where each element of a matrix in shared memory is.

    bits 0-13    start address / 16             bits 49-51   base offset of the swizzle's pattern
    bits 16-29   leading byte offset / 16       bits 62-63   swizzle: 0 none, 1 128 B, 2 64 B, 3 32 B
    bits 32-45   stride byte offset / 16

With s bytes of swizzle (16 without), a K-major matrix is made of blocks of 8 rows of s bytes; an MN-major one of blocks
of s bytes along M or N by 8 rows along K. `stride` and `leading` are the bytes from a block to the next:

    K-major     swizzled: stride along M or N                       none: stride along M or N, leading along K
    MN-major    swizzled: leading along M or N, stride along K      none: stride along M or N, leading along K

PTX ISA, "Asynchronous warpgroup level matrix shared memory layout", "Matrix Descriptor Format"; CUTLASS,
`cute/arch/mma_sm90_desc.hpp`, for the canonical layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import IntArray
from lego_mlir.interp.ptx.bulk_tensor_maps import swizzled

MODES: Final = (0, 128, 64, 32)
CHUNK: Final = 16
ROWS: Final = 8
FIELD: Final = 0x3FFF


@dataclass(frozen=True, slots=True)
class DecodedDescriptor:
    """A decoded descriptor; offsets in bytes.

    >>> DecodedDescriptor.decoded(1 << 62 | 64 << 32 | 0x80)
    DecodedDescriptor(start=2048, leading=0, stride=1024, base=0, swizzle=128)
    """

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int

    @staticmethod
    def decoded(bits: int) -> DecodedDescriptor:
        """The fields of 64 bits."""
        start, leading, stride = ((bits >> at & FIELD) * CHUNK for at in (0, 16, 32))
        return DecodedDescriptor(start, leading, stride, bits >> 49 & 7, MODES[bits >> 62 & 3])

    def addresses(self, outer: IntArray, inner: IntArray, size: int, *, k_major: bool) -> IntArray:
        """The shared byte offsets of elements (outer: row of A or column of B; inner: k) of `size` bytes."""
        span = self.swizzle or CHUNK
        if k_major:
            byte = inner * size
            linear = outer // ROWS * self.stride + outer % ROWS * span
            linear = linear + (byte if self.swizzle else byte // CHUNK * self.leading + byte % CHUNK)
        else:
            byte = outer * size
            along, along_k = (self.leading, self.stride) if self.swizzle else (self.stride, self.leading)
            linear = byte // span * along + byte % span + inner // ROWS * along_k + inner % ROWS * span
        address = linear + self.start
        if not self.swizzle:
            return address
        pattern = self.base * 128
        return swizzled(address - pattern, self.swizzle) + pattern


def grid(outer: int, inner: int) -> tuple[IntArray, IntArray]:
    """Indices of all elements of an outer x inner matrix."""
    return np.arange(outer)[:, None], np.arange(inner)[None, :]
