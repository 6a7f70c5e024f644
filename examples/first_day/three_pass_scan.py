"""Inclusive sum of an array, in three kernels: sum up blocks, scan their sums, scan blocks from these.

lego-mlir run examples/first_day/three_pass_scan.py --size N=100000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

T = 512  # threads of a block, which scan four elements each
N = lego.size("N", max=4 * T * T)
BLOCKS = lego.cdiv(N, 4 * T)


def load_four(x):
    """Four elements for this thread, zeros past the end, and the number of the first."""
    i, four = 4 * (lego.block_id[0] * T + lego.thread_id[0]), lego.register(f32, 0.0, width=4)
    with lego.when(i + 4 <= N):
        four.set(x.load(i, width=4))
    with lego.otherwise():
        four.set(lego.vector(*(x.halo()[i + k] for k in range(4))))
    return i, four.get()


@lego.kernel(grid=BLOCKS, block=T)
def sum_blocks(x: lego.Tensor(f32, Row(N)), sums: lego.Tensor(f32, Row(BLOCKS))):
    _, four = load_four(x)
    total = lego.block_reduce(sum(four))
    with lego.when(lego.thread_id[0] == 0):
        sums[lego.block_id[0]] = total


@lego.kernel(grid=1, block=T)
def scan_sums(sums: lego.Tensor(f32, Row(BLOCKS))):
    tile, t = sums.tile_by([1], [T]), lego.thread_id[0]
    tile[0, t] = lego.block_scan(tile[0, t], exclusive=True)


@lego.kernel(grid=BLOCKS, block=T)
def scan_blocks(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N)), sums: lego.Tensor(f32, Row(BLOCKS))):
    i, (a, b, c, d) = load_four(x)
    shift = sums[lego.block_id[0]] + lego.block_scan(a + b + c + d, exclusive=True)
    scanned = [shift + a, shift + a + b, shift + (a + b + c), shift + (a + b + c + d)]
    with lego.when(i + 4 <= N):
        y.store(lego.vector(*scanned), i)
    with lego.otherwise():
        for k, value in enumerate(scanned):
            y.halo()[i + k] = value


@lego.program
def scan(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    sums = lego.empty(f32, Row(BLOCKS))
    sum_blocks(x, sums)
    scan_sums(sums)
    scan_blocks(x, y, sums)


@scan.reference
def expected(x):
    return np.cumsum(x)
