"""Widths of the GPU's memory system, in bytes, the same on every supported target.

>>> BANK_ROW_BYTES, WIDEST_ACCESS * 8 == LINE_BYTES
(128, True)
"""

from __future__ import annotations

from typing import Final

# Shared memory; CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later.
BANKS: Final = 32
BANK_BYTES: Final = 4
BANK_ROW_BYTES: Final = BANKS * BANK_BYTES
"""One word of every bank: addresses this far apart are in the same bank."""

# Global memory.
SECTOR_BYTES: Final = 32
"""The unit of a transfer. CUDA C++ Programming Guide, "Device Memory Accesses"."""
LINE_BYTES: Final = 128
"""A cache line. CUDA C++ Programming Guide, "Global Memory" of compute capability 3.x and later."""
WIDEST_ACCESS: Final = 16
"""The widest load, store or asynchronous copy of a lane. PTX ISA, `ld.global.v4.b32` and `cp.async`."""

ACCESS_BYTES: Final = (1, 2, 4, 8, 16)
"""Bytes per lane of one load or store (PTX ISA, ld)."""
ELEMENT_BYTES: Final = {
    "i1": 1, "i8": 1, "u8": 1, "f8": 1, "f8e4m3fn": 1, "f8e5m2": 1, "f16": 2, "bf16": 2, "i16": 2, "u16": 2,
    "f32": 4, "i32": 4, "u32": 4, "f64": 8, "i64": 8, "u64": 8,
}  # fmt: skip
"""Bytes of an element in memory, by the name of its type."""
