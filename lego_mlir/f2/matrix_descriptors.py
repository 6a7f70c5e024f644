"""Descriptors of matrices in shared memory for `wgmma`, derived from where a tile's elements are.

The unit reads an operand of `mn` rows (of A; columns of B) by 32 bytes of K (by 64 of B next to a sparse A) in groups
of 8 lines of a swizzle's width. A descriptor holds the width, the start, and two strides: between groups along the
dimension that is not contiguous (`stride`, SBO), and between widths along the contiguous one (`leading`, LBO; unused if
K is contiguous, where one instruction stays inside of a width). With w the width in bytes, unswizzled byte offsets are

    contiguous   w = 32, 64, 128                                        w = 0: rows of 16 bytes
    K            mn/8 SBO + mn%8 w + k bytes                            mn/8 SBO + mn%8 16 + k/8 LBO + k%8 bytes
    M or N       mn/e LBO + mn%e bytes + k/8 SBO + k%8 w, e = w/bytes   mn/8 SBO + mn%8 bytes + k/8 LBO + k%8 16

for 16-bit elements, and the swizzle then permutes the chunks of 16 bytes of an address. `derive` reads the strides off
a tile and compares every element's offset with these, so that a descriptor is proved for its tile or refused:

>>> import numpy as np
>>> row, k = np.indices((128, 64))
>>> offsets = row * 128 + ((k // 8) ^ (row % 8)) * 16 + k % 8 * 2
>>> tile = derive(offsets, 2, rows=64)
>>> tile.descriptor, tile.row_step, tile.depth_step
(MatrixDescriptor(contiguous='k', swizzle=128, leading=0, stride=1024), 8192, 32)

PTX ISA, "Asynchronous warpgroup-level matrix shared memory layout" and "Matrix descriptor format".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lego_mlir.errors import LayoutError
from lego_mlir.hardware.tensor_maps import CHUNK, SWIZZLES

Array = np.ndarray[Any, Any]
DEPTH_BYTES: Final = 32
"""Bytes of K of one instruction."""
TRANSPOSABLE: Final = 2
"""Bytes of the elements that may be contiguous along M or N."""
GROUP: Final = 8
"""Lines of a core matrix."""
LARGEST: Final = 1 << 18
"""Strides and starts are below 256 KiB: 14 bits of 16-byte units."""
# The descriptor's layout type, bits 62 and 63.
_TYPES: Final = {0: 0, 128: 1, 64: 2, 32: 3}
_CONTIGUOUS: Final = ("k", "mn")


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """A descriptor without its start: strides in bytes."""

    contiguous: str
    swizzle: int
    leading: int
    stride: int

    @property
    def word(self) -> int:
        """The 64 bits, with a start of 0."""
        return self.leading // CHUNK << 16 | self.stride // CHUNK << 32 | _TYPES[self.swizzle] << 62

    def offsets(self, start: int, mn: int, bytes_: int, depth_bytes: int = DEPTH_BYTES) -> Array:
        """The byte offset of each element that an instruction reads, `[mn, k]`, for the start `start`."""
        row, k = np.indices((mn, depth_bytes // bytes_))
        line, across = (row, k) if self.contiguous == "k" else (k, row)
        per_chunk = CHUNK // bytes_
        if self.swizzle == 0:
            far, near = (self.stride, self.leading) if self.contiguous == "k" else (self.leading, self.stride)
            place = (
                line // GROUP * far + line % GROUP * CHUNK + across // per_chunk * near + across % per_chunk * bytes_
            )
        else:
            width = self.swizzle // bytes_
            place = line // GROUP * self.stride + line % GROUP * self.swizzle
            place = place + across // width * self.leading + across % width * bytes_
        return permuted(start + place, self.swizzle)


@dataclass(frozen=True, slots=True)
class OperandTile:
    """A tile's descriptor, and the bytes from the start of one instruction's operand to the next one's."""

    descriptor: MatrixDescriptor
    row_step: int
    depth_step: int


def permuted(offsets: Array, swizzle: int) -> Array:
    """Byte offsets after a swizzle, which is its own inverse."""
    return offsets ^ ((offsets >> 7 & SWIZZLES[swizzle] - 1) << 4)


def derive(offsets: Array, bytes_: int, rows: int, depth_bytes: int = DEPTH_BYTES) -> OperandTile:
    """The descriptor of a tile: `offsets[mn, k]` is the byte of an element, in a tile aligned to 1024 bytes.

    An instruction multiplies `rows` lines along mn and `depth_bytes` along K; the tile holds several along both.
    Raises LayoutError, which names an element, where no descriptor describes the tile.
    """
    depth = depth_bytes // bytes_
    if offsets.shape[0] % rows or offsets.shape[1] % depth:
        raise LayoutError(f"wgmma multiplies {rows} x {depth} elements; the tile has {offsets.shape[0]} x "
                          f"{offsets.shape[1]}")  # fmt: skip
    reasons = []
    for contiguous in _CONTIGUOUS:
        if bytes_ != TRANSPOSABLE and contiguous == "mn":
            continue
        for swizzle in sorted(SWIZZLES, reverse=True):
            found = _matched(offsets, bytes_, (rows, depth), contiguous, swizzle)
            if isinstance(found, OperandTile):
                return found
            reasons.append(found)
    size, reason = max(reasons)
    raise LayoutError(f"no wgmma descriptor describes this tile of {offsets.shape[0]} x {offsets.shape[1]} elements; "
                      f"the closest, after {size} elements: {reason}")  # fmt: skip


def _matched(
    offsets: Array, bytes_: int, part: tuple[int, int], contiguous: str, swizzle: int
) -> OperandTile | tuple[int, str]:
    """The tile in one of the unit's layouts; otherwise how many elements agree, and the first that does not."""
    rows, depth = part
    plain = permuted(offsets, swizzle)  # the places before the swizzle
    made = _strides(plain - plain[0, 0], bytes_, part, contiguous, swizzle)
    row_step = int(plain[rows, 0] - plain[0, 0]) if offsets.shape[0] > rows else 0
    depth_step = int(plain[0, depth] - plain[0, 0]) if offsets.shape[1] > depth else 0
    agreed = 0
    for i in range(offsets.shape[0] // rows):
        for j in range(offsets.shape[1] // depth):
            start = int(plain[0, 0]) + i * row_step + j * depth_step
            expected = made.offsets(start, rows, bytes_, depth * bytes_)
            there = offsets[i * rows : (i + 1) * rows, j * depth : (j + 1) * depth]
            if (expected != there).any():
                r, k = np.argwhere(expected != there)[0]
                return agreed, (
                    f"{made} puts element ({i * rows + r}, {j * depth + k}) at byte {expected[r, k]}, and the tile "
                    f"has it at {there[r, k]}"
                )
            agreed += there.size
    if not all(0 <= n < LARGEST and n % CHUNK == 0 for n in (made.leading, made.stride, row_step, depth_step)):
        return agreed, f"the strides of {made} must be multiples of {CHUNK} bytes from 0 to {LARGEST}"
    return OperandTile(made, row_step, depth_step)


def _strides(plain: Array, bytes_: int, part: tuple[int, int], contiguous: str, swizzle: int) -> MatrixDescriptor:
    """The descriptor whose strides are those of the tile's first instruction."""
    per_chunk, (rows, depth) = CHUNK // bytes_, part

    def at(mn: int, k: int) -> int:
        return int(plain[mn, k]) if mn < rows and k < depth else 0

    if contiguous == "k":
        leading = at(0, per_chunk) if swizzle == 0 else 0
        return MatrixDescriptor(contiguous, swizzle, leading, at(GROUP, 0))
    if swizzle == 0:
        return MatrixDescriptor(contiguous, swizzle, at(0, GROUP), at(per_chunk, 0))
    return MatrixDescriptor(contiguous, swizzle, at(swizzle // bytes_, 0), at(0, GROUP))
