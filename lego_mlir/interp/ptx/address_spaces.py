"""Memory of a launch: one array of bytes each for global, shared and local memory, and where an address is in them.

    global     the arguments' arrays, 256-byte aligned, with a gap after each: an address past the end is in none
    shared     SHARED_BASE + offset; in a cluster, bits 24 and up hold the rank of the block that owns it
    local      private bytes of every lane
    generic    a global address, or one of the windows below plus the address in that space

PTX ISA, "State Spaces" and "Generic Addressing". A block's shared memory begins after what the system reserves: code
that assumes address 0 is wrong on hardware, and here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.errors import InterpreterError

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.device_heap import DeviceHeap
    from lego_mlir.interp.ptx.device_order import DeviceOrder
    from lego_mlir.interp.ptx.global_shadow import GlobalShadow
    from lego_mlir.interp.ptx.texture_memory import PlacedTexture

GLOBAL_BASE: Final = 0x7F00_0000_0000
SHARED_BASE: Final = 1024  # bytes; CUDA C++ Programming Guide, "Shared Memory" of compute capability 9.0
RANK_SHIFT: Final = 24
OFFSET_MASK: Final = (1 << RANK_SHIFT) - 1
PAGE: Final = 256
UNWRITTEN: Final = 0x7FA5A5A5
"""A word of an allocation that nobody has written: as f32, a signalling NaN."""
GAP: Final = 1 << 24
"""Least bytes between two buffers: an index that is wrong by less is in none. Pages that nothing touches are free."""
SHARED_WINDOW: Final = 1 << 56
LOCAL_WINDOW: Final = 1 << 57
PARAM_WINDOW: Final = 1 << 58
WINDOWS: Final = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "global": 0, "const": 0}
_WORDS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


@dataclass(eq=False, slots=True)
class GlobalBuffer:
    """One argument or variable in global memory; `array` is the caller's, written back after the launch.

    `item` is the size of an element in bytes, by which positions are named.
    """

    name: str
    start: int
    nbytes: int
    array: Array | None = None
    item: int = 1

    @property
    def address(self) -> int:
        return GLOBAL_BASE + self.start

    def element(self, byte: int) -> str:
        """`x[5]`, or the byte of a buffer without elements."""
        return f"{self.name}[{byte // self.item}]" if self.item > 1 else f"byte {byte} of {self.name}"


@dataclass(frozen=True, slots=True)
class RecordedBuffer:
    """One array of a launch before it ran: its name, the emulator's address, its bytes, those of an element."""

    name: str
    address: int
    contents: bytes
    item: int


@dataclass(slots=True)
class GlobalMemory:
    """All global memory of a launch."""

    buffers: list[GlobalBuffer] = field(default_factory=list)
    arena: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    starts: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    ends: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    shadow: GlobalShadow | None = None
    order: DeviceOrder | None = None
    heap: DeviceHeap | None = None
    unwritten: list[tuple[int, int]] = field(default_factory=list)
    """Ranges (start, end) whose words hold UNWRITTEN until something is stored there."""
    textures: dict[int, PlacedTexture] = field(default_factory=dict)
    """Textures and surfaces by their handles."""
    grid_workspace: int = 0
    """The address of the zeroed bytes that the grid barrier of a cooperative launch uses."""
    _contents: list[bytes] = field(default_factory=list)
    _end: int = PAGE

    def add(self, name: str, data: bytes, array: Array | None = None, item: int = 1) -> GlobalBuffer:
        """Another buffer, before `allocate`; `item` is the size of its elements."""
        for other in self.buffers:
            if array is not None and other.array is not None and np.shares_memory(array, other.array):
                if array.ctypes.data == other.array.ctypes.data and array.nbytes == other.array.nbytes:
                    return other
                raise InterpreterError(f"{name} overlaps {other.name} in part; pass the same array, or disjoint ones")
        buffer = GlobalBuffer(name, self._end, len(data), array, item)
        self.buffers.append(buffer)
        self._contents.append(data)
        self._end += rounded(len(data), PAGE) + min(max(GAP, rounded(2 * len(data), PAGE)), 4 * GAP)
        return buffer

    def patch(self, name: str, at: int, address: int) -> None:
        """Set 8 bytes of a variable's initial value, before `allocate`."""
        number = next(i for i, b in enumerate(self.buffers) if b.name == name)
        data = bytearray(self._contents[number])
        data[at : at + 8] = address.to_bytes(8, "little")
        self._contents[number] = bytes(data)

    def recorded_buffers(self, first: int) -> tuple[RecordedBuffer, ...]:
        """The buffers from a number on, before `allocate`."""
        pairs = zip(self.buffers[first:], self._contents[first:], strict=True)
        return tuple(RecordedBuffer(b.name, b.address, data, b.item) for b, data in pairs)

    def allocate(self) -> None:
        """Make the arena, once all buffers are known."""
        self.arena = np.zeros(self._end, np.uint8)
        self.starts = np.array([b.start for b in self.buffers] or [0], np.int64)
        self.ends = np.array([b.start + b.nbytes for b in self.buffers] or [0], np.int64)
        for buffer, data in zip(self.buffers, self._contents, strict=True):
            self.arena[buffer.start : buffer.start + buffer.nbytes] = np.frombuffer(data, np.uint8)
        self._contents.clear()

    def reserve(self, nbytes: int) -> int:
        """Room after all buffers, before `allocate`; where it starts."""
        start = self._end
        self._end += nbytes + GAP
        return start

    def write_back(self) -> None:
        """Copy the results to the callers' arrays."""
        for buffer in self.buffers:
            if buffer.array is not None and buffer.array.flags.writeable:
                stored = self.arena[buffer.start : buffer.start + buffer.nbytes]
                flat = buffer.array.reshape(-1).view(np.uint8)
                if not np.array_equal(flat, stored):
                    flat[:] = stored

    def inside(self, at: IntArray, size: int) -> Array:
        """Which accesses lie within one buffer."""
        owner = np.searchsorted(self.starts, at, "right") - 1
        return (owner >= 0) & (at + size <= self.ends[owner])

    def owner(self, at: int) -> GlobalBuffer | None:
        """The buffer that holds a byte of the arena, else the one whose edge is nearest; None far from all."""
        if not self.buffers or not -GAP <= at < self._end + GAP:
            return None
        return min(self.buffers, key=lambda b: max(b.start - at, at - b.start - b.nbytes + 1))

    def element(self, at: int) -> str:
        """The element at a byte of the arena, by name."""
        buffer = self.owner(at)
        return "global memory" if buffer is None else buffer.element(at - buffer.start)

    def describe_outside(self, at: int) -> str:
        """A position that is in no buffer, by the nearest one: the index, and the distance from its edge."""
        buffer = self.owner(at)
        if buffer is None:
            return f"address {GLOBAL_BASE + at:#x} is in no buffer"
        byte = at - buffer.start
        if 0 <= byte < buffer.nbytes:
            return f"{buffer.element(byte)} reaches over its end"
        size = f"{buffer.nbytes // buffer.item} elements" if buffer.item > 1 else f"{buffer.nbytes} bytes"
        if byte < 0:
            return f"{buffer.element(byte)} is outside of all buffers: {-byte} bytes before the start of its {size}"
        return (
            f"{buffer.element(byte)} is outside of all buffers: {byte - buffer.nbytes} bytes past the end of its {size}"
        )


@dataclass(frozen=True, slots=True)
class Located:
    """Where some lanes of a request access an arena of bytes: positions `at`, lanes of the gang `lanes`."""

    space: str
    arena: Array
    at: IntArray
    lanes: IntArray


def gather(arena: Array, at: IntArray, size: int) -> Array:
    """(rows, size) bytes at aligned positions."""
    word = _WORDS.get(size)
    if word is None:
        rows: Array = arena[at[:, None] + np.arange(size)]
        return rows
    return np.ascontiguousarray(arena.view(word)[at // size]).view(np.uint8).reshape(-1, size)


def scatter(arena: Array, at: IntArray, data: Array) -> None:
    """Write (rows, size) bytes at aligned positions."""
    size = data.shape[1]
    word = _WORDS.get(size)
    if word is None:
        arena[at[:, None] + np.arange(size)] = data
    else:
        arena.view(word)[at // size] = np.ascontiguousarray(data).view(word)[:, 0]


def rounded(n: int, unit: int) -> int:
    """The least multiple of `unit` that is at least n."""
    return -(-n // unit) * unit


def layout_of(sizes: Sequence[tuple[str, int, int]], start: int) -> tuple[dict[str, int], int]:
    """Offsets of variables (name, size, alignment) in order from `start`, and the end."""
    offsets = {}
    for name, size, align in sizes:
        start = rounded(start, max(align, 1))
        offsets[name] = start
        start += size
    return offsets, start
