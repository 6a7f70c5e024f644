"""A row as the registers of a block, or of the blocks of a cluster where it is too long for one.

A row of 4,096 elements is 32 of each of 128 threads. From 16,385 on two blocks hold it, up to eight of 1,024 threads,
so that it is read once: their sums and maxima meet by `lego.cluster_reduce`. The number of elements is a multiple of
what all threads load at once, so that a register is inside of a row for all threads or none but at the row's end.

>>> parts_of(4096), parts_of(50_257)
(RowParts(blocks=1, threads=128, part=4096), RowParts(blocks=4, threads=512, part=16384))
"""

from dataclasses import dataclass

import lego_mlir as lego

WIDTH, LONGEST = 8, 16_384  # elements of a load of 16 bytes, and of a row in one block
BLOCKS, THREADS = 8, 1024  # of a cluster, and of a block, at most


@dataclass(frozen=True)
class RowParts:
    """The blocks that hold a row, the threads of each, and its elements, of which the last block's may be past the end."""

    blocks: int
    threads: int
    part: int

    def place(self):
        """The row of this block's cluster and the first column of the block, in a grid of a row's blocks after another."""
        return lego.block_id[0] // self.blocks, lego.cluster_rank * self.part

    def kernel(self, rows):
        """The decorator of a kernel with a row for each cluster; quotients and exponentials are approximate ones."""
        return lego.kernel(grid=self.blocks * rows, block=self.threads, cluster=self.blocks, fast=True)


def parts_of(columns, each=32):
    """How a row of so many columns is divided, with about `each` elements for a thread.

    Raises ValueError for a row that is longer than eight blocks hold.
    """
    blocks = min(BLOCKS, -(-columns // LONGEST))
    threads = max(128, min(THREADS, 1 << (-(-columns // (blocks * each)) - 1).bit_length()))
    step = threads * WIDTH
    part = -(-columns // (blocks * step)) * step
    if part > 32 * THREADS:
        raise ValueError(f"a row of {columns} columns is longer than {32 * BLOCKS * THREADS}, which a cluster holds")
    return RowParts(-(-columns // part), threads, part)
