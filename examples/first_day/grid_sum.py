"""Sum of an array: each thread adds up every 16384th element, blocks reduce, and add their sums atomically.

lego-mlir run examples/first_day/grid_sum.py --size N=100000
"""

import lego_mlir as lego
from lego_mlir import Row, f32

T, BLOCKS = 256, 64
N = lego.size("N")


@lego.kernel(grid=BLOCKS, block=T)
def grid_sum(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(1))):
    t, total = lego.thread_id[0], lego.register(f32, 0.0)
    for i in lego.range(lego.block_id[0] * T + t, N, BLOCKS * T):
        total += x[i]
    block_total = lego.block_reduce(total)
    with lego.when(t == 0):
        y.atomic_add(block_total, 0)


@grid_sum.reference
def expected(x, y):
    return y + x.sum()
