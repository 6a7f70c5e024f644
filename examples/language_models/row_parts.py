"""A row as the registers of a block, or of the blocks of a cluster where it is too long for one.

A row of 4,096 elements is 32 of each of 128 threads. From 16,385 on two blocks hold it, up to eight of 1,024 threads,
so that it is read once: their sums and maxima meet by `lego.cluster_reduce`. The number of elements is a multiple of
what all threads load at once, so that a register is inside of a row for all threads or none but at the row's end.

>>> parts_of(4096), parts_of(50_257)
(RowParts(blocks=1, threads=128, part=4096), RowParts(blocks=4, threads=512, part=16384))
"""

from dataclasses import dataclass

import lego_mlir as lego

WIDTH = 8  # elements of a load of 16 bytes
BLOCKS, THREADS = 8, 1024  # of a cluster, and of a block, at most


@dataclass(frozen=True)
class RowParts:
    """The blocks that hold a row, the threads of a block, and its elements; the last ones may be past the end."""

    blocks: int
    threads: int
    part: int

    def place(self):
        """The row of this block's cluster, in a grid of the blocks of one row after another, and its first column."""
        return lego.block_id[0] // self.blocks, lego.cluster_rank * self.part

    def resident(self, registers, multiprocessors=132):
        """How many such clusters a GPU holds at once: of an H200 unless told, with so many registers for a thread."""
        of_each = max(1, min(2048, 65_536 // registers) // self.threads)
        return max(1, of_each * multiprocessors // self.blocks)

    def kernel(self, rows, registers=64):
        """The decorator of a kernel with a row for each cluster; quotients and exponentials are approximate ones."""
        registers = min(registers, 65_536 // self.threads)
        return lego.kernel(
            grid=self.blocks * rows, block=self.threads, cluster=self.blocks, fast=True, max_registers=registers
        )


def parts_of(columns, each=32, even=False):
    """How a row of so many columns is divided: blocks of 512 threads of `each` elements, of more where eight are few.

    An `even` part is a power of two, as tiles are that are reshaped. Raises ValueError for a row that is longer than
    eight blocks hold.
    """
    blocks = min(BLOCKS, -(-columns // (THREADS // 2 * each)))
    threads = max(128, min(THREADS, 1 << (-(-columns // (blocks * each)) - 1).bit_length()))
    step = threads * WIDTH
    part = -(-columns // (blocks * step)) * step
    part = 1 << (part - 1).bit_length() if even else part
    if part > 32 * THREADS:
        raise ValueError(f"a row of {columns} columns is longer than {32 * BLOCKS * THREADS}, which a cluster holds")
    return RowParts(-(-columns // part), threads, part)
