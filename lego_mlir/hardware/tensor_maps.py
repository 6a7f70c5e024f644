"""Tensor maps: how the tensor copy engine of sm_90 sees an array in global memory, and what it can express.

A tensor map names an array of up to five dimensions, innermost first, and a box of it. One thread passes the box's
first coordinates, and the engine copies the box between global and shared memory. Elements outside of the array arrive
as zeros and are not stored. In shared memory a box is packed, its innermost dimension first; with a swizzle of s bytes
its rows are s bytes long, and each 16-byte chunk moves to the chunk whose number is combined with the row's by
exclusive or, so that a column of chunks spreads over all banks:

>>> rows = TensorMap("f16", sizes=(512, 1000), strides=(1024,), box=(64, 128), swizzle=128)
>>> rows.box_bytes, [rows.shared_offset((8, row)) for row in range(4)]
(16384, [16, 128, 304, 416])

A box that reaches outside is slow where many blocks copy such boxes at once: all that is outside is read from one place
of the L2 cache. With an `edge`, a second map follows in memory, whose box along that dimension is what remains of the
array after whole boxes; `parts` are both:

>>> [part.box for part in TensorMap("f16", (512, 1000), (1024,), (64, 128), 128, edge=1).parts]
[(64, 128), (64, 104)]

CUDA driver API, `cuTensorMapEncodeTiled`, has the limits; PTX ISA, "Tensor swizzling modes", the patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from lego_mlir.aliases import IndexLike, Json
from lego_mlir.errors import LayoutError
from lego_mlir.hardware.memory import ELEMENT_BYTES

MOST_DIMS: Final = 5
BOX_EXTENT: Final = 256
"""The largest box along a dimension, in elements."""
CHUNK: Final = 16
"""Bytes: what swizzles move, what strides and addresses are multiples of."""
MAP_BYTES: Final = 128
"""Of an encoded map."""
LARGEST_SIZE: Final = 1 << 32
LARGEST_STRIDE: Final = 1 << 40
SWIZZLES: Final = {0: 1, 32: 2, 64: 4, 128: 8}
"""A swizzle's width in bytes, and the number of chunks that it permutes."""
LINE: Final = 128
"""Bytes: the widest swizzle, and with it the longest row of a box that is swizzled."""
ATOM_BYTES: Final = 1024
"""The widest swizzle repeats after this: a tile that it permutes begins at a multiple."""
# CUtensorMapDataType
DATA_TYPES: Final = {"u8": 0, "u16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9,
                     "tf32": 11}  # fmt: skip
STORED_TYPES: Final = {"tf32": "f32"}
"""The types of arrays in memory, where a copy changes them: f32 are rounded to TF32 on the way to shared memory."""
# CUtensorMapSwizzle
SWIZZLE_NUMBERS: Final = {0: 0, 32: 1, 64: 2, 128: 3}


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An array and a box of it, dimensions innermost first; strides in bytes, those of dimension 1 and up.

    Raises LayoutError, with the reason, for an array or a box that the engine cannot copy.
    """

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    edge: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DATA_TYPES:
            raise LayoutError(f"a tensor map has no type {self.dtype}; it has {', '.join(DATA_TYPES)}")
        rank = len(self.sizes)
        if not 1 <= rank <= MOST_DIMS or len(self.box) != rank or len(self.strides) != rank - 1:
            raise LayoutError(
                f"a tensor map has 1 to {MOST_DIMS} sizes, as many box sizes, and one stride less; got sizes "
                f"{self.sizes}, strides {self.strides}, box {self.box}"
            )
        self._check_global()
        self._check_box()

    def _check_global(self) -> None:
        if any(not 0 < size <= LARGEST_SIZE for size in self.sizes):
            raise LayoutError(f"a tensor map's sizes must be 1 to 2**32, got {self.sizes}")
        for stride in self.strides:
            if stride % CHUNK or not 0 < stride < LARGEST_STRIDE:
                raise LayoutError(
                    f"a tensor map's strides must be multiples of {CHUNK} bytes below 2**40, got {self.strides}; pad "
                    f"the rows to a multiple of {CHUNK // self.element_bytes} elements"
                )

    def _check_box(self) -> None:
        if self.edge is not None and not 1 <= self.edge < len(self.box):
            raise LayoutError(f"a tensor map's edge is a dimension from 1 to {len(self.box) - 1}, got {self.edge}")
        if any(not 0 < extent <= BOX_EXTENT for extent in self.box):
            raise LayoutError(f"a tensor map's box has 1 to {BOX_EXTENT} elements along each dimension, got {self.box}")
        if self.swizzle not in SWIZZLES:
            raise LayoutError(f"a tensor map's swizzle is 0, 32, 64 or 128 bytes, got {self.swizzle}")
        inner = self.box[0] * self.element_bytes
        if inner % CHUNK or (self.swizzle and inner > self.swizzle):
            limit = f" and at most the swizzle's {self.swizzle}" if self.swizzle else ""
            raise LayoutError(
                f"a tensor map's box must be a multiple of {CHUNK} bytes wide{limit}, got {self.box[0]} elements of "
                f"{self.dtype}: {inner} bytes"
            )

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[STORED_TYPES.get(self.dtype, self.dtype)]

    @property
    def parts(self) -> tuple[TensorMap, ...]:
        """The map, and that of its edge."""
        if self.edge is None:
            return (self,)
        whole, box = replace(self, edge=None), list(self.box)
        box[self.edge] = self.sizes[self.edge] % box[self.edge] or box[self.edge]
        return whole, replace(whole, box=tuple(box))

    @property
    def box_bytes(self) -> int:
        """Bytes that a copy of a box writes to shared memory, and reports to its barrier, clipped or not."""
        return prod(self.box) * self.element_bytes

    def shared_offset(self, index: Sequence[IndexLike]) -> IndexLike:
        """The byte in shared memory of an element of the box, from the start of a tile aligned to 1024 bytes.

        The index is of ints, or of arrays for many elements.
        """
        packed, extent = 0, 1
        for i, size in zip(index, self.box, strict=True):
            packed, extent = packed + i * extent, extent * size
        return swizzled(packed * self.element_bytes, self.swizzle)

    def to_data(self) -> Json:
        """The map as JSON data."""
        return {
            "dtype": self.dtype, "sizes": list(self.sizes), "strides": list(self.strides), "box": list(self.box),
            "swizzle": self.swizzle, **edge_data(self.edge),
        }  # fmt: skip


def edge_data(edge: int | None) -> Json:
    """The entry of an edge in JSON data, for a map that has one."""
    return {} if edge is None else {"edge": edge}


def swizzled(offset: IndexLike, width: int) -> IndexLike:
    """Byte offsets after a swizzle of that many bytes: bits 4 and up combined with bits 7 and up by exclusive or."""
    return offset ^ ((offset >> 7 & SWIZZLES[width] - 1) << 4)
