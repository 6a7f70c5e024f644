"""Sort each row of 1024 numbers, a block for each row, by a bitonic network in shared memory (Batcher, 1968).

lego-mlir run examples/first_day/bitonic_sort.py --size M=4
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

N = 1024
M = lego.size("M")


@lego.kernel(grid=M, block=N // 2)
def sort(x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Row(M, N))):
    row, t, tile = lego.block_id[0], lego.thread_id[0], lego.shared(f32, Row(N))
    for i in (t, t + N // 2):
        tile[i] = x[row, i]
    for size in (2 << k for k in range(N.bit_length() - 1)):
        for distance in (size >> k for k in range(1, size.bit_length())):
            lego.barrier()
            low = 2 * t - t % distance
            a, b, up = tile[low], tile[low + distance], low // size % 2 == 0
            tile[low] = lego.where(up, lego.minimum(a, b), lego.maximum(a, b))
            tile[low + distance] = lego.where(up, lego.maximum(a, b), lego.minimum(a, b))
    lego.barrier()
    for i in (t, t + N // 2):
        y[row, i] = tile[i]


@sort.reference
def expected(x):
    return np.sort(x, axis=1)
