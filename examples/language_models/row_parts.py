"""A row as the registers of a block, or of the blocks of a cluster where it is too long for one.

A row of 4,096 elements is 32 of each of 128 threads. A block of 1,024 threads holds 32,768; longer rows have clusters
of up to eight blocks, so that a row is read once: their sums and maxima meet by `lego.cluster_reduce`, once a row. The
number of elements is a multiple of what all threads load at once, so that a register is inside of a row for all threads
or none but at the row's end.

>>> parts_of(4096), parts_of(50_257)
(RowParts(blocks=1, threads=128, part=4096), RowParts(blocks=4, threads=512, part=16384))
"""

from dataclasses import dataclass

import lego_mlir as lego

WIDTH = 8  # elements of a load of 16 bytes
BLOCKS, THREADS = 8, 1024  # of a cluster, and of a block, at most
LONGEST = 32 * THREADS  # elements of a block
LEAST = -(2 - 2.0**-23) * 2.0**127  # f32's; in place of the maximum of a block whose numbers are all -inf


@dataclass(frozen=True)
class RowParts:
    """The blocks that hold a row, the threads of a block, and its elements; the last ones may be past the end."""

    blocks: int
    threads: int
    part: int

    def place(self):
        """The row of this block's cluster, in a grid of the blocks of one row after another, and its first column."""
        return lego.block_id[0] // self.blocks, lego.cluster_rank * self.part

    def kernel(self, rows, registers=64):
        """The decorator of a kernel with a row for each cluster; quotients and exponentials are approximate ones."""
        registers = min(registers, 65_536 // self.threads)
        return lego.kernel(
            grid=self.blocks * rows, block=self.threads, cluster=self.blocks, fast=True, max_registers=registers
        )


def powers_of(values, beside=0.0):
    """exp(x - own) of a row's numbers x, by the block's maximum `own`, and four numbers of the row.

    These are the factor that makes exp(x - most) of them, the row's maximum `most`, the sum of exp(x - most), and that
    of the blocks' numbers `beside`.
    """
    own = lego.maximum(values.max(0), LEAST)
    powers = lego.exp(values - own)
    most, total, sums, _ = lego.cluster_reduce(lego.vector(own, powers.sum(0), beside, 0.0), _of_both)
    return powers, lego.exp(own - most), most, total, sums


def _of_both(a, b):
    most = lego.maximum(a[0], b[0])
    return lego.vector(most, a[1] * lego.exp(a[0] - most) + b[1] * lego.exp(b[0] - most), a[2] + b[2], 0.0)


def parts_of(columns, each=32, even=False):
    """The division of a row among threads: the blocks of clusters have 512 threads of `each` elements, or more.

    An `even` part is a power of two, as tiles are that are reshaped. Raises ValueError for a row that is longer than
    eight blocks hold.
    """
    blocks = 1 if columns <= LONGEST else min(BLOCKS, -(-columns // (THREADS // 2 * each)))
    threads = max(128, min(THREADS, 1 << (-(-columns // (blocks * each)) - 1).bit_length()))
    step = threads * WIDTH
    part = -(-columns // (blocks * step)) * step
    part = 1 << (part - 1).bit_length() if even else part
    if part > LONGEST:
        raise ValueError(f"a row of {columns} columns is longer than {BLOCKS * LONGEST}, which a cluster holds")
    return RowParts(-(-columns // part), threads, part)
