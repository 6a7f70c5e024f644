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

from lego_mlir.errors import InterpreterError

if TYPE_CHECKING:
    from lego_mlir.aliases import Array, IntArray

GLOBAL_BASE: Final = 0x7F00_0000_0000
SHARED_BASE: Final = 1024  # bytes; CUDA C++ Programming Guide, "Shared Memory" of compute capability 9.0
RANK_SHIFT: Final = 24
OFFSET_MASK: Final = (1 << RANK_SHIFT) - 1
PAGE: Final = 256
SHARED_WINDOW: Final = 1 << 56
LOCAL_WINDOW: Final = 1 << 57
PARAM_WINDOW: Final = 1 << 58
WINDOWS: Final = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "global": 0, "const": 0}
_WORDS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


@dataclass(eq=False, slots=True)
class GlobalBuffer:
    """One argument or variable in global memory; `array` is the caller's, written back after the launch."""

    name: str
    start: int
    nbytes: int
    array: Array | None = None
    read_only: bool = False

    @property
    def address(self) -> int:
        return GLOBAL_BASE + self.start


@dataclass(slots=True)
class GlobalMemory:
    """All global memory of a launch."""

    buffers: list[GlobalBuffer] = field(default_factory=list)
    arena: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    owners: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    _contents: list[bytes] = field(default_factory=list)
    _end: int = PAGE

    def add(self, name: str, data: bytes, array: Array | None = None) -> GlobalBuffer:
        """Another buffer, before `allocate`."""
        for other in self.buffers:
            if array is not None and other.array is not None and np.shares_memory(array, other.array):
                if array.ctypes.data == other.array.ctypes.data and array.nbytes == other.array.nbytes:
                    return other
                raise InterpreterError(f"{name} overlaps {other.name} in part; pass the same array, or disjoint ones")
        buffer = GlobalBuffer(name, self._end, len(data), array)
        self.buffers.append(buffer)
        self._contents.append(data)
        self._end += -(-len(data) // PAGE) * PAGE + PAGE
        return buffer

    def allocate(self) -> None:
        """Make the arena, once all buffers are known."""
        self.arena = np.zeros(self._end, np.uint8)
        self.owners = np.full(self._end // PAGE + 1, -1, np.int32)
        for number, (buffer, data) in enumerate(zip(self.buffers, self._contents, strict=True)):
            self.arena[buffer.start : buffer.start + buffer.nbytes] = np.frombuffer(data, np.uint8)
            self.owners[buffer.start // PAGE : -(-(buffer.start + buffer.nbytes) // PAGE)] = number
        self._contents.clear()

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
        page = np.clip(at // PAGE, 0, len(self.owners) - 1)
        owner = self.owners[page]
        starts = np.array([b.start for b in self.buffers] + [0])
        ends = np.array([b.start + b.nbytes for b in self.buffers] + [0])
        return (owner >= 0) & (at >= starts[owner]) & (at + size <= ends[owner])

    def describe(self, at: int) -> tuple[str, int]:
        """The buffer whose end or start is nearest before an address, and the byte within it."""
        before = [b for b in self.buffers if b.start <= at]
        if not before:
            return "no buffer", at
        buffer = max(before, key=lambda b: b.start)
        return buffer.name, at - buffer.start


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
