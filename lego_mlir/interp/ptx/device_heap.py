"""The heap of `malloc` and `free` in a kernel: blocks are never used again, so that a use after `free` is found.

Each block is a buffer of global memory from then on. CUDA C++ Programming Guide, "Dynamic Global Memory Allocation and
Operations": 8 MB unless the host sets another limit, addresses are multiples of 16, and a request that does not fit
gives a null pointer.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lego_mlir.interp.ptx.address_spaces import PAGE, UNWRITTEN, GlobalBuffer, GlobalMemory, rounded

HEAP_BYTES: Final = 8 << 20
BETWEEN: Final = PAGE


class DeviceHeap:
    """Bytes `start .. start + HEAP_BYTES` of the arena; `live` has the line of `malloc` by the block's address."""

    def __init__(self, memory: GlobalMemory, start: int) -> None:
        self.memory, self.start, self.end = memory, start, start
        self.live: dict[int, tuple[GlobalBuffer, int]] = {}
        self.freed: dict[int, int] = {}

    def malloc(self, nbytes: int, line: int) -> int:
        """The address of a new block, or 0."""
        taken = rounded(max(nbytes, 1), 16)
        if self.end + taken + BETWEEN > self.start + HEAP_BYTES:
            return 0
        memory = self.memory
        buffer = GlobalBuffer(f"the {nbytes} bytes that malloc gave at line {line}", self.end, nbytes)
        memory.arena[self.end : self.end + taken // 4 * 4].view(np.uint32)[:] = UNWRITTEN
        memory.unwritten.append((self.end, self.end + nbytes))
        memory.buffers.append(buffer)
        memory.starts = np.append(memory.starts, buffer.start)
        memory.ends = np.append(memory.ends, buffer.start + nbytes)
        self.live[buffer.address] = buffer, line
        self.end += taken + BETWEEN
        return buffer.address

    def free(self, address: int, line: int) -> str:
        """End a block; what is wrong with that, or an empty string."""
        if address == 0:
            return ""
        found = self.live.pop(address, None)
        if found is None:
            before = self.freed.get(address)
            if before is not None:
                return f"free of a block that was freed at line {before}"
            return f"free of {address:#x}, which malloc did not give"
        buffer, _ = found
        buffer.name += f", freed at line {line}"
        self.memory.ends[self.memory.starts == buffer.start] = buffer.start
        self.freed[address] = line
        return ""

    def leaks(self) -> dict[int, tuple[int, int]]:
        """For each line of `malloc`, the blocks that were not freed and their bytes."""
        found: dict[int, tuple[int, int]] = {}
        for buffer, line in self.live.values():
            blocks, nbytes = found.get(line, (0, 0))
            found[line] = blocks + 1, nbytes + buffer.nbytes
        return found
