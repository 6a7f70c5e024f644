"""From layouts to tensor maps: which boxes copy a tile, and the proof that every element arrives at its place.

A tensor's layout gives the map's sizes and strides; the innermost dimension is the one whose elements are adjacent. A
shared tile's layout gives, for each element of the tile, a byte. The unit writes a box packed, its 16-byte chunks
permuted by a swizzle. `derive_boxes` cuts the tile into boxes of one swizzle's width and compares all bytes with the
unit's:

>>> import numpy as np
>>> row, column = np.indices((64, 128))
>>> panel, inner = column // 64, column % 64                     # two panels of 128-byte rows, chunks permuted
>>> offsets = panel * 8192 + row * 128 + (inner // 8 ^ row % 8) * 16 + inner % 8 * 2
>>> tile = derive_boxes(offsets[None], 2)
>>> tile.box, tile.swizzle, tile.places
((64, 64), 128, (((0, 0), 0), ((64, 0), 8192)))

CUDA driver API, `cuTensorMapEncodeTiled`; PTX ISA, "Tensor swizzling modes".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lego_mlir.errors import LayoutError
from lego_mlir.hardware.tensor_maps import BOX_EXTENT, CHUNK, SWIZZLES

Array = np.ndarray[Any, Any]
BOX_ALIGNMENT: Final = 128
"""Bytes: where a box may begin in shared memory."""


@dataclass(frozen=True, slots=True)
class BoxedTile:
    """Boxes of (contiguous, other) elements that make up a tile; `places` has each one's first element and byte."""

    box: tuple[int, int]
    swizzle: int
    places: tuple[tuple[tuple[int, int], int], ...]


def derive_boxes(offsets: Array, element_bytes: int) -> BoxedTile:
    """The boxes of a tile: `offsets[start, other, contiguous]` are bytes in memory aligned to 1024 bytes.

    The tile is at one of several starts, as the slots of a ring; each box is at the same distance from the tile's
    first element in all of them. Raises LayoutError, with the first element that differs, if no swizzle fits.
    """
    reasons: list[tuple[int, str]] = []
    for swizzle in sorted(SWIZZLES, reverse=True):
        found = _matched(offsets, element_bytes, swizzle)
        if isinstance(found, BoxedTile):
            return found
        reasons.append(found)
    agreed, reason = max(reasons, key=lambda reason: reason[0])  # of equals the widest swizzle
    raise LayoutError(
        f"the tensor copy unit cannot write this tile of {offsets.shape[1]} x {offsets.shape[2]} elements; the closest "
        f"form, after {agreed} elements: {reason}"
    )


def _matched(offsets: Array, element_bytes: int, swizzle: int) -> BoxedTile | tuple[int, str]:
    """The boxes for one swizzle; otherwise how many elements agree, and the first that does not."""
    _, others, contiguous = offsets.shape
    width, height = _extent(contiguous, swizzle // element_bytes or BOX_EXTENT), _extent(others, BOX_EXTENT)
    if width * element_bytes % CHUNK or (swizzle and width * element_bytes != swizzle):
        return 0, f"rows of {contiguous * element_bytes} bytes are not cut into {swizzle or CHUNK} bytes"
    plain = offsets ^ ((offsets >> 7 & SWIZZLES[swizzle] - 1) << 4)
    line, column = np.indices((height, width))
    packed = (line * width + column) * element_bytes
    places, agreed = [], 0
    for other in range(0, others, height):
        for first in range(0, contiguous, width):
            there = plain[:, other : other + height, first : first + width]
            expected = there[:, :1, :1] + packed
            if (expected != there).any():
                start, row, column_ = (int(n) for n in np.argwhere(expected != there)[0])
                agreed += (row * width + column_) if start == 0 else there[0].size
                wanted = int(expected[start, row, column_])
                wanted ^= (wanted >> 7 & SWIZZLES[swizzle] - 1) << 4
                return agreed, (
                    f"with a swizzle of {swizzle} bytes element ({other + row}, {first + column_}) would be at byte "
                    f"{wanted}, and the tile has it at {int(offsets[start, other + row, first + column_])}"
                )
            away = there[:, 0, 0] - offsets[:, 0, 0]
            if (away != away[0]).any() or (there[:, 0, 0] % BOX_ALIGNMENT).any():
                return (
                    agreed,
                    f"the box of element ({other}, {first}) does not begin at a multiple of {BOX_ALIGNMENT} bytes",
                )
            places.append(((first, other), int(away[0])))
            agreed += height * width
    return BoxedTile((width, height), swizzle, tuple(places))


def _extent(extent: int, most: int) -> int:
    """The largest divisor of an extent that is at most `most`."""
    return next(n for n in range(min(extent, most), 0, -1) if extent % n == 0)


def dimensions_of(strides: Sequence[int], extents: Sequence[int]) -> tuple[int, ...]:
    """The order of a tensor's dimensions in its map, the innermost first: the last one with adjacent elements.

    Raises LayoutError if there is none.
    """
    rank = len(strides)
    adjacent = [axis for axis in range(rank - 1, -1, -1) if strides[axis] == 1 and extents[axis] > 1]
    if not adjacent:
        raise LayoutError(
            f"the tensor copy unit copies segments of adjacent elements, and none of the strides {tuple(strides)} is 1"
        )
    return (adjacent[0], *(axis for axis in range(rank - 1, -1, -1) if axis != adjacent[0]))
