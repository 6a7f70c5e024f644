"""Textures and surfaces: arrays that a kernel reads by coordinates, filtered, and what lies outside of them.

    tex2D(t, x, y), nearest       the element at floor(x), floor(y)
    tex2D(t, x, y), linear        four elements around (x - 0.5, y - 0.5), with weights of 8 bits
    outside                       clamp: the element at the edge; border: 0; wrap, mirror: repeated

Wrap and mirror need normalised coordinates, as on hardware; without these they clamp. A handle is a number that the
launch gives out. CUDA C++ Programming Guide, "Texture Fetching".

>>> texture = TextureArgument(np.array([[0, 10], [20, 30]], np.float32), filter="linear")
>>> placed = PlacedTexture(texture, 0)
>>> [(corner.address.tolist(), corner.weight.tolist()) for corner in placed.corners([np.array([1.0]), np.array([0.5])])]
[([0], [0.5]), ([4], [0.5]), ([8], [0.0]), ([12], [0.0])]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.errors import InterpreterError

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.address_spaces import GlobalMemory

HANDLE_BASE: Final = 0x7D00_0000_0000
"""Where no memory is."""
FRACTIONS: Final = 256
CHANNELS: Final = (1, 2, 4)
Filter = Literal["nearest", "linear"]
Border = Literal["clamp", "border", "wrap", "mirror"]


@dataclass(frozen=True)
class TextureArgument:
    """A texture or surface over an array, to pass as a `cudaTextureObject_t` or `cudaSurfaceObject_t`.

    `array` has shape (width,), (height, width) or (depth or layers, height, width), and a last axis of 2 or 4 where
    there are that many `channels`. `normalized` coordinates are from 0 to 1; `as_fraction` reads integers as floats
    from 0, or -1, to 1. Raises InterpreterError for what hardware refuses.
    """

    array: Array
    channels: int = 1
    filter: Filter = "nearest"
    border: Border = "clamp"
    normalized: bool = False
    as_fraction: bool = False

    def __post_init__(self) -> None:
        axes = self.array.ndim - (self.channels > 1)
        if self.channels not in CHANNELS or not 1 <= axes <= 3:
            raise InterpreterError(f"a texture has 1 to 3 dimensions and 1, 2 or 4 channels, got {self.array.shape}")
        if self.channels > 1 and self.array.shape[-1] != self.channels:
            raise InterpreterError(f"a last axis of {self.channels} channels, got shape {self.array.shape}")
        if not self.array.flags.c_contiguous:
            raise InterpreterError(f"pass a C-contiguous array, got strides {self.array.strides}")
        if self.filter == "linear" and self.array.dtype.kind in "iu" and not self.as_fraction:
            raise InterpreterError("a texture of integers is filtered only where they are read as fractions")

    @property
    def extents(self) -> tuple[int, ...]:
        """Width, height, depth."""
        shape = self.array.shape[:-1] if self.channels > 1 else self.array.shape
        return tuple(reversed(shape))

    @property
    def texel(self) -> int:
        """The bytes of an element with all channels."""
        return self.array.itemsize * self.channels

    def bind(self, memory: GlobalMemory, name: str) -> int:
        """Place the array in global memory; the handle."""
        flat = self.array.reshape(-1).view(np.uint8)
        buffer = memory.add(name, flat.tobytes(), self.array, self.array.itemsize)
        handle = HANDLE_BASE + 64 * len(memory.textures)
        memory.textures[handle] = PlacedTexture(self, buffer.address)
        return handle


@dataclass(frozen=True, slots=True)
class TextureCorner:
    """One of the elements that a fetch mixes: its address, its weight, and whether it is inside, a lane each."""

    address: IntArray
    weight: Array
    inside: Array


@dataclass(frozen=True, slots=True)
class PlacedTexture:
    """A texture whose array begins at an address of global memory."""

    texture: TextureArgument
    address: int

    def corners(self, coordinates: Sequence[Array]) -> Iterator[TextureCorner]:
        """The elements for x, y, z of each lane; integers, as of layers and fetches, name one element."""
        axes = [self._axis(np.asarray(c), n) for c, n in zip(coordinates, self.texture.extents, strict=True)]
        for chosen in product(*reversed(axes)):
            ordered = list(reversed(chosen))
            weight = np.multiply.reduce([weight for _, weight, _ in ordered])
            inside = np.logical_and.reduce([inside for _, _, inside in ordered])
            yield TextureCorner(self._address([index for index, _, _ in ordered]), weight, inside)

    def _address(self, indices: Sequence[IntArray]) -> IntArray:
        extents, at = self.texture.extents, np.zeros(len(indices[0]), np.int64)
        for axis, index in enumerate(indices):
            at += index * prod(extents[:axis])
        return self.address + at * self.texture.texel

    def _axis(self, x: Array, n: int) -> list[tuple[IntArray, Array, Array]]:
        """Index, weight and whether inside, of one or two elements along an axis."""
        ones = np.ones(len(x), np.float64)
        if x.dtype.kind in "iu":
            inside = (x >= 0) & (x < n)
            return [(np.clip(x, 0, n - 1).astype(np.int64), ones, inside)]
        x = np.nan_to_num(x.astype(np.float64)) * (n if self.texture.normalized else 1)
        if self.texture.filter == "nearest":
            return [(*self._inside(np.floor(x).astype(np.int64), n, ones),)]
        low = np.floor(x - 0.5)
        weight = np.round((x - 0.5 - low) * FRACTIONS) / FRACTIONS
        first = low.astype(np.int64)
        return [self._inside(first, n, 1 - weight), self._inside(first + 1, n, weight)]

    def _inside(self, index: IntArray, n: int, weight: Array) -> tuple[IntArray, Array, Array]:
        everywhere = np.ones(len(index), np.bool_)
        border = self.texture.border
        if border == "wrap" and self.texture.normalized:
            return index % n, weight, everywhere
        if border == "mirror" and self.texture.normalized:
            folded = index % (2 * n)
            return np.where(folded < n, folded, 2 * n - 1 - folded), weight, everywhere
        inside = (index >= 0) & (index < n) if border == "border" else everywhere
        return np.clip(index, 0, n - 1), weight, inside

    def values(self, raw: Array) -> Array:
        """(lanes, channels) elements of (lanes, bytes): integers as fractions where the texture has them so."""
        dtype = self.texture.array.dtype
        found: Array = np.ascontiguousarray(raw).view(dtype).reshape(len(raw), self.texture.channels)
        if dtype.kind == "f":
            return found.astype(np.float32)
        if self.texture.as_fraction:
            return np.maximum(found / np.iinfo(dtype).max, -1.0).astype(np.float32)
        return found
