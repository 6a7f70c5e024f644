"""10. Softmax of long rows: a cluster of blocks holds a row, and the blocks read each other's maximum and sum.

lego-mlir run examples/cluster_softmax.py --on interp
lego-mlir run examples/cluster_softmax.py --on ptx --target sm_90
lego-mlir compile examples/cluster_softmax.py --target sm_90a -o softmax.mlir

A row is read once and stays in the registers of its blocks. Clusters exist from sm_90 on.
"""

from functools import reduce

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32

WIDTH = 4  # elements of an access: 16 bytes


def build(M=6, N=8192, blocks=4, threads=256):
    part, step = N // blocks, WIDTH * threads  # the elements of a block, and of one access of its threads

    @lego.kernel(grid=(blocks, M), block=threads, cluster=(blocks, 1))
    def softmax(x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Row(M, N))):
        row, first = lego.block_id[1], lego.cluster_rank * part + WIDTH * lego.thread_id[0]
        columns = [first + step * i for i in range(part // step)]
        loaded = [x.load(row, column, width=WIDTH) for column in columns]
        numbers = [v[k] for v in loaded for k in range(WIDTH)]
        most = lego.cluster_reduce(lego.block_reduce(reduce(lego.maximum, numbers), "max"), "max")
        powers = [lego.exp(v - most) for v in numbers]
        total = lego.cluster_reduce(lego.block_reduce(sum(powers)))
        for i, column in enumerate(columns):
            scaled = [p / total for p in powers[WIDTH * i : WIDTH * (i + 1)]]
            y.store(lego.vector(*scaled), row, column)

    return softmax


softmax = build()


@softmax.reference
def expected(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
