"""Histogram of bytes: each block counts in a shared tile, and adds its counts to those of the grid.

lego-mlir run examples/first_day/histogram.py --size N=100000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, u8, u32

T, BLOCKS = 256, 32
N = lego.size("N")


@lego.kernel(grid=BLOCKS, block=T)
def histogram(x: lego.Tensor(u8, Row(N)), counts: lego.Tensor(u32, Row(256))):
    t, tile = lego.thread_id[0], lego.shared(u32, Row(256))
    tile[t] = 0
    lego.barrier()
    for i in lego.range(lego.block_id[0] * T + t, N, BLOCKS * T):
        tile.atomic_add(1, x[i])
    lego.barrier()
    counts.atomic_add(tile[t], t)


@histogram.reference
def expected(x, counts):
    return counts + np.bincount(x, minlength=256).astype(np.uint32)
