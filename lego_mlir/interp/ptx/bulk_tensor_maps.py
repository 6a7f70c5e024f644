"""Tensor maps: how a bulk tensor copy addresses global memory. PTX ISA, "Tensors"; CUDA driver API, "Tensor Map".

`sizes` and `box` begin with the contiguous dimension; `strides` are those of the other dimensions, in bytes. Of a box,
elements outside of the tensor are read as zeros, and not written. The box is dense in shared memory, except that a
swizzle exchanges 16-byte chunks within a row by the address bits from 7 up:

    swizzle     exchanged address bits      by bits
    32 B        4                           7
    64 B        4-5                         7-8
    128 B       4-6                         7-9
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx.address_spaces import GLOBAL_BASE, GlobalMemory
from lego_mlir.interp.ptx.ptx_types import NUMPY

MAP_BYTES: Final = 128
MAGIC: Final = b"lego-map"
TYPES: Final = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "tf32", "s8", "e4m3", "e5m2")
SWIZZLES: Final = {0: 0, 32: 1, 64: 3, 128: 7}
"""The chunk bits that a swizzle exchanges, by its bytes."""
MOST_IN_BOX: Final = 256
STRIDE_UNIT: Final = 16


def swizzled(address: IntArray, swizzle: int) -> IntArray:
    """A byte address after the swizzle of this many bytes."""
    found: IntArray = address ^ ((address >> 7 & SWIZZLES[swizzle]) << 4)
    return found


@dataclass(frozen=True)
class TensorMapArgument:
    """A tensor map over an array, to pass to `emulate`. Raises InterpreterError for a map that the driver refuses.

    >>> TensorMapArgument(np.zeros((64, 32), np.float16), "f16", (32, 64), (64,), (32, 8), 64).box_bytes
    512
    """

    array: Array | None
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    address: int = 0
    offset: int = 0
    edge: tuple[int, ...] = ()
    checked: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if self.dtype not in TYPES or self.swizzle not in SWIZZLES:
            raise InterpreterError(f"tensor map: dtype {self.dtype}, swizzle {self.swizzle}; types: {', '.join(TYPES)}")
        rank = len(self.sizes)
        if not 1 <= rank <= 5 or len(self.box) != rank or len(self.strides) != rank - 1:
            raise InterpreterError(
                f"tensor map of sizes {self.sizes}: {rank} box sizes and {rank - 1} strides, got {self.box} and "
                f"{self.strides}"
            )
        if any(stride % STRIDE_UNIT for stride in self.strides):
            raise InterpreterError(f"tensor map: strides are multiples of {STRIDE_UNIT} bytes, got {self.strides}")
        if any(not 1 <= n <= MOST_IN_BOX for n in self.box):
            raise InterpreterError(f"tensor map: a box has 1 to {MOST_IN_BOX} elements a dimension, got {self.box}")
        row = self.box[0] * self.itemsize
        if row % STRIDE_UNIT or (self.swizzle and row > self.swizzle):
            limit = f", at most its swizzle of {self.swizzle}" if self.swizzle else ""
            raise InterpreterError(f"tensor map: a row of the box has {row} bytes: a multiple of 16{limit}")

    @property
    def itemsize(self) -> int:
        return NUMPY[self.dtype].itemsize

    @property
    def box_bytes(self) -> int:
        return prod(self.box) * self.itemsize

    @property
    def spanned(self) -> int:
        """Bytes from the first element to the end of the last."""
        inner = self.sizes[0] * self.itemsize
        return inner + sum((n - 1) * stride for n, stride in zip(self.sizes[1:], self.strides, strict=True))

    def bind(self, memory: GlobalMemory, name: str) -> bytes:
        """The 128 bytes of the parameter, with the array placed in global memory; with an `edge`, then those of a map
        whose box that is.
        """
        if self.array is None:
            raise InterpreterError(f"{name}: a tensor map needs its array")
        flat = self.array.reshape(-1).view(np.uint8)
        if self.offset + self.spanned > flat.nbytes:
            raise InterpreterError(f"{name}: the map spans {self.spanned} bytes, and the array has {flat.nbytes}")
        buffer = memory.add(name, flat.tobytes(), self.array)
        placed = replace(self, address=buffer.address + self.offset)
        return placed.encoded() + (replace(placed, box=self.edge, edge=()).encoded() if self.edge else b"")

    def encoded(self) -> bytes:
        """The emulator's form of the opaque 128 bytes."""
        head = struct.pack("<8sQBBH", MAGIC, self.address, TYPES.index(self.dtype), len(self.sizes), self.swizzle)
        pad = (0,) * (5 - len(self.sizes))
        body = struct.pack("<5I4Q5H", *self.sizes, *pad, *self.strides, *pad, *self.box, *pad)
        return (head + body).ljust(MAP_BYTES, b"\0")

    @staticmethod
    def decoded(data: bytes) -> TensorMapArgument | None:
        """The map of 128 bytes; None where they hold none."""
        magic, address, dtype, rank, swizzle = struct.unpack_from("<8sQBBH", data)
        if magic != MAGIC:
            return None
        numbers: tuple[Any, ...] = struct.unpack_from("<5I4Q5H", data, 20)
        sizes, strides, box = numbers[:rank], numbers[5 : 4 + rank], numbers[9 : 9 + rank]
        return TensorMapArgument(None, TYPES[dtype], sizes, strides, box, swizzle, address, checked=True)

    @cached_property
    def rows(self) -> int:
        """Rows of the box: all its dimensions but the contiguous one."""
        return prod(self.box[1:])

    def global_rows(self, corner: tuple[int, ...]) -> tuple[IntArray, Array, int, int]:
        """For a box at `corner`: the arena position of each row's first element, whether the row is inside, and the
        elements of a row from and to which it is inside.
        """
        start = np.zeros(1, np.int64)
        inside = np.ones(1, np.bool_)
        for axis in range(1, len(self.sizes)):
            index = corner[axis] + np.arange(self.box[axis])
            start = (index[:, None] * self.strides[axis - 1] + start[None, :]).reshape(-1)
            inside = (((index >= 0) & (index < self.sizes[axis]))[:, None] & inside[None, :]).reshape(-1)
        low = max(0, -corner[0])
        high = max(low, min(self.box[0], self.sizes[0] - corner[0]))
        base = self.address - GLOBAL_BASE + corner[0] * self.itemsize
        return base + start, inside, low, high

    def chunks(self, at: int, offset: int) -> IntArray:
        """The arena positions of the box's 16-byte chunks in shared memory, in order of the box.

        `at` is the arena position of the box, `offset` its address within the block, which the swizzle uses.
        """
        linear = np.arange(0, self.box_bytes, 16) + offset
        return swizzled(linear, self.swizzle) - offset + at
