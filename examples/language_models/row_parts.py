"""A row in the registers of a block, or in the shared memory of the blocks of a cluster where it is too long for them.

A row of 4,096 elements is 32 of each of 128 threads. Where a kernel asks for it, blocks of longer rows copy their part
into shared memory and read it in each pass, with few registers: several blocks fit a multiprocessor, and one loads
while another computes. Rows of more than 64 KiB have clusters of up to eight blocks, so that a row is read once: their
sums and maxima meet by `lego.cluster_reduce`, once a row. The number of elements is a multiple of what all threads load
at once, so that a register is inside of a row for all threads or none but at the row's end.

>>> parts_of(4096), parts_of(50_257, size=2)
(RowParts(blocks=1, threads=128, part=4096, staged=False), RowParts(blocks=2, threads=512, part=28672, staged=True))
"""

from dataclasses import dataclass, replace
from functools import partial

import lego_mlir as lego
from lego_mlir import Row, f32

WIDTH = 8  # elements of a load of 16 bytes
BLOCKS, THREADS = 8, 1024  # of a cluster, and of a block, at most
LONGEST = 32 * THREADS  # elements of a block
STAGED, ROOM = 64 * 1024, 110 * 1024  # bytes in the shared memory of a block; at most, where two fit a multiprocessor
LEAST = -(2 - 2.0**-23) * 2.0**127  # f32's; in place of the maximum of a block whose numbers are all -inf


@dataclass(frozen=True)
class RowParts:
    """The blocks that hold a row, the threads of a block, and its elements; the last ones may be past the end."""

    blocks: int
    threads: int
    part: int
    staged: bool = False

    def place(self):
        """The row of this block's cluster, in a grid of the blocks of one row after another, and its first column."""
        return lego.block_id[0] // self.blocks, lego.cluster_rank * self.part

    def held(self, at, *arrays, other=0.0):
        """Functions, one for each array, that give this block's part of a row in f32, as often as they are called.

        Elements past the end of the row are `other`.
        """
        tile = (self.part,)
        if not self.staged:
            loads = (partial(lego.load, array, tile, at=at, other=other) for array in arrays)
            return [self.again(lambda load=load: load().to(f32)) for load in loads]
        kept = [lego.shared(array.dtype, Row(1, self.part)) for array in arrays]
        for array, own in zip(arrays, kept, strict=True):
            if array.dims()[-1] % WIDTH == 0:
                lego.copy_async(array, own, at=at)
            else:
                lego.load(array, tile, at=at).store(own, at=(0, 0))
        lego.commit_copies()
        lego.wait_copies()
        lego.barrier()

        def values(array, own):
            found, end = lego.load(own, tile, at=(0, 0)).to(f32), array.dims()[-1]
            if other == 0.0 or self.blocks * self.part == end:
                return found
            return lego.where(at[-1] + lego.arange(tile) < end, found, other)

        return [partial(values, *both) for both in zip(arrays, kept, strict=True)]

    def again(self, made):
        """A function of what `made` gives: its value in registers, or `made` itself where it is read again."""
        if self.staged:
            return made
        value = made()
        return lambda: value

    def kernel(self, rows, registers=0):
        """The decorator of a kernel with a row for each cluster; quotients and exponentials are approximate ones."""
        registers = min(registers or (40 if self.staged else 64), 65_536 // self.threads)
        return lego.kernel(
            grid=self.blocks * rows, block=self.threads, cluster=self.blocks, fast=True, max_registers=registers
        )


def powers_of(row, values, beside=0.0):
    """exp(x - own) of a row's numbers x, by the block's maximum `own`, and four numbers of the row.

    These are the factor that makes exp(x - most) of them, the row's maximum `most`, the sum of exp(x - most), and that
    of the blocks' numbers `beside`. `values` and the first result are functions, as `RowParts.held` gives them.
    """
    own = lego.maximum(values().max(0), LEAST)
    powers = row.again(lambda: lego.exp(values() - own))
    most, total, sums, _ = lego.cluster_reduce(lego.vector(own, powers().sum(0), beside, 0.0), _of_both)
    return powers, lego.exp(own - most), most, total, sums


def _of_both(a, b):
    most = lego.maximum(a[0], b[0])
    return lego.vector(most, a[1] * lego.exp(a[0] - most) + b[1] * lego.exp(b[0] - most), a[2] + b[2], 0.0)


def parts_of(columns, each=32, even=False, size=0, longest=8192, block=LONGEST, staged=STAGED, more=0):
    """The division of a row among threads, which hold up to `each` elements in registers where that is possible.

    Rows of more than `block` elements have clusters. Shared memory may hold rows of more than `longest` elements, whose
    arrays have `size` bytes an element in all, `staged` bytes a block; with `more` bytes of further arrays, a
    multiprocessor may have a single block of twice the threads. An `even` part is a power of two, as tiles are that are
    reshaped. Raises ValueError for a row that is longer than eight blocks hold.
    """
    if size and columns > longest:
        blocks = min(BLOCKS, -(-columns * size // staged))
        row = _divided(columns, blocks, 64, even)
        if row.part * (size + more) > ROOM:
            row = _divided(columns, blocks, 32, even)
        if row.part * size <= ROOM:
            return replace(row, staged=True)
    return _divided(columns, 1 if columns <= block else min(BLOCKS, -(-columns // (THREADS // 2 * each))), each, even)


def _divided(columns, blocks, each, even):
    threads = max(128, min(THREADS, 1 << (-(-columns // (blocks * each)) - 1).bit_length()))
    step = threads * WIDTH
    part = -(-columns // (blocks * step)) * step
    part = 1 << (part - 1).bit_length() if even else part
    if part > LONGEST:
        raise ValueError(f"a row of {columns} columns is longer than {BLOCKS * LONGEST}, which a cluster holds")
    return RowParts(-(-columns // part), threads, part)
